"""The work of one encoder as a graph of jobs: train, encode, pass over corpora, measure.

`EncoderWork` holds what the encoder has to encode for its cells, and makes the jobs. Its
training comes first, if the run trains it. Then sentences are encoded, and samples of fit
corpora, block by block. Then each unit of its cells is measured by one worker. The calls
that the jobs make in a worker are in `workers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig, Identity
from harness.evaluation.embeddings import SHARD
from harness.evaluation.engines import Job
from harness.evaluation.fit_corpus import FitCorpusSample, needs_pass
from harness.evaluation.plan_parts import Part, units
from harness.evaluation.run import EncoderRun, Outcome, RunContext, failures, open_run
from harness.evaluation.select import PlannedCell
from harness.evaluation.workers import (
    WorkerContext,
    encode_block_in_worker,
    encode_in_worker,
    measure_in_worker,
    merge_blocks_in_worker,
    train_in_worker,
)
from harness.tasks.loader import CellTexts, distinct_sentences

# Jobs


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingJob(Job):
    """A job that trains an encoder. It returns the error of a training that failed, or None.

    Attributes:
        encoder: The encoder that is trained.
        call: Trains it.
        phase: The phase of a run in which progress counts the job.
        steps: The steps that progress counts when it is done: none, since the length of a
            training is not known.
    """

    encoder: EncoderConfig
    call: Callable[[], HarnessError | None]
    phase: ClassVar[str] = "training"
    steps: ClassVar[int] = 0

    def error(self, problem: Exception) -> HarnessError:
        """The error of cells whose encoder could not be trained, for this reason."""
        return HarnessError(f"{self.encoder.name}: {problem}")


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodingJob(Job):
    """A job that encodes sentences, for the cache or for a fit. It returns nothing.

    Attributes:
        steps: The sentences that progress counts when it is done.
        phase: The phase of a run in which progress counts the job.
    """

    steps: int = 0
    phase: ClassVar[str] = "encoding"


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuringJob(Job):
    """A job that measures a unit of cells of one encoder. It returns their outcomes.

    Attributes:
        cells: The cells.
        identity: The identity that the encoder's files must have; None for an encoder
            that the run trains.
        phase: The phase of a run in which progress counts the job.
    """

    cells: Sequence[PlannedCell]
    identity: Identity | None
    phase: ClassVar[str] = "scoring"

    @classmethod
    def for_unit(
        cls,
        cells: Sequence[PlannedCell],
        identity: Identity | None,
        worker: WorkerContext,
        after: Sequence[Job] = (),
    ) -> MeasuringJob:
        """The job that measures a unit in a worker, after other jobs."""
        call = partial(measure_in_worker, worker, identity, cells)
        return cls(call=call, after=after, cells=cells, identity=identity)

    @property
    def steps(self) -> int:
        """The cells that progress counts when it is done."""
        return len(self.cells)

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder of its cells."""
        return self.cells[0].encoder


RunJob = TrainingJob | EncodingJob | MeasuringJob


# Work


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderWork:
    """The sentences and corpora that an encoder has to encode for its cells.

    Attributes:
        cells: The cells to be measured.
        identity: The identity of the encoder's files, which every worker must find;
            None for an encoder that the run trains.
        sentences: The sentences to be encoded.
        passes: The samples of fit corpora to be passed over, each with its cells.
    """

    cells: Sequence[PlannedCell]
    identity: Identity | None
    sentences: Sequence[str]
    passes: Mapping[FitCorpusSample, Sequence[PlannedCell]]

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder."""
        return self.cells[0].encoder

    def jobs(
        self, worker: WorkerContext, part: Part, training: TrainingJob | None
    ) -> list[RunJob]:
        """The encoder's graph of jobs.

        Its training, if there is one, comes before all others, and the measurements of
        its cells come after all others.
        """
        first_jobs: list[TrainingJob] = []
        if training is not None:
            call = partial(train_in_worker, worker, training.call)
            first_jobs.append(replace(training, call=call))
        block_jobs, merging_jobs = self._pass_jobs(worker, after=first_jobs)
        sentence_jobs = self._sentence_jobs(worker, part, after=first_jobs)
        # Engines start jobs in this order where they can. A block takes longest.
        encoding_jobs = [*block_jobs, *sentence_jobs, *merging_jobs]
        everything_encoded = EncodingJob(after=(*first_jobs, *encoding_jobs))
        measuring_jobs = [
            MeasuringJob.for_unit(
                unit, self.identity, worker, after=(everything_encoded,)
            )
            for unit in units(self.cells, passes_made=True)
        ]
        return [*first_jobs, *encoding_jobs, everything_encoded, *measuring_jobs]

    def _pass_jobs(
        self, worker: WorkerContext, after: Sequence[Job]
    ) -> tuple[list[EncodingJob], list[EncodingJob]]:
        """The jobs that encode blocks of samples of corpora, and the jobs that merge the blocks."""
        block_jobs: list[EncodingJob] = []
        merging_jobs: list[EncodingJob] = []
        for sample, cells in self.passes.items():
            block_jobs_of_pass = [
                EncodingJob(
                    call=partial(
                        encode_block_in_worker, worker, self.identity, cells, block
                    ),
                    steps=len(block),
                    after=after,
                )
                for block in sample.blocks
            ]
            merging_job = EncodingJob(
                call=partial(merge_blocks_in_worker, worker, self.identity, cells),
                after=block_jobs_of_pass,
            )
            block_jobs += block_jobs_of_pass
            merging_jobs.append(merging_job)
        return block_jobs, merging_jobs

    def _sentence_jobs(
        self, worker: WorkerContext, part: Part, after: Sequence[Job]
    ) -> list[EncodingJob]:
        """The jobs that encode the part's sentences, in groups of similar length."""
        sentences = sorted(part.texts(self.sentences), key=len)
        jobs = []
        for start in range(0, len(sentences), SHARD):
            shard = sentences[start : start + SHARD]
            call = partial(encode_in_worker, worker, self.identity, self.encoder, shard)
            jobs.append(EncodingJob(call=call, steps=len(shard), after=after))
        return jobs


def work_of_encoder(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderWork | None, list[Outcome]]:
    """The work of an encoder whose files are on this machine, and outcomes without work.

    The outcomes are of cells that are done or cannot run. The work is None if no other
    cell remains.
    """
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
    """The samples whose passes have not made all files yet, each with the cells that need it."""
    cells_by_sample: dict[FitCorpusSample, list[PlannedCell]] = {}
    for cell, corpus_pass in run.passes.items():
        if corpus_pass.missing_files:
            cells_by_sample.setdefault(corpus_pass.sample, []).append(cell)
    return cells_by_sample


def work_after_training(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderWork | None, list[Outcome]]:
    """The work of an encoder that the run trains, and the outcomes of cells that cannot run.

    Only the trained encoder tells which cells are done and which sentences are cached.
    So the work has all of them, and a worker skips what it finds done.
    """
    outcomes: list[Outcome] = []
    texts_by_cell: dict[PlannedCell, CellTexts] = {}
    cells_by_sample: dict[FitCorpusSample, list[PlannedCell]] = {}
    for cell in cells:
        with failures([cell]) as failed_outcomes:
            texts = context.loader.texts(cell.task, cell.method.fit_on)
            fit_corpus = texts.fit_corpus
            if fit_corpus is not None and needs_pass(cell.method, fit_corpus):
                sample = FitCorpusSample.for_cell(cell, fit_corpus)
                cells_by_sample.setdefault(sample, []).append(cell)
            texts_by_cell[cell] = texts
        outcomes += failed_outcomes
    if not texts_by_cell:
        return None, outcomes
    work = EncoderWork(
        cells=tuple(texts_by_cell),
        identity=None,
        sentences=sorted(distinct_sentences(texts_by_cell.values())),
        passes=cells_by_sample,
    )
    return work, outcomes
