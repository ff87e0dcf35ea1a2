"""Many cells: one encoder after another, one pass over the distinct sentences of all its cells.

A cell that cannot run or fails is an outcome like any other; the rest still run and are kept.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from harness.assets.places import revision_of
from harness.core.digests import pairs_digest
from harness.core.energy import measured_energy
from harness.core.errors import AssetMissing, HarnessError
from harness.core.provenance import code_digest, environment
from harness.core.types import Clock, Identity, Progress, Record, Task
from harness.encoders.cache.encodings import EncodingCost
from harness.encoders.cache.labels import open_labelled
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.evaluate import Measurement, measure
from harness.evaluation.fit_corpus import Fitting
from harness.results.planned import Planned
from harness.results.records import SCHEMA, Cell, Store
from harness.tasks.loader import Library

Status = Literal["measured", "done", "asset missing", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a cell; `message` says why it has no record, `moved` that its file changed.

    `get` is what gets the asset that it lacks.
    """

    cell: Cell
    status: Status
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    get: str = ""


def execute(
    planned: Sequence[Planned],
    library: Library,
    store: Store,
    progress: Progress,
    clock: Clock,
    fresh: bool = False,
) -> Iterator[Outcome]:
    """Run the cells and yield an outcome for each; a cell done here before is not run again."""
    for _, group in groupby(planned, key=lambda p: p.encoder.name):
        yield from _EncoderRun(tuple(group), library, store, progress, clock, fresh).outcomes()


@dataclass
class _EncoderRun:
    """The cells of one encoder."""

    planned: tuple[Planned, ...]
    library: Library
    store: Store
    progress: Progress
    clock: Clock
    fresh: bool
    paid: dict[Task, EncodingCost] = field(default_factory=dict)

    def outcomes(self) -> Iterator[Outcome]:
        config = self.planned[0].encoder
        places = self.library.places
        try:
            path = places.encoder(config)
            identity = config.identify(path)
        except HarnessError as error:
            yield from (_not_run(p.cell, error) for p in self.planned)
            return
        bench = CachedEncoder(
            identity.key,
            open_labelled(places.cache, config, path, identity),
            lambda: config.load(path, places.cache),
            self.clock,
            places.cache / "moments" / identity.key,
            places.cache / "rows" / identity.key,
            revision_of(path),
        )
        ready: list[Planned] = []
        for planned in self.planned:
            try:
                self.library.sentences(planned.task, planned.method.fit_on)
            except HarnessError as error:
                yield _not_run(planned.cell, error)
            else:
                ready.append(planned)
        yield from self._ready(ready, bench, identity)

    def _ready(
        self, ready: Sequence[Planned], bench: CachedEncoder, identity: Identity
    ) -> Iterator[Outcome]:
        fitting = Fitting(self.library, bench, self.progress, ready)
        name = self.planned[0].encoder.name
        pending = []
        for planned in ready:
            try:
                about = self._identity(planned, fitting, identity)
                if not self.fresh and self.store.done(planned.cell, about):
                    yield Outcome(planned.cell, "done", self.store.read(planned.cell))
                else:
                    pending.append(planned)
            except HarnessError as error:
                yield _not_run(planned.cell, error)
        wants = dict.fromkeys((p.task, p.method.fit_on) for p in pending)
        texts = sorted(frozenset().union(*(self.library.sentences(*want) for want in wants)))
        missing = bench.cache.missing(texts)
        try:
            if missing:
                self.progress.phase(f"{name}: encoding", len(missing))
                bench.ensure(missing, self.progress)
        except HarnessError as error:
            yield from (_not_run(p.cell, error) for p in pending)
            return
        prepared = []
        for planned in pending:
            try:
                fitting.prepare(planned)
                prepared.append(planned)
            except HarnessError as error:
                yield _not_run(planned.cell, error)
        if prepared:
            self.progress.phase(f"{name}: scoring", len(prepared))
        for _, group in groupby(prepared, key=lambda p: p.method.pooling):
            yield from self._pooling(tuple(group), fitting, texts, identity)

    def _pooling(
        self, group: Sequence[Planned], fitting: Fitting, texts: Sequence[str], identity: Identity
    ) -> Iterator[Outcome]:
        try:
            view = fitting.bench.view(group[0].method.pooling, texts)
        except HarnessError as error:
            yield from (_not_run(p.cell, error) for p in group)
            return
        for planned in group:
            try:
                yield self._cell(planned, fitting, view, identity)
            except HarnessError as error:
                yield _not_run(planned.cell, error)
            self.progress.step(1)

    def _cell(
        self, planned: Planned, fitting: Fitting, view: PooledEmbeddings, identity: Identity
    ) -> Outcome:
        pairs, bench = self.library.pairs(planned.task), fitting.bench
        labelled = self.library.labelled(planned.task)
        method, task, seed = planned.method, planned.task, planned.seed
        with measured_energy() as energy:  # what cells share is paid by the first of them
            fit_on = fitting.fit_on(planned, view)
            found = measure(method, task, pairs, view, fit_on, seed, self.clock, labelled)
        if task not in self.paid:
            self.paid[task] = bench.cache.paid(dict.fromkeys(pairs.sentences))
        about = self._identity(planned, fitting, identity)
        paid = self.paid[task]
        record = _record(planned, found, about, identity, paid, energy.kwh, bench.revision)
        moved = self.store.write(record, found.cosines, about)
        return Outcome(planned.cell, "measured", record, moved=moved)

    def _identity(self, planned: Planned, fitting: Fitting, identity: Identity) -> dict[str, str]:
        """What a stored result must have been measured with to count as done."""
        about = {
            "method": repr(planned.method),
            "data": self.library.pairs_digest(planned.task),
            "encoding": identity.key,
            "code": code_digest(),
        }
        if labelled := self.library.labelled(planned.task):
            about["labels"] = "+".join(pairs_digest(pairs) for pairs in labelled)
        if (fitted_on := fitting.digest(planned)) is not None:
            about["fit"] = fitted_on
        return about


def _record(
    planned: Planned,
    found: Measurement,
    about: Mapping[str, str],
    identity: Identity,
    paid: EncodingCost,
    rest: float | None,
    revision: str | None,
) -> Record:
    """Everything that is stored of a measured cell; what nothing measured or told is left out.

    `rest` is the energy of fitting, applying and scoring.
    """
    digests = {name: value for name, value in about.items() if name != "method"}
    timings = {"encode": paid.seconds, **found.timings}
    energy = {"encode": paid.kwh, "rest": rest}
    kwh = {name: float(f"{found:.3g}") for name, found in energy.items() if found is not None}
    return Record(
        schema=SCHEMA,
        method=planned.method.id,
        repr=repr(planned.method),
        task=planned.task.name,
        seed=planned.seed,
        scores=found.scores,
        pairs=len(found.cosines),
        timings={name: round(seconds, 4) for name, seconds in timings.items()},
        digests={**digests, **identity.digests},
        environment=environment(),
        facts={
            **found.facts,
            **({"revision": revision} if revision else {}),
            "max_length": identity.max_length,
            "distinct_sentences": paid.sentences,
            "sentences_per_second": paid.rate,
            "peak_memory_mb": _peak_memory_mb(),
            **({"encoding": list(paid.how)} if paid.how else {}),
            **({"kwh": kwh} if kwh else {}),
        },
    )


def _peak_memory_mb() -> int:
    """The process's high-water mark; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def _not_run(cell: Cell, error: HarnessError) -> Outcome:
    get = error.get if isinstance(error, AssetMissing) else None
    status: Status = "failed" if get is None else "asset missing"
    message, ended = str(error), error.exit_status
    return Outcome(cell, status, message=message, exit_status=ended, get=get or "")
