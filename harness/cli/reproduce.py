"""`harness reproduce` measures, compares with the committed results, and writes pages.

It takes the options and the steps of `harness run`, and a profile if no cells are named.
What it measured is compared with the committed records, and the rows of tables and the
methods of claims with each other.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.first_run import fetch_small_data, next_step
from harness.cli.run import Selected, measure, plan_of, select
from harness.cli.summary import (
    count_in_words,
    lines_of_differing_numbers,
    lines_of_failures,
    numbers_beside,
    score_table,
)
from harness.conclusions.folder import Conclusions
from harness.core.environment import commit
from harness.core.errors import AssetMissing, HarnessError
from harness.core.terminal import counted, progress_on
from harness.evaluation.compare import Resampler, compare_shown
from harness.evaluation.plan import plan_text
from harness.evaluation.processes import Jobs
from harness.evaluation.promote import promote
from harness.registry import load_registry
from harness.report.build import write_files
from harness.report.reproductions import SignedRun, require_name, sign
from harness.results.differences import write_differences
from harness.results.gate import Check, State, check_record
from harness.results.index import Results
from harness.results.layout import readme_of, require_own


def reproduce_command(
    options: opt.Run,
    dry_run: opt.DryRun = False,
    baseline: opt.Baseline = Path("results"),
    update: Annotated[
        bool, typer.Option("--update", help="Promote what was measured to BASELINE.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="A missing asset is an error (status 3).")
    ] = False,
    signed_by: Annotated[
        str | None,
        typer.Option(
            "--sign",
            metavar="NAME",
            help="Add a line with your name, the date and the verdicts to "
            "BASELINE/reproductions.md.",
        ),
    ] = None,
) -> None:
    """Measure everything possible, compare with the baseline, write tables."""
    opt.require_folder("--baseline", baseline)
    if update:
        require_own("--baseline", baseline)
        options.require_whole("--update")
    if signed_by is not None:
        require_own("--sign", baseline)
        options.require_whole("--sign")
        require_name(signed_by)
    is_first_run = options.profile == "first"
    if is_first_run and not dry_run:
        options = fetch_small_data(options, load_registry())
    chosen = select(options, baseline)
    if dry_run or not options.quiet:
        plan = plan_of(chosen, options, baseline)
        opt.say(plan_text(plan, opt.terminal_width()))
    if dry_run:
        return
    committed = Conclusions(baseline, chosen.registry)
    output = options.folder
    runs = committed.reopen(output)
    tables = runs.tables
    outcomes = measure(chosen, runs.store, options)
    records = [outcome.record for outcome in outcomes if outcome.record]
    checks = []
    if options.limit is None:
        _compare_rows(chosen, runs, committed, options.processes)
        checks = [check_record(record, committed.records) for record in records]
    numbers = numbers_beside(Results.of(records), tables, chosen.registry)
    if numbers:
        opt.say(f"\n{score_table(Results({}), numbers)}")
    if records:
        opt.say(f"\n{count_in_words(numbers, len(records))}")
    statuses = Counter(outcome.status for outcome in outcomes)
    counts = [f"{count:,} {status}" for status, count in statuses.items()]
    lines = [
        *lines_of_differing_numbers(numbers, output),
        f"cells: {', '.join(counts) or 'none'}",
        *lines_of_moves(checks, baseline),
        *lines_of_failures(outcomes),
    ]
    finished_run = committed.reopen(output)  # with the records of this run
    if records:
        write_files(finished_run, None)
        lines.append(f"tables: {output}/LEADERBOARD.md, {output}/tables, {output}/site")
    if update:
        count = promote(records, finished_run, committed)
        pages = write_files(committed.reopen(baseline), readme_of(baseline))
        lines.append(
            f"promoted: {counted(count, 'change')} to {baseline}, "
            f"{counted(len(pages), 'generated file')} rewritten"
        )
    if signed_by is not None:
        signed_run = SignedRun(
            name=signed_by,
            date=datetime.now(UTC).date().isoformat(),
            commit=commit()["commit"],
            is_changed=bool(commit()["dirty"]),
            numbers=[number for number in numbers if number.scores],
            checks=checks,
        )
        lines.append(f"signed: {sign(baseline, signed_run)}")
    if is_first_run and numbers:
        lines += next_step(finished_run, options.places(), chosen.registry)
    for line in lines:
        opt.say(line)
    if not update and any(check.moved for check in checks):
        raise typer.Exit(1)
    status = opt.worst_status(outcome.exit_status for outcome in outcomes)
    if status == AssetMissing.exit_status and not strict:
        status = 0
    raise typer.Exit(status)


def _compare_rows(
    chosen: Selected, runs: Conclusions, committed: Conclusions, jobs: Jobs
) -> None:
    """Compare the rows of tables and the methods of claims, and store the comparisons.

    A committed difference of the same scores is taken as it is.
    """
    try:
        with progress_on(sys.stderr) as progress:
            resampler = Resampler(runs, chosen.loader, progress, jobs)
            # The run's own differences replace the committed ones.
            earlier = {**committed.differences, **runs.differences}
            differences = compare_shown(resampler, earlier)
            write_differences(runs.path, differences)
    except HarnessError as error:
        opt.note(f"harness: rows were not compared: {error}")


def lines_of_moves(checks: Sequence[Check], committed: Path) -> list[str]:
    """How many cells agree with their committed records, and which of them moved."""
    moved_cells = [check for check in checks if check.moved]
    new_count = sum(check.state is State.NO_BASELINE for check in checks)
    compared_count = len(checks) - new_count
    lines = []
    if compared_count:
        agreeing_count = compared_count - len(moved_cells)
        verb = "agrees" if agreeing_count == 1 else "agree"
        lines.append(
            f"{agreeing_count:,} of {compared_count:,} {verb} with {committed}/records"
        )
    if new_count:
        lines.append(
            f"{counted(new_count, 'cell')} not in {committed}/records yet; --update adds "
            "what is new"
        )
    return lines + [f"  moved: {check.name}: {check.why}" for check in moved_cells]
