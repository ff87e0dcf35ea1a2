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
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from time import perf_counter
from typing import Any, Literal

import numpy as np

from harness.core.errors import AssetMissing, HarnessError, ScoreError, error_line, is_interruption
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Identity, Transform
from harness.core.provenance import blamed, environment, one_blas_thread, packages
from harness.core.types import Clock, Method, Progress, Record, Task
from harness.encoders.cache.encodings import EncodingCost
from harness.encoders.function import FunctionConfig
from harness.evaluation.embeddings import CachedEncoder, PooledEmbeddings
from harness.evaluation.evaluate import fit, measure
from harness.evaluation.fit_corpus import CorpusPass, CorpusSample, FitData, corpus_passes
from harness.evaluation.plan import identity_of, plugins_of_cell
from harness.evaluation.select import PlannedCell
from harness.plugins import require_folders
from harness.results.records import SCHEMA, Cell, Store
from harness.results.reproduction import MIN_COVERAGE
from harness.tasks.loader import CellInputs, TaskLoader, distinct_sentences

LOG = logging.getLogger(__name__)

Fitted = tuple[Sequence[Transform], float]  # post-processors, and the seconds that they took


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell; `message` says why it has no record, `moved` that its file changed.

    `get` is what gets the asset that it lacks.
    """

    cell: Cell
    status: Literal["measured", "done", "asset missing", "failed"]
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    get: str = ""


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


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """An outcome of each of these cells, which an error kept from being measured."""
    get = error.get if isinstance(error, AssetMissing) else ""
    status: Any = "asset missing" if isinstance(error, AssetMissing) else "failed"
    message, exit_status = str(error), error.exit_status
    return [Outcome(c.address, status, None, message, False, exit_status, get) for c in cells]


@dataclass(frozen=True)
class RunContext:
    """What the cells of a run share: the readers, the records, progress and clocks.

    With `overwrite`, what is done is measured again. `workers` is how many processes work beside
    each other: records say it, since it costs time. A cell fails if word vectors have a vector for
    a smaller share of its tokens than `min_coverage`. `identities` are those of encoders whose
    files the run has read already, in the process that started it.
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
    for run in open_runs(cells, context):
        if isinstance(run, Outcome):
            yield run
        else:
            yield from run.outcomes()


def open_runs(cells: Sequence[PlannedCell], context: RunContext) -> Iterator[EncoderRun | Outcome]:
    """The work that is left of each encoder; an outcome of each cell that is done or cannot run."""
    for config, group in groupby(cells, key=lambda cell: cell.encoder):
        of_encoder = tuple(group)
        with failures(of_encoder) as failing:
            identity = context.identities.get(config)
            encoder = CachedEncoder.open(config, context.loader.places, context.clock, identity)
            run = EncoderRun(context, encoder)
            by_hand = context.loader.places.encoders.get(base_name(config.name))
            if by_hand is not None and not isinstance(config, FunctionConfig):
                context.store.note_encoder(base_name(config.name), by_hand.absolute())
        yield from failing
        if not failing:
            run.left = yield from _each(of_encoder, run.look_up)
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
        with failures([cell]) as failing, one_blas_thread():
            outcome = step(cell)
        if outcome is None and not failing:
            left.append(cell)
        yield from failing if outcome is None else [outcome]
    return left


@dataclass
class EncoderRun:
    """The cells of one encoder, and what is known of each on its way to a record.

    `identity` is what a stored result must have been measured with to count as done; `left` are the
    cells that are not done; `costs` are those of a task's sentences, and the share of their tokens
    that have a vector; `fitted` are a method's fits on a corpus, by its seeds, for its other tasks.
    """

    context: RunContext
    encoder: CachedEncoder
    left: Sequence[PlannedCell] = ()
    inputs: dict[PlannedCell, CellInputs] = field(default_factory=dict)
    identity: dict[PlannedCell, Mapping[str, str]] = field(default_factory=dict)
    costs: dict[Task, tuple[EncodingCost, float | None]] = field(default_factory=dict)
    fitted: dict[tuple[Method, int], Fitted] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The sentences of the cells that are left which are not encoded yet."""
        return self.encoder.cache.missing(self._texts(self.left))

    @cached_property
    def passes(self) -> Mapping[PlannedCell, CorpusPass]:
        """The passes over corpora that the cells which are left need."""
        texts = {cell: self.inputs[cell].fit for cell in self.left}
        return corpus_passes(self.encoder, texts, self.context.progress)

    def look_up(self, cell: PlannedCell) -> Outcome | None:
        """Read a cell's texts; its outcome if it is done."""
        inputs = self.context.loader.inputs(cell.task, cell.method.fit_on)
        identity = identity_of(cell, inputs, self.encoder.identity.key)
        if inputs.fit is not None:
            identity["fit"] = CorpusSample.of_cell(cell, inputs.fit).digest
        self.inputs[cell], self.identity[cell] = inputs, identity
        store = self.context.store
        if self.context.overwrite or not store.done(cell.address, identity):
            return None
        record = store.read(cell.address)
        self._require_coverage(cell, record.facts.get("coverage") if record else None)
        return Outcome(cell.address, "done", record)

    def outcomes(self) -> Iterator[Outcome]:
        """Encode what is missing, and measure the cells that are left."""
        name, progress = self.left[0].encoder.name, self.context.progress
        cells = yield from self._encode(name)
        cells = yield from _each(cells, self._pass_over)
        texts = self._texts(cells)
        if cells:
            progress.phase(f"{name}: scoring", len(cells))
        for pooling, group in groupby(cells, key=lambda cell: cell.method.pooling):
            of_pooling = tuple(group)
            with failures(of_pooling) as failing:
                pooled = self.encoder.pooled(pooling, texts)
            yield from failing
            for cell in () if failing else of_pooling:
                yield from _each([cell], partial(self._measure, pooled))
                progress.step(1)

    def _encode(self, name: str) -> Generator[Outcome, None, Sequence[PlannedCell]]:
        """Encode the sentences that are missing; returns the cells whose sentences are encoded.

        Where that fails, the inputs of cells are encoded one after the other.
        """
        progress = self.context.progress
        with failures(self.left) as failing:
            if missing := self.missing:
                progress.phase(f"{name}: encoding", len(missing))
                self.encoder.ensure(missing, progress)
        if not failing:
            return self.left
        encoded: list[PlannedCell] = []
        for inputs in dict.fromkeys(self.inputs[cell] for cell in self.left):
            group = [cell for cell in self.left if self.inputs[cell] is inputs]
            with failures(group) as failing:
                self.encoder.ensure(self._texts(group), progress)
            yield from failing
            encoded += () if failing else group
        return [cell for cell in self.left if cell in encoded]

    def _pass_over(self, cell: PlannedCell) -> None:
        """Make what a cell is fitted on, if it is in a file."""
        if cell in self.passes:
            self.passes[cell].data(cell.method)

    def _fit(self, pooled: PooledEmbeddings, cell: PlannedCell) -> Fitted:
        """Fit a cell's post-processors; a fit on a corpus is kept for its method's other tasks."""
        method, text, clock = cell.method, self.inputs[cell].fit, self.context.clock
        key = method, cell.seed
        if text is None or key in self.fitted:
            return self.fitted.get(key, ((), 0.0))
        if cell in self.passes:
            data = self.passes[cell].data(method)
        else:
            data = FitData.of(method, pooled, text.digest, tuple(text.sentences()))
        start = clock()
        transforms = fit(method, data, np.random.default_rng(cell.seed))
        fitted = transforms, clock() - start + data.seconds
        if text.streams:
            of_method = {k: maps for k, maps in self.fitted.items() if k[0] == method}
            self.fitted = {**of_method, key: fitted}
        return fitted

    def _texts(self, cells: Iterable[PlannedCell]) -> list[str]:
        """The distinct sentences of cells, sorted."""
        return sorted(distinct_sentences(self.inputs[cell] for cell in cells))

    def _require_coverage(self, cell: PlannedCell, coverage: float | None) -> None:
        """Raise ScoreError if too few of the tokens of a cell's task have a vector."""
        if coverage is not None and coverage < self.context.min_coverage:
            raise ScoreError(
                f"{cell.encoder.name} on {cell.task.name}: wanted a vector for "
                f"{100 * self.context.min_coverage:g} % of the tokens, found one for "
                f"{100 * coverage:.1f} %; check the words of the file, or allow it with "
                "--min-coverage 0"
            )

    def _measure(self, pooled: PooledEmbeddings, cell: PlannedCell) -> Outcome:
        inputs, identity, encoder = self.inputs[cell], self.identity[cell], self.encoder
        if cell.task not in self.costs:
            distinct = dict.fromkeys(inputs.pairs.sentences)
            self.costs[cell.task] = encoder.cache.paid(distinct), encoder.cache.coverage(distinct)
        cost, coverage = self.costs[cell.task]
        self._require_coverage(cell, coverage)
        transforms, seconds = self._fit(pooled, cell)
        measurement = measure(
            cell.task, inputs.pairs, pooled, transforms, self.context.clock, inputs.labelled
        )
        parameters = encoder.identity.parameters
        devices = dict.fromkeys(str(how.get("device", "cpu")) for how in cost.how)
        timings = {"encode": cost.seconds, "fit": seconds, **measurement.timings}
        digests = {name: value for name, value in identity.items() if name != "method"}
        plugins = plugins_of_cell(cell).values()
        record = Record(
            schema=SCHEMA,
            method=cell.method.id,
            repr=repr(cell.method),
            task=cell.task.name,
            seed=cell.seed,
            scores=measurement.scores,
            pairs=len(measurement.cosines),
            timings={name: round(seconds, 4) for name, seconds in timings.items()},
            digests={**digests, **encoder.identity.digests},
            environment=environment() | {"device": ", ".join(devices) or "cpu"},
            facts={
                **measurement.facts,
                "distinct_sentences": cost.sentences,
                "sentences_per_second": cost.rate,
                "peak_memory_mb": _peak_memory_mb(),
                **({"workers": count} if (count := self.context.workers) > 1 else {}),
                **({} if coverage is None else {"coverage": round(coverage, 4)}),
                **({"plugins": {p.name: p.version for p in plugins}} if plugins else {}),
                **({"revision": encoder.revision} if encoder.revision else {}),
                "max_length": encoder.identity.max_length,
                **({"parameters": parameters} if parameters else {}),
                **({"encoding": list(cost.how)} if cost.how else {}),
                **({"encoded_with": others} if (others := _other_versions(cost)) else {}),
            },
        )
        require_folders(plugins)
        moved = self.context.store.write(record, measurement.cosines, identity)
        return Outcome(cell.address, "measured", record, moved=moved)


def _other_versions(cost: EncodingCost) -> dict[str, Sequence[str]]:
    """The versions that encoded the sentences, of libraries that are here in another."""
    here = {library: [str(version)] for library, version in packages().items()}
    return {name: found for name, found in cost.versions.items() if found != here.get(name)}


def _peak_memory_mb() -> int:
    """The process's high-water mark; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20
