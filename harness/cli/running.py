"""Commands that run something: run, reproduce."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import (
    Baseline,
    BatchTokens,
    CacheDir,
    DataDir,
    Device,
    Dtype,
    Encoders,
    Jobs,
    Json,
    Limit,
    Methods,
    Output,
    Quiet,
    Scheduler,
    Seeds,
    ShardOf,
    Tasks,
    Verbose,
    note,
    require_folder,
    say,
    say_folded,
)
from harness.cli.selecting import Selected, Wanted, records_folder, select
from harness.core.errors import AssetMissing, UsageError
from harness.results.layout import require_own

EVERY_FILE = 10**7  # however many records a run has


def run(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    limit: Limit = None,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    output: Output = Path("runs"),
    cache: CacheDir = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is already done.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Measure what `harness check` wants: golden vectors, and the quick set of "
            "BASELINE/gate.toml unless -m and -t select others.",
        ),
    ] = False,
    baseline: Baseline = Path("results"),
    update: Annotated[
        bool, typer.Option("--update", help="With --quick: promote it to BASELINE.")
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    shard: ShardOf = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Measure methods on tasks; the other cells still run when one fails.

    Each score stands beside what is published for it in BASELINE/papers.
    """
    if not (method and task) and (method or task or not quick):
        raise UsageError("nothing selected: give -m METHOD and -t TASK (harness list shows them)")
    if update and not quick:
        raise UsageError("--update goes with --quick; harness reproduce --update promotes all")
    if update:
        require_own("--baseline", baseline)
    if limit is not None and quick:
        raise UsageError("--limit and --quick exclude each other: what is limited is no baseline")
    from harness.cli.measuring import Printer
    from harness.gate.check import encode_golden, promote_gate, quick_set
    from harness.results.layout import papers_of
    from harness.results.records import Store

    wanted = Wanted(
        method, task, seeds, data_dir, encoder, cache, limit, quiet, device, dtype, batch_tokens
    )
    chosen = select(wanted, partial(quick_set, committed=baseline) if quick else None)
    results = records_folder(output, limit)
    papers = papers_of(baseline)
    printer = Printer(Store(results), chosen.registry, papers, as_json, verbose, quiet)
    outcomes = _execute(chosen, results, fresh, printer, Work(jobs, scheduler, shard))
    if printer.records and not as_json:
        say(f"\n{printer.table()}\nrecords: {results}")
    if quick:
        encode_golden(chosen.cells, chosen.loader.places, results)
        if update:
            changed = promote_gate(outcomes, results, baseline)
            say(f"promoted: {changed} records and vectors of {baseline}")
    sys.exit(_exit_status(outcomes))


def reproduce(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    output: Output = Path("runs"),
    baseline: Baseline = Path("results"),
    cache: CacheDir = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is already done.")] = False,
    update: Annotated[bool, typer.Option(help="Promote what was measured to BASELINE.")] = False,
    strict: Annotated[bool, typer.Option(help="A missing asset is an error (status 3).")] = False,
    profile: Annotated[
        str,
        typer.Option(
            help="embedded: what the harness carries; standard: the registered methods; papers: "
            "the published cells; all. Not with -m or -t."
        ),
    ] = "all",
    verbose: Verbose = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    shard: ShardOf = None,
    scheduler: Scheduler = None,
) -> None:
    """Plan, measure everything that can be, compare with the baseline, write tables."""
    from harness.cli.advice import claims_that_hold, embedded_best, what_next
    from harness.cli.measuring import Printer
    from harness.cli.reproduce import compare, compare_rows, promote, summary
    from harness.core.files import state_of
    from harness.core.progress import Bar
    from harness.core.terminal import width_of
    from harness.evaluation.compare import row_seconds
    from harness.evaluation.forecast import Forecast
    from harness.evaluation.plan import estimates, render_plan
    from harness.evaluation.plan import plan as make_plan
    from harness.evaluation.select import PROFILES
    from harness.evaluation.select import profile as profile_cells
    from harness.registry import known
    from harness.results.comparisons import read_comparisons
    from harness.results.index import Results
    from harness.results.layout import papers_of
    from harness.results.records import Store

    require_folder("--baseline", baseline)
    if update:
        require_own("--baseline", baseline)
    papers = papers_of(baseline)
    if profile != "all" and (method or task):
        raise UsageError("--profile chooses the cells, and so do -m and -t: give one of them")
    known("profile", profile, dict.fromkeys(PROFILES, True))
    of_profile = partial(profile_cells, name=profile, papers=papers, seeds=seeds)
    wanted = Wanted(
        method, task, seeds, data_dir, encoder, cache, None, quiet, device, dtype, batch_tokens
    )
    chosen = select(wanted, of_profile)
    work, runs = Work(jobs, scheduler, shard), Store(output)
    forecast = Forecast.read(chosen.cells, runs, Store(baseline))
    before, workers = state_of(output, most=EVERY_FILE), work.engine.workers
    measured = None if fresh else runs
    made = make_plan(chosen.cells, chosen.loader, measured, forecast, workers)
    compared = (found for of in (baseline, output) for found in read_comparisons(of).values())
    made = replace(made, comparing=row_seconds(chosen.cells, chosen.loader, compared))
    if not quiet:
        say(render_plan(made, width_of(sys.stdout.isatty())))
    printer = Printer(runs, chosen.registry, papers, False, verbose, quiet)
    outcomes = _execute(chosen, output, fresh, printer, work, estimates(made))
    with Bar(sys.stderr) as bar:
        uncompared = compare_rows(
            output, baseline, chosen.loader, chosen.registry, bar, work.engine
        )
    if uncompared:
        note(f"harness: {uncompared}")
    moves = compare(outcomes, baseline)
    promoted = promote(outcomes, output, baseline) if update else None
    found = Results.read(runs)
    terminal = width_of(sys.stdout.isatty())
    for line in claims_that_hold(output, baseline, chosen.registry, terminal):
        say(line)
    for line in embedded_best(found, chosen.registry, terminal or 80):
        say(line)
    for line in summary(outcomes, moves, output, baseline, promoted, chosen.registry):
        say_folded(line)
    if state_of(output, most=EVERY_FILE) == before:
        say(f"no file of {output} changed")
    for line in what_next(baseline, chosen.registry, chosen.loader.places, found):
        say(line)
    moved = any(move.moved for move in moves) and not update
    status = _exit_status(outcomes) or int(moved)
    sys.exit(0 if status == AssetMissing.exit_status and not strict else status)


@dataclass(frozen=True)
class Work:
    """The engine options of a run: processes, Dask scheduler, and shard."""

    jobs: int | None
    scheduler: str | None
    shard: str | None

    @cached_property
    def engine(self) -> Any:
        """The engine, opened once for all steps of a run."""
        from harness.evaluation.engines import engine

        return engine(self.jobs, self.scheduler)


def _execute(
    chosen: Selected,
    results: Path,
    fresh: bool,
    printer: Any,
    work: Work,
    seconds: Mapping[str, float] | None = None,
) -> list[Any]:
    """Run the cells with a bar on stderr; print each one as it comes, then why some did not run.

    With the plan's estimates in seconds there is one bar over everything, and what the plan has
    already said (missing assets) is not said again.
    """
    from harness.cli.train.family import on_the_spot
    from harness.core.progress import Bar, OverallProgress
    from harness.evaluation.parallel import Shard, execute_on
    from harness.gate.check import note_outcomes

    using, part = work.engine, Shard.parse(work.shard)
    cells, loader = part.cells(chosen.cells), chosen.loader
    _ = printer.tables  # a wrong one is told before anything is measured
    trainings = on_the_spot(cells, loader.places)
    outcomes = []
    expected = None if seconds is None else 1.0
    with (
        Path(os.devnull).open("w") as nowhere,
        Bar(nowhere if printer.quiet else sys.stderr, expected=expected) as bar,
    ):
        whole = None if seconds is None else OverallProgress(bar, seconds)
        made = execute_on(using, cells, loader, printer.store, whole or bar, fresh, part, trainings)
        try:
            for outcome in made:
                outcomes.append(outcome)
                printer.outcome(outcome)
            if whole is not None:
                whole.finish()
        finally:  # interrupted, or ended by what nobody expects: older records are no answer
            reached = {outcome.cell for outcome in outcomes}
            left = (cell.address for cell in cells if cell.address not in reached)
            noted = _attempt(partial(note_outcomes, results, outcomes, left))
    told = ("asset missing",) if seconds is not None else ()
    untold = [o.message for o in outcomes if o.message and o.status not in told]
    for message, count in Counter(untold).items():
        note(f"harness: {message} ({count} cell{'s' if count > 1 else ''})")
    if noted is not None and not untold:
        raise noted
    return outcomes


def _attempt(step: Callable[[], None]) -> OSError | None:
    """Take a step; an OSError is returned, so that other messages can be printed before it."""
    try:
        step()
    except OSError as error:
        return error
    return None


def _exit_status(outcomes: Sequence[Any]) -> int:
    """1 if a cell failed, else 2 for wrong usage, else 3 if something is missing, else 0."""
    return min(filter(None, (outcome.exit_status for outcome in outcomes)), default=0)
