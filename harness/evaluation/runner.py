"""Outcomes of cells: measured, done before, or not run, with the reason.

One cell's failure never ends a run, whatever its exception: `failures` makes an outcome of it. The
traceback of an unexpected one is a debugging message of the log, which `--debug` shows.
"""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Literal

from harness.core.errors import AssetMissing, HarnessError, error_line
from harness.core.provenance import environment, one_blas_thread
from harness.core.types import Clock, Progress, Record, Task
from harness.encoders.cache.encodings import EncodingCost
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.evaluate import Measurement, measure
from harness.evaluation.fit_corpus import FitCorpora
from harness.evaluation.plan import identity_of
from harness.results.records import SCHEMA, Cell, PlannedCell, Store
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences

LOG = logging.getLogger(__name__)

Status = Literal["measured", "done", "asset missing", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell; `message` says why it has no record, `moved` that its file changed.

    `get` is what gets the asset that it lacks.
    """

    cell: Cell
    status: Status
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    get: str = ""


@contextmanager
def failures(cells: Iterable[PlannedCell]) -> Iterator[list[Outcome]]:
    """Context for a step: if it raises, the list it yields gets a failed outcome for each cell."""
    found: list[Outcome] = []
    try:
        yield found
    except HarnessError as error:
        found += failed(cells, error)
    except Exception as error:
        LOG.debug("", exc_info=error)
        status, why = HarnessError.exit_status, error_line(error)
        found += [Outcome(c.address, "failed", message=why, exit_status=status) for c in cells]


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """An outcome of each of these cells, which an error kept from being measured."""
    get = error.get if isinstance(error, AssetMissing) else None
    outcome = partial(
        Outcome,
        status="failed" if get is None else "asset missing",
        message=str(error),
        exit_status=error.exit_status,
        get=get or "",
    )
    return [outcome(cell.address) for cell in cells]


def execute(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    store: Store,
    progress: Progress,
    clock: Clock,
    fresh: bool = False,
    workers: int = 1,
) -> Iterator[Outcome]:
    """Run the cells and yield an outcome for each; a cell done here before is not run again.

    `workers` is how many processes work beside each other: records say it, since it costs time.
    """
    for run in open_runs(cells, loader, store, progress, clock, fresh, workers):
        if isinstance(run, Outcome):
            yield run
        else:
            yield from run.outcomes()


def open_runs(
    cells: Sequence[PlannedCell],
    loader: TaskLoader,
    store: Store,
    progress: Progress,
    clock: Clock,
    fresh: bool = False,
    workers: int = 1,
) -> Iterator[EncoderRun | Outcome]:
    """The work that is left of each encoder; an outcome of each cell that is done or cannot run."""
    for _, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        with failures(of_encoder) as failed:
            encoder = CachedEncoder.open(of_encoder[0].encoder, loader.places, clock)
        yield from failed
        if failed:
            continue
        corpora = FitCorpora(encoder, progress)
        run = EncoderRun(encoder, corpora, loader, store, progress, clock, fresh, workers)
        yield from run.look_up(of_encoder)
        if run.left:
            yield run


def _each(
    cells: Sequence[PlannedCell], step: Callable[[PlannedCell], Outcome | None]
) -> Generator[Outcome, None, list[PlannedCell]]:
    """Take a step with each cell; those that it gives no outcome go on.

    One thread sums, so that a score does not depend on how many cores or workers there are.
    """
    left = []
    for cell in cells:
        outcome = None
        with failures([cell]) as failed, one_blas_thread():
            outcome = step(cell)
        if outcome is None and not failed:
            left.append(cell)
        yield from failed if outcome is None else [outcome]
    return left


@dataclass
class EncoderRun:
    """The cells of one encoder, and what is known of each on its way to a record.

    `identity` is what a stored result must have been measured with to count as done; `left` are the
    cells that are not done.
    """

    encoder: CachedEncoder
    corpora: FitCorpora
    loader: TaskLoader
    store: Store
    progress: Progress
    clock: Clock
    fresh: bool
    workers: int
    left: Sequence[PlannedCell] = ()
    inputs: dict[PlannedCell, CellInputs] = field(default_factory=dict)
    identity: dict[PlannedCell, Mapping[str, str]] = field(default_factory=dict)
    costs: dict[Task, EncodingCost] = field(default_factory=dict)
    coverage: dict[Task, float | None] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The sentences of the cells that are left which are not encoded yet."""
        return self.encoder.cache.missing(self._texts(self.left))

    def look_up(self, cells: Sequence[PlannedCell]) -> Iterator[Outcome]:
        """Read the cells' texts, yield outcomes of those that are done, and keep the others."""
        cells = yield from _each(cells, self._read)
        self.left = yield from _each(cells, self._look_up)

    def prepare(self, block: range | None = None) -> None:
        """Make the files that the cells which are left are fitted on, or a block of them.

        Those cells report an error.
        """
        self.encoder.require_checked()
        for _ in _each(self.left, partial(self.corpora.prepare, block=block)):
            pass

    def outcomes(self) -> Iterator[Outcome]:
        """Encode what is missing, and measure the cells that are left."""
        name = self.left[0].encoder.name
        cells = yield from self._encode(name, self.left)
        cells = yield from _each(cells, self.corpora.prepare)
        texts = self._texts(cells)
        if cells:
            self.progress.phase(f"{name}: scoring", len(cells))
        for pooling, group in groupby(cells, key=lambda cell: cell.method.pooling):
            of_pooling = tuple(group)
            with failures(of_pooling) as failed:
                pooled = self.encoder.pooled(pooling, texts)
            yield from failed
            for cell in () if failed else of_pooling:
                yield from _each([cell], partial(self._measure, pooled))
                self.progress.step(1)

    def _encode(
        self, name: str, cells: Sequence[PlannedCell]
    ) -> Generator[Outcome, None, Sequence[PlannedCell]]:
        """Encode the sentences that are missing; returns the cells whose sentences are encoded."""
        with failures(cells) as failed:
            self.encoder.require_checked()
        if failed:
            yield from failed
            return ()
        missing = self.missing
        if not missing:
            return cells
        self.progress.phase(f"{name}: encoding", len(missing))
        with failures(cells) as failed:
            self.encoder.ensure(missing, self.progress)
        return (yield from self._encode_apart(cells, failed)) if failed else cells

    def _encode_apart(
        self, cells: Sequence[PlannedCell], failed: Sequence[Outcome]
    ) -> Generator[Outcome, None, Sequence[PlannedCell]]:
        """Encode the inputs of cells one after the other, since all of them together failed so."""
        reasons = {outcome.cell: outcome for outcome in failed}
        groups: dict[tuple[Task, str | None], list[PlannedCell]] = {}
        for cell in cells:
            groups.setdefault((cell.task, cell.method.fit_on), []).append(cell)
        lost: set[PlannedCell] = set()
        for group in groups.values():
            missing = self.encoder.cache.missing(self._texts(group))
            again = [reasons[cell.address] for cell in group]
            if missing and self.encoder.encoder is not None:
                with failures(group) as again:
                    self.encoder.ensure(missing, self.progress)
            if missing and again:
                lost |= set(group)
                yield from again
        return [cell for cell in cells if cell not in lost]

    def _texts(self, cells: Iterable[PlannedCell]) -> list[str]:
        """The distinct sentences of cells, sorted."""
        return sorted(distinct_sentences(self.inputs[cell] for cell in cells))

    def _read(self, cell: PlannedCell) -> None:
        inputs = self.loader.inputs(cell.task, cell.method.fit_on)
        self.inputs[cell] = inputs
        if inputs.fit is not None:
            self.corpora.texts[cell] = inputs.fit

    def _look_up(self, cell: PlannedCell) -> Outcome | None:
        """The cell's outcome if it is done."""
        identity = identity_of(cell, self.inputs[cell], self.encoder.identity.key)
        if (fit := self.corpora.digest(cell)) is not None:
            identity["fit"] = fit
        self.identity[cell] = identity
        if self.fresh or not self.store.done(cell.address, identity):
            return None
        return Outcome(cell.address, "done", self.store.read(cell.address))

    def _measure(self, pooled: PooledEmbeddings, cell: PlannedCell) -> Outcome:
        inputs, identity = self.inputs[cell], self.identity[cell]
        measurement = measure(
            cell.method,
            cell.task,
            inputs.pairs,
            pooled,
            self.corpora.data(cell, pooled),
            cell.seed,
            self.clock,
            inputs.labelled,
        )
        if cell.task not in self.costs:
            distinct = dict.fromkeys(inputs.pairs.sentences)
            self.costs[cell.task] = self.encoder.cache.paid(distinct)
            self.coverage[cell.task] = self.encoder.cache.coverage(distinct)
        cost = self.costs[cell.task]
        record = _record(cell, measurement, identity, self.encoder, cost, self.workers)
        if (share := self.coverage[cell.task]) is not None:
            record = replace(record, facts={**record.facts, "coverage": round(share, 4)})
        moved = self.store.write(record, measurement.cosines, identity)
        return Outcome(cell.address, "measured", record, moved=moved)


def _record(
    cell: PlannedCell,
    measurement: Measurement,
    identity: Mapping[str, str],
    encoder: CachedEncoder,
    cost: EncodingCost,
    workers: int,
) -> Record:
    """Everything that is stored of a measured cell; what nothing measured is left out."""
    digests = {name: value for name, value in identity.items() if name != "method"}
    timings = {"encode": cost.seconds, **measurement.timings}
    return Record(
        schema=SCHEMA,
        method=cell.method.id,
        repr=repr(cell.method),
        task=cell.task.name,
        seed=cell.seed,
        scores=measurement.scores,
        pairs=len(measurement.cosines),
        timings={name: round(seconds, 4) for name, seconds in timings.items()},
        digests={**digests, **encoder.identity.digests},
        environment=environment() | {"device": _devices(cost)},
        facts={
            **measurement.facts,
            **({"revision": encoder.revision} if encoder.revision else {}),
            "max_length": encoder.identity.max_length,
            "distinct_sentences": cost.sentences,
            "sentences_per_second": cost.rate,
            "peak_memory_mb": _peak_memory_mb(),
            **({"encoding": list(cost.how)} if cost.how else {}),
            **({"workers": workers} if workers > 1 else {}),
        },
    )


def _devices(cost: EncodingCost) -> str:
    """The devices that the cell's sentences were encoded on; word vectors need no other."""
    return ", ".join(dict.fromkeys(str(how.get("device", "cpu")) for how in cost.how)) or "cpu"


def _peak_memory_mb() -> int:
    """The process's high-water mark; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20
