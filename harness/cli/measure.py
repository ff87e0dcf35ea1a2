"""Commands that plan or measure: plan, run, reproduce."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.assets.places import Places
from harness.cli import options as opt
from harness.cli.plan_text import plan_text
from harness.cli.printing import (
    Printer,
    against_committed,
    against_papers,
    claims_that_hold,
    not_run,
)
from harness.cli.selection import Selected, note_bypasses, records_folder, select
from harness.cli.train import train_member
from harness.core.errors import CACHE_SETTING, AssetMissing, HarnessError, UsageError
from harness.core.files import make_folder
from harness.core.interfaces import Trained
from harness.core.progress import progress_on
from harness.core.types import Progress, Record
from harness.evaluation.compare import Resampler, compare_claims, compare_tables
from harness.evaluation.parallel import Part, TrainingJob, execute_on, units
from harness.evaluation.plan import make_plan
from harness.evaluation.run import Outcome, RunContext
from harness.evaluation.select import PROFILES, PlannedCell, profile
from harness.gate.drift import compare_record
from harness.gate.failures import note_outcomes
from harness.gate.outcome import Checked
from harness.gate.quick_set import encode_golden, promote_gate, quick_set
from harness.gate.rules import read_rules
from harness.registry import Registry, look_up
from harness.report.build import write_files
from harness.results.comparisons import write_comparisons
from harness.results.folder import ResultsFolder
from harness.results.intervals import write_intervals
from harness.results.layout import papers_of, readme_of, require_own
from harness.results.published_tables import load_tables
from harness.results.records import Store

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

    The time is that of encoding the remaining sentences at the rate that their encoder had on this
    machine; trainings, fits and scorings are counted, not timed. OUTPUT holds what is measured.
    """
    cells_of_profile = _profile(profile_name, selection, baseline)
    chosen = select(selection, folders, limit, cells_of_profile)
    runs = Store(records_folder(output, limit))
    with progress_on(sys.stderr, delay=1.0) as bar:
        planned = make_plan(chosen.cells, chosen.loader, runs, bar)
    if as_json:
        opt.say(json.dumps(asdict(planned)))
        return
    opt.say(plan_text(planned, opt.terminal_width()))


def _profile(
    name: str | None, selection: opt.Selection, baseline: Path
) -> Callable[[Registry], tuple[PlannedCell, ...]]:
    """What gives the cells of a profile, by default `all`. Raises UsageError."""
    if name is not None and (selection.method or selection.task):
        raise UsageError("--profile chooses the cells, and so do -m and -t: give one of them")
    name = "all" if name is None else name
    look_up("profile", name, dict.fromkeys(PROFILES, True))
    return partial(profile, name=name, papers=papers_of(baseline), seeds=selection.seeds)


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

    When a cell fails, the others still run. Each score stands beside what is published for it in
    BASELINE/papers.
    """
    method, task = selection.method, selection.task
    if not (method and task) and (method or task or not gate):
        raise UsageError("nothing selected: give -m METHOD and -t TASK (harness list shows them)")
    if update and not gate:
        raise UsageError("--update goes with --gate; harness reproduce --update promotes all")
    if update:
        require_own("--baseline", baseline)
    if limit is not None and gate:
        raise UsageError("--limit and --gate exclude each other: what is limited is no baseline")
    if gate:
        opt.note_packaged(baseline)
    default = partial(quick_set, committed=baseline) if gate else None
    chosen = select(selection, folders, limit, default, execution.quiet)
    note_bypasses(chosen)
    results, papers = records_folder(execution.output, limit), papers_of(baseline)
    tables = load_tables(papers, chosen.registry) if papers.is_dir() else ()
    printer = Printer(Store(results), chosen.registry, tables, as_json, execution.quiet)
    outcomes = _execute(chosen, printer, _for_devices(execution, selection.device))
    if printer.records and not as_json:
        opt.say(f"\n{printer.table()}\nrecords: {results}")
        for line in printer.same_encoders():
            opt.note(line)
    if gate:
        encode_golden(chosen.cells, chosen.loader.places, results)
    if update:
        changed = promote_gate(outcomes, results, baseline)
        opt.say(f"promoted: {changed} records and vectors of {baseline}")
    raise typer.Exit(_exit_status(outcomes))


def reproduce_command(
    selection: opt.Selection,
    folders: opt.Folders,
    execution: opt.Execution,
    profile_name: Profile = None,
    limit: opt.Limit = None,
    baseline: opt.Baseline = Path("results"),
    update: Annotated[bool, typer.Option(help="Promote what was measured to BASELINE.")] = False,
    strict: Annotated[bool, typer.Option(help="A missing asset is an error (status 3).")] = False,
) -> None:
    """Measure everything possible, compare with the baseline, write tables."""
    opt.require_folder("--baseline", baseline)
    if update:
        require_own("--baseline", baseline)
    if limit is not None and update:
        raise UsageError("--limit and --update exclude each other: what is limited is no baseline")
    execution, quiet = _for_devices(execution, selection.device), execution.quiet
    cells_of_profile = _profile(profile_name, selection, baseline)
    chosen = select(selection, folders, limit, cells_of_profile, quiet)
    committed = ResultsFolder(baseline, chosen.registry)
    output = records_folder(execution.output, limit)
    runs = committed.reopened(output)

    if not quiet:
        measured = None if execution.overwrite else runs.store
        with progress_on(sys.stderr, delay=1.0) as bar:
            planned = make_plan(chosen.cells, chosen.loader, measured, bar)
        opt.say(plan_text(planned, opt.terminal_width()))
    printer = Printer(runs.store, chosen.registry, runs.tables, quiet=quiet)
    outcomes = _execute(chosen, printer, execution, planned=True)

    if limit is None:
        _compare_rows(chosen, runs, committed, execution)
    records = [outcome.record for outcome in outcomes if outcome.record]
    rules = read_rules(baseline)
    checks = [compare_record(record, committed.records, rules) for record in records]
    runs = committed.reopened(output)
    promoted = None
    if update:
        promoted = _promote(records, runs, committed)
        committed = committed.reopened(baseline)

    lines = claims_that_hold(runs, committed)
    lines += _summary(outcomes, checks, runs, committed, promoted)
    for line in lines:
        opt.say(line)
    moved = any(check.moved for check in checks) and not update
    status = int(moved) or _exit_status(outcomes)
    raise typer.Exit(0 if status == AssetMissing.exit_status and not strict else status)


def _for_devices(execution: opt.Execution, device: str) -> opt.Execution:
    """With one process on a GPU, unless options say how many: each would load the weights."""
    if device.startswith("cpu") or execution.jobs is not None or execution.scheduler is not None:
        return execution
    return replace(execution, jobs=1)


def _execute(
    chosen: Selected, printer: Printer, execution: opt.Execution, planned: bool = False
) -> list[Outcome]:
    """Run the cells with a bar on stderr; print each one as it comes, then why some did not run."""
    engine, part, store = execution.engine, Part.parse(execution.shard), printer.store
    cells, loader = part.cells(chosen.cells), chosen.loader
    if chosen.cells and not cells:
        count = len(units(chosen.cells))
        raise UsageError(
            f"--shard {execution.shard}: wanted a part with cells, found work for {count} parts; "
            f"take I/N with I up to {count}"
        )
    make_folder(store.folder, "--output")
    make_folder(loader.places.cache, CACHE_SETTING)
    trainings = on_the_spot(cells, loader.places)
    outcomes: list[Outcome] = []
    try:
        with nullcontext(Progress()) if printer.quiet else progress_on(sys.stderr) as progress:
            context = RunContext(
                loader,
                store,
                progress,
                overwrite=execution.overwrite,
                min_coverage=execution.min_coverage,
            )
            for outcome in execute_on(engine, cells, context, part, trainings):
                outcomes.append(outcome)
                printer.outcome(outcome)
    finally:  # interrupted, or ended by what nobody expects: older records are no answer
        _note_failures(outcomes, planned)
        reached = {outcome.cell for outcome in outcomes}
        left = [cell.address for cell in cells if cell.address not in reached]
        note_outcomes(store.folder, outcomes, left)
    return outcomes


def _note_failures(outcomes: Iterable[Outcome], planned: bool) -> None:
    """Say why cells did not run; a plan has already said which assets are missing."""
    shown = ("asset missing",) if planned else ()
    messages = Counter(o.message for o in outcomes if o.message and o.status not in shown)
    for message, count in messages.items():
        opt.note(f"harness: {message} ({count} cell{'s' if count > 1 else ''})")


def on_the_spot(planned: Iterable[PlannedCell], places: Places) -> list[TrainingJob]:
    """The trainings that these cells need and that are quickly made of what the harness carries."""
    members = {p.encoder.source: p.encoder for p in planned}
    there = places.absolute()  # a worker may have been started in another folder
    return [
        TrainingJob(
            call=partial(_train_with_one_thread, member.name, source, there), encoder=member
        )
        for source, member in members.items()
        if isinstance(source, Trained) and source.on_the_spot and not places.has_encoder(member)
    ]


def _train_with_one_thread(name: str, source: Trained, places: Places) -> HarnessError | None:
    """Train a member. Returns the error of a training that failed.

    Rounding differs between numbers of threads, and a training carries it on: with one thread, one
    process and many make the same encoders.
    """
    import torch

    before = torch.get_num_threads()
    try:
        train_member(name, source, places, threads=1)
    except HarnessError as error:
        return error
    finally:
        torch.set_num_threads(before)
    return None


def _compare_rows(
    chosen: Selected, runs: ResultsFolder, committed: ResultsFolder, execution: opt.Execution
) -> None:
    """Bring the comparisons of rows and claims up to date; committed ones that hold are kept."""
    try:
        with progress_on(sys.stderr) as bar:
            resampler = Resampler(runs, chosen.loader, bar, execution.engine)
            if committed.claims is not None:
                stored = {**committed.intervals, **runs.intervals}
                intervals = compare_claims(committed.claims, resampler, stored)
                write_intervals(runs.path, intervals)
            compared = {**committed.comparisons, **runs.comparisons}
            for table in compare_tables(resampler, compared):
                write_comparisons(runs.path, table)
    except HarnessError as error:
        opt.note(f"harness: rows were not compared: {error}")


def _promote(records: Sequence[Record], runs: ResultsFolder, committed: ResultsFolder) -> int:
    """Write what was measured to the committed folder; records that agree stay as they are."""
    for name, new in runs.comparisons.items():
        old = committed.comparisons.get(name)
        if old is None or old.averages.keys() & {*committed.records.methods} <= new.averages.keys():
            write_comparisons(committed.path, new)
    write_intervals(committed.path, runs.intervals)
    return committed.store.promote(records)


def _summary(
    outcomes: Sequence[Outcome],
    checks: Sequence[Checked],
    runs: ResultsFolder,
    committed: ResultsFolder,
    promoted: int | None,
) -> list[str]:
    """Write the run's tables, and say what a person wants to know at the end."""
    counts = Counter(outcome.status for outcome in outcomes)
    lines = ["", "cells: " + ", ".join(f"{n:,} {status}" for status, n in counts.items())]
    lines += against_papers(outcomes, runs)
    lines += against_committed(checks, committed)
    lines += not_run(outcomes)
    if counts["measured"] or counts["done"]:
        write_files(runs, None)
        lines.append(f"tables: {runs.path}/LEADERBOARD.md, {runs.path}/tables, {runs.path}/site")
    if promoted is not None:
        written = write_files(committed, readme_of(committed.path))
        lines.append(f"promoted: {promoted} records, {len(written)} generated files rewritten")
    return lines


def _exit_status(outcomes: Sequence[Outcome]) -> int:
    """1 if a cell failed, else 2 for wrong usage, else 3 if something is missing, else 0."""
    return min(filter(None, (outcome.exit_status for outcome in outcomes)), default=0)
