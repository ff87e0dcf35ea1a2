"""A plan on many workers: units of cells that share work, and parts, which are some units each.

Of each encoder, its training comes first; then its sentences are encoded and corpora passed over,
block by block; then each unit of its cells is measured by one worker. No encoder waits for another.
"""

from __future__ import annotations

import re
from collections import deque
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
from harness.core.interfaces import EncoderConfig, Identity
from harness.core.provenance import code_digest, one_blas_thread, packages
from harness.core.types import Progress
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.engines import Engine, InProcess, Processes, WorkersLost
from harness.evaluation.fit_corpus import CorpusPass, corpus_passes
from harness.evaluation.runner import Outcome, RunContext, execute, failed, failures, open_runs
from harness.evaluation.select import PlannedCell
from harness.results.records import Store
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
    """A call in a worker that trains an encoder, measures cells, or else encodes sentences.

    A training returns why the encoder could not be trained, a measurement the cells' outcomes.
    """

    call: Callable[[], Any]
    steps: int = 0  # that progress counts: sentences, or cells
    trains: EncoderConfig | None = None
    cells: Sequence[PlannedCell] = ()

    @property
    def phase(self) -> str:
        return "training" if self.trains else "scoring" if self.cells else "encoding"


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
    if isinstance(engine, Processes) and len(units(cells, passes_made=True)) < 2:
        engine = InProcess()
    # Or a worker might make a folder that only it sees.
    context.store.folder.mkdir(parents=True, exist_ok=True)
    training_of = {work.trains: work for work in trainings}
    cells_by_encoder: dict[Any, list[PlannedCell]] = {encoder: [] for encoder in training_of}
    for cell in cells:
        cells_by_encoder.setdefault(cell.encoder, []).append(cell)
    if part.count == 1 and isinstance(engine, InProcess):
        if trainings:
            context.progress.phase("training", None)
        for work in trainings:
            if work.trains and (error := work.call()):
                error = HarnessError(f"{work.trains.name}: {error}")
                yield from failed(cells_by_encoder.pop(work.trains), error)
        yield from execute([c for c in cells if c.encoder in cells_by_encoder], context)
        return
    pipelines = Pipelines(Site.of(context, engine.workers), context, part)
    works: list[Work] = []
    for encoder, of_encoder in cells_by_encoder.items():
        works += pipelines.begin(pipelines.stages(of_encoder, training_of.get(encoder)))
    pipelines.show()
    in_worker = partial(_in_worker, pipelines.site, methodcaller("call"))
    for _ in chain([None], engine.map(in_worker, works, pipelines.then)):
        while pipelines.outcomes:
            yield pipelines.outcomes.popleft()


class Pipelines:
    """The work of each encoder of a run, in stages of which each waits for the one before.

    So an encoder's cells are measured when its own sentences are encoded and its passes are made.
    """

    def __init__(self, site: Site, context: RunContext, part: Part) -> None:
        self.site, self.context, self.part = site, context, part
        self.outcomes: deque[Outcome] = deque()  # which wait to be yielded
        self.errors: dict[Work | None, HarnessError] = {}  # of trainings
        self.begun: list[Work] = []
        self.identities: dict[EncoderConfig, Identity] = {}  # which every worker must find
        # The stages behind each piece of work that is not done, and what else of its own is not.
        self.waiting: dict[Work, tuple[Iterator[Sequence[Work]], set[Work]]] = {}
        self.phase = ""

    def stages(
        self, cells: Sequence[PlannedCell], training: Work | None
    ) -> Iterator[Sequence[Work]]:
        """Training; blocks of passes and sentences; the merging of these blocks; cells."""
        yield [training] if training else []
        if error := self.errors.get(training):
            self.outcomes += failed(cells, error)
            return
        for run in open_runs(cells, self.context):
            if isinstance(run, Outcome):
                self.outcomes.append(run)
                continue
            config: Any = run.left[0].encoder
            identity = self.identities[config] = run.encoder.identity
            cells_by_pass: dict[CorpusPass, list[PlannedCell]] = {}
            for cell, corpus_pass in run.passes.items():
                if corpus_pass.missing:
                    cells_by_pass.setdefault(corpus_pass, []).append(cell)
            in_pass = partial(_in_pass, self.site, identity)
            blocks = [
                Work(partial(in_pass, of_pass, CorpusPass.encode, block), len(block))
                for corpus_pass, of_pass in cells_by_pass.items()
                for block in corpus_pass.sample.blocks
            ]
            missing = sorted(self.part.texts(run.missing), key=len)  # similar lengths together
            shards = (missing[start : start + SHARD] for start in range(0, len(missing), SHARD))
            encode = partial(_encode, self.site, identity, config)
            # Blocks take longest, and so come first.
            yield [*blocks, *(Work(partial(encode, texts), len(texts)) for texts in shards)]
            yield [
                Work(partial(in_pass, of_pass, CorpusPass.merge))
                for of_pass in cells_by_pass.values()
            ]
            yield [self._measuring(unit) for unit in units(run.left, passes_made=True)]

    def _measuring(self, unit: Sequence[PlannedCell]) -> Work:
        config: Any = unit[0].encoder
        measured = partial(_measured, self.site, self.identities[config], unit)
        return Work(measured, len(unit), cells=unit)

    def begin(self, stages: Iterator[Sequence[Work]]) -> Sequence[Work]:
        """The next of the stages in which there is something to do."""
        works = next(filter(None, stages), ())
        self.begun += works
        self.waiting.update(dict.fromkeys(works, (stages, set(works))))
        return works

    def then(self, work: Work, result: Any) -> Sequence[Work]:
        """Take note of what a call gave; the work that nothing waits for any more."""
        stages, others = self.waiting.pop(work)
        others.remove(work)
        lost = isinstance(result, WorkersLost)
        if lost and len(work.cells) > 1:  # which of them it was shows alone
            self.begun.remove(work)
            return self.begin(iter([[self._measuring((cell,)) for cell in work.cells]]))
        if work.trains and result is not None:
            self.errors[work] = HarnessError(f"{work.trains.name}: {result}")
        elif work.cells:
            blamed = WorkersLost(f"{work.cells[0].address}: {result}")
            self.outcomes += failed(work.cells, blamed) if lost else result
        further = () if others else self.begin(stages)
        self.show(work)
        return further

    def show(self, done: Work | None = None) -> None:
        """Show how much is done of the first phase in which there is work left."""
        progress = self.context.progress
        if done is not None and done.phase == self.phase:
            progress.step(done.steps)
        left = {work.phase for work in self.waiting}
        phase = next((p for p in ("training", "encoding", "scoring") if p in left), self.phase)
        if phase != self.phase:
            self.phase = phase
            every = [work for work in self.begun if work.phase == phase]
            progress.phase(phase, sum(work.steps for work in every) or None)
            progress.step(sum(work.steps for work in every if work not in self.waiting))


# In a worker, which keeps the last texts and the last encoder open: items mostly follow one another


@lru_cache(maxsize=1)
def _context(site: Site) -> RunContext:
    return site.context


@lru_cache(maxsize=1)
def _encoder(site: Site, identity: Identity, config: Any) -> CachedEncoder:
    return CachedEncoder.open(config, site.context.loader.places, site.context.clock, identity)


def _in_worker(site: Site, function: Callable[[Any], Any], item: Any) -> Any:
    """A function of an item, in a worker that is fit for it."""
    site.require_worker()
    return function(item)


def _encode(site: Site, identity: Identity, config: Any, texts: Sequence[str]) -> None:
    """Encode and store sentences. The cells that need them report an error."""
    with failures(()):
        _encoder(site, identity, config).ensure(texts, Progress())


def _in_pass(
    site: Site,
    identity: Identity,
    cells: Sequence[PlannedCell],
    step: Callable[..., None],
    *block: range,
) -> None:
    """Encode a block of the pass that cells share, or merge all. The cells report an error."""
    with failures(()), one_blas_thread():
        config: Any = cells[0].encoder
        loader, encoder = _context(site).loader, _encoder(site, identity, config)
        texts = {cell: loader.inputs(cell.task, cell.method.fit_on).fit for cell in cells}
        corpus_pass = corpus_passes(encoder, texts, Progress())[cells[0]]
        step(corpus_pass, *block, corpus_pass.missing)


def _measured(site: Site, identity: Identity, unit: Sequence[PlannedCell]) -> list[Outcome]:
    identities: Any = {unit[0].encoder: identity}
    return [*execute(unit, replace(_context(site), identities=identities))]
