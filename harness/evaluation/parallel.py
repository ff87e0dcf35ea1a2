"""A run on many workers: a graph of jobs for each encoder, and parts of a plan.

Of each encoder, its training comes first; then its sentences are encoded and fit
corpora are passed over, block by block; then each unit of its cells is measured by one
worker. No encoder waits for another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from socket import gethostname
from typing import Any, ClassVar
from uuid import uuid4

from harness.core.environment import one_blas_thread, packages
from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Identity
from harness.core.provenance import code_digest
from harness.core.texts import sentence_key
from harness.core.types import Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import (
    Engine,
    InProcess,
    Job,
    Processes,
    WorkersLost,
    run_jobs,
)
from harness.evaluation.fit_corpus import (
    FitCorpusPass,
    FitCorpusSample,
    fit_corpus_passes,
    needs_pass,
)
from harness.evaluation.run import (
    EncoderRun,
    Outcome,
    RunContext,
    execute,
    failed,
    failures,
    open_run,
)
from harness.evaluation.select import PlannedCell
from harness.results.records import Store
from harness.tasks.loader import TARGETS, CellTexts, TaskLoader, distinct_sentences

# Parts of a plan

POSITIVE_NUMBER = "([1-9][0-9]{0,8})"


@dataclass(frozen=True)
class Part:
    """Part `number` (from 0) of a plan that is split into `count` parts, always in one way."""

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Part:
        """`2/8` is the second of eight, None the whole plan. Raises UsageError."""
        match = re.fullmatch(
            f"{POSITIVE_NUMBER}/{POSITIVE_NUMBER}", "1/1" if text is None else text
        )
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(
                f"--shard {text:.40}: wanted I/N with 1 <= I <= N, as in 2/8"
            )
        return cls(number=int(match[1]) - 1, count=int(match[2]))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of every `count`-th unit, in the plan's order."""
        if self.count == 1:
            return tuple(cells)
        chosen = set(chain(*units(cells)[self.number :: self.count]))
        return tuple(cell for cell in cells if cell in chosen)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """The sentences of this part, by their digests: the progress of other parts moves none."""
        if self.count == 1:
            return list(texts)
        return [text for text in texts if _number(text) % self.count == self.number]


def _number(text: str) -> int:
    """A number that belongs to a sentence."""
    return int.from_bytes(sentence_key(text)[:8])


WHOLE_PLAN = Part()


def units(
    cells: Sequence[PlannedCell], passes_made: bool = False
) -> list[tuple[PlannedCell, ...]]:
    """Cells that one worker measures in turn, since they share embeddings or a fit corpus.

    Those are the cells of an encoder under one pooling, each seed of a seeded method a
    unit of its own. Of fits on a corpus they are all cells of an encoder, whose one
    pass over the corpus serves all poolings, unless the passes are made before.
    """
    cells_by_key: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        streams = method.fit_on is not None and method.fit_on not in TARGETS
        if streams and not passes_made:
            key: tuple[object, ...] = (cell.encoder.name, method.fit_on)
        else:
            seed = (method.id, cell.seed) if method.seeded else None
            key = (cell.encoder.name, method.pooling, seed)
        cells_by_key.setdefault(key, []).append(cell)
    return [tuple(unit) for unit in cells_by_key.values()]


# Jobs


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingJob(Job):
    """A job that trains an encoder; it returns why that failed, or None."""

    encoder: EncoderConfig
    phase: ClassVar[str] = "training"
    steps: ClassVar[int] = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodingJob(Job):
    """A job that encodes sentences for the cache or for a fit. The cells report its errors."""

    steps: int = 0
    phase: ClassVar[str] = "encoding"


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuringJob(Job):
    """A job that measures a unit of cells of an encoder; it returns their outcomes."""

    cells: Sequence[PlannedCell]
    identity: Identity | None
    phase: ClassVar[str] = "scoring"

    @property
    def steps(self) -> int:
        """What progress counts: cells."""
        return len(self.cells)

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder of its cells."""
        return self.cells[0].encoder


RunJob = TrainingJob | EncodingJob | MeasuringJob


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    context: RunContext,
    part: Part = WHOLE_PLAN,
    trainings: Sequence[TrainingJob] = (),
) -> Iterator[Outcome]:
    """Run cells by an engine and yield an outcome for each.

    `cells` are those of the part, whose share of the sentences is encoded before the
    others.
    """
    # A process takes seconds to start: not for cells that one worker would measure
    # anyway, while this process encodes with all threads. The workers of a cluster run
    # already.
    if isinstance(engine, Processes) and len(units(cells, passes_made=True)) < 2:
        engine = InProcess()
    # Or a worker might make a folder that only it sees.
    context.store.folder.mkdir(parents=True, exist_ok=True)
    if part.count == 1 and isinstance(engine, InProcess):
        yield from _execute_here(cells, context, trainings)
        return
    worker = WorkerContext.for_run(context, engine.workers)
    training_of = {training.encoder: training for training in trainings}
    cells_by_encoder: dict[EncoderConfig, list[PlannedCell]] = {}
    for cell in cells:
        cells_by_encoder.setdefault(cell.encoder, []).append(cell)
    jobs: list[RunJob] = []
    for encoder, cells_of_encoder in cells_by_encoder.items():
        training = training_of.get(encoder)
        if training is None:
            work, outcomes = _work_of_encoder(cells_of_encoder, context)
        else:
            work, outcomes = _work_after_training(cells_of_encoder, context)
        yield from outcomes
        if work is not None:
            jobs += work.jobs(worker, part, training)
    results = RunResults(worker)
    phases = PhaseProgress(context.progress, jobs)
    for job, result in run_jobs(engine, jobs):
        phases.finish(job)
        yield from results.outcomes(job, result)
    # Dask blames all jobs of a worker that dies: which of them it was shows when each
    # is alone.
    for lost_job in results.lost_jobs():
        for job, result in run_jobs(engine, [lost_job]):
            yield from results.outcomes_alone(job, result)


def _execute_here(
    cells: Sequence[PlannedCell], context: RunContext, trainings: Sequence[TrainingJob]
) -> Iterator[Outcome]:
    """Train and measure in this process, one encoder after the other."""
    if trainings:
        context.progress.phase("training", None)
    failed_encoders = set()
    for training, problem in run_jobs(InProcess(), trainings):
        if problem is not None:
            error = HarnessError(f"{training.encoder.name}: {problem}")
            yield from failed(
                [c for c in cells if c.encoder == training.encoder], error
            )
            failed_encoders.add(training.encoder)
    yield from execute(
        [cell for cell in cells if cell.encoder not in failed_encoders], context
    )


# The graph of an encoder


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderWork:
    """The sentences and corpora that an encoder has to encode for its cells.

    Attributes:
        cells: The cells to be measured.
        identity: That of the encoder's files, which every worker must find; None before
            a training.
        sentences: The sentences to be encoded.
        passes: The samples of fit corpora to be passed over, each with its cells.
    """

    cells: Sequence[PlannedCell]
    identity: Identity | None
    sentences: Sequence[str]
    passes: Mapping[FitCorpusSample, Sequence[PlannedCell]]

    def jobs(
        self, worker: WorkerContext, part: Part, training: TrainingJob | None
    ) -> list[RunJob]:
        """The encoder's graph of jobs: its training, if any, is before all others."""
        jobs: list[RunJob] = []
        if training is not None:
            training = replace(training, call=partial(_train, worker, training))
            jobs.append(training)
        after = () if training is None else (training,)
        # Blocks of passes take longest, and so come first.
        merging_jobs = []
        for sample, cells in self.passes.items():
            block_jobs = [
                EncodingJob(
                    call=partial(_encode_block, worker, self.identity, cells, block),
                    steps=len(block),
                    after=after,
                )
                for block in sample.blocks
            ]
            merging_job = EncodingJob(
                call=partial(_merge_blocks, worker, self.identity, cells),
                after=block_jobs,
            )
            jobs += block_jobs
            merging_jobs.append(merging_job)
        jobs += self._sentence_jobs(worker, part, after)
        jobs += merging_jobs
        encoded = EncodingJob(after=tuple(jobs))  # a milestone
        measuring_jobs = [
            measuring_job(worker, self.identity, unit, after=(encoded,))
            for unit in units(self.cells, passes_made=True)
        ]
        return [*jobs, encoded, *measuring_jobs]

    def _sentence_jobs(
        self, worker: WorkerContext, part: Part, after: Sequence[Job]
    ) -> list[EncodingJob]:
        """Jobs that encode the part's sentences, similar lengths together."""
        encoder = self.cells[0].encoder
        sentences = sorted(part.texts(self.sentences), key=len)
        shards = [
            sentences[start : start + SHARD]
            for start in range(0, len(sentences), SHARD)
        ]
        return [
            EncodingJob(
                call=partial(_encode, worker, self.identity, encoder, shard),
                steps=len(shard),
                after=after,
            )
            for shard in shards
        ]


def measuring_job(
    worker: WorkerContext,
    identity: Identity | None,
    cells: Sequence[PlannedCell],
    after: Sequence[Job] = (),
) -> MeasuringJob:
    """The job that measures a unit of cells, with the identity that their encoder must have."""
    call = partial(_measure, worker, identity, cells)
    return MeasuringJob(call=call, cells=cells, identity=identity, after=after)


def _work_of_encoder(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderWork | None, list[Outcome]]:
    """The work of an encoder whose files are here, and the outcomes of cells that need no work."""
    run, outcomes = open_run(cells, context)
    if run is None:
        return None, outcomes
    work = EncoderWork(
        cells=run.cells,
        identity=run.encoder.identity,
        sentences=run.missing,
        passes=_missing_passes(run),
    )
    return work, outcomes


def _missing_passes(run: EncoderRun) -> dict[FitCorpusSample, list[PlannedCell]]:
    """The passes of which a file does not exist yet, each with the cells that need it."""
    passes: dict[FitCorpusSample, list[PlannedCell]] = {}
    for cell, corpus_pass in run.passes.items():
        if corpus_pass.missing_files:
            passes.setdefault(corpus_pass.sample, []).append(cell)
    return passes


def _work_after_training(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderWork | None, list[Outcome]]:
    """The work of an encoder that the run trains, and the outcomes of cells that need no work.

    What is done or cached already shows when it is trained: the workers leave that out.
    """
    outcomes: list[Outcome] = []
    texts_of_cells: dict[PlannedCell, CellTexts] = {}
    passes: dict[FitCorpusSample, list[PlannedCell]] = {}
    for cell in cells:
        with failures([cell]) as failing:
            texts = context.loader.texts(cell.task, cell.method.fit_on)
            if texts.fit_corpus is not None and needs_pass(
                cell.method, texts.fit_corpus
            ):
                sample = FitCorpusSample.for_cell(cell, texts.fit_corpus)
                passes.setdefault(sample, []).append(cell)
            texts_of_cells[cell] = texts
        outcomes += failing
    if not texts_of_cells:
        return None, outcomes
    work = EncoderWork(
        cells=tuple(texts_of_cells),
        identity=None,
        sentences=sorted(distinct_sentences(texts_of_cells.values())),
        passes=passes,
    )
    return work, outcomes


# What comes of jobs


class RunResults:
    """The outcomes that follow from the results of jobs.

    It remembers which trainings failed, and which jobs were lost with their workers.
    """

    def __init__(self, worker: WorkerContext) -> None:
        self.worker = worker
        self.training_errors: dict[EncoderConfig, HarnessError] = {}
        self.lost_trainings: list[TrainingJob] = []
        self.lost_units: list[MeasuringJob] = []

    def outcomes(self, job: RunJob, result: Any) -> Sequence[Outcome]:
        """The outcomes of a job's cells; none for cells that are to be tried again alone."""
        if isinstance(job, TrainingJob):
            if isinstance(result, WorkersLost):
                self.lost_trainings.append(job)
            else:
                self._note_training(job, result)
            return ()
        if isinstance(job, EncodingJob):
            return ()  # cells encode what is missing
        waits_for_training = any(
            job.encoder == lost.encoder for lost in self.lost_trainings
        )
        if isinstance(result, WorkersLost) or waits_for_training:
            self.lost_units.append(job)
            return ()
        return self._measured(job, result)

    def lost_jobs(self) -> list[RunJob]:
        """The jobs that were lost, as jobs for one cell each, to be run one after the other."""
        jobs: list[RunJob] = [
            replace(training, after=()) for training in self.lost_trainings
        ]
        for unit in self.lost_units:
            jobs += [
                measuring_job(self.worker, unit.identity, (cell,))
                for cell in unit.cells
            ]
        return jobs

    def outcomes_alone(self, job: RunJob, result: Any) -> Sequence[Outcome]:
        """The outcomes of a job that was run alone: if it is lost again, it is to blame."""
        if isinstance(job, TrainingJob):
            self._note_training(job, result)
            return ()
        if isinstance(job, MeasuringJob) and isinstance(result, WorkersLost):
            [cell] = job.cells
            return failed([cell], WorkersLost(f"{cell.address}: {result}"))
        return self._measured(job, result) if isinstance(job, MeasuringJob) else ()

    def _note_training(self, job: TrainingJob, problem: Any) -> None:
        if problem is not None:
            self.training_errors[job.encoder] = HarnessError(
                f"{job.encoder.name}: {problem}"
            )

    def _measured(
        self, job: MeasuringJob, outcomes: Sequence[Outcome]
    ) -> Sequence[Outcome]:
        """The outcomes of a job's cells; the error of their training says more than theirs."""
        error = self.training_errors.get(job.encoder)
        return outcomes if error is None else failed(job.cells, error)


class PhaseProgress:
    """Progress in the first phase of a run that has jobs left."""

    PHASES = ("training", "encoding", "scoring")

    def __init__(self, progress: Progress, jobs: Iterable[RunJob]) -> None:
        self.progress = progress
        self.jobs_left: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.steps_done: Counter[str] = Counter()
        self.phase = ""
        for job in jobs:
            if job.call is not None:
                self.jobs_left[job.phase] += 1
                self.steps[job.phase] += job.steps
        self._show_phase()

    def finish(self, job: RunJob) -> None:
        """Count a job that is done."""
        self.jobs_left[job.phase] -= 1
        self.steps_done[job.phase] += job.steps
        if job.phase == self.phase:
            self.progress.step(job.steps)
        self._show_phase()

    def _show_phase(self) -> None:
        """Go on to the first phase with jobs left, of which some may be done."""
        unfinished = [phase for phase in self.PHASES if self.jobs_left[phase]]
        if unfinished and unfinished[0] != self.phase:
            self.phase = unfinished[0]
            self.progress.phase(self.phase, self.steps[self.phase] or None)
            self.progress.step(self.steps_done[self.phase])


# In a worker, which keeps the last texts and the last encoder open: jobs mostly follow
# one another


@dataclass(frozen=True)
class WorkerContext:
    """What every worker of a run needs: the run's context, and this process's code and libraries.

    Paths are absolute, since a worker may have been started in another folder. Each run
    has its own name, so that a worker of several keeps nothing of an earlier one.
    """

    context: RunContext = field(compare=False)
    code: str
    libraries: Mapping[str, str | None] = field(default_factory=packages, compare=False)
    run: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def for_run(cls, context: RunContext, workers: int) -> WorkerContext:
        """What the workers of a run need; the texts that were read are not sent to them."""
        loader = TaskLoader(context.loader.places.absolute(), context.loader.corpora)
        store = Store(context.store.folder.absolute())
        sent = replace(
            context, loader=loader, store=store, progress=Progress(), workers=workers
        )
        return cls(context=sent, code=code_digest())

    def require_same_installation(self) -> None:
        """Raise HarnessError for a worker of another version, or without a folder of this run."""
        worker = f"the worker on {gethostname()} has"
        if code_digest() != self.code:
            raise HarnessError(
                f"{worker} other code than this process: install one version"
            )
        for name, version in packages().items():
            if version != self.libraries[name]:
                raise HarnessError(
                    f"{worker} {name} {version}, this process {self.libraries[name]}: "
                    "install one version"
                )
        places, results = self.context.loader.places, self.context.store.folder
        folders = [results, *places.encoders.values()]
        if places.data_dir is not None:
            folders.append(places.data_dir)
        for folder in folders:
            is_empty_data = folder == places.data_dir and not any(folder.glob("*"))
            if not folder.exists() or is_empty_data:
                raise HarnessError(
                    f"{worker} nothing at {folder}: share it under this path"
                )


@lru_cache(maxsize=1)
def _context(worker: WorkerContext) -> RunContext:
    """The run's context, whose loader keeps the texts that this worker has read."""
    worker.require_same_installation()
    return worker.context


@lru_cache(maxsize=1)
def _open_encoder(
    worker: WorkerContext, identity: Identity | None, config: Any
) -> CachedEncoder:
    context = _context(worker)
    return CachedEncoder.open(config, context.loader.places, context.clock, identity)


def _train(worker: WorkerContext, training: TrainingJob) -> Any:
    """Train an encoder; returns why that failed, or None."""
    _context(worker)
    return training.call() if training.call else None


def _encode(
    worker: WorkerContext,
    identity: Identity | None,
    config: Any,
    sentences: Sequence[str],
) -> None:
    """Encode and store sentences. The cells that need them report an error."""
    _context(worker)
    with failures(()):
        _open_encoder(worker, identity, config).ensure(sentences, Progress())


def _encode_block(
    worker: WorkerContext,
    identity: Identity | None,
    cells: Sequence[PlannedCell],
    block: range,
) -> None:
    """Encode a block of the pass that cells share. The cells report an error."""
    _context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _pass(worker, identity, cells)
        corpus_pass.encode_block(block, corpus_pass.missing_files)


def _merge_blocks(
    worker: WorkerContext, identity: Identity | None, cells: Sequence[PlannedCell]
) -> None:
    """Merge the blocks of the pass that cells share. The cells report an error."""
    _context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _pass(worker, identity, cells)
        corpus_pass.merge_blocks(corpus_pass.missing_files)


def _pass(
    worker: WorkerContext, identity: Identity | None, cells: Sequence[PlannedCell]
) -> FitCorpusPass:
    """The pass that cells share."""
    config: Any = cells[0].encoder
    loader, encoder = _context(worker).loader, _open_encoder(worker, identity, config)
    fit_corpora = {
        cell: loader.texts(cell.task, cell.method.fit_on).fit_corpus for cell in cells
    }
    return fit_corpus_passes(encoder, fit_corpora, Progress())[cells[0]]


def _measure(
    worker: WorkerContext, identity: Identity | None, unit: Sequence[PlannedCell]
) -> list[Outcome]:
    """Measure cells that share embeddings."""
    context = _context(worker)
    if identity is not None:
        context = replace(context, identities={unit[0].encoder: identity})
    return list(execute(unit, context))
