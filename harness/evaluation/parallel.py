"""Parts of a plan: units of cells that share work, and shards, which are some of the units each."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import call
from pathlib import Path
from socket import gethostname
from typing import TypeVar
from uuid import uuid4

from harness.assets.places import Places
from harness.core.errors import HarnessError, UsageError
from harness.core.files import sentence_key
from harness.core.interfaces import EncoderConfig
from harness.core.provenance import code_digest, packages
from harness.core.types import Corpus, Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import Engine, InProcess, Processes, WorkersLost
from harness.evaluation.runner import EncoderRun, Outcome, execute, failed, failures, open_runs
from harness.results.records import PlannedCell, Store
from harness.tasks.loader import TARGETS, TaskLoader

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


def units(
    cells: Sequence[PlannedCell], corpora_apart: bool = False
) -> list[tuple[PlannedCell, ...]]:
    """Cells that one worker measures after another, since they share embeddings or a fit corpus.

    Those are the cells of an encoder under one pooling, a seeded method's of each seed apart; of
    fits on a corpus all of an encoder, whose one pass over the corpus serves all poolings, unless
    `corpora_apart` says that the passes are made before.
    """
    found: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        own = corpora_apart or method.fit_on is None or method.fit_on in TARGETS
        seeded = (method.id, cell.seed) if method.seeded else None
        key = (method.pooling, seeded) if own else (method.fit_on,)
        found.setdefault((cell.encoder.name, *key), []).append(cell)
    return [tuple(unit) for unit in found.values()]


Kept = TypeVar("Kept")


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


@dataclass(frozen=True, eq=False)
class Work:
    """A call that comes before scores: how many sentences it encodes, or what it trains."""

    call: Callable[[], HarnessError | None]
    sentences: int = 0
    trains: EncoderConfig | None = None

    def __call__(self) -> HarnessError | None:
        """Do it, in a worker. Returns why an encoder could not be trained."""
        return self.call()


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    store: Store,
    progress: Progress,
    fresh: bool = False,
    shard: Shard = WHOLE,
    trainings: Sequence[Work] = (),
) -> Iterator[Outcome]:
    """Run cells by an engine and yield an outcome for each.

    `cells` are those of the shard, whose part of the sentences is encoded before the rest. Encoders
    are trained while others encode.
    """
    due = {work.trains for work in trainings}
    # A process takes seconds to start: not for cells that one worker would measure anyway, while
    # this process encodes with all threads. The workers of a cluster are there already.
    alone = isinstance(engine, Processes) and len(units(cells)) < 2
    if shard.count == 1 and (isinstance(engine, InProcess) or alone):
        untrained = _done(InProcess(), trainings, progress)
        yield from _untrained(cells, untrained)
        able = [cell for cell in cells if cell.encoder not in untrained]
        yield from execute(able, loader, store, progress, time.perf_counter, fresh)
        return
    store.folder.mkdir(parents=True, exist_ok=True)  # or a worker might make one that only it sees
    site = Site.of(loader, store, fresh, engine.workers)

    def opened(chosen: Sequence[PlannedCell]) -> Generator[Outcome, None, list[EncoderRun]]:
        runs = []
        for run in open_runs(chosen, loader, store, progress, time.perf_counter, fresh):
            if isinstance(run, Outcome):
                yield run
            else:
                runs.append(run)
        return runs

    runs = yield from opened([cell for cell in cells if cell.encoder not in due])
    checked = (replace(one, call=partial(_in_worker, site, one.call)) for one in trainings)
    # Passes take longest, and so come first.
    work = [*_passes(site, runs), *checked, *_sentences(site, runs, shard)]
    untrained = _done(engine, work, progress)
    yield from _untrained(cells, untrained)
    trained = yield from opened([c for c in cells if c.encoder in due - untrained.keys()])
    _done(engine, [*_passes(site, trained), *_sentences(site, trained, shard)], progress)
    _done(engine, list(_passes(site, [*runs, *trained], merge=True)), progress, "merging")
    left = tuple(cell for run in (*runs, *trained) for cell in run.left)
    if left:
        progress.phase("scoring", len(left))
    apart: list[tuple[PlannedCell, ...]] = []
    for every in (units(left, corpora_apart=True), apart):
        for unit, outcomes in engine.map(partial(measure_unit, site), every):
            if isinstance(outcomes, WorkersLost) and len(unit) > 1:
                apart += [(cell,) for cell in unit]  # which of them it was shows alone
                continue
            if isinstance(outcomes, WorkersLost):
                outcomes = failed(unit, WorkersLost(f"{unit[0].address}: {outcomes}"))
            yield from outcomes
            progress.step(len(unit))


def _done(
    engine: Engine, every: Sequence[Work], progress: Progress, phase: str = "encoding"
) -> dict[EncoderConfig, HarnessError]:
    """Do what comes before scores; the encoders that could not be trained, and why."""
    if every:
        progress.phase(phase, sum(work.sentences for work in every) or None)
    untrained = {}
    for work, error in engine.map(call, every):
        if work.trains is not None and error is not None:
            untrained[work.trains] = HarnessError(f"{work.trains.name}: {error}")
        progress.step(work.sentences)
    return untrained


def _untrained(
    cells: Iterable[PlannedCell], untrained: Mapping[EncoderConfig, HarnessError]
) -> Iterator[Outcome]:
    """Outcomes of the cells whose encoder could not be trained."""
    for cell in cells:
        if cell.encoder in untrained:
            yield from failed([cell], untrained[cell.encoder])


def _passes(site: Site, runs: Iterable[EncoderRun], merge: bool = False) -> Iterator[Work]:
    """The blocks of passes over corpora that are to be made, or the merging of those made."""
    for run in runs:
        for cells, sample in run.corpora.passes(run.left):
            if not merge:
                for block in sample.blocks:
                    yield Work(partial(prepare_fits, site, cells, block), len(block))
            elif len(sample.blocks) > 1:
                yield Work(partial(prepare_fits, site, cells))


def _sentences(site: Site, runs: Iterable[EncoderRun], shard: Shard) -> Iterator[Work]:
    """The sentences that are missing, similar lengths together."""
    for run in runs:
        missing = shard.texts(run.missing) if shard.count > 1 else run.missing
        missing.sort(key=len)
        for start in range(0, len(missing), SHARD):
            texts = missing[start : start + SHARD]
            yield Work(partial(encode_texts, site, run.left[0].encoder, texts), len(texts))


def _in_worker(site: Site, call: Callable[[], HarnessError | None]) -> HarnessError | None:
    """Train, in a worker that is fit for it: an encoder of another version would stay."""
    site.require_worker()
    return call()


def encode_texts(site: Site, config: EncoderConfig, texts: Sequence[str]) -> None:
    """Encode and store sentences. The cells that need them report an error."""
    site.require_worker()
    with failures(()):
        encoder = _kept(
            _ENCODERS,
            (site.run, config),
            lambda: CachedEncoder.open(config, site.places, time.perf_counter),
        )
        encoder.ensure(texts, Progress())


def prepare_fits(site: Site, cells: Sequence[PlannedCell], block: range | None = None) -> None:
    """Make the files that cells are fitted on, or a block of them. The cells report an error."""
    site.require_worker()
    with failures(()):
        loader, store = _loader(site), Store(site.results)
        for run in open_runs(cells, loader, store, Progress(), time.perf_counter, fresh=True):
            if isinstance(run, EncoderRun):
                run.prepare(block)


def measure_unit(site: Site, unit: Sequence[PlannedCell]) -> list[Outcome]:
    """Measure the cells of a unit."""
    site.require_worker()
    loader, store = _loader(site), Store(site.results)
    done = execute(unit, loader, store, Progress(), time.perf_counter, site.fresh, site.workers)
    return list(done)


# What a worker keeps open between items: they mostly follow one another on one encoder.
_ENCODERS: dict[str, CachedEncoder] = {}
_LOADERS: dict[str, TaskLoader] = {}


def _loader(site: Site) -> TaskLoader:
    return _kept(_LOADERS, site.run, lambda: TaskLoader(site.places, dict(site.corpora)))


def _kept(held: dict[str, Kept], name: object, make: Callable[[], Kept]) -> Kept:
    """The object that is held under a name; another takes its place."""
    if repr(name) not in held:
        held.clear()
        held[repr(name)] = make()
    return held[repr(name)]
