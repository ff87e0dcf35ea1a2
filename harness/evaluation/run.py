"""A run: the sentences of all cells are encoded once, then the cells are measured.

Each cell has an outcome: measured now, done before, or not measured, with the reason. A
cell that fails never ends a run: `failures` makes outcomes of any exception. The
traceback of an unexpected exception goes to the log, which `--debug` shows.

One process makes the calls that are otherwise sent to several. Sentences that cannot be
encoded are encoded again with the cells that need them, whose outcome is the error.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

from harness.core.environment import one_blas_thread
from harness.core.errors import (
    AssetMissing,
    HarnessError,
    ScoreError,
    error_line,
    first_line,
    is_interruption,
)
from harness.core.interfaces import EncoderConfig, Identity
from harness.core.provenance import plugin_of_error
from harness.core.types import Method, Progress, Record, Task
from harness.data.tasks.loader import CellTexts, TaskLoader
from harness.evaluation.cell import identity_of, measure, record_of
from harness.evaluation.embeddings import (
    SENTENCE_TOKENS,
    SHARD,
    CachedEncoder,
    missing_sentences,
)
from harness.evaluation.fits import (
    CellProgress,
    FitCorpusSample,
    FittedTransforms,
    fitted_transforms,
    needs_pass,
)
from harness.evaluation.processes import Jobs, results_of
from harness.evaluation.select import (
    MIN_COVERAGE,
    PlannedCell,
    fits_without_pass,
    run_order,
    units,
)
from harness.results.records import Cell
from harness.results.store import Store

LOG = logging.getLogger(__name__)

# An encoder's configuration, and the identity of its files as the run has read them.
Opened = tuple[EncoderConfig, Identity]


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


@dataclass
class RunContext:
    """The settings and objects that the cells of a run share.

    A process to which it is sent keeps it, with the texts and the encoder that it reads.

    Attributes:
        loader: Reads the texts of tasks and corpora.
        store: Holds the records.
        progress: Counts sentences and cells.
        overwrite: Whether cells that are done are measured again.
        workers: How many processes run at the same time. Records hold it, since cells
            take longer with more.
        min_coverage: A cell fails if word vectors have a vector for a smaller share of
            its tokens.
        last_encoder: The encoder that was used last: one is in memory at a time.
    """

    loader: TaskLoader
    store: Store
    progress: Progress = field(default_factory=Progress)
    overwrite: bool = False
    workers: int = 1
    min_coverage: float = MIN_COVERAGE
    last_encoder: CachedEncoder | None = None

    def encoder(
        self, config: EncoderConfig, identity: Identity | None = None
    ) -> CachedEncoder:
        """An encoder with its cache. `identity` is given if its files were read already."""
        if self.last_encoder is None or self.last_encoder.config != config:
            places = self.loader.places
            self.last_encoder = CachedEncoder.open(config, places, identity)
        return self.last_encoder

    def shared(self, jobs: Jobs) -> RunContext:
        """The context of the calls of several processes, without what this process has read."""
        if jobs == 1:
            return self
        return replace(
            self,
            # A worker of a cluster may have been started in another folder.
            loader=TaskLoader(self.loader.places.absolute(), self.loader.corpora),
            store=Store(self.store.folder.absolute()),
            progress=self.progress.of_worker(),
            workers=jobs if isinstance(jobs, int) else 1,
            last_encoder=None,
        )


def execute(
    cells: Sequence[PlannedCell], context: RunContext, jobs: Jobs = 1
) -> Iterator[Outcome]:
    """Run cells, and yield an outcome for each. A cell that is done is not run again.

    Cells whose fits encode sentences of their own, which may take hours, come last: a run
    that is ended before has all others.

    Args:
        cells: The cells, in any order; they are run in `run_order`.
        context: What the cells share.
        jobs: The number of processes, or the scheduler whose workers are taken instead.
    """
    for has_quick_fits in (True, False):
        part = [
            cell for cell in cells if fits_without_pass(cell.method) is has_quick_fits
        ]
        yield from _execute_part(part, context, jobs)


def _execute_part(
    cells: Sequence[PlannedCell], context: RunContext, jobs: Jobs
) -> Iterator[Outcome]:
    """Encode what cells lack, and measure them, as `execute` does."""
    loader, progress = context.loader, context.progress
    encode_calls: list[Callable[[RunContext], Iterator[int]]] = []
    # Of an encoder under several maximum lengths the longest encodes first, and the others
    # in turns of their own: what none of them cuts is encoded once.
    turns: Counter[str | None] = Counter()
    later_turns: dict[int, list[tuple[Opened, Mapping[PlannedCell, CellTexts]]]] = {}
    measure_calls: list[Callable[[RunContext], Iterator[Outcome]]] = []
    passes: list[tuple[FitCorpusSample, dict[Path, Method]]] = []
    token_count = cell_count = 0
    cells = sorted(cells, key=run_order)
    for config, group in groupby(cells, attrgetter("encoder")):
        to_measure, outcomes = _cells_to_measure([*group], context)
        yield from outcomes
        if not to_measure:
            continue
        encoder = context.encoder(config)
        opened = (config, encoder.identity)
        texts_by_cell = {
            cell: loader.texts(cell.task, cell.method.fit_on) for cell in to_measure
        }
        shared_key = encoder.identity.shared_key
        turn = turns[shared_key] if shared_key else 0
        turns[shared_key] += 1
        if turn:
            later_turns.setdefault(turn, []).append((opened, texts_by_cell))
        else:
            calls, tokens = _calls_of_missing(encoder, texts_by_cell)
            encode_calls += calls
            token_count += tokens
        methods_by_sample: dict[FitCorpusSample, dict[Path, Method]] = {}
        for cell, texts in texts_by_cell.items():
            if texts.fit_corpus and needs_pass(cell.method, texts.fit_corpus):
                sample = FitCorpusSample.of(cell.method, cell.seed, texts.fit_corpus)
                file = sample.file(encoder.folder, encoder.identity.key, cell.method)
                if not file.exists():
                    methods_by_sample.setdefault(sample, {})[file] = cell.method
        for sample, methods in methods_by_sample.items():
            for block in sample.blocks:
                call = partial(_encode_block, opened, sample, methods, block)
                encode_calls.append(call)
            token_count += sample.size * SENTENCE_TOKENS
            passes.append((sample, methods))
        for unit in units(to_measure):
            measure_calls.append(partial(_measure, opened, unit))
        cell_count += len(to_measure)
    # A process takes seconds to start. That is too long for cells that one process would
    # measure anyway, and this process encodes with all threads.
    if len(measure_calls) < 2:
        jobs = 1
    _encode_all(encode_calls, token_count, jobs, context)
    for _, encoders in sorted(later_turns.items()):
        encode_calls, token_count = [], 0
        for opened, texts_of_encoder in encoders:
            context.last_encoder = None  # open the caches of longer lengths anew
            encoder = context.encoder(*opened)
            calls, tokens = _calls_of_missing(encoder, texts_of_encoder)
            encode_calls += calls
            token_count += tokens
        _encode_all(encode_calls, token_count, jobs, context)
    for sample, methods in passes:
        with failures(()), one_blas_thread():
            sample.merge(methods)
    if measure_calls:
        progress.phase("scoring", cell_count)
    for outcomes_of_unit in results_of(measure_calls, jobs, context.shared(jobs)):
        for outcome in outcomes_of_unit:
            progress.step(1)
            yield outcome


def _calls_of_missing(
    encoder: CachedEncoder, texts_by_cell: Mapping[PlannedCell, CellTexts]
) -> tuple[list[Callable[[RunContext], Iterator[int]]], int]:
    """The calls that encode the sentences that are not cached, and their tokens, roughly."""
    read = ((cell.method.pooling, texts) for cell, texts in texts_by_cell.items())
    missing, statistics = missing_sentences(encoder.cache, read)
    missing.sort(key=len)
    opened = (encoder.config, encoder.identity)
    calls: list[Callable[[RunContext], Iterator[int]]] = []
    for start in range(0, len(missing), SHARD):
        shard = missing[start : start + SHARD]
        calls.append(partial(_encode, opened, shard, statistics))
    return calls, encoder.tokens(missing)


def _encode_all(
    calls: Sequence[Callable[[RunContext], Iterator[int]]],
    token_count: int,
    jobs: Jobs,
    context: RunContext,
) -> None:
    """Make calls that encode, and count their tokens."""
    if calls:
        context.progress.phase("encoding tokens", token_count)
    for counts in results_of(calls, jobs, context.shared(jobs)):
        for count in counts:
            context.progress.step(count)


def _cells_to_measure(
    cells: Sequence[PlannedCell], context: RunContext
) -> tuple[list[PlannedCell], list[Outcome]]:
    """The cells of an encoder that are to be measured, and the outcomes of the others.

    The others are done, or cannot run.
    """
    to_measure: list[PlannedCell] = []
    with failures(cells) as outcomes:
        encoder = context.encoder(cells[0].encoder)
    for cell in () if outcomes else cells:
        with failures([cell]) as outcome:
            texts = context.loader.texts(cell.task, cell.method.fit_on)
            fit_digest = None
            if texts.fit_corpus is not None:
                sample = FitCorpusSample.of(cell.method, cell.seed, texts.fit_corpus)
                fit_digest = sample.digest
            identity = identity_of(cell, texts, encoder.identity.key, fit_digest)
            record = None
            if not context.overwrite and context.store.is_done(cell.address, identity):
                record = context.store.read(cell.address)
            if record is None:
                to_measure.append(cell)
            else:
                subject = f"{cell.encoder.name} on {cell.task.name}"
                coverage = record.facts.get("coverage")
                require_coverage(subject, coverage, context.min_coverage)
                outcome.append(Outcome(cell=cell.address, status="done", record=record))
        outcomes += outcome
    return to_measure, outcomes


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


# The calls of a process. Those that encode yield how many tokens they encoded, roughly.


def _encode(
    opened: Opened,
    sentences: Sequence[str],
    statistics: Collection[str],
    context: RunContext,
) -> Iterator[int]:
    """Encode sentences with the statistics that poolings read, and store them in the cache."""
    with failures(()):
        yield from context.encoder(*opened).encode(sentences, statistics)


def _encode_block(
    opened: Opened,
    sample: FitCorpusSample,
    methods: Mapping[Path, Method],
    block: range,
    context: RunContext,
) -> Iterator[int]:
    """Encode a block of a corpus for the methods that are fitted on it."""
    with failures(()), one_blas_thread():
        sample.encode(block, methods, context.encoder(*opened))
    yield len(block) * SENTENCE_TOKENS


def _measure(
    opened: Opened, cells: Sequence[PlannedCell], context: RunContext
) -> Iterator[Outcome]:
    """Measure cells that share a pooling, those of the same texts together.

    A record has the digests of the texts that this process read, which on a cluster may
    be others than those of the process that planned the run. A sentence that cannot be
    encoded fails the cells of its own texts alone. A fit on a corpus is kept for its
    method's other tasks.
    """
    cells_by_texts: dict[tuple[Task, str | None], list[PlannedCell]] = {}
    for cell in cells:
        cells_by_texts.setdefault((cell.task, cell.method.fit_on), []).append(cell)
    fits: dict[tuple[Method, int], FittedTransforms] = {}
    pooling = cells[0].method.pooling
    for (task, fit_on), cells_of_texts in cells_by_texts.items():
        with failures(cells_of_texts) as outcomes:
            encoder = context.encoder(*opened)
            texts = context.loader.texts(task, fit_on)
            pooled = encoder.pooled(pooling, sorted(texts.sentences))
            cost = encoder.cache.cost(list(dict.fromkeys(texts.pairs.sentences)))
            subject = f"{encoder.config.name} on {task.name}"
            require_coverage(subject, cost.coverage, context.min_coverage)
        yield from outcomes
        for cell in () if outcomes else cells_of_texts:
            # One thread sums, so that a score does not depend on how many cores or
            # workers there are.
            with failures([cell]) as outcome, one_blas_thread():
                fitted = fits.get((cell.method, cell.seed))
                if fitted is None:
                    fitted = fitted_transforms(
                        cell.method,
                        cell.seed,
                        texts.fit_corpus,
                        encoder,
                        pooled,
                        CellProgress(context.progress, str(cell.address)),
                    )
                    context.progress.note("")
                if texts.fit_corpus and texts.fit_corpus.streams:
                    fits[cell.method, cell.seed] = fitted
                measurement = measure(
                    task, texts.pairs, pooled, fitted.transforms, texts.labelled
                )
                identity = identity_of(
                    cell, texts, encoder.identity.key, fitted.fitted_on
                )
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
                outcome.append(
                    Outcome(cell=cell.address, status="measured", record=record)
                )
            yield from outcome


# A fit without a run


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
    fit_corpus = loader.texts(cell.task, cell.method.fit_on).fit_corpus
    with one_blas_thread():
        return fitted_transforms(
            cell.method, cell.seed, fit_corpus, encoder, progress=progress
        )
