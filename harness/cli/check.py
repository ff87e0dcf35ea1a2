"""`harness check`: a run against the committed records, or mteb's store against itself.

`harness.results.gate` and `harness.conclusions.contradictions` compare; this module prints.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.conclusions.contradictions import (
    CONTRADICTION_KINDS,
    NOTHING_SEEN,
    Contradiction,
    FindingList,
    PublicScores,
)
from harness.conclusions.stored_scores import StoredScore, changed_files
from harness.core.errors import AssetMissing, UsageError
from harness.core.files import write_atomically
from harness.core.terminal import counted, wrapped
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
    since: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT",
            help="With --published: what the files add that were changed since this commit.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --published: write a page of all findings, in Markdown.",
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a run with the committed records: what moved, and why.

    A score moves with its input, its encoder or its scorer. By default the quick set
    and every cell of the run are compared. Nothing is measured: `harness run` comes
    first.
    """
    if published is None and (since is not None or page is not None):
        raise UsageError("--since and --page go with --published FOLDER")
    if published is not None:
        status = check_published(published, since=since, page=page, as_json=as_json)
        raise typer.Exit(status)
    opt.note_packaged(baseline)
    known = opt.resolved(method, task, encoder)
    # Without the records that come with the harness.
    runs, committed = (
        ResultsFolder(folder, known.registry, folders=[folder])
        for folder in (results, baseline)
    )
    plugins = {plugin.name: plugin.sha256 for plugin in plugins_in_use(plugin or ())}
    gate = Gate(runs, committed, plugins)
    cells_of_gate = (*gate.rules.quick_cells, *gate.records)
    known.require_known({cell.method for cell in cells_of_gate})
    cells = gate.cells_to_check(known.methods, known.tasks)
    if not results.is_dir():
        command = "harness run --gate"
        command += "" if results == Path("runs") else f" -o {results}"
        raise AssetMissing(
            f"--results {results}: there is no such folder; measure first: {command}",
            command,
        )
    report = gate.check(cells)
    if as_json:
        facts = {"status": report.exit_status, **asdict(report)}
        opt.say(json.dumps(facts))
    else:
        opt.say(report_in_words(report, results, baseline, opt.terminal_width()))
    raise typer.Exit(report.exit_status)


LISTED = 20  # findings of a list that lines name


def check_published(
    clone: Path, *, since: str | None = None, page: Path | None = None, as_json: bool
) -> int:
    """Print the scores in a clone of mteb's results that contradict each other.

    Args:
        clone: The clone, with its history.
        since: The commit since which changed files are looked at; None: all files.
        page: The file for a page of the findings; None: none is written.
        as_json: Whether JSON is printed.

    Returns:
        1 if there are findings of today, or a changed file has another number than before;
        else 0. Two revisions may differ.

    Raises:
        UsageError: The folder is no such clone, or the commit is unknown.
    """
    files = None if since is None else changed_files(clone, since)
    store = PublicScores.read(clone)
    findings = store.findings(files)
    by_list = {
        name: [finding for finding in findings if finding.list is name]
        for name in FindingList
    }
    is_wrong = bool(by_list[FindingList.TODAY])
    if since is not None:
        is_wrong = is_wrong or bool(by_list[FindingList.HISTORY])
    if page is not None:
        text = rendered("contradictions.md", store=store, lists=_by_title(by_list))
        write_atomically(page, text.encode())
    if as_json:
        facts = {
            "status": int(is_wrong),
            "commit": store.commit,
            "date": store.date,
            "files": store.file_count if files is None else len(files),
            "findings": [_finding_facts(finding) for finding in findings],
        }
        opt.say(json.dumps(facts))
        return int(is_wrong)
    for name, of_list in by_list.items():
        opt.say(f"{len(of_list):5} {name}")
        if name is FindingList.TODAY or since is not None:
            for finding in of_list[:LISTED]:
                opt.say(f"      {_finding_in_words(finding)}")
            if len(of_list) > LISTED:
                opt.say(f"      and {len(of_list) - LISTED} more")
    looked_at = f"{store.file_count:,} files" if files is None else ""
    if files is not None:
        looked_at = f"{counted(len(files), 'changed file')} of {store.file_count:,}"
    opt.say(f"{clone}: {counted(len(findings), 'finding')} in {looked_at}")
    return int(is_wrong)


def _by_title(
    by_list: Mapping[FindingList, Sequence[Contradiction]],
) -> dict[FindingList, dict[str, list[Contradiction]]]:
    """The findings of each list by the titles of their kinds."""
    return {
        name: {
            title: [finding for finding in findings if finding.kind == kind]
            for kind, title in CONTRADICTION_KINDS.items()
        }
        for name, findings in by_list.items()
    }


def _finding_in_words(finding: Contradiction) -> str:
    """`org/model, STS12 test: 61.30, and 61.11 (+0.19): copied from the model's card`."""
    first, second = finding.first, finding.second
    model = first.cell.model.replace("__", "/")
    if second is not None and finding.kind == "models":
        return f"{model} and {second.cell.model.replace('__', '/')}: {finding.seen}"
    words = f"{model}, {first.cell}: {first.points:.2f}"
    if second is not None:
        words += f", and {second.points:.2f} ({finding.difference:+.2f})"
    return words if finding.seen == NOTHING_SEEN else f"{words}: {finding.seen}"


def _finding_facts(finding: Contradiction) -> dict[str, Any]:
    """A finding as JSON."""
    second = finding.second
    return {
        "list": finding.list,
        "kind": finding.kind,
        "seen": finding.seen,
        "first": _score_facts(finding.first),
        "second": None if second is None else _score_facts(second),
        "more": finding.others,
    }


def _score_facts(score: StoredScore) -> dict[str, Any]:
    """A stored score as JSON; a number that is none is null."""
    return {
        **asdict(score.cell),
        "points": round(score.points, 6) if score.is_number else None,
        "path": score.path,
        "since": score.since,
        "until": score.until or None,
        "command": score.command,
    }


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
        if check.state is not State.AGREES:
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
