"""A run in one process: each encoder's sentences are encoded once, then its cells are measured.

Each cell has an outcome: measured now, done before, or not measured, with the reason. A
cell that fails never ends a run: `failures` makes outcomes of any exception. The
traceback of an unexpected exception goes to the log, which `--debug` shows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from time import perf_counter
from typing import Literal

import numpy as np

from harness.core.environment import one_blas_thread
from harness.core.errors import (
    AssetMissing,
    HarnessError,
    ScoreError,
    error_line,
    first_line,
    is_interruption,
)
from harness.core.interfaces import EncoderConfig, Identity, Transform
from harness.core.provenance import plugin_of_error
from harness.core.types import Clock, Method, Progress, Record, Task
from harness.evaluation.cell import EncoderFacts, fit, measure
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.fit_corpus import FitCorpusPass, fit_corpus_passes
from harness.evaluation.fit_vectors import FitCorpusVectors
from harness.evaluation.identity import identity_of
from harness.evaluation.select import PlannedCell
from harness.results.records import Cell
from harness.results.reproduction import MIN_COVERAGE
from harness.results.store import Store
from harness.tasks.loader import CellTexts, TaskLoader, distinct_sentences

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a cell: its record, or why it has none.

    Attributes:
        cell: The address of the cell.
        status: `measured` now, `done` before, or why it has no record.
        record: Its record, if it has one.
        message: Why it has no record; empty if it has one.
        moved: Whether the record is new, or has other scores than the one before.
        exit_status: The exit status of a command that ends with this outcome.
        remedy: The command or step that gets a missing asset; empty if none is missing.
    """

    cell: Cell
    status: Literal["measured", "done", "asset missing", "failed"]
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    remedy: str = ""


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """The outcomes of cells that could not be measured because of an error."""
    status: Literal["asset missing", "failed"] = "failed"
    remedy = ""
    if isinstance(error, AssetMissing):
        status = "asset missing"
        remedy = error.get
    return [
        Outcome(
            cell=cell.address,
            status=status,
            message=first_line(error),
            exit_status=error.exit_status,
            remedy=remedy,
        )
        for cell in cells
    ]


@contextmanager
def failures(cells: Iterable[PlannedCell]) -> Iterator[list[Outcome]]:
    """Context for a step that several cells need, and whose errors are their outcomes.

    It yields a list. After the context the list is empty if the step succeeded. If the
    step raised an error, it holds an outcome with this error for each of the cells, and
    the error is not raised again.
    """
    outcomes: list[Outcome] = []
    try:
        yield outcomes
    except HarnessError as error:
        outcomes += failed(cells, error)
    except BaseException as error:
        # A plug-in may raise anything. Other cells are measured nevertheless.
        if is_interruption(error):
            raise
        LOG.debug("", exc_info=error)
        outcomes += failed(
            cells, HarnessError(error_line(error, plugin_of_error(error)))
        )


def without_outcome(
    cells: Iterable[PlannedCell], outcomes: Iterable[Outcome]
) -> list[PlannedCell]:
    """The cells that have no outcome yet."""
    with_outcome = {outcome.cell for outcome in outcomes}
    return [cell for cell in cells if cell.address not in with_outcome]


@dataclass(frozen=True)
class RunContext:
    """The settings and objects that the cells of a run share.

    Attributes:
        loader: Reads the texts of tasks and corpora.
        store: Holds the records.
        progress: Counts sentences and cells.
        clock: Tells seconds.
        overwrite: Whether cells that are done are measured again.
        workers: How many processes run at the same time. Records hold it, since cells
            take longer with more.
        min_coverage: A cell fails if word vectors have a vector for a smaller share of
            its tokens.
        identities: The identities of encoders whose files the process that started the
            run has read already, so that a worker need not read them for that.
    """

    loader: TaskLoader
    store: Store
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    clock: Clock = perf_counter
    overwrite: bool = False
    workers: int = 1
    min_coverage: float = MIN_COVERAGE
    identities: Mapping[EncoderConfig, Identity] = field(default_factory=dict)


def execute(cells: Sequence[PlannedCell], context: RunContext) -> Iterator[Outcome]:
    """Run the cells and yield an outcome for each. A cell that is done is not run again."""
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        run, outcomes = open_run(tuple(group), context)
        yield from outcomes
        if run is not None:
            yield from run.outcomes()


def open_run(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderRun | None, list[Outcome]]:
    """The run of one encoder's cells, and the outcomes of cells that need no measurement.

    Such cells are done, or cannot run. The run is None if no other cells remain.
    """
    config, places = cells[0].encoder, context.loader.places
    with failures(cells) as outcomes:
        identity = context.identities.get(config)
        encoder = CachedEncoder.open(config, places, context.clock, identity)
    if outcomes:
        return None, outcomes
    texts_by_cell: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        with failures([cell]) as failed_outcomes:
            texts = context.loader.texts(cell.task, cell.method.fit_on)
            outcome = _outcome_if_done(cell, texts, encoder, context)
            if outcome is None:
                texts_by_cell[cell] = texts
            else:
                outcomes.append(outcome)
        outcomes += failed_outcomes
    if not texts_by_cell:
        return None, outcomes
    return EncoderRun(context, encoder, texts_by_cell), outcomes


def _outcome_if_done(
    cell: PlannedCell, texts: CellTexts, encoder: CachedEncoder, context: RunContext
) -> Outcome | None:
    """The outcome of a cell that was measured before; None if it is to be measured."""
    identity = identity_of(cell, texts, encoder.identity.key)
    if context.overwrite or not context.store.is_done(cell.address, identity):
        return None
    record = context.store.read(cell.address)
    if record is not None:
        coverage = record.facts.get("coverage")
        require_coverage(_subject(cell), coverage, context.min_coverage)
    return Outcome(cell=cell.address, status="done", record=record)


def require_coverage(
    subject: str,
    coverage: float | None,
    min_coverage: float,
    option: str = "--min-coverage 0",
) -> None:
    """Raise ScoreError if too few of the tokens of some texts have a vector.

    Args:
        subject: The model and its texts, for the message.
        coverage: The share of tokens that have a vector; None if tokens are not looked
            up one by one.
        min_coverage: The smallest share that is allowed.
        option: What a user writes to allow any share.
    """
    if coverage is not None and coverage < min_coverage:
        raise ScoreError(
            f"{subject}: wanted a vector for {100 * min_coverage:g} % of the tokens, found one for "
            f"{100 * coverage:.1f} %; check the words of the file, or allow it with {option}"
        )


def _subject(cell: PlannedCell) -> str:
    """Encoder and task of a cell, for a message."""
    return f"{cell.encoder.name} on {cell.task.name}"


# The cells of one encoder


@dataclass(frozen=True, eq=False)
class Fit:
    """A method's post-processors as they were fitted, and the seconds that the fit took."""

    transforms: Sequence[Transform] = ()
    seconds: float = 0.0


@dataclass(eq=False)
class EncoderRun:
    """The cells of one encoder that are to be measured.

    Attributes:
        context: What all cells of the run share.
        encoder: The encoder, with its cache.
        texts: The texts of each cell.
        encoder_facts: The facts on the encoder for each task that was measured so far.
        fits: The fits of the method that was measured last, by method and seed. They
            are kept if they are on a corpus, since its other tasks share them.
    """

    context: RunContext
    encoder: CachedEncoder
    texts: Mapping[PlannedCell, CellTexts]
    encoder_facts: dict[Task, EncoderFacts] = field(default_factory=dict)
    fits: dict[tuple[Method, int], Fit] = field(default_factory=dict)

    @property
    def cells(self) -> Sequence[PlannedCell]:
        """The cells, in the plan's order."""
        return tuple(self.texts)

    @property
    def missing(self) -> list[str]:
        """The sentences of the cells that are not encoded yet."""
        return self.encoder.cache.missing(self._sentences(self.cells))

    @cached_property
    def passes(self) -> Mapping[PlannedCell, FitCorpusPass]:
        """The passes over fit corpora that the cells need."""
        fit_corpora = {cell: texts.fit_corpus for cell, texts in self.texts.items()}
        return fit_corpus_passes(self.encoder, fit_corpora, self.context.progress)

    def outcomes(self) -> Iterator[Outcome]:
        """Encode missing sentences, and measure the cells.

        The first two steps concern all cells. A cell for which one of them fails has its
        outcome then, and is not measured.
        """
        name, progress = self.encoder.config.name, self.context.progress
        cells = list(self.cells)
        for preparing_step in (self._encode, self._pass_over_fit_corpora):
            failed_outcomes = preparing_step(cells)
            yield from failed_outcomes
            cells = without_outcome(cells, failed_outcomes)
        if cells:
            progress.phase(f"{name}: scoring", len(cells))
        sentences = self._sentences(cells)
        for pooling, group in groupby(cells, key=lambda cell: cell.method.pooling):
            cells_of_pooling = tuple(group)
            with failures(cells_of_pooling) as failed_outcomes:
                pooled = self.encoder.pooled(pooling, sentences)
            if failed_outcomes:
                yield from failed_outcomes
                continue
            for cell in cells_of_pooling:
                yield self._outcome(cell, pooled)
                progress.step(1)

    def _encode(self, cells: Sequence[PlannedCell]) -> list[Outcome]:
        """Encode missing sentences; returns outcomes of cells whose sentences fail.

        If encoding all of them together fails, the sentences of each task are encoded
        by themselves: a sentence that cannot be encoded fails the cells of its own
        tasks alone.
        """
        progress = self.context.progress
        with failures(cells) as failed_together:
            missing = self.missing
            if missing:
                progress.phase(f"{self.encoder.config.name}: encoding", len(missing))
                self.encoder.ensure(missing, progress)
        if not failed_together:
            return []
        outcomes: list[Outcome] = []
        for texts in dict.fromkeys(self.texts.values()):
            cells_of_texts = [cell for cell in cells if self.texts[cell] is texts]
            with failures(cells_of_texts) as failed_outcomes:
                self.encoder.ensure(self._sentences(cells_of_texts), progress)
            outcomes += failed_outcomes
        return outcomes

    def _pass_over_fit_corpora(self, cells: Sequence[PlannedCell]) -> list[Outcome]:
        """Make the files that cells are fitted from; returns outcomes of cells that have none."""
        outcomes: list[Outcome] = []
        for cell in cells:
            with failures([cell]) as failed_outcomes, one_blas_thread():
                if cell in self.passes:
                    self.passes[cell].vectors(cell.method)
            outcomes += failed_outcomes
        return outcomes

    def _outcome(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Outcome:
        """The outcome of measuring a cell, which may be an error.

        One thread sums, so that a score does not depend on how many cores or workers
        there are.
        """
        with failures([cell]) as outcomes, one_blas_thread():
            outcomes.append(self._measure(cell, pooled))
        [outcome] = outcomes  # of the measurement, or of its error
        return outcome

    def _measure(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Outcome:
        """Fit and measure a cell, and store its record."""
        context, texts = self.context, self.texts[cell]
        identity = identity_of(cell, texts, self.encoder.identity.key)
        encoder_facts = self._encoder_facts(cell.task, texts)
        require_coverage(_subject(cell), encoder_facts.coverage, context.min_coverage)
        fitted = self._fit(cell, pooled)
        measurement = measure(
            cell.task,
            texts.pairs,
            pooled,
            fitted.transforms,
            context.clock,
            texts.labelled,
        )
        record = measurement.record(
            cell,
            identity,
            encoder_facts,
            fit_seconds=fitted.seconds,
            workers=context.workers,
        )
        moved = context.store.write(record, measurement.values, identity)
        return Outcome(cell=cell.address, status="measured", record=record, moved=moved)

    def _encoder_facts(self, task: Task, texts: CellTexts) -> EncoderFacts:
        """The facts on the encoder that the records of a task hold."""
        if task not in self.encoder_facts:
            cache = self.encoder.cache
            sentences = dict.fromkeys(texts.pairs.sentences)
            self.encoder_facts[task] = EncoderFacts(
                identity=self.encoder.identity,
                revision=self.encoder.revision,
                cost=cache.cost(sentences),
                coverage=cache.coverage(sentences),
            )
        return self.encoder_facts[task]

    def _fit(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Fit:
        """Fit a cell's post-processors; a fit on a corpus is kept for its method's other tasks."""
        method, fit_corpus = cell.method, self.texts[cell].fit_corpus
        if fit_corpus is None:
            return Fit()
        key = (method, cell.seed)
        if key in self.fits:
            return self.fits[key]
        if cell in self.passes:
            vectors = self.passes[cell].vectors(method)
        else:
            sentences = tuple(fit_corpus.sentences())
            vectors = FitCorpusVectors.from_embeddings(
                method, pooled, fit_corpus.digest, sentences
            )
        start = self.context.clock()
        transforms = fit(method, vectors, np.random.default_rng(cell.seed))
        seconds = self.context.clock() - start
        fitted = Fit(transforms, seconds=seconds + vectors.seconds)
        if fit_corpus.streams:
            self._keep(key, fitted)
        return fitted

    def _keep(self, key: tuple[Method, int], fitted: Fit) -> None:
        """Keep a fit of a method and seed for the method's other tasks.

        Cells are in the order of methods, so fits of earlier methods are not needed
        again.
        """
        method, _ = key
        for kept_method, kept_seed in list(self.fits):
            if kept_method != method:
                del self.fits[kept_method, kept_seed]
        self.fits[key] = fitted

    def _sentences(self, cells: Collection[PlannedCell]) -> list[str]:
        """The distinct sentences of cells, sorted."""
        return sorted(distinct_sentences(self.texts[cell] for cell in cells))
