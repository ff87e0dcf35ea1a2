"""A plan on many workers: units of cells that share work, and parts, which are some units each.

Encoders are trained first; then sentences are encoded and corpora passed over, block by block; then
each unit is measured by one worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from operator import methodcaller
from socket import gethostname
from typing import Any
from uuid import uuid4

from harness.core.errors import HarnessError, UsageError
from harness.core.files import sentence_key
from harness.core.interfaces import EncoderConfig
from harness.core.provenance import code_digest, one_blas_thread, packages
from harness.core.types import Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import Engine, InProcess, Processes, WorkersLost
from harness.evaluation.fit_corpus import CorpusPass, corpus_passes
from harness.evaluation.runner import (
    EncoderRun,
    Outcome,
    RunContext,
    execute,
    failed,
    failures,
    open_runs,
)
from harness.results.records import PlannedCell, Store
from harness.tasks.loader import TARGETS, TaskLoader

NUMBER = "([1-9][0-9]{0,8})"


@dataclass(frozen=True)
class Part:
    """Part `number` (from 0) of a plan that is split into `count` parts, always in one way."""

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Part:
        """`2/8` is the second of eight, None the whole. Raises UsageError."""
        match = re.fullmatch(f"{NUMBER}/{NUMBER}", "1/1" if text is None else text)
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(f"--shard {text:.40}: wanted I/N with 1 <= I <= N, as in 2/8")
        return cls(int(match[1]) - 1, int(match[2]))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of every `count`-th unit, in the plan's order."""
        if self.count == 1:
            return tuple(cells)
        chosen = set(chain(*units(cells)[self.number :: self.count]))
        return tuple(cell for cell in cells if cell in chosen)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """The sentences of this part, by their digests: others' progress moves none."""
        digests = ((text, int.from_bytes(sentence_key(text)[:8])) for text in texts)
        return [text for text, digest in digests if digest % self.count == self.number]


WHOLE = Part()


def units(cells: Sequence[PlannedCell], passes_made: bool = False) -> list[tuple[PlannedCell, ...]]:
    """Cells that one worker measures after another, since they share embeddings or a fit corpus.

    Those are the cells of an encoder under one pooling, each seed of a seeded method a unit of its
    own; of fits on a corpus all of an encoder, whose one pass over the corpus serves all poolings,
    unless the passes are made before.
    """
    cells_by_key: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        seed = (method.id, cell.seed) if method.seeded else None
        streams = method.fit_on is not None and method.fit_on not in TARGETS
        key = (method.fit_on,) if streams and not passes_made else (method.pooling, seed)
        cells_by_key.setdefault((cell.encoder.name, *key), []).append(cell)
    return [tuple(unit) for unit in cells_by_key.values()]


@dataclass(frozen=True)
class Site:
    """What every worker of a run needs: the run's context, and this process's code and libraries.

    Paths are absolute, since a worker may have been started in another folder. Runs have sites that
    differ in `run`, so that a worker of several keeps nothing of an earlier one.
    """

    context: RunContext = field(compare=False)
    code: str
    libraries: Mapping[str, str | None] = field(default_factory=packages, compare=False)
    run: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, context: RunContext, workers: int) -> Site:
        """What the workers of a run need; the texts that were read are not sent to them."""
        loader = TaskLoader(context.loader.places.absolute(), context.loader.corpora)
        store, progress = Store(context.store.folder.absolute()), Progress()
        context = replace(context, loader=loader, store=store, progress=progress, workers=workers)
        return cls(context, code_digest())

    def require_worker(self) -> None:
        """Raise HarnessError for a worker of another version, or without a folder of this run."""
        worker = f"the worker on {gethostname()} has"
        if code_digest() != self.code:
            raise HarnessError(f"{worker} other code than this process: install one version")
        for name, version in packages().items():
            if version != self.libraries[name]:
                raise HarnessError(
                    f"{worker} {name} {version}, this process {self.libraries[name]}: "
                    "install one version"
                )
        places, results = self.context.loader.places, self.context.store.folder
        data = places.data_dir
        for folder in (results, data or results, *places.encoders.values()):
            if not folder.exists() or (folder == data and not any(folder.iterdir())):
                raise HarnessError(f"{worker} nothing at {folder}: share it under this path")


@dataclass(frozen=True, eq=False)
class Work:
    """A call that comes before scores: how many sentences it encodes, or which encoder it trains.

    It returns why an encoder could not be trained.
    """

    call: Callable[[], HarnessError | None]
    sentences: int = 0
    trains: EncoderConfig | None = None


def execute_on(
    engine: Engine,
    cells: Sequence[PlannedCell],
    context: RunContext,
    part: Part = WHOLE,
    trainings: Sequence[Work] = (),
) -> Iterator[Outcome]:
    """Run cells by an engine and yield an outcome for each.

    `cells` are those of the part, whose share of the sentences is encoded before the rest.
    """
    # A process takes seconds to start: not for cells that one worker would measure anyway, while
    # this process encodes with all threads. The workers of a cluster are there already.
    if isinstance(engine, Processes) and len(units(cells)) < 2:
        engine = InProcess()
    progress = context.progress
    # Or a worker might make a folder that only it sees.
    context.store.folder.mkdir(parents=True, exist_ok=True)
    site = Site.of(context, engine.workers)
    untrained = _carried_out(engine, site, trainings, progress, "training")
    for cell in cells:
        if cell.encoder in untrained:
            yield from failed([cell], untrained[cell.encoder])
    able = [cell for cell in cells if cell.encoder not in untrained]
    if part.count == 1 and isinstance(engine, InProcess):
        yield from execute(able, context)
        return
    opened = list(open_runs(able, context))
    yield from (run for run in opened if isinstance(run, Outcome))
    runs = [run for run in opened if not isinstance(run, Outcome)]
    # Passes take longest, and so come first.
    encodings = [*_passes(site, runs), *_sentences(site, runs, part)]
    _carried_out(engine, site, encodings, progress, "encoding")
    _merge(runs)
    left = tuple(cell for run in runs for cell in run.left)
    if left:
        progress.phase("scoring", len(left))
    measure = partial(_in_worker, site, partial(_measured, site))
    suspects: list[tuple[PlannedCell, ...]] = []
    for every in (units(left, passes_made=True), suspects):
        for unit, outcomes in engine.map(measure, every):
            if not isinstance(outcomes, WorkersLost):
                yield from outcomes
            elif len(unit) > 1:
                suspects += [(cell,) for cell in unit]  # which of them it was shows alone
                continue
            else:
                yield from failed(unit, WorkersLost(f"{unit[0].address}: {outcomes}"))
            progress.step(len(unit))


def _carried_out(
    engine: Engine, site: Site, every: Sequence[Work], progress: Progress, phase: str
) -> dict[EncoderConfig, HarnessError]:
    """Do what comes before scores; the encoders that could not be trained, and why."""
    if every:
        progress.phase(phase, sum(work.sentences for work in every) or None)
    function: Callable[[Work], Any] = methodcaller("call")
    if not isinstance(engine, InProcess):
        function = partial(_in_worker, site, function)
    untrained = {}
    for work, error in engine.map(function, every):
        if work.trains is not None and error is not None:
            untrained[work.trains] = HarnessError(f"{work.trains.name}: {error}")
        progress.step(work.sentences)
    return untrained


def _passes(site: Site, runs: Iterable[EncoderRun]) -> Iterator[Work]:
    """The blocks of the passes over corpora that are to be made."""
    for run in runs:
        cells_by_pass: dict[CorpusPass, list[PlannedCell]] = {}
        for cell, corpus_pass in run.passes.items():
            cells_by_pass.setdefault(corpus_pass, []).append(cell)
        for corpus_pass, cells in cells_by_pass.items():
            for block in corpus_pass.sample.blocks if corpus_pass.missing else ():
                yield Work(partial(_encode_block, site, cells, block), len(block))


def _merge(runs: Iterable[EncoderRun]) -> None:
    """Make the files of passes of their blocks. The cells that need them report an error."""
    for corpus_pass in dict.fromkeys(made for run in runs for made in run.passes.values()):
        with failures(()), one_blas_thread():
            corpus_pass.merge(corpus_pass.missing)


def _sentences(site: Site, runs: Iterable[EncoderRun], part: Part) -> Iterator[Work]:
    """The sentences that are missing, similar lengths together."""
    for run in runs:
        missing = sorted(part.texts(run.missing), key=len)
        for start in range(0, len(missing), SHARD):
            texts = missing[start : start + SHARD]
            yield Work(partial(_encode, site, run.left[0].encoder, texts), len(texts))


# In a worker, which keeps the last texts and the last encoder open: items mostly follow one another


@lru_cache(maxsize=1)
def _context(site: Site) -> RunContext:
    return site.context


@lru_cache(maxsize=1)
def _encoder(site: Site, config: Any) -> CachedEncoder:
    return CachedEncoder.open(config, site.context.loader.places, site.context.clock)


def _in_worker(site: Site, function: Callable[[Any], Any], item: Any) -> Any:
    """A function of an item, in a worker that is fit for it."""
    site.require_worker()
    return function(item)


def _encode(site: Site, config: Any, texts: Sequence[str]) -> None:
    """Encode and store sentences. The cells that need them report an error."""
    with failures(()):
        _encoder(site, config).ensure(texts, Progress())


def _encode_block(site: Site, cells: Sequence[PlannedCell], block: range) -> None:
    """Encode a block of the pass that cells share. The cells report an error."""
    with failures(()), one_blas_thread():
        config: Any = cells[0].encoder
        loader, encoder = _context(site).loader, _encoder(site, config)
        texts = {cell: loader.inputs(cell.task, cell.method.fit_on).fit for cell in cells}
        corpus_pass = corpus_passes(encoder, texts, Progress())[cells[0]]
        corpus_pass.encode(block, corpus_pass.missing)


def _measured(site: Site, unit: Sequence[PlannedCell]) -> list[Outcome]:
    return [*execute(unit, _context(site))]
