"""A run in one process: each encoder's sentences are encoded once, then its cells are measured.

Each cell has an outcome: measured, done before, or not run, with the reason. A cell's
failure never ends a run, whatever its exception: `failures` makes an outcome of it. The
traceback of an unexpected one is a debugging message of the log, which `--debug` shows.
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
    is_interruption,
)
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Identity, Transform
from harness.core.provenance import blamed
from harness.core.types import Clock, Method, Progress, Record, Task
from harness.encoders.function import FunctionConfig
from harness.evaluation.cell import EncoderFacts, fit, measure
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.fit_corpus import FitCorpusPass, fit_corpus_passes
from harness.evaluation.fit_vectors import FitCorpusVectors
from harness.evaluation.identity import identity_of, plugins_of_cell
from harness.evaluation.select import PlannedCell
from harness.plugins import require_digested_code
from harness.results.records import Cell, Store
from harness.results.reproduction import MIN_COVERAGE
from harness.tasks.loader import CellTexts, TaskLoader, distinct_sentences

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a cell.

    Attributes:
        cell: The cell.
        status: Whether it was measured now or before, or why it has no record.
        record: Its record, if it has one.
        message: Why it has none.
        moved: Whether the record is new, or its scores moved.
        exit_status: What it ends a command with.
        get: The command that gets the asset it lacks.
    """

    cell: Cell
    status: Literal["measured", "done", "asset missing", "failed"]
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    get: str = ""


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """An outcome of each of these cells, which an error kept from being measured."""
    is_missing = isinstance(error, AssetMissing)
    return [
        Outcome(
            cell=cell.address,
            status="asset missing" if is_missing else "failed",
            message=str(error),
            exit_status=error.exit_status,
            get=error.get if isinstance(error, AssetMissing) else "",
        )
        for cell in cells
    ]


@contextmanager
def failures(cells: Iterable[PlannedCell]) -> Iterator[list[Outcome]]:
    """Context for a step: if it raises, the list it yields gets a failed outcome for each cell."""
    outcomes: list[Outcome] = []
    try:
        yield outcomes
    except HarnessError as error:
        outcomes += failed(cells, error)
    except BaseException as error:
        if is_interruption(error):
            raise
        LOG.debug("", exc_info=error)
        outcomes += failed(cells, HarnessError(blamed(error) + error_line(error)))


def without_outcome(
    cells: Iterable[PlannedCell], outcomes: Iterable[Outcome]
) -> list[PlannedCell]:
    """The cells that have no outcome yet."""
    settled = {outcome.cell for outcome in outcomes}
    return [cell for cell in cells if cell.address not in settled]


@dataclass(frozen=True)
class RunContext:
    """What the cells of a run share.

    Attributes:
        loader: Reads the texts of tasks and corpora.
        store: Holds the records.
        progress: Counts what is done.
        clock: Tells seconds.
        overwrite: Whether cells that are done are measured again.
        workers: How many processes run at the same time: records say it, since it costs
            time.
        min_coverage: A cell fails if word vectors have a vector for a smaller share of
            its tokens.
        identities: Those of encoders whose files the process that started the run has
            read.
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
    """Run the cells and yield an outcome for each; a cell done here before is not run again."""
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        run, outcomes = open_run(tuple(group), context)
        yield from outcomes
        if run is not None:
            yield from run.outcomes()


def open_run(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[EncoderRun | None, list[Outcome]]:
    """The cells of one encoder that are to be measured, and an outcome of each other.

    These are done, or cannot run; where that are all of them, there is no run.
    """
    config, places = cells[0].encoder, context.loader.places
    with failures(cells) as outcomes:
        identity = context.identities.get(config)
        encoder = CachedEncoder.open(config, places, context.clock, identity)
        by_hand = places.encoders.get(base_name(config.name))
        if by_hand is not None and not isinstance(config, FunctionConfig):
            context.store.note_encoder(base_name(config.name), by_hand.absolute())
    if outcomes:
        return None, outcomes
    texts_of_cells: dict[PlannedCell, CellTexts] = {}
    for cell in cells:
        with failures([cell]) as failing:
            texts = context.loader.texts(cell.task, cell.method.fit_on)
            outcome = _outcome_if_done(cell, texts, encoder, context)
            if outcome is None:
                texts_of_cells[cell] = texts
            else:
                outcomes.append(outcome)
        outcomes += failing
    run = EncoderRun(context, encoder, texts_of_cells) if texts_of_cells else None
    return run, outcomes


def _outcome_if_done(
    cell: PlannedCell, texts: CellTexts, encoder: CachedEncoder, context: RunContext
) -> Outcome | None:
    """The outcome of a cell that was measured before; None if it is to be measured."""
    identity = identity_of(cell, texts, encoder.identity.key)
    if context.overwrite or not context.store.is_done(cell.address, identity):
        return None
    record = context.store.read(cell.address)
    coverage = record.facts.get("coverage") if record else None
    require_coverage(_words_of(cell), coverage, context.min_coverage)
    return Outcome(cell=cell.address, status="done", record=record)


def require_coverage(
    what: str,
    coverage: float | None,
    min_coverage: float,
    option: str = "--min-coverage 0",
) -> None:
    """Raise ScoreError if too few of the tokens of some texts have a vector.

    `option` is what allows any share.
    """
    if coverage is not None and coverage < min_coverage:
        raise ScoreError(
            f"{what}: wanted a vector for {100 * min_coverage:g} % of the tokens, found one for "
            f"{100 * coverage:.1f} %; check the words of the file, or allow it with {option}"
        )


def _words_of(cell: PlannedCell) -> str:
    return f"{cell.encoder.name} on {cell.task.name}"


@dataclass(frozen=True, eq=False)
class Fit:
    """A method's post-processors as they were fitted, and the seconds that they took."""

    transforms: Sequence[Transform] = ()
    seconds: float = 0.0


@dataclass(eq=False)
class EncoderRun:
    """The cells of one encoder that are to be measured.

    Attributes:
        context: What all cells of the run share.
        encoder: The encoder.
        texts: The texts of each cell.
        encoder_facts: Cost and coverage of the sentences of each task.
        fits: The fits of a method on a corpus, by seed, for its other tasks.
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
        """Encode what is missing, and measure the cells."""
        name, progress = self.encoder.config.name, self.context.progress
        cells = list(self.cells)
        for prepare in (self._encode, self._pass_over_fit_corpora):
            failing = prepare(cells)
            yield from failing
            cells = without_outcome(cells, failing)
        if cells:
            progress.phase(f"{name}: scoring", len(cells))
        sentences = self._sentences(cells)
        for pooling, group in groupby(cells, key=lambda cell: cell.method.pooling):
            cells_of_pooling = tuple(group)
            with failures(cells_of_pooling) as failing:
                pooled = self.encoder.pooled(pooling, sentences)
            if failing:
                yield from failing
                continue
            for cell in cells_of_pooling:
                yield self._outcome(cell, pooled)
                progress.step(1)

    def _encode(self, cells: Sequence[PlannedCell]) -> list[Outcome]:
        """Encode the sentences that are missing; an outcome of each cell that lacks one.

        Where encoding all of them fails, those of each text are encoded by themselves.
        """
        progress = self.context.progress
        with failures(cells) as failing:
            missing = self.missing
            if missing:
                progress.phase(f"{self.encoder.config.name}: encoding", len(missing))
                self.encoder.ensure(missing, progress)
        if not failing:
            return []
        outcomes: list[Outcome] = []
        for texts in dict.fromkeys(self.texts.values()):
            cells_of_texts = [cell for cell in cells if self.texts[cell] is texts]
            with failures(cells_of_texts) as failing:
                self.encoder.ensure(self._sentences(cells_of_texts), progress)
            outcomes += failing
        return outcomes

    def _pass_over_fit_corpora(self, cells: Sequence[PlannedCell]) -> list[Outcome]:
        """Make the files that cells are fitted from; an outcome of each cell that lacks one."""
        outcomes: list[Outcome] = []
        for cell in cells:
            with failures([cell]) as failing, one_blas_thread():
                if cell in self.passes:
                    self.passes[cell].vectors(cell.method)
            outcomes += failing
        return outcomes

    def _outcome(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Outcome:
        """Measure a cell, and store its record.

        One thread sums, so that a score does not depend on how many cores or workers
        there are.
        """
        outcomes = []
        with failures([cell]) as failing, one_blas_thread():
            outcomes.append(self._measure(cell, pooled))
        [outcome] = [*outcomes, *failing]
        return outcome

    def _measure(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Outcome:
        context, texts = self.context, self.texts[cell]
        identity = identity_of(cell, texts, self.encoder.identity.key)
        encoder_facts = self._encoder_facts(cell.task, texts)
        require_coverage(_words_of(cell), encoder_facts.coverage, context.min_coverage)
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
        require_digested_code(plugins_of_cell(cell).values())
        moved = context.store.write(record, measurement.values, identity)
        return Outcome(cell=cell.address, status="measured", record=record, moved=moved)

    def _encoder_facts(self, task: Task, texts: CellTexts) -> EncoderFacts:
        if task not in self.encoder_facts:
            cache, distinct = self.encoder.cache, dict.fromkeys(texts.pairs.sentences)
            self.encoder_facts[task] = EncoderFacts(
                identity=self.encoder.identity,
                revision=self.encoder.revision,
                cost=cache.paid(distinct),
                coverage=cache.coverage(distinct),
            )
        return self.encoder_facts[task]

    def _fit(self, cell: PlannedCell, pooled: PooledEmbeddings) -> Fit:
        """Fit a cell's post-processors; a fit on a corpus is kept for its method's other tasks."""
        method, fit_corpus = cell.method, self.texts[cell].fit_corpus
        if fit_corpus is None:
            return Fit()
        key = method, cell.seed
        if key in self.fits:
            return self.fits[key]
        if cell in self.passes:
            vectors = self.passes[cell].vectors(method)
        else:
            sentences = tuple(fit_corpus.sentences())
            digest = fit_corpus.digest
            vectors = FitCorpusVectors.from_embeddings(
                method, pooled, digest, sentences
            )
        start = self.context.clock()
        transforms = fit(method, vectors, np.random.default_rng(cell.seed))
        seconds = self.context.clock() - start + vectors.seconds
        fitted = Fit(transforms, seconds)
        if fit_corpus.streams:
            # Cells are in the order of methods: those of another method are not needed
            # again.
            self.fits = {k: other for k, other in self.fits.items() if k[0] == method}
            self.fits[key] = fitted
        return fitted

    def _sentences(self, cells: Collection[PlannedCell]) -> list[str]:
        """The distinct sentences of cells, sorted."""
        return sorted(distinct_sentences(self.texts[cell] for cell in cells))
