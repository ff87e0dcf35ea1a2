"""A run on many workers: an engine runs the jobs of all encoders, and cells get their outcomes.

The jobs of each encoder are a graph (`encoder_jobs`), and no encoder waits for another.
An engine runs them in this process, in several, or on a cluster (`engines`). This module
puts the graphs together, shows the progress, and makes the outcomes of cells from the
results of jobs. A job whose worker died is tried again alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig
from harness.core.types import Progress
from harness.evaluation.encoder_jobs import (
    EncodingJob,
    MeasuringJob,
    RunJob,
    TrainingJob,
    work_after_training,
    work_of_encoder,
)
from harness.evaluation.engines import (
    Engine,
    InProcess,
    Processes,
    WorkersLost,
    run_jobs,
)
from harness.evaluation.plan_parts import WHOLE_PLAN, Part, units
from harness.evaluation.run import Outcome, RunContext, execute, failed
from harness.evaluation.select import PlannedCell
from harness.evaluation.workers import WorkerContext


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    context: RunContext,
    part: Part = WHOLE_PLAN,
    trainings: Sequence[TrainingJob] = (),
) -> Iterator[Outcome]:
    """Run cells by an engine, and yield an outcome for each.

    Args:
        engine: Runs the jobs.
        cells: The cells, all of which are in `part`.
        context: What the cells share.
        part: The part of the plan that is run. Its sentences are encoded in parallel.
            Others that its cells need are encoded when the cells are measured, if no
            other part has done it by then.
        trainings: The encoders that are trained before their cells are measured.
    """
    # A process takes seconds to start. That is too long for cells that one worker would
    # measure anyway, and this process encodes with all threads. The workers of a cluster
    # run already.
    unit_count = len(units(cells, passes_made=True))
    if isinstance(engine, Processes) and unit_count < 2:
        engine = InProcess()
    # The folder is made by this process: a worker of a cluster might make it on a disk that
    # only the worker sees.
    context.store.folder.mkdir(parents=True, exist_ok=True)
    if part.count == 1 and isinstance(engine, InProcess):
        yield from _execute_in_process(cells, context, trainings)
        return
    worker = WorkerContext.for_run(context, engine.workers)
    training_by_encoder = {training.encoder: training for training in trainings}
    cells_by_encoder: dict[EncoderConfig, list[PlannedCell]] = {}
    for cell in cells:
        cells_by_encoder.setdefault(cell.encoder, []).append(cell)
    jobs: list[RunJob] = []
    for encoder, cells_of_encoder in cells_by_encoder.items():
        training = training_by_encoder.get(encoder)
        if training is None:
            work, outcomes = work_of_encoder(cells_of_encoder, context)
        else:
            work, outcomes = work_after_training(cells_of_encoder, context)
        yield from outcomes
        if work is not None:
            jobs += work.jobs(worker, part, training)
    yield from _outcomes_of_jobs(engine, jobs, worker, context.progress)


def _execute_in_process(
    cells: Sequence[PlannedCell], context: RunContext, trainings: Sequence[TrainingJob]
) -> Iterator[Outcome]:
    """Train all encoders in this process, and then measure, one encoder after the other."""
    if trainings:
        context.progress.phase("training", None)
    untrained_encoders = set()
    for training, problem in run_jobs(InProcess(), trainings):
        if problem is not None:
            cells_of_encoder = [
                cell for cell in cells if cell.encoder == training.encoder
            ]
            yield from failed(cells_of_encoder, training.error(problem))
            untrained_encoders.add(training.encoder)
    runnable_cells = [cell for cell in cells if cell.encoder not in untrained_encoders]
    yield from execute(runnable_cells, context)


def _outcomes_of_jobs(
    engine: Engine, jobs: Sequence[RunJob], worker: WorkerContext, progress: Progress
) -> Iterator[Outcome]:
    """Run the jobs of all encoders, and yield an outcome for each of their cells."""
    results = RunResults(worker)
    phases = PhaseProgress(progress, jobs)
    for job, result in run_jobs(engine, jobs):
        phases.finish(job)
        yield from results.outcomes(job, result)
    # Dask counts the death of a worker against all jobs that it had. Which of them killed
    # it shows when each is run alone.
    for lost_job in results.lost_jobs():
        for job, result in run_jobs(engine, [lost_job]):
            yield from results.outcomes_alone(job, result)


# Results and progress


class RunResults:
    """Makes outcomes of cells from the results of jobs.

    It remembers two things from one result to the next: the errors of trainings that
    failed, and the jobs that were lost because their workers died.
    """

    def __init__(self, worker: WorkerContext) -> None:
        self.worker = worker
        self.training_errors: dict[EncoderConfig, HarnessError] = {}
        self.lost_trainings: list[TrainingJob] = []
        self.lost_measurements: list[MeasuringJob] = []

    def outcomes(self, job: RunJob, result: Any) -> Sequence[Outcome]:
        """The outcomes of a job's cells; none yet if the cells have to be tried again alone."""
        if isinstance(job, EncodingJob):
            return ()  # a cell whose sentences are not encoded does it itself
        if isinstance(job, TrainingJob):
            if isinstance(result, WorkersLost):
                self.lost_trainings.append(job)
            else:
                self._note_training(job, result)
            return ()
        training_is_lost = any(
            training.encoder == job.encoder for training in self.lost_trainings
        )
        if isinstance(result, WorkersLost) or training_is_lost:
            self.lost_measurements.append(job)
            return ()
        return self._measured(job, result)

    def lost_jobs(self) -> list[RunJob]:
        """The lost jobs in their order, to be run one at a time; each measures one cell."""
        trainings = [replace(training, after=()) for training in self.lost_trainings]
        measurements = [
            MeasuringJob.for_unit((cell,), lost_job.identity, self.worker)
            for lost_job in self.lost_measurements
            for cell in lost_job.cells
        ]
        return [*trainings, *measurements]

    def outcomes_alone(self, job: RunJob, result: Any) -> Sequence[Outcome]:
        """The outcomes of a job that was run alone; if it is lost again, it killed its worker."""
        if isinstance(job, EncodingJob):
            return ()
        if isinstance(job, TrainingJob):
            self._note_training(job, result)
            return ()
        if isinstance(result, WorkersLost):
            [cell] = job.cells
            return failed([cell], WorkersLost(f"{cell.address}: {result}"))
        return self._measured(job, result)

    def _note_training(self, job: TrainingJob, problem: Exception | None) -> None:
        """Remember the error of a training that failed; `problem` is its result."""
        if problem is not None:
            self.training_errors[job.encoder] = job.error(problem)

    def _measured(
        self, job: MeasuringJob, outcomes: Sequence[Outcome]
    ) -> Sequence[Outcome]:
        """The outcomes of a job's cells.

        If the training of their encoder failed, they have its error as their outcome,
        which says more than that the encoder is missing.
        """
        error = self.training_errors.get(job.encoder)
        if error is not None:
            return failed(job.cells, error)
        return outcomes


class PhaseProgress:
    """Progress of a run by its phases. It shows the first phase that has unfinished jobs."""

    PHASES = ("training", "encoding", "scoring")

    def __init__(self, progress: Progress, jobs: Iterable[RunJob]) -> None:
        self.progress = progress
        self.unfinished_jobs: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.steps_done: Counter[str] = Counter()
        self.phase = ""
        for job in jobs:
            is_milestone = job.call is None
            if not is_milestone:
                self.unfinished_jobs[job.phase] += 1
                self.steps[job.phase] += job.steps
        self._show_phase()

    def finish(self, job: RunJob) -> None:
        """Count a job that is done."""
        self.unfinished_jobs[job.phase] -= 1
        self.steps_done[job.phase] += job.steps
        if job.phase == self.phase:
            self.progress.step(job.steps)
        self._show_phase()

    def _show_phase(self) -> None:
        """Show the first phase with unfinished jobs, if it is not shown already."""
        for phase in self.PHASES:
            if self.unfinished_jobs[phase] == 0:
                continue
            if phase != self.phase:
                self.phase = phase
                self.progress.phase(phase, self.steps[phase] or None)
                self.progress.step(self.steps_done[phase])
            return
