"""A run in several processes: sentences and corpora are encoded first, then cells measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.core.environment import one_blas_thread
from harness.core.interfaces import Identity
from harness.core.types import Method, Progress
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.fit_corpus import FitCorpusSample, encode_block
from harness.evaluation.processes import Jobs, results_of
from harness.evaluation.run import (
    EncoderRun,
    Outcome,
    RunContext,
    execute,
    failures,
    open_run,
)
from harness.evaluation.select import PlannedCell, units
from harness.results.store import Store


@dataclass(frozen=True)
class SentRun:
    """A run as it is sent to processes, which keep what they read for its later calls.

    Attributes:
        context: The context of the run, without the texts that were read.
        name: A name that no other run has, by which a process knows what it keeps.
    """

    context: RunContext = field(compare=False)
    name: str = field(default_factory=lambda: uuid4().hex)


def execute_in_processes(
    cells: Sequence[PlannedCell], context: RunContext, jobs: Jobs
) -> Iterator[Outcome]:
    """Run cells in several processes, and yield an outcome for each.

    Args:
        cells: The cells.
        context: What the cells share.
        jobs: The number of processes, or the scheduler whose workers are taken instead.
    """
    # A process takes seconds to start. That is too long for cells that one process would
    # measure anyway, and this process encodes with all threads.
    if jobs == 1 or len(units(cells)) < 2:
        yield from execute(cells, context)
        return
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
    runs: list[EncoderRun] = []
    encode_calls: list[Callable[[], int]] = []
    measure_calls = []
    sentence_count = cell_count = 0
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        run, outcomes = open_run(tuple(group), context)
        yield from outcomes
        if run is None:
            continue
        runs.append(run)
        config: Any = run.encoder.config
        identity = run.encoder.identity
        opened = partial(_opened, sent, config, identity)
        sentences = sorted(run.missing, key=len)
        for start in range(0, len(sentences), SHARD):
            shard = sentences[start : start + SHARD]
            encode_calls.append(partial(_encode, opened, shard))
        sentence_count += len(sentences)
        for corpus_pass in dict.fromkeys(run.passes.values()):
            with failures(()):
                encode = partial(
                    _encode_block,
                    opened,
                    corpus_pass.sample,
                    corpus_pass.fit_corpus.sentences,
                    corpus_pass.missing(),
                )
                for block in corpus_pass.sample.blocks:
                    encode_calls.append(partial(encode, block))
                    sentence_count += len(block)
        for unit in units(tuple(run.texts)):
            measure_calls.append(partial(_measure, sent, identity, unit))
        cell_count += len(run.texts)
    if encode_calls:
        progress.phase("encoding", sentence_count)
    for count in results_of(encode_calls, jobs):
        progress.step(count)
    for run in runs:
        for corpus_pass in dict.fromkeys(run.passes.values()):
            with failures(()), one_blas_thread():
                corpus_pass.merge(corpus_pass.missing())
    progress.phase("scoring", cell_count)
    for outcomes in results_of(measure_calls, jobs):
        yield from outcomes
        progress.step(len(outcomes))


# Calls of a process. An encoding that fails does not fail its call: the cells that need it
# find it missing when they are measured, encode it again, and have the error as their
# outcome.


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
    opened: Callable[[], CachedEncoder],
    sample: FitCorpusSample,
    sentences: Callable[[], Iterable[str]],
    methods: Mapping[Path, Method],
    block: range,
) -> int:
    """Encode a block of the pass over a corpus that cells share; returns its length."""
    with failures(()), one_blas_thread():
        encode_block(opened(), sample, sentences, methods, block)
    return len(block)


def _measure(
    sent: SentRun, identity: Identity, cells: Sequence[PlannedCell]
) -> list[Outcome]:
    """Measure cells of one encoder."""
    run, outcomes = open_run(cells, _context(sent), identity)
    if run is not None:
        outcomes += run.outcomes()
    return outcomes
