"""`harness plan` and `harness run`: what a run would do, and the run.

Both select cells by options or by a profile. `plan` shows which cells can run, and which
files are missing; it measures nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.execution import execute_and_print, exit_status_of, limit_processes
from harness.cli.plan_text import plan_text
from harness.cli.printing import Printer
from harness.cli.selection import Selected, note_bypasses, records_folder, select
from harness.core.errors import UsageError
from harness.core.progress import progress_on
from harness.evaluation.plan import Plan, make_plan
from harness.evaluation.select import PROFILES, PlannedCell, profile
from harness.gate.quick_set import make_golden_vectors, promote_run, quick_set
from harness.registry import Registry, look_up
from harness.results.layout import papers_of, require_own
from harness.results.published_tables import load_tables
from harness.results.store import Store

Profile = Annotated[
    str | None,
    opt.option(
        "--profile",
        help="first: what a new machine measures in minutes; embedded: what is included; "
        "standard: the registered methods; papers: the published cells; all. Not with -m or -t.",
    ),
]


def plan_command(
    selection: opt.Selection,
    folders: opt.Folders,
    profile_name: Profile = None,
    limit: opt.Limit = None,
    baseline: opt.Baseline = Path("results"),
    output: opt.Output = Path("runs"),
    as_json: opt.Json = False,
) -> None:
    """Show what a run would do, what it needs and how long it takes.

    Cells, assets and how to get them, what is cached, the time to encode.

    The time is for encoding the remaining sentences, at the rate that their encoder had
    on this machine; trainings, fits and scorings are counted, not timed. OUTPUT holds
    what is measured.
    """
    cells_of_profile = profile_cells(profile_name, selection, baseline)
    chosen = select(selection, folders, limit, cells_of_profile)
    runs = Store(records_folder(output, limit))
    print_plan(chosen, runs, as_json)


def plan_cells(chosen: Selected, measured: Store | None) -> Plan:
    """The plan of cells; a cell with a record in the store is done."""
    with progress_on(sys.stderr, delay=1.0) as progress:
        return make_plan(chosen.cells, chosen.loader, measured, progress)


def print_plan(chosen: Selected, measured: Store | None, as_json: bool = False) -> None:
    """Print the whole plan of cells, for people or for a program."""
    plan = plan_cells(chosen, measured)
    if as_json:
        opt.say(json.dumps(asdict(plan)))
    else:
        opt.say(plan_text(plan, opt.terminal_width()))


def profile_cells(
    name: str | None, selection: opt.Selection, baseline: Path
) -> Callable[[Registry], tuple[PlannedCell, ...]]:
    """A function that gives the cells of a profile for a registry.

    Args:
        name: The profile; None is `all`.
        selection: The options of the command, which must name no cells then.
        baseline: The results folder whose papers the profile `papers` reads.

    Raises:
        UsageError: There is no such profile, or the options name cells, too.
    """
    if name is not None and (selection.method or selection.task):
        raise UsageError(
            "--profile chooses the cells, and so do -m and -t: give one of them"
        )
    profile_name = "all" if name is None else name
    look_up("profile", profile_name, dict.fromkeys(PROFILES))
    return partial(
        profile, name=profile_name, papers=papers_of(baseline), seeds=selection.seeds
    )


def run_command(
    selection: opt.Selection,
    folders: opt.Folders,
    execution: opt.Execution,
    limit: opt.Limit = None,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate",
            help="Measure what `harness check` compares: golden vectors, and the quick set of "
            "BASELINE/gate.toml unless -m and -t select others.",
        ),
    ] = False,
    baseline: opt.Baseline = Path("results"),
    update: Annotated[
        bool, typer.Option("--update", help="With --gate: promote it to BASELINE.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Measure methods on tasks.

    When a cell fails, the others still run. Each score is printed with what
    BASELINE/papers says is published for it.
    """
    names_nothing = not selection.method and not selection.task
    names_cells = bool(selection.method and selection.task)
    if not names_cells and not (gate and names_nothing):
        raise UsageError(
            "nothing selected: give -m METHOD and -t TASK (harness list shows them)"
        )
    if update and not gate:
        raise UsageError(
            "--update goes with --gate; harness reproduce --update promotes all"
        )
    if update:
        require_own("--baseline", baseline)
    if limit is not None and gate:
        raise UsageError(
            "--limit and --gate exclude each other: what is limited is no baseline"
        )
    if gate:
        opt.note_packaged(baseline)
    gate_cells = partial(quick_set, committed=baseline) if gate else None
    chosen = select(selection, folders, limit, gate_cells, execution.quiet)
    note_bypasses(chosen)
    results = records_folder(execution.output, limit)
    papers = papers_of(baseline)
    tables = load_tables(papers, chosen.registry) if papers.is_dir() else ()
    printer = Printer(
        store=Store(results),
        registry=chosen.registry,
        tables=tables,
        as_json=as_json,
        quiet=execution.quiet,
    )
    outcomes = execute_and_print(
        chosen, printer, limit_processes(execution, selection.device)
    )
    if printer.records and not as_json:
        opt.say(f"\n{printer.table()}\nrecords: {results}")
        for line in printer.same_encoders():
            opt.note(line)
    if gate:
        make_golden_vectors(chosen.cells, chosen.loader.places, results)
    if update:
        changed = promote_run(outcomes, results, baseline)
        opt.say(f"promoted: {changed} records and vectors of {baseline}")
    raise typer.Exit(exit_status_of(outcomes))
