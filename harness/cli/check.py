"""`harness check`: a run against the committed records, or against a model's card.

harness.gate compares. This module chooses the cells, and prints the report.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.selection import Patterns, matches, record_patterns
from harness.core.errors import AssetMissing, DataError
from harness.core.files import write_atomically
from harness.core.terminal import wrapped
from harness.gate.card import check_card, claims_to_compare
from harness.gate.check import Gate
from harness.gate.current_encoders import CurrentEncoders
from harness.gate.outcome import Report, State
from harness.plugins import plugins_in_use
from harness.report.contradictions import contradictions_page
from harness.results.card_statements import claim_files
from harness.results.cards import claims_of_files
from harness.results.contradictions import CONTRADICTION_KINDS, PublicScores


def check_command(
    folders: opt.Folders,
    results: opt.Run = Path("runs"),
    baseline: opt.Baseline = Path("results"),
    method: opt.Methods = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,
    fail_below: Annotated[
        float | None,
        opt.option(
            metavar="POINTS",
            help="Fail only where a score falls by more than so many points.",
        ),
    ] = None,
    card: Annotated[
        Path | None,
        opt.option(
            metavar="CARD_FOLDER",
            help="Compare with the numbers of a model's card or folder instead.",
        ),
    ] = None,
    published: Annotated[
        Path | None,
        opt.option(
            metavar="FOLDER",
            help="Compare the scores in a clone of mteb's results with each other instead.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a run with the committed records: what moved, and why.

    A score moves with its input, its encoder or its scorer. By default the quick set
    and every cell of the run are compared; with a data folder, the sentences of moved
    pairs are printed. Nothing is measured: a record of an encoder whose files have
    changed since is no answer, and its cell is not measured again (status 3).
    """
    if published is not None:
        check_published(published, Path("contradictions.md"))
        return
    opt.note_packaged(baseline)
    patterns = record_patterns(method, task, encoder)
    places = replace(folders.places(), encoders=patterns.paths)
    gate = Gate.open(
        results,
        baseline,
        registry=patterns.registry,
        encoders=CurrentEncoders(patterns.registry, places, results),
        plugins={plugin.name: plugin.sha256 for plugin in plugins_in_use(plugin or ())},
        data_dir=places.data_dir,
    )
    cells_of_gate = (*gate.rules.quick_cells, *gate.records)
    patterns.require_known({cell.method for cell in cells_of_gate})
    if card is None:
        cells = gate.cells_to_check(patterns.methods, patterns.tasks)
        report = gate.check(cells, fail_below)
    else:
        report = _card_report(gate, card, patterns, fail_below)
    if as_json:
        facts = {"status": report.exit_status, **asdict(report)}
        opt.say(json.dumps(facts))
    else:
        reference = baseline if card is None else card
        opt.say(report_in_words(report, results, reference, opt.terminal_width()))
    raise typer.Exit(report.exit_status)


def check_published(clone: Path, page: Path) -> None:
    """Write the page of scores in a clone of mteb's results that contradict each other.

    Raises UsageError for a folder that is no such clone.
    """
    store = PublicScores.read(clone)
    findings = store.findings()
    text = contradictions_page(store, findings)
    write_atomically(page, text.encode())
    counts = Counter(finding.kind for finding in findings)
    for kind, title in CONTRADICTION_KINDS.items():
        opt.say(f"{counts[kind]:5} {title}")
    opt.say(f"{page}: {len(findings)} findings in {store.file_count:,} files")


def _card_report(
    gate: Gate, card: Path, patterns: Patterns, margin: float | None
) -> Report:
    """The check against the claims of a card.

    Args:
        gate: The run and its records.
        card: A card, or a model's folder.
        patterns: The methods and tasks that are compared.
        margin: By how many points a score may be below the claim; None for the default.

    Raises:
        AssetMissing: There is no such file, or none of its claims can be compared.
        DataError: A file of claims cannot be read.
    """
    if not card.exists():
        raise AssetMissing(f"--card {card}: there is no such file or folder")
    claims, faults = claims_of_files(claim_files(card), patterns.registry)
    if faults:
        raise DataError(faults[0])
    claims_of_tasks = [
        claim
        for claim in claims_to_compare(claims)
        if matches(claim.task, patterns.tasks)
    ]
    if not claims_of_tasks:
        raise AssetMissing(
            f"--card {card}: wanted numbers of tasks that are here, found none among its "
            f"{len(claims)}; harness verify says why"
        )
    other_count = len(claims) - len(claims_of_tasks)
    if other_count:
        opt.note(
            f"{card}: {other_count} other numbers are not compared; "
            "harness verify says why"
        )
    cells = [cell for cell in gate.records if matches(cell.method, patterns.methods)]
    return check_card(gate, claims_of_tasks, cells, margin)


def report_in_words(
    report: Report, runs: Path, reference: Path, width: int | None = None
) -> str:
    """The checks that need attention, then a line that counts all of them.

    Args:
        report: The checks.
        runs: The folder of the run.
        reference: The results folder or card that it was compared with.
        width: The columns that lines are wrapped to; None wraps none.
    """
    lines: list[str] = []
    for check in (*report.encoders, *report.cells):
        if check.state is not State.AGREES or check.notable:
            lines += str(check).splitlines()
    counts_by_state: dict[State, list[str]] = {}
    for noun, checks in (("encoder", report.encoders), ("cell", report.cells)):
        for state, count in Counter(check.state for check in checks).items():
            plural = "" if count == 1 else "s"
            counts = counts_by_state.setdefault(state, [])
            counts.append(f"{count} {noun}{plural}")
    states = []
    for state, counts in counts_by_state.items():
        states.append(f"{state}: {', '.join(counts)}")
    lines.append(f"{runs} against {reference}: {'; '.join(states)}")
    return "\n".join(wrapped(line, width) for line in lines)
