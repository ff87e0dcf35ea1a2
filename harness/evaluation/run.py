"""A run: each encoder's sentences are encoded once, then its cells are measured.

Each cell has an outcome: measured now, done before, or not measured, with the reason. A
cell that fails never ends a run: `failures` makes outcomes of any exception. The
traceback of an unexpected exception goes to the log, which `--debug` shows.

One process measures one encoder after the other. Several processes encode the sentences
of all encoders first, then measure. Sentences that cannot be encoded then are encoded
again with the cells that need them, whose outcome is the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import Any, Literal
from uuid import uuid4

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
from harness.core.interfaces import Identity, Transform
from harness.core.provenance import plugin_of_error
from harness.core.types import Method, Progress, Record, Task
from harness.data.tasks.loader import CellTexts, TaskLoader, distinct_sentences
from harness.encoders.encodings import EncodingCost
from harness.evaluation.cell import fit, identity_of, measure, record_of
from harness.evaluation.embeddings import SHARD, CachedEncoder, PooledEmbeddings
from harness.evaluation.fit_corpus import (
    FitCorpusPass,
    FitCorpusSample,
    needs_pass,
    vectors_of,
)
from harness.evaluation.processes import Jobs, results_of
from harness.evaluation.select import MIN_COVERAGE, PlannedCell, units
from harness.results.records import Cell
from harness.results.store import Store

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a cell: its record, or why it has none.

    Attributes:
        cell: The address of the cell.
        status: `measured` now, `done` before, or why it has no record.
        record: Its record, if it has one.
        message: Why it has no record; empty if it has one.
        exit_status: The exit status of a command that ends with this outcome.
        remedy: The command or step that gets a missing asset; empty if none is missing.
    """

    cell: Cell
    status: Literal["measured", "done", "asset missing", "failed"]
    record: Record | None = None
    message: str = ""
    exit_status: int = 0
    remedy: str = ""


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """The outcomes of cells that could not be measured because of an error."""
    is_missing = isinstance(error, AssetMissing)
    return [
        Outcome(
            cell=cell.address,
            status="asset missing" if is_missing else "failed",
            message=first_line(error),
            exit_status=error.exit_status,
            remedy=error.get if isinstance(error, AssetMissing) else "",
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


@dataclass(frozen=True)
class RunContext:
    """The settings and objects that the cells of a run share.

    Attributes:
        loader: Reads the texts of tasks and corpora.
        store: Holds the records.
        progress: Counts sentences and cells.
        overwrite: Whether cells that are done are measured again.
        workers: How many processes run at the same time. Records hold it, since cells
            take longer with more.
        min_coverage: A cell fails if word vectors have a vector for a smaller share of
            its tokens.
    """

    loader: TaskLoader
    store: Store
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    overwrite: bool = False
    workers: int = 1
    min_coverage: float = MIN_COVERAGE


def execute(
    cells: Sequence[PlannedCell], context: RunContext, jobs: Jobs = 1
) -> Iterator[Outcome]:
    """Run cells, and yield an outcome for each. A cell that is done is not run again.

    Args:
        cells: The cells, in an order in which the cells of an encoder follow each other.
        context: What the cells share.
        jobs: The number of processes, or the scheduler whose workers are taken instead.
    """
    groups = [tuple(group) for _, group in groupby(cells, attrgetter("encoder"))]
    # A process takes seconds to start. That is too long for cells that one process would
    # measure anyway, and this process encodes with all threads.
    if jobs != 1 and len(units(cells)) > 1:
        yield from _execute_in_processes(groups, context, jobs)
        return
    for group in groups:
        run, outcomes = open_run(group, context)
        yield from outcomes
        if run is not None:
            run.encode()
            name = run.encoder.config.name
            context.progress.phase(f"{name}: scoring", len(run.texts))
            for unit in units(run.texts):
                for outcome in run.measured(unit):
                    context.progress.step(1)
                    yield outcome


def open_run(
    cells: Sequence[PlannedCell], context: RunContext, identity: Identity | None = None
) -> tuple[EncoderRun | None, list[Outcome]]:
    """The run of one encoder's cells, and the outcomes of cells that need no measurement.

    Such cells are done, or cannot run. The run is None if no other cells remain.
    `identity` is the encoder's, if its files were read already.
    """
    loader, store = context.loader, context.store
    with failures(cells) as outcomes:
        encoder = CachedEncoder.open(cells[0].encoder, loader.places, identity)
    if outcomes:
        return None, outcomes
    texts_by_cell: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        with failures([cell]) as failed_outcomes:
            texts = loader.texts(cell.task, cell.method.fit_on)
            cell_identity = identity_of(cell, texts, encoder.identity.key)
            if context.overwrite or not store.is_done(cell.address, cell_identity):
                texts_by_cell[cell] = texts
                continue
            record = store.read(cell.address)
            if record is not None:
                coverage = record.facts.get("coverage")
                subject = f"{cell.encoder.name} on {cell.task.name}"
                require_coverage(subject, coverage, context.min_coverage)
            outcomes.append(Outcome(cell=cell.address, status="done", record=record))
        outcomes += failed_outcomes
    if not texts_by_cell:
        return None, outcomes
    return EncoderRun(context, encoder, texts_by_cell), outcomes


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


# The cells of one encoder


@dataclass(frozen=True, eq=False)
class FittedTransforms:
    """The maps of a cell as they were fitted.

    Attributes:
        identity: The identity of the cell's encoder.
        transforms: The maps, in order.
        fitted_on: The sha256 of the sentences that they were fitted on; None without
            any.
        seconds: The seconds that the fit took.
    """

    identity: Identity
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None
    seconds: float = 0.0


@dataclass(eq=False)
class EncoderRun:
    """The cells of one encoder that are to be measured.

    Attributes:
        context: What all cells of the run share.
        encoder: The encoder, with its cache.
        texts: The texts of each cell.
        costs: What encoding the sentences of each task took, for the tasks that were
            measured so far.
        fits: The fits on corpora, by method and seed, of the cells that are measured
            together.
    """

    context: RunContext
    encoder: CachedEncoder
    texts: Mapping[PlannedCell, CellTexts]
    costs: dict[Task, EncodingCost] = field(default_factory=dict)
    fits: dict[tuple[Method, int], FittedTransforms] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The sentences of the cells that are not encoded yet."""
        sentences = sorted(distinct_sentences(self.texts.values()))
        return self.encoder.cache.missing(sentences)

    @cached_property
    def passes(self) -> Mapping[FitCorpusSample, FitCorpusPass]:
        """The pass over each sample of a fit corpus that the cells need."""
        folder, key = self.encoder.folder, self.encoder.identity.key
        passes: dict[FitCorpusSample, FitCorpusPass] = {}
        for cell, texts in self.texts.items():
            corpus = texts.fit_corpus
            if corpus is not None and needs_pass(cell.method, corpus):
                sample = FitCorpusSample.of(cell.method, cell.seed, corpus)
                corpus_pass = passes.setdefault(sample, FitCorpusPass(sample))
                file = sample.file(folder, key, cell.method)
                corpus_pass.methods[file] = cell.method
        return passes

    def encode(self) -> None:
        """Encode the sentences of the cells that are missing in the cache."""
        missing, progress = self.missing, self.context.progress
        if missing:
            progress.phase(f"{self.encoder.config.name}: encoding", len(missing))
            with failures(()):
                self.encoder.ensure(missing, progress)

    def measured(self, cells: Sequence[PlannedCell]) -> Iterator[Outcome]:
        """Measure cells that share a pooling, those of the same texts together.

        A sentence that cannot be encoded fails the cells of its own texts alone.
        """
        self.fits.clear()
        cells_by_texts: dict[CellTexts, list[PlannedCell]] = {}
        for cell in cells:
            cells_by_texts.setdefault(self.texts[cell], []).append(cell)
        for texts, cells_of_texts in cells_by_texts.items():
            with failures(cells_of_texts) as outcomes:
                sentences = sorted(texts.sentences)
                self.encoder.ensure(sentences, self.context.progress)
                pooled = self.encoder.pooled(cells[0].method.pooling, sentences)
            yield from outcomes
            for cell in () if outcomes else cells_of_texts:
                # One thread sums, so that a score does not depend on how many cores or
                # workers there are.
                with failures([cell]) as outcome, one_blas_thread():
                    outcome.append(self._measured(cell, pooled))
                yield from outcome

    def _measured(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Outcome:
        """Fit and measure a cell, and store its record."""
        context, encoder = self.context, self.encoder
        texts = self.texts[cell]
        if cell.task not in self.costs:
            sentences = list(dict.fromkeys(texts.pairs.sentences))
            self.costs[cell.task] = encoder.cache.cost(sentences)
        cost = self.costs[cell.task]
        subject = f"{cell.encoder.name} on {cell.task.name}"
        require_coverage(subject, cost.coverage, context.min_coverage)
        fitted = self.fitted(cell, pooled)
        measurement = measure(
            cell.task, texts.pairs, pooled, fitted.transforms, texts.labelled
        )
        identity = identity_of(cell, texts, encoder.identity.key)
        record = record_of(
            cell,
            identity,
            measurement,
            encoder,
            cost,
            fit_seconds=fitted.seconds,
            workers=context.workers,
        )
        context.store.write(record, measurement.values, identity)
        return Outcome(cell=cell.address, status="measured", record=record)

    def fitted(
        self, cell: PlannedCell, pooled: PooledEmbeddings | None = None
    ) -> FittedTransforms:
        """Fit a cell's post-processors; a fit on a corpus is kept for its method's other tasks.

        `pooled` has the sentences of the task; without it they are read from the cache if
        the fit needs them, and missing ones are encoded first.
        """
        method, fit_corpus = cell.method, self.texts[cell].fit_corpus
        if fit_corpus is None:
            return FittedTransforms(self.encoder.identity)
        if (method, cell.seed) in self.fits:
            return self.fits[method, cell.seed]
        sample = FitCorpusSample.of(method, cell.seed, fit_corpus)
        if sample in self.passes:
            progress = self.context.progress
            vectors, seconds = self.passes[sample].vectors(
                method, self.encoder, progress
            )
        else:
            sentences = tuple(fit_corpus.sentences())
            if pooled is None:
                distinct = sorted(set(sentences))
                self.encoder.ensure(distinct, self.context.progress)
                pooled = self.encoder.pooled(method.pooling, distinct)
            vectors, seconds = vectors_of(method, pooled, sentences, fit_corpus.digest)
        start = perf_counter()
        rng = np.random.default_rng(cell.seed)
        transforms = fit(method.post, vectors, rng, sample.share)
        seconds += perf_counter() - start
        fitted = FittedTransforms(
            self.encoder.identity, transforms, sample.digest, seconds
        )
        if fit_corpus.streams:
            self.fits[method, cell.seed] = fitted
        return fitted


def fit_cell(
    cell: PlannedCell,
    loader: TaskLoader,
    progress: Progress,
    encoder: CachedEncoder | None = None,
) -> FittedTransforms:
    """Fit the maps of a cell as a run does, with the same cache.

    Args:
        cell: The cell.
        loader: Reads the sentences that it is fitted on.
        progress: Counts the sentences that are encoded.
        encoder: The encoder of the cell, if it is open already.
    """
    if encoder is None:
        encoder = CachedEncoder.open(cell.encoder, loader.places)
    texts = loader.texts(cell.task, cell.method.fit_on)
    context = RunContext(loader, Store(loader.places.cache), progress)
    with one_blas_thread():
        return EncoderRun(context, encoder, {cell: texts}).fitted(cell)


# Several processes


@dataclass(frozen=True)
class SentRun:
    """A run as it is sent to processes, which keep what they read for its later calls.

    Attributes:
        context: The context of the run, without the texts that were read.
        name: A name that no other run has, by which a process knows what it keeps.
    """

    context: RunContext = field(compare=False)
    name: str = field(default_factory=lambda: uuid4().hex)


def _execute_in_processes(
    groups: Iterable[tuple[PlannedCell, ...]], context: RunContext, jobs: Jobs
) -> Iterator[Outcome]:
    """Run the cells of several encoders in processes: encode for all cells, then measure."""
    loader, progress = context.loader, context.progress
    sent = SentRun(
        replace(
            context,
            # A worker of a cluster may have been started in another folder.
            loader=TaskLoader(loader.places.absolute(), loader.corpora),
            store=Store(context.store.folder.absolute()),
            progress=Progress(),
            workers=jobs if isinstance(jobs, int) else 1,
        )
    )
    passes: list[FitCorpusPass] = []
    encode_calls: list[Callable[[], int]] = []
    measure_calls: list[Callable[[], list[Outcome]]] = []
    sentence_count = cell_count = 0
    for group in groups:
        run, outcomes = open_run(group, context)
        yield from outcomes
        if run is None:
            continue
        config: Any = run.encoder.config
        identity = run.encoder.identity
        opened = partial(_opened, sent, config, identity)
        sentences = sorted(run.missing, key=len)
        for start in range(0, len(sentences), SHARD):
            shard = sentences[start : start + SHARD]
            encode_calls.append(partial(_encode, opened, shard))
        sentence_count += len(sentences)
        for corpus_pass in run.passes.values():
            passes.append(corpus_pass)
            for block in corpus_pass.sample.blocks if corpus_pass.missing else ():
                encode_calls.append(partial(_encode_block, opened, corpus_pass, block))
                sentence_count += len(block)
        for unit in units(run.texts):
            measure_calls.append(partial(_measure, sent, identity, unit))
        cell_count += len(run.texts)
    if encode_calls:
        progress.phase("encoding", sentence_count)
    for count in results_of(encode_calls, jobs):
        progress.step(count)
    for corpus_pass in passes:
        with failures(()), one_blas_thread():
            corpus_pass.merge()
    progress.phase("scoring", cell_count)
    for outcomes in results_of(measure_calls, jobs):
        yield from outcomes
        progress.step(len(outcomes))


# The calls of a process


@lru_cache(maxsize=1)
def _context(sent: SentRun) -> RunContext:
    """The context of a run, whose loader keeps the texts that this process reads."""
    return sent.context


@lru_cache(maxsize=1)
def _opened(sent: SentRun, config: Any, identity: Identity) -> CachedEncoder:
    """An encoder with its cache; a process keeps the last one."""
    return CachedEncoder.open(config, sent.context.loader.places, identity)


def _encode(opened: Callable[[], CachedEncoder], sentences: Sequence[str]) -> int:
    """Encode sentences, and store them in the cache; returns how many they are."""
    with failures(()):
        opened().ensure(sentences, Progress())
    return len(sentences)


def _encode_block(
    opened: Callable[[], CachedEncoder], corpus_pass: FitCorpusPass, block: range
) -> int:
    """Encode a block of a pass over a corpus; returns its length."""
    with failures(()), one_blas_thread():
        corpus_pass.encode(block, opened())
    return len(block)


def _measure(
    sent: SentRun, identity: Identity, cells: Sequence[PlannedCell]
) -> list[Outcome]:
    """Measure cells of one encoder."""
    run, outcomes = open_run(cells, _context(sent), identity)
    if run is not None:
        outcomes += run.measured(tuple(run.texts))
    return outcomes
