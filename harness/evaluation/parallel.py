"""A run on many workers, stage by stage: train, encode, merge passes over corpora, measure.

An engine makes the calls of a stage in this process, in several, or on a cluster. Each
call has the `WorkerRun`, by which a worker opens texts and encoders. A worker keeps the
texts of its last run and its last encoder, since calls that follow each other mostly
need the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import groupby
from socket import gethostname
from typing import Any
from uuid import uuid4

from harness.core.environment import one_blas_thread, packages
from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Identity
from harness.core.provenance import code_digest
from harness.core.texts import sentence_key
from harness.core.types import Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import Engine
from harness.evaluation.fit_corpus import FitCorpusPass, fit_corpus_passes
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
from harness.results.store import Store
from harness.tasks.loader import TARGETS, TaskLoader

# Parts of a run


@dataclass(frozen=True)
class Part:
    """A part of a run, for one machine of several. The same cells are always split alike.

    Attributes:
        number: Which part it is, from 0.
        count: How many parts the run is split into.
    """

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Part:
        """Read `2/8`, the second of eight parts; None is the whole run. Raises UsageError."""
        if text is None:
            return cls()
        match = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: wanted I/N with 1 <= I <= N, as in 2/8")
        return cls(number=int(match[1]) - 1, count=int(match[2]))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of this part, in their order: the units are dealt out in turn."""
        units_of_part = units(cells)[self.number :: self.count]
        cells_of_part = {cell for unit in units_of_part for cell in unit}
        return tuple(cell for cell in cells if cell in cells_of_part)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """The sentences that this part encodes before it measures, by their digests.

        The others are encoded with the cells that need them, unless another part has done
        it by then.
        """
        return [
            text
            for text in texts
            if int.from_bytes(sentence_key(text)[:8]) % self.count == self.number
        ]


WHOLE_RUN = Part()


def units(
    cells: Sequence[PlannedCell], passes_made: bool = False
) -> list[tuple[PlannedCell, ...]]:
    """Group cells that share work: one worker measures a unit, a cell after the other.

    Cells that are fitted on a corpus share the encoder's one pass over it, unless
    `passes_made` says that it is made before. Other cells share the embeddings of an
    encoder under a pooling, but each seed of a method with randomness is a unit of its
    own.
    """
    cells_by_work: dict[object, list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        reads_corpus = method.fit_on is not None and method.fit_on not in TARGETS
        work: tuple[object, ...] = (cell.encoder.name, method.pooling)
        if reads_corpus and not passes_made:
            work = (cell.encoder.name, method.fit_on)
        elif method.seeded:
            work = (*work, method.id, cell.seed)
        cells_by_work.setdefault(work, []).append(cell)
    return [tuple(unit) for unit in cells_by_work.values()]


# A run


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """An encoder that is trained before its cells are measured.

    Attributes:
        encoder: The encoder.
        train: Trains it; returns the error of a training that failed.
    """

    encoder: EncoderConfig
    train: Callable[[], HarnessError | None]


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    context: RunContext,
    part: Part = WHOLE_RUN,
    trainings: Sequence[Training] = (),
) -> Iterator[Outcome]:
    """Run cells by an engine, and yield an outcome for each.

    Args:
        engine: Makes the calls.
        cells: The cells, all of which are in `part`.
        context: What the cells share.
        part: The part of the run.
        trainings: The encoders that are trained first.
    """
    # A process takes seconds to start. That is too long for cells that one worker would
    # measure anyway, and this process encodes with all threads.
    if engine.scheduler is None and len(units(cells, passes_made=True)) < 2:
        engine = Engine()
    # The folder is made by this process: a worker of a cluster might make it on a disk that
    # only the worker sees.
    context.store.folder.mkdir(parents=True, exist_ok=True)
    worker = WorkerRun.for_run(context, engine)
    if trainings:
        context.progress.phase("training", len(trainings))
    untrained = set()
    train_calls = [partial(_train, worker, training) for training in trainings]
    for encoder, error in engine.results(train_calls):
        context.progress.step(1)
        if error is not None:
            untrained.add(encoder)
            yield from failed(
                [cell for cell in cells if cell.encoder == encoder],
                HarnessError(f"{encoder.name}: {error}"),
            )
    trained_cells = [cell for cell in cells if cell.encoder not in untrained]
    if engine.is_this_process and part == WHOLE_RUN:
        yield from execute(trained_cells, context)
    else:
        yield from _execute_in_stages(engine, trained_cells, context, part, worker)


def _execute_in_stages(
    engine: Engine,
    cells: Sequence[PlannedCell],
    context: RunContext,
    part: Part,
    worker: WorkerRun,
) -> Iterator[Outcome]:
    """Encode for all encoders, then measure all cells, and yield an outcome for each."""
    runs: list[EncoderRun] = []
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        run, outcomes = open_run(tuple(group), context)
        yield from outcomes
        if run is not None:
            runs.append(run)
    encode_calls: list[Callable[[], int]] = []
    merge_calls = []
    measure_calls = []
    sentence_count = cell_count = 0
    for run in runs:
        encoder = OpenEncoder(run.encoder.config, run.encoder.identity)
        for cells_of_pass, corpus_pass in _passes_to_make(run):
            for block in corpus_pass.sample.blocks:
                encode_calls.append(
                    partial(_encode_block, worker, encoder, cells_of_pass, block)
                )
            merge_calls.append(partial(_merge_blocks, worker, encoder, cells_of_pass))
            sentence_count += corpus_pass.sample.size
        sentences = sorted(part.texts(run.missing), key=len)
        for start in range(0, len(sentences), SHARD):
            shard = sentences[start : start + SHARD]
            encode_calls.append(partial(_encode, worker, encoder, shard))
        sentence_count += len(sentences)
        for unit in units(run.cells, passes_made=True):
            measure_calls.append(partial(_measure, worker, encoder, unit))
        cell_count += len(run.cells)
    if encode_calls:
        context.progress.phase("encoding", sentence_count)
    for count in engine.results(encode_calls):
        context.progress.step(count)
    for _ in engine.results(merge_calls):
        pass
    context.progress.phase("scoring", cell_count)
    for outcomes in engine.results(measure_calls):
        yield from outcomes
        context.progress.step(len(outcomes))


def _passes_to_make(
    run: EncoderRun,
) -> Iterator[tuple[list[PlannedCell], FitCorpusPass]]:
    """The passes over corpora that have not made all files, each with the cells that need it."""
    cells_by_pass: dict[FitCorpusPass, list[PlannedCell]] = {}
    for cell, corpus_pass in run.passes.items():
        cells_by_pass.setdefault(corpus_pass, []).append(cell)
    for corpus_pass, cells in cells_by_pass.items():
        if corpus_pass.missing_files:
            yield cells, corpus_pass


# Calls of a worker. An encoding that fails does not fail its call: the cells that need it
# find it missing when they are measured, encode it again, and have the error as their
# outcome.


@dataclass(frozen=True)
class WorkerRun:
    """The facts on a run that its workers need.

    Attributes:
        context: The context of the run. Its paths are absolute, since a worker may have
            been started in another folder, and no texts that were read are in it.
        code: The digest of the code of the process that started the run.
        libraries: The versions of that process's libraries, by name.
        name: A name that no other run has, by which a worker knows what it keeps.
    """

    context: RunContext = field(compare=False)
    code: str
    libraries: Mapping[str, str | None] = field(default_factory=packages, compare=False)
    name: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def for_run(cls, context: RunContext, engine: Engine) -> WorkerRun:
        """Describe a run to the workers of an engine."""
        sent_context = replace(
            context,
            loader=TaskLoader(context.loader.places.absolute(), context.loader.corpora),
            store=Store(context.store.folder.absolute()),
            progress=Progress(),
            workers=engine.jobs,
        )
        return cls(context=sent_context, code=code_digest())

    def require_same_installation(self) -> None:
        """Raise HarnessError for a worker of another version, or without a folder of the run."""
        worker_has = f"the worker on {gethostname()} has"
        if (code_digest(), packages()) != (self.code, self.libraries):
            raise HarnessError(
                f"{worker_has} other code or libraries than this process: install one version"
            )
        places = self.context.loader.places
        folders = [self.context.store.folder, *places.encoders.values()]
        if places.data_dir is not None:
            folders.append(places.data_dir)
        for folder in folders:
            if not folder.exists():
                raise HarnessError(
                    f"{worker_has} nothing at {folder}: share it under this path"
                )


@dataclass(frozen=True)
class OpenEncoder:
    """An encoder with the identity that a worker must find in its files."""

    config: Any  # an EncoderConfig
    identity: Identity


@lru_cache(maxsize=1)
def _context(worker: WorkerRun) -> RunContext:
    """The context of a run, whose loader keeps the texts that this worker reads."""
    worker.require_same_installation()
    return worker.context


@lru_cache(maxsize=1)
def _opened(worker: WorkerRun, encoder: OpenEncoder) -> CachedEncoder:
    """The encoder with its cache; a worker keeps the last one."""
    context = _context(worker)
    return CachedEncoder.open(
        encoder.config, context.loader.places, context.clock, encoder.identity
    )


def _train(
    worker: WorkerRun, training: Training
) -> tuple[EncoderConfig, HarnessError | None]:
    """Train an encoder; returns it with the error of a training that failed."""
    _context(worker)
    return training.encoder, training.train()


def _encode(worker: WorkerRun, encoder: OpenEncoder, sentences: Sequence[str]) -> int:
    """Encode sentences, and store them in the cache; returns how many they are."""
    _context(worker)
    with failures(()):
        _opened(worker, encoder).ensure(sentences, Progress())
    return len(sentences)


def _encode_block(
    worker: WorkerRun, encoder: OpenEncoder, cells: Sequence[PlannedCell], block: range
) -> int:
    """Encode a block of the pass over a corpus that cells share; returns its length."""
    _context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _shared_pass(worker, encoder, cells)
        corpus_pass.encode_block(block, corpus_pass.missing_files)
    return len(block)


def _merge_blocks(
    worker: WorkerRun, encoder: OpenEncoder, cells: Sequence[PlannedCell]
) -> None:
    """Merge the blocks of the pass over a corpus that cells share."""
    _context(worker)
    with failures(()), one_blas_thread():
        corpus_pass = _shared_pass(worker, encoder, cells)
        corpus_pass.merge_blocks(corpus_pass.missing_files)


def _shared_pass(
    worker: WorkerRun, encoder: OpenEncoder, cells: Sequence[PlannedCell]
) -> FitCorpusPass:
    """The pass that all of these cells are fitted from."""
    loader = _context(worker).loader
    fit_corpora = {
        cell: loader.texts(cell.task, cell.method.fit_on).fit_corpus for cell in cells
    }
    passes = fit_corpus_passes(_opened(worker, encoder), fit_corpora, Progress())
    return passes[cells[0]]


def _measure(
    worker: WorkerRun, encoder: OpenEncoder, cells: Sequence[PlannedCell]
) -> list[Outcome]:
    """Measure cells of one encoder."""
    identities = {encoder.config: encoder.identity}
    return list(execute(cells, replace(_context(worker), identities=identities)))
