"""`harness reproduce`: measure, compare with the baseline, write tables.

The steps, in order: select cells, print a plan, measure, compare rows and claims, compare
each record with its committed one, promote if that is asked for, summarise, and write
the pages. docs/architecture.md has the walk through them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.execution import execute_and_print, exit_status_of, limit_processes
from harness.cli.first_run import fetch_small_data, lines_of_methods, next_step
from harness.cli.measure import cells_of_profile
from harness.cli.plan_text import plan_text
from harness.cli.printing import Printer
from harness.cli.selection import Selected, records_folder, select
from harness.cli.summary import lines_of_claims, run_summary
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.progress import progress_on
from harness.core.types import Record
from harness.evaluation.compare import compare_claims, compare_tables
from harness.evaluation.plan import make_plan
from harness.evaluation.resampler import Resampler
from harness.evaluation.run import Outcome
from harness.gate.drift import compare_record
from harness.gate.rules import read_rules
from harness.registry import load_registry
from harness.report.build import write_files
from harness.results.comparisons import write_comparisons
from harness.results.folder import ResultsFolder
from harness.results.intervals import write_intervals
from harness.results.layout import readme_of, require_own


def reproduce_command(
    selection: opt.Selection,
    folders: opt.Folders,
    execution: opt.Execution,
    baseline: opt.Baseline = Path("results"),
    update: Annotated[
        bool, typer.Option(help="Promote what was measured to BASELINE.")
    ] = False,
    strict: Annotated[
        bool, typer.Option(help="A missing asset is an error (status 3).")
    ] = False,
) -> None:
    """Measure everything possible, compare with the baseline, write tables."""
    opt.require_folder("--baseline", baseline)
    if update:
        require_own("--baseline", baseline)
    if selection.limit is not None and update:
        raise UsageError(
            "--limit and --update exclude each other: what is limited is no baseline"
        )
    execution = limit_processes(execution, selection.device)
    limit = selection.limit
    profile_cells = cells_of_profile(selection, baseline)
    is_first_run = selection.profile == "first"
    if is_first_run:
        folders = fetch_small_data(folders, load_registry())
    chosen = select(selection, folders, profile_cells, execution.quiet)
    committed = ResultsFolder(baseline, chosen.registry)
    output = records_folder(execution.output, limit)
    runs = committed.reopen(output)

    if not execution.quiet:
        done_cells = None if execution.overwrite else runs.store
        plan = make_plan(chosen.cells, chosen.loader, done_cells)
        opt.say(plan_text(plan, opt.terminal_width()))
    printer = Printer(
        store=runs.store,
        registry=chosen.registry,
        tables=runs.tables,
        quiet=execution.quiet,
    )
    printer.cells_left = Counter(cell.method.id for cell in chosen.cells)
    outcomes = execute_and_print(chosen, printer, execution, planned=True)

    if limit is None:
        _compare_rows(chosen, runs, committed, execution)
    records = [outcome.record for outcome in outcomes if outcome.record]
    rules = read_rules(baseline)
    checks = [compare_record(record, committed.records, rules) for record in records]
    finished_run = committed.reopen(output)  # with the records of this run
    promoted_count = None
    final_baseline = committed
    if update:
        promoted_count = promote(records, finished_run, committed)
        final_baseline = committed.reopen(baseline)  # with the promoted records

    lines: list[str] = []
    if not is_first_run:
        lines += lines_of_claims(finished_run, final_baseline)
    lines += run_summary(outcomes, checks, finished_run, final_baseline)
    lines += _write_pages(outcomes, finished_run, final_baseline, promoted_count)
    if is_first_run:
        places = folders.places()
        lines += lines_of_methods(finished_run, records)
        lines += next_step(finished_run, final_baseline, places, chosen.registry)
    for line in lines:
        opt.say(line)
    has_moved = any(check.moved for check in checks)
    if has_moved and not update:
        raise typer.Exit(1)
    status = exit_status_of(outcomes)
    if status == AssetMissing.exit_status and not strict:
        status = 0
    raise typer.Exit(status)


def _compare_rows(
    chosen: Selected,
    runs: ResultsFolder,
    committed: ResultsFolder,
    execution: opt.Execution,
) -> None:
    """Compare the rows of tables and the methods of claims, and store the comparisons.

    A committed comparison of the same records is taken as it is.
    """
    try:
        with progress_on(sys.stderr) as progress:
            resampler = Resampler(runs, chosen.loader, progress, execution.engine)
            # The run's own comparisons replace the committed ones.
            if committed.claims is not None:
                known_intervals = {**committed.intervals, **runs.intervals}
                intervals = compare_claims(committed.claims, resampler, known_intervals)
                write_intervals(runs.path, intervals)
            known_comparisons = {**committed.comparisons, **runs.comparisons}
            for table in compare_tables(resampler, known_comparisons):
                write_comparisons(runs.path, table)
    except HarnessError as error:
        opt.note(f"harness: rows were not compared: {error}")


def promote(
    records: Sequence[Record], runs: ResultsFolder, committed: ResultsFolder
) -> int:
    """Write what was measured to the committed folder; records that agree stay as they are.

    A comparison of rows replaces the committed one only if it has all methods of the
    committed one that still have records. Returns the number of records that were
    written.
    """
    recorded_methods = set(committed.records.methods)
    for name, comparison in runs.comparisons.items():
        methods_to_keep: set[str] = set()
        committed_comparison = committed.comparisons.get(name)
        if committed_comparison is not None:
            methods_to_keep = recorded_methods & committed_comparison.averages.keys()
        if methods_to_keep <= comparison.averages.keys():
            write_comparisons(committed.path, comparison)
    write_intervals(committed.path, runs.intervals)
    return committed.store.promote(records)


def _write_pages(
    outcomes: Sequence[Outcome],
    runs: ResultsFolder,
    committed: ResultsFolder,
    promoted_count: int | None,
) -> list[str]:
    """Write the pages of the run, and of the committed folder after a promotion.

    `promoted_count` is the number of promoted records; None without a promotion. Returns
    lines that say where the pages are.
    """
    lines = []
    if any(outcome.status in ("measured", "done") for outcome in outcomes):
        write_files(runs, None)
        lines.append(
            f"tables: {runs.path}/LEADERBOARD.md, {runs.path}/tables, {runs.path}/site"
        )
    if promoted_count is not None:
        pages = write_files(committed, readme_of(committed.path))
        lines.append(
            f"promoted: {promoted_count} records, {len(pages)} generated files rewritten"
        )
    return lines
