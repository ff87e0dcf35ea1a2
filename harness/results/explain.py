"""Why a published number is not reproduced, and what would let more of them be measured."""

from __future__ import annotations

import math
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import runtime_checkable

from harness.assets.catalogue import Asset
from harness.assets.places import asset_named, companion_of, vectors_of
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Hub, Trained
from harness.core.types import AGGREGATIONS
from harness.registry import Registry
from harness.results.conformance import confirmed_by
from harness.results.index import Results
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell, Table, published_cell
from harness.results.reproduction import Reproduction, method_of, reproduce
from harness.results.verdict import CellState


def run_command(method: str, tasks: Iterable[str], registry: Registry) -> str:
    """The command that measures a method; of an encoder by hand its files are to be filled in."""
    encoder = base_name(method.partition(".")[0])
    files = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    on = "".join(f" -t {task}" for task in tasks)
    return f"harness run{files} -m '{method}'{on}"


@dataclass(frozen=True)
class Score:
    """A score measured under a protocol, and the command that measures it."""

    protocol: Protocol
    value: float
    command: str


@dataclass(frozen=True)
class Neighbour(Score):
    """A score measured under a neighbouring protocol.

    `differs_in` names the choices in which the protocol is another than the wanted one,
    `difference` is the distance from the score that it is compared with.
    """

    differs_in: tuple[str, ...]
    difference: float


@dataclass(frozen=True)
class Explanation:
    """A published cell, its reproduction, and the measured scores under neighbouring protocols.

    `confirmed_by` is the authors' program whose scores ours equal under the cell's protocol;
    `shown_on` is the encoder of the neighbours, `reference` the score that they are compared with.
    `base` is the neighbour whose score that is, where no encoder was run under the cell's protocol.
    `command` measures the cell.
    """

    cell: PublishedCell
    reproduction: Reproduction
    confirmed_by: str | None
    wanted: Protocol | None
    shown_on: str
    reference: float | None
    neighbours: tuple[Neighbour, ...]
    base: Neighbour | None = None
    command: str = ""


def explain(
    name: str,
    tables: Sequence[Table],
    results: Results,
    registry: Registry,
    programs: Mapping[Protocol, str],
) -> Explanation:
    """Look around one published cell; `programs` confirm protocols. UsageError: an unknown cell."""
    cell = published_cell(name, tables)
    wanted = wanted_protocol(cell, registry)
    measured = [] if wanted is None else list(scores(results, registry, wanted))
    reproduction = reproduce(cell, results, registry)
    program = confirmed_by(cell, programs, results, registry)
    found = look_around(reproduction, wanted, measured, program)
    tasks = [cell.task] if cell.task else []
    return replace(found, command=run_command(str(cell.method), tasks, registry))


def look_around(
    reproduction: Reproduction,
    wanted: Protocol | None,
    measured: Sequence[Score],
    program: str | None,
) -> Explanation:
    """The measured scores of the wanted task, as neighbours of a cell, nearest first."""
    cell = reproduction.cell
    if wanted is None or cell.points is None or not measured:
        return Explanation(cell, reproduction, program, wanted, "", None, ())
    there, reference, compared = wanted, cell.points, wanted
    if not any(score.protocol.encoder == wanted.encoder for score in measured):
        there, nearest = _elsewhere(wanted, measured)
        reference, compared = nearest.value, nearest.protocol
    neighbours = [
        Neighbour(
            protocol=score.protocol,
            value=score.value,
            command=score.command,
            differs_in=there.differences(score.protocol),
            difference=score.value - reference,
        )
        for score in measured
        if score.protocol.encoder == there.encoder and score.protocol != there
    ]
    # The nearest fit corpus of the wanted kind stands first, however many others are as near.
    related = (n for n in neighbours if _is_of_kind(n.protocol.fit_on, wanted.fit_on))
    first = min(related, key=lambda n: _distance(n.protocol, there), default=None)
    neighbours.sort(key=lambda n: (n is not first, _choices(n.differs_in), abs(n.difference)))
    base = next((n for n in neighbours if n.protocol == compared), None)
    return Explanation(
        cell, reproduction, program, wanted, there.encoder, reference, tuple(neighbours), base
    )


def _elsewhere(wanted: Protocol, measured: Sequence[Score]) -> tuple[Protocol, Score]:
    """The wanted protocol on another encoder, and the score of it or of the nearest one there."""
    tried = Counter(score.protocol.encoder for score in measured)
    there = {name: replace(wanted, encoder=name, max_length="") for name in tried}

    def remoteness(score: Score) -> tuple[object, ...]:
        encoder = score.protocol.encoder
        return _distance(score.protocol, there[encoder]), -tried[encoder]

    nearest = min(measured, key=remoteness)
    return there[nearest.protocol.encoder], nearest


def _distance(protocol: Protocol, wanted: Protocol) -> tuple[object, ...]:
    """How far a protocol is from the wanted one: another metric first, then its choices.

    A fit corpus of the wanted kind is no choice of its own, and nearer than any other change.
    """
    differs_in = wanted.differences(protocol)
    other_family = protocol.post.partition(":")[0] != wanted.post.partition(":")[0]
    related = _is_of_kind(protocol.fit_on, wanted.fit_on)
    choices = _choices(differs_in) - (related and "post" not in differs_in)
    other_metric = "metric" in differs_in
    return bool(differs_in), other_metric, choices, not related, other_family, len(differs_in)


def _choices(differs_in: Collection[str]) -> int:
    """The number of choices; another calibration and another corpus for it are one."""
    return len(differs_in) - ({"post", "fit_on"} <= {*differs_in})


def _is_of_kind(corpus: str, wanted: str) -> bool:
    """Whether a fit corpus is another one of the wanted kind, as `snli-18k` is for `nli`."""
    return wanted != "" and wanted != corpus and wanted in corpus


def wanted_protocol(cell: PublishedCell, registry: Registry) -> Protocol | None:
    """The protocol of a published cell of one task; None of others."""
    return next(iter(protocols_of(cell, registry)), None) if cell.task else None


def scores(results: Results, registry: Registry, wanted: Protocol) -> Iterator[Score]:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    correlations = ("spearman", "pearson")
    metrics = correlations if wanted.metric in correlations else (wanted.metric,)
    for method, name in results.by_cell:
        task = registry.tasks.get(name)
        if task is None or name.partition(".")[0] != wanted.task:
            continue
        single = len(results.subsets(name)) <= 1
        ways = ("",) if not wanted.aggregation else ("all",) if single else AGGREGATIONS
        for metric, way in product(metrics, ways):
            value = results.value(method, name, *filter(None, (metric, way))).mean
            protocol = Protocol.of(method, task, metric, way)
            if value is not None and protocol is not None:
                command = run_command(method, [name], registry)
                yield Score(protocol, value, command)


SMALL = 10_000_000  # bytes: a smaller download is no worse than this


@runtime_checkable
class Files(typing.Protocol):
    """Knows which files are there; `harness.assets.places.Places` does for this machine."""

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether the files of an encoder are there."""

    def has_data(self, asset: str) -> bool:
        """Whether an asset is there."""


@dataclass(frozen=True)
class Recorded:
    """The files that records were made from."""

    results: Results
    registry: Registry

    def has_encoder(self, config: EncoderConfig) -> bool:
        """Whether a method of the encoder has a record."""
        base = config.name.partition(":")[0]
        return any(m.partition(".")[0].partition(":")[0] == base for m in self.results.methods)

    def has_data(self, asset: str) -> bool:
        """Whether a task that reads the asset has a record."""
        tasks = self.registry.tasks
        read = {tasks[name].asset for name in self.results.by_task if name in tasks}
        return asset in read or asset_named(asset).embedded


@dataclass(frozen=True)
class NextStep:
    """Commands that get what is missing together, their bytes where known, and what that gives.

    `cells` are the published numbers that can then be measured.
    """

    get: tuple[str, ...]
    bytes: int | None
    cells: tuple[PublishedCell, ...]

    @property
    def numbers(self) -> int:
        """How many published numbers it gains."""
        return len(self.cells)


Needs = Mapping[str, int | None]  # the bytes that each command gets


def next_steps(
    cells: Iterable[Reproduction], registry: Registry, files: Files
) -> Iterator[NextStep]:
    """What to get, the most numbers for its bytes first; a later step counts on those before it.

    A published number counts that a method and task here reproduce and that is not measured yet.
    What is trained, or of unknown size, comes last.
    """
    waiting = [
        (needs, cell.cell)
        for cell in cells
        if cell.state is CellState.NOT_RUN and (needs := missing(cell.cell, registry, files))
    ]
    sizes: dict[str, float] = {}
    for needs, _ in waiting:
        for command, size in needs.items():
            sizes[command] = max(sizes.get(command, 0), math.inf if size is None else size)
    here: set[str] = set()

    def worth(step: frozenset[str]) -> tuple[float, int, list[str]]:
        """Numbers for their bytes, then numbers alone, then names."""
        numbers = sum(needs.keys() <= step | here for needs, _ in waiting)
        return numbers / (sum(sizes[command] for command in step) + SMALL), numbers, sorted(step)

    while waiting:
        best = max({frozenset(needs) - here for needs, _ in waiting}, key=worth)
        here |= best
        gained = tuple(cell for needs, cell in waiting if needs.keys() <= here)
        waiting = [(needs, cell) for needs, cell in waiting if not needs.keys() <= here]
        total = sum(sizes[command] for command in best)
        yield NextStep(tuple(sorted(best)), None if total == math.inf else int(total), gained)


def missing(cell: PublishedCell, registry: Registry, files: Files) -> Needs:
    """The commands that get what a published number needs and what is not there."""
    method, needs = method_of(cell, registry), dict[str, int | None]()
    assets = [registry.tasks[task].asset for task in cell.tasks if task in registry.tasks]
    if method is not None:
        if (corpus := registry.corpora.get(method.fit_on or "")) is not None:
            assets.append(corpus.asset)
        if not files.has_encoder(method.encoder):
            needs |= _encoder(method.encoder)
    for name in dict.fromkeys(assets):
        if not files.has_data(name):
            needs |= _asset(asset_named(name), needs)
    return needs


def _encoder(config: EncoderConfig) -> Needs:
    """The commands that get an encoder's files."""
    source = config.source
    if isinstance(source, Trained):
        return {f"harness train family {source.family}": None}
    found: Needs = {}
    for asset in filter(None, (vectors_of(config), companion_of(config))):
        found = {**found, **_asset(asset, found)}
    if isinstance(source, Hub):
        return {f"harness fetch {source.asset or config.name.partition(':')[0]}": source.about}
    return found


def _asset(asset: Asset, known: Needs) -> Needs:
    """The command that gets an asset, with the bytes of those that it gets as well."""
    before = known.get(asset.get, 0)
    size = asset.to_get
    return {asset.get: None if before is None or size is None else before + size}
