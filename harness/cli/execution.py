"""How `run` and `reproduce` measure cells and print each one when it is done.

harness.evaluation.parallel measures. This module adds what a command needs: it makes the
folders, shows a bar, trains encoders on the spot, prints a line for each failure, and
writes the file from which the gate learns which cells did not run.
"""

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
from harness.core.errors import CACHE_SETTING, HarnessError
from harness.core.files import make_folder
from harness.core.interfaces import Trained
from harness.core.progress import progress_on
from harness.core.types import Progress
from harness.evaluation.parallel import Part, Training, execute_on
from harness.evaluation.run import Outcome, RunContext
from harness.evaluation.select import PlannedCell
from harness.gate.failures import note_outcomes


def limit_processes(execution: opt.Execution, device: str) -> opt.Execution:
    """The options, with one process on a GPU, where each process would load the weights.

    A number of processes or a scheduler that options name is kept.
    """
    is_named = execution.jobs is not None or execution.scheduler is not None
    if is_named or device.startswith("cpu"):
        return execution
    return replace(execution, jobs=1)


def execute_and_print(
    chosen: Selected, printer: Printer, execution: opt.Execution, planned: bool = False
) -> list[Outcome]:
    """Measure cells with a bar on stderr, and print each one when it is done.

    Args:
        chosen: The cells, and what loads their texts.
        printer: Prints the outcomes, and knows the store of their records.
        execution: The options of the run.
        planned: Whether a plan was printed, which names the missing assets.

    Returns:
        The outcome of every cell of this part of the run.
    """
    part = Part.parse(execution.shard)
    cells = part.cells(chosen.cells)
    if not cells:
        opt.note(f"part {execution.shard} has no cell")
        return []
    store, loader = printer.store, chosen.loader
    make_folder(store.folder, "--output")
    make_folder(loader.places.cache, CACHE_SETTING)
    trainings = missing_trainings(cells, loader.places)
    bar = nullcontext(Progress()) if printer.quiet else progress_on(sys.stderr)
    outcomes: list[Outcome] = []
    try:
        with bar as progress:
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
    finally:  # also after an interruption, before which not all cells were reached
        _note_failures(outcomes, planned)
        reached_cells = {outcome.cell for outcome in outcomes}
        unreached_cells = [
            cell.address for cell in cells if cell.address not in reached_cells
        ]
        note_outcomes(store.folder, outcomes, unreached_cells)
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


def missing_trainings(planned: Iterable[PlannedCell], places: Places) -> list[Training]:
    """The trainings of encoders that these cells need and that are missing.

    Only members of families with `on_the_spot` are trained: these families start from
    files that come with the harness, and take little time.
    """
    encoder_by_source = {cell.encoder.source: cell.encoder for cell in planned}
    # A worker may have been started in another folder.
    absolute_places = places.absolute()
    trainings = []
    for source, encoder in encoder_by_source.items():
        if not isinstance(source, Trained) or not source.on_the_spot:
            continue
        if not places.has_encoder(encoder):
            train = partial(
                _train_with_one_thread, encoder.name, source, absolute_places
            )
            trainings.append(Training(encoder=encoder, train=train))
    return trainings


def _train_with_one_thread(
    name: str, source: Trained, places: Places
) -> HarnessError | None:
    """Train a member. Returns the error of a training that failed.

    One thread, because the order of sums depends on the number of threads, and a
    training amplifies the difference: a run in one process and a run in many then make
    the same encoders.
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
    """The exit status of a run."""
    return opt.worst_status([outcome.exit_status for outcome in outcomes])
