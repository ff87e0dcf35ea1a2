"""`harness check`: a run against the committed records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.selection import record_patterns
from harness.core.terminal import wrapped
from harness.gate.check import Gate
from harness.gate.current_encoders import CurrentEncoders
from harness.gate.outcome import Checked, Report, State
from harness.plugins import plugins_in_use


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
            metavar="POINTS", help="Fail only where a score falls by more than so many points."
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare a run with the committed records: what moved, and why.

    A score moves with its input, its encoder or its scorer. By default the quick set and every
    cell of the run are compared; with a data folder, the sentences of moved pairs are printed.
    Nothing is measured: a record of an encoder whose files have changed since is no answer, and
    its cell is not measured again (status 3).
    """
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
    patterns.require_known({c.method for c in (*gate.rules.quick_cells, *gate.records)})
    report = gate.check(gate.wanted(patterns.methods, patterns.tasks), fail_below)
    if as_json:
        opt.say(json.dumps({"status": report.exit_status} | asdict(report)))
    else:
        opt.say(rendered_report(report, results, baseline, opt.terminal_width()))
    raise typer.Exit(report.exit_status)


def rendered_report(report: Report, runs: Path, committed: Path, width: int | None = None) -> str:
    """What needs attention, then a line of counts, folded to the width of a terminal."""
    checks = (*report.encoders, *report.cells)
    notable = [check for check in checks if check.state is not State.AGREES or check.notable]
    lines = [line for check in notable for line in str(check).splitlines()]
    encoders, cells = _counts(report.encoders, "encoder"), _counts(report.cells, "cell")
    states = [
        f"{state}: {', '.join(counts[state] for counts in (encoders, cells) if state in counts)}"
        for state in dict.fromkeys((*encoders, *cells))
    ]
    lines.append(f"{runs} against {committed}: {'; '.join(states)}")
    return "\n".join(wrapped(line, width) for line in lines)


def _counts(checks: Sequence[Checked], noun: str) -> dict[State, str]:
    """How many encoders or cells are in each state, as in `2 cells`."""
    numbers = Counter(check.state for check in checks)
    return {state: f"{n} {noun}" if n == 1 else f"{n} {noun}s" for state, n in numbers.items()}
