"""A plan on many cores or machines: first sentences are encoded, then cells are measured.

Work moves and data do not: a worker is given a block of sentences or a unit of cells, and gives
outcomes back. Encodings go to the cache, by their content, and records to the results, so that any
worker can go on with what another has made. The scores are those of one process, since an encoding
depends neither on the sentences beside it nor on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from socket import gethostname
from typing import TypeVar
from uuid import uuid4

from harness.assets.places import Places
from harness.core.digests import sentence_key
from harness.core.errors import HarnessError, UsageError
from harness.core.interfaces import EncoderConfig
from harness.core.progress import Silent
from harness.core.provenance import code_digest, packages
from harness.core.types import Corpus, Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import Engine, InProcess, WorkersLost
from harness.evaluation.outcomes import Outcome, failed, failures
from harness.evaluation.runner import EncoderRun, execute, open_runs
from harness.results.planned import PlannedCell
from harness.results.records import Store
from harness.tasks.loader import TARGETS, TaskLoader

Kept = TypeVar("Kept")

DIGITS = 9  # of the number of shards


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 0) of a plan that is split into `count` parts, always in one way."""

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """`2/8` is the second of eight, None the whole. Raises UsageError."""
        if text is None:
            return WHOLE
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise UsageError(f"--shard {text}: wanted I/N, as in 2/8")
        if max(len(number), len(count)) > DIGITS:
            raise UsageError(
                f"--shard: wanted numbers of {DIGITS} digits at most, found longer ones"
            )
        if not 1 <= int(number) <= int(count):
            raise UsageError(f"--shard {text}: wanted 1 <= I <= N")
        return cls(int(number) - 1, int(count))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of every `count`-th unit, in the plan's order."""
        if self.count == 1:
            return tuple(cells)
        chosen = set(chain(*units(cells)[self.number :: self.count]))
        return tuple(cell for cell in cells if cell in chosen)

    def texts(self, texts: Sequence[str]) -> list[str]:
        """The sentences of this part, by their digests: others' progress moves none."""
        first = (int.from_bytes(sentence_key(text)[:8]) for text in texts)
        return [t for t, key in zip(texts, first, strict=True) if key % self.count == self.number]


WHOLE = Shard()


@dataclass(frozen=True)
class Site:
    """What every worker of a run needs: places of data, encoders and results; code and libraries.

    Paths are absolute, since a worker may have been started in another folder. `run` tells runs
    apart, so that a worker of several keeps nothing of an earlier one.
    """

    places: Places
    corpora: tuple[tuple[str, Corpus], ...]
    results: Path
    fresh: bool
    workers: int
    code: str
    packages: tuple[tuple[str, str | None], ...]
    run: str

    @classmethod
    def of(cls, loader: TaskLoader, store: Store, fresh: bool, workers: int) -> Site:
        """The site of a run."""
        places, corpora = loader.places.absolute(), tuple(loader.corpora.items())
        results, run = store.folder.absolute(), uuid4().hex
        code, libraries = code_digest(), tuple(packages().items())
        return cls(places, corpora, results, fresh, workers, code, libraries, run)

    def require_worker(self) -> None:
        """Raise HarnessError for a worker of another version, or without a folder of this run."""
        worker = f"the worker on {gethostname()} has"
        if code_digest() != self.code:
            raise HarnessError(f"{worker} other code than this process: install one version")
        for name, wanted in self.packages:
            if (found := packages()[name]) != wanted:
                raise HarnessError(
                    f"{worker} {name} {found}, this process {wanted}: install one version"
                )
        data = self.places.data_dir
        for folder in (self.results, data or self.results, *self.places.encoders.values()):
            if not folder.exists() or (folder == data and not any(folder.iterdir())):
                raise HarnessError(f"{worker} nothing at {folder}: share it under this path")


@dataclass(frozen=True)
class Block:
    """Sentences that one call encodes and stores."""

    encoder: EncoderConfig
    texts: tuple[str, ...]


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    store: Store,
    progress: Progress,
    fresh: bool = False,
    shard: Shard = WHOLE,
) -> Iterator[Outcome]:
    """Run cells by an engine and yield an outcome for each.

    `cells` are those of the shard, whose part of the sentences is encoded before the rest.
    """
    # A process takes seconds to start: not for the cells that one worker would measure anyway.
    if shard.count == 1 and (isinstance(engine, InProcess) or len(units(cells)) < 2):
        yield from execute(cells, loader, store, progress, time.perf_counter, fresh)
        return
    store.folder.mkdir(parents=True, exist_ok=True)  # or a worker might make one that only it sees
    site = Site.of(loader, store, fresh, engine.workers)
    runs = []
    for run in open_runs(cells, loader, store, progress, time.perf_counter, fresh):
        if isinstance(run, Outcome):
            yield run
        else:
            runs.append(run)
    if blocks := list(_blocks(runs, shard)):
        progress.phase("encoding", sum(len(block.texts) for block in blocks))
        for block, _ in engine.map(partial(encode_block, site), blocks):
            progress.step(len(block.texts))
    left = tuple(cell for run in runs for cell in run.left)
    if left:
        progress.phase("scoring", len(left))
    apart: list[tuple[PlannedCell, ...]] = []
    for work in (units(left), apart):
        for unit, outcomes in engine.map(partial(measure_unit, site), work):
            if isinstance(outcomes, WorkersLost) and len(unit) > 1:
                apart += [(cell,) for cell in unit]  # which of them it was shows alone
                continue
            if isinstance(outcomes, WorkersLost):
                outcomes = failed(unit, WorkersLost(f"{unit[0].address}: {outcomes}"))
            yield from outcomes
            progress.step(len(unit))


def _blocks(runs: Sequence[EncoderRun], shard: Shard) -> Iterator[Block]:
    """The sentences that are missing, similar lengths together."""
    for run in runs:
        missing = shard.texts(run.missing) if shard.count > 1 else run.missing
        missing.sort(key=len)
        for start in range(0, len(missing), SHARD):
            yield Block(run.left[0].encoder, tuple(missing[start : start + SHARD]))


def units(cells: Sequence[PlannedCell]) -> list[tuple[PlannedCell, ...]]:
    """Cells that one worker measures after another, since they share embeddings or a fit.

    Those are the cells of an encoder under one pooling, a seeded method's of each seed apart; of
    fits on a corpus, all of an encoder, whose one pass over the corpus serves all poolings.
    """
    found: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        own = method.fit_on is None or method.fit_on in TARGETS
        seed = cell.seed if method.seeded else None
        shared = (method.pooling, method.id if method.seeded else None, seed)
        key = shared if own else (method.fit_on,)
        found.setdefault((cell.encoder.name, *key), []).append(cell)
    return [tuple(unit) for unit in found.values()]


def encode_block(site: Site, block: Block) -> None:
    """Encode and store a block. The cells that need its sentences report an error."""
    site.require_worker()
    with failures(()):
        _encoder(site, block.encoder).ensure(block.texts, Silent())


def measure_unit(site: Site, unit: Sequence[PlannedCell]) -> list[Outcome]:
    """Measure the cells of a unit."""
    site.require_worker()
    loader, store = _loader(site), Store(site.results)
    done = execute(unit, loader, store, Silent(), time.perf_counter, site.fresh, site.workers)
    return list(done)


# What a worker keeps open between items: they mostly follow one another on one encoder.
_ENCODERS: dict[str, CachedEncoder] = {}
_LOADERS: dict[str, TaskLoader] = {}


def _encoder(site: Site, config: EncoderConfig) -> CachedEncoder:
    def opened() -> CachedEncoder:
        return CachedEncoder.open(config, site.places, time.perf_counter)

    return _kept(_ENCODERS, (site.run, config), opened)


def _loader(site: Site) -> TaskLoader:
    return _kept(_LOADERS, site.run, lambda: TaskLoader(site.places, dict(site.corpora)))


def _kept(held: dict[str, Kept], name: object, make: Callable[[], Kept]) -> Kept:
    """The object that is held under a name; another takes its place."""
    if repr(name) not in held:
        held.clear()
        held[repr(name)] = make()
    return held[repr(name)]
