"""`harness run`: select cells by options or by a profile, and measure them.

With `--dry-run` it shows what would be measured and what is missing, and writes nothing.
"""

from __future__ import annotations

import json
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
from harness.cli.selection import note_bypasses, records_folder, select
from harness.core.errors import UsageError
from harness.evaluation.plan import make_plan
from harness.evaluation.select import PROFILES, PlannedCell, profile
from harness.gate.quick_set import make_golden_vectors, promote_run, quick_set
from harness.registry import Registry, look_up
from harness.results.layout import papers_of, require_own
from harness.results.published_tables import load_tables
from harness.results.store import Store


def cells_of_profile(
    selection: opt.Selection, baseline: Path
) -> Callable[[Registry], tuple[PlannedCell, ...]]:
    """A function that gives the cells of the options' profile, or of `all`, for a registry.

    `baseline` is the results folder whose papers the profile `papers` reads. Raises
    UsageError if there is no such profile, or the options name cells, too.
    """
    if selection.profile is not None and (selection.method or selection.task):
        raise UsageError(
            "--profile chooses the cells, and so do -m and -t: give one of them"
        )
    name = "all" if selection.profile is None else selection.profile
    look_up("profile", name, dict.fromkeys(PROFILES))
    return partial(
        profile, name=name, papers=papers_of(baseline), seeds=selection.seeds
    )


def run_command(
    selection: opt.Selection,
    folders: opt.Folders,
    execution: opt.Execution,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only show which cells can run, the work that is left and what is missing.",
        ),
    ] = False,
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
    names_cells = bool(selection.method and selection.task) or selection.profile
    names_nothing = not selection.method and not selection.task
    if not names_cells and not (gate and names_nothing):
        raise UsageError(
            "nothing selected: give -m METHOD and -t TASK (harness list shows them), or --profile"
        )
    if update and not gate:
        raise UsageError(
            "--update goes with --gate; harness reproduce --update promotes all"
        )
    if update:
        require_own("--baseline", baseline)
    if selection.limit is not None and gate:
        raise UsageError(
            "--limit and --gate exclude each other: what is limited is no baseline"
        )
    default_cells = cells_of_profile(selection, baseline)
    if gate:
        opt.note_packaged(baseline)
        default_cells = partial(quick_set, committed=baseline)
    chosen = select(selection, folders, default_cells, execution.quiet)
    note_bypasses(chosen)
    results = records_folder(execution.output, selection.limit)
    store = Store(results)
    if dry_run:
        plan = make_plan(chosen.cells, chosen.loader, store)
        text = plan_text(plan, opt.terminal_width())
        opt.say(json.dumps(asdict(plan)) if as_json else text)
        return
    papers = papers_of(baseline)
    tables = load_tables(papers, chosen.registry) if papers.is_dir() else ()
    printer = Printer(
        store=store,
        registry=chosen.registry,
        tables=tables,
        as_json=as_json,
        quiet=execution.quiet,
    )
    execution = limit_processes(execution, selection.device)
    outcomes = execute_and_print(chosen, printer, execution)
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
