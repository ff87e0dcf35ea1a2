"""`harness check`: a run against the committed records, or mteb's store against itself.

`harness.results.gate` and `harness.conclusions.contradictions` compare; this module prints.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.conclusions.contradictions import (
    AGREEMENT,
    CONTRADICTION_KINDS,
    PublicScores,
)
from harness.core.errors import AssetMissing
from harness.core.files import write_atomically
from harness.core.terminal import wrapped
from harness.plugins import plugins_in_use
from harness.report.table import rendered
from harness.results.folder import ResultsFolder
from harness.results.gate import Gate, Report, State


def check_command(
    results: Annotated[
        Path,
        typer.Option(
            "--results", help="Folder of a run: records and per-pair similarities."
        ),
    ] = Path("runs"),
    baseline: opt.Baseline = Path("results"),
    method: opt.Methods = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,
    published: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Compare the scores in a clone of mteb's results with each other instead.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a run with the committed records: what moved, and why.

    A score moves with its input, its encoder or its scorer. By default the quick set
    and every cell of the run are compared. Nothing is measured: `harness run` comes
    first.
    """
    if published is not None:
        check_published(published, Path("contradictions.md"))
        return
    if not results.is_dir():
        command = "harness run --gate"
        command += "" if results == Path("runs") else f" -o {results}"
        raise AssetMissing(
            f"--results {results}: there is no such folder; measure first: {command}",
            command,
        )
    opt.note_packaged(baseline)
    patterns = opt.record_patterns(method, task, encoder)
    # Without the records that come with the harness.
    runs, committed = (
        ResultsFolder(folder, patterns.registry, folders=[folder])
        for folder in (results, baseline)
    )
    plugins = {plugin.name: plugin.sha256 for plugin in plugins_in_use(plugin or ())}
    gate = Gate(runs, committed, plugins)
    cells_of_gate = (*gate.rules.quick_cells, *gate.records)
    patterns.require_known({cell.method for cell in cells_of_gate})
    report = gate.check(gate.cells_to_check(patterns.methods, patterns.tasks))
    if as_json:
        facts = {"status": report.exit_status, **asdict(report)}
        opt.say(json.dumps(facts))
    else:
        opt.say(report_in_words(report, results, baseline, opt.terminal_width()))
    raise typer.Exit(report.exit_status)


def check_published(clone: Path, page: Path) -> None:
    """Write the page of scores in a clone of mteb's results that contradict each other.

    Raises UsageError for a folder that is no such clone.
    """
    store = PublicScores.read(clone)
    findings = store.findings()
    by_title = {
        title: [finding for finding in findings if finding.kind == kind]
        for kind, title in CONTRADICTION_KINDS.items()
    }
    text = rendered(
        "contradictions.md",
        store=store,
        tolerance=AGREEMENT,
        findings_by_title=by_title,
    )
    write_atomically(page, text.encode())
    for title, of_kind in by_title.items():
        opt.say(f"{len(of_kind):5} {title}")
    opt.say(f"{page}: {len(findings)} findings in {store.file_count:,} files")


def report_in_words(
    report: Report, runs: Path, reference: Path, width: int | None = None
) -> str:
    """The checks that need attention, then a line that counts all of them.

    Args:
        report: The checks.
        runs: The folder of the run.
        reference: The results folder that it was compared with.
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
