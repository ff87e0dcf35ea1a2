"""Cells are measured and printed as they come, for `run` and `reproduce`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from harness.assets.places import Places
from harness.cli import options as opt
from harness.cli.printing import Printer
from harness.cli.selection import Selected
from harness.cli.train import train_member
from harness.core.errors import CACHE_SETTING, HarnessError, UsageError
from harness.core.files import make_folder
from harness.core.interfaces import Trained
from harness.core.progress import progress_on
from harness.core.types import Progress
from harness.evaluation.encoder_jobs import TrainingJob
from harness.evaluation.parallel import execute_on
from harness.evaluation.plan_parts import Part, units
from harness.evaluation.run import Outcome, RunContext
from harness.evaluation.select import PlannedCell
from harness.gate.failures import note_outcomes


def for_devices(execution: opt.Execution, device: str) -> opt.Execution:
    """With one process on a GPU, unless options say how many: each would load the weights."""
    if (
        device.startswith("cpu")
        or execution.jobs is not None
        or execution.scheduler is not None
    ):
        return execution
    return replace(execution, jobs=1)


def execute_and_print(
    chosen: Selected, printer: Printer, execution: opt.Execution, planned: bool = False
) -> list[Outcome]:
    """Run the cells with a bar on stderr; print each one as it comes, then why some did not run.

    `planned` says that a plan was printed, which tells what is missing.
    """
    part = Part.parse(execution.shard)
    cells = part.cells(chosen.cells)
    store, loader = printer.store, chosen.loader
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
        with (
            nullcontext(Progress())
            if printer.quiet
            else progress_on(sys.stderr) as progress
        ):
            context = RunContext(
                loader,
                store,
                progress,
                overwrite=execution.overwrite,
                min_coverage=execution.min_coverage,
            )
            for outcome in execute_on(
                execution.engine, cells, context, part, trainings
            ):
                outcomes.append(outcome)
                printer.outcome(outcome)
    finally:  # interrupted, or ended by what nobody expects: older records are no answer
        _note_failures(outcomes, planned)
        reached = {outcome.cell for outcome in outcomes}
        unreached = [cell.address for cell in cells if cell.address not in reached]
        note_outcomes(store.folder, outcomes, unreached)
    return outcomes


def _note_failures(outcomes: Iterable[Outcome], planned: bool) -> None:
    """Say why cells did not run; a plan has already said which assets are missing."""
    messages: Counter[str] = Counter()
    for outcome in outcomes:
        is_in_plan = planned and outcome.status == "asset missing"
        if outcome.message and not is_in_plan:
            messages[outcome.message] += 1
    for message, count in messages.items():
        noun = "cell" if count == 1 else "cells"
        opt.note(f"harness: {message} ({count} {noun})")


def on_the_spot(planned: Iterable[PlannedCell], places: Places) -> list[TrainingJob]:
    """The trainings that these cells need and that are quickly made of what the harness carries."""
    members = {cell.encoder.source: cell.encoder for cell in planned}
    absolute = places.absolute()  # a worker may have been started in another folder
    jobs = []
    for source, member in members.items():
        if (
            isinstance(source, Trained)
            and source.on_the_spot
            and not places.has_encoder(member)
        ):
            call = partial(_train_with_one_thread, member.name, source, absolute)
            jobs.append(TrainingJob(call=call, encoder=member))
    return jobs


def _train_with_one_thread(
    name: str, source: Trained, places: Places
) -> HarnessError | None:
    """Train a member. Returns the error of a training that failed.

    Rounding differs between numbers of threads, and a training carries it on: with one
    thread, one process and many make the same encoders.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        train_member(name, source, places, threads=1)
    except HarnessError as error:
        return error
    finally:
        torch.set_num_threads(threads)
    return None


def exit_status_of(outcomes: Sequence[Outcome]) -> int:
    """1 if a cell failed, else 2 for wrong usage, else 3 if something is missing, else 0."""
    return min(filter(None, (outcome.exit_status for outcome in outcomes)), default=0)
