"""Why a published number is not reproduced, and what would let more of them be measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from harness.assets.catalogue import Asset
from harness.assets.places import asset_named, assets_of
from harness.core.hardware import base_name
from harness.core.interfaces import Hub, Trained
from harness.core.types import AGGREGATIONS
from harness.registry import Registry
from harness.results.conformance import confirmed_by
from harness.results.index import Results
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed, reproduce
from harness.results.verdict import CellState


@dataclass(frozen=True)
class Neighbour:
    """A score measured under a protocol, and the command that measures it.

    As neighbour of a published cell it `differs_in` these choices from the wanted protocol, and by
    `difference` from the score that it is compared with.
    """

    protocol: Protocol
    value: float
    command: str
    differs_in: tuple[str, ...] = ()
    difference: float = 0.0


@dataclass(frozen=True)
class Explanation:
    """A published cell, its reproduction, and the measured scores under neighbouring protocols.

    `confirmed_by` is the authors' program whose scores ours equal under the cell's protocol;
    `shown_on` is the encoder of the neighbours, `reference` the score that they are compared with.
    `base` is the neighbour whose score that is, where no encoder was run under the cell's protocol.
    `command` measures the cell.
    """

    reproduction: Reproduction
    wanted: Protocol | None
    confirmed_by: str | None = None
    command: str = ""
    shown_on: str = ""
    reference: float | None = None
    neighbours: tuple[Neighbour, ...] = ()
    base: Neighbour | None = None

    @property
    def cell(self) -> PublishedCell:
        return self.reproduction.cell


def explain(
    cell: PublishedCell, results: Results, registry: Registry, programs: Mapping[Protocol, str]
) -> Explanation:
    """Look around one published cell; `programs` confirm protocols."""
    wanted = wanted_protocol(cell, registry)
    measured = [] if wanted is None else list(scores(results, registry, wanted))
    return replace(
        look_around(reproduce(cell, results, registry), wanted, measured),
        confirmed_by=confirmed_by(cell, programs, results, registry),
        command=measuring_command(str(cell.method), [cell.task] if cell.task else [], registry),
    )


def look_around(
    reproduction: Reproduction, wanted: Protocol | None, measured: Sequence[Neighbour]
) -> Explanation:
    """The measured scores of the wanted task, as neighbours of a cell, nearest first."""
    points = reproduction.cell.points
    if wanted is None or points is None or not measured:
        return Explanation(reproduction, wanted)
    there, reference, compared = wanted, points, wanted
    if not any(score.protocol.encoder == wanted.encoder for score in measured):
        # The wanted protocol on another encoder: the one that was run under it or nearest to it.
        tried = Counter(score.protocol.encoder for score in measured)
        on = {name: replace(wanted, encoder=name, max_length="") for name in tried}
        nearest = min(
            measured,
            key=lambda s: (
                _distance(s.protocol, on[s.protocol.encoder]),
                -tried[s.protocol.encoder],
            ),
        )
        reference, compared = nearest.value, nearest.protocol
        there = on[compared.encoder]
    neighbours = [
        replace(
            score,
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
    return Explanation(
        reproduction,
        wanted,
        shown_on=there.encoder,
        reference=reference,
        neighbours=tuple(neighbours),
        base=next((n for n in neighbours if n.protocol == compared), None),
    )


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


def _choices(differs_in: Sequence[str]) -> int:
    """The number of choices; another calibration and another corpus for it are one."""
    return len(differs_in) - ({"post", "fit_on"} <= {*differs_in})


def _is_of_kind(corpus: str, wanted: str) -> bool:
    """Whether a fit corpus is another one of the wanted kind, as `snli-18k` is for `nli`."""
    return wanted != "" and wanted != corpus and wanted in corpus


def wanted_protocol(cell: PublishedCell, registry: Registry) -> Protocol | None:
    """The protocol of a published cell of one task; None of others."""
    return next(iter(protocols_of(cell, registry)), None) if cell.task else None


def scores(results: Results, registry: Registry, wanted: Protocol) -> Iterator[Neighbour]:
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
                yield Neighbour(protocol, value, measuring_command(method, [name], registry))


def measuring_command(method: str, tasks: Iterable[str], registry: Registry) -> str:
    """The command that measures a method; of an encoder by hand its files are to be filled in."""
    encoder = base_name(method.partition(".")[0])
    files = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    on = "".join(f" -t {task}" for task in tasks)
    return f"harness run{files} -m '{method}'{on}"


SMALL = 10_000_000  # bytes: a smaller download is no worse than this


@dataclass(frozen=True)
class Recorded:
    """The encoders, without a maximum length, and the assets that records were made from."""

    encoders: Collection[str] = ()
    assets: Collection[str] = ()

    @classmethod
    def of(cls, results: Results, registry: Registry) -> Recorded:
        """Those of all records."""
        encoders = {method.partition(".")[0].partition(":")[0] for method in results.methods}
        tasks = [registry.tasks[name] for name in results.by_task if name in registry.tasks]
        return cls(encoders, {task.asset for task in tasks})


@dataclass(frozen=True)
class NextStep:
    """Commands that get what is missing together, their bytes where known, and what that gives.

    `cells` are the published numbers that can then be measured.
    """

    get: tuple[str, ...]
    bytes: int | None
    cells: tuple[PublishedCell, ...]


def next_steps(
    cells: Iterable[Reproduction], registry: Registry, here: Recorded
) -> Iterator[NextStep]:
    """What to get, the most numbers for its bytes first; a later step counts on those before it.

    A published number counts that a method and task here reproduce and that is not measured yet.
    What is trained, or of unknown size, comes last.
    """
    waiting = [
        (needs, cell.cell)
        for cell in cells
        if cell.state is CellState.NOT_RUN and (needs := missing(cell.cell, registry, here))
    ]
    sizes: dict[str, float] = {}
    for needs, _ in waiting:
        for command, size in needs.items():
            sizes[command] = max(sizes.get(command, 0), math.inf if size is None else size)
    done: set[str] = set()

    def worth(step: frozenset[str]) -> tuple[float, int, list[str]]:
        """Numbers for their bytes, then numbers alone, then names."""
        numbers = sum(needs.keys() <= step | done for needs, _ in waiting)
        return numbers / (sum(sizes[command] for command in step) + SMALL), numbers, sorted(step)

    while waiting:
        best = max({frozenset(needs) - done for needs, _ in waiting}, key=worth)
        done |= best
        gained = tuple(cell for needs, cell in waiting if needs.keys() <= done)
        waiting = [(needs, cell) for needs, cell in waiting if not needs.keys() <= done]
        total = sum(sizes[command] for command in best)
        yield NextStep(tuple(sorted(best)), None if total == math.inf else int(total), gained)


def missing(cell: PublishedCell, registry: Registry, here: Recorded) -> Mapping[str, int | None]:
    """The commands that get what a published number needs and what is not there, with bytes."""
    method, needs = composed(cell.method, registry), dict[str, int | None]()
    names = [registry.tasks[task].asset for task in cell.tasks if task in registry.tasks]
    assets: list[Asset] = []
    if method is not None:
        corpus, encoder = registry.corpora.get(method.fit_on or ""), method.encoder
        names += [corpus.asset] if corpus is not None else []
        if encoder.name.partition(":")[0] not in here.encoders:
            assets = [*assets_of(encoder)]
            if isinstance(source := encoder.source, Trained):
                needs[f"harness train family {source.family}"] = None
            elif isinstance(source, Hub):
                name = source.asset or encoder.name.partition(":")[0]
                needs[f"harness fetch {name}"] = source.about
    wanted = [asset_named(name) for name in dict.fromkeys(names) if name not in here.assets]
    assets += [asset for asset in wanted if not asset.embedded]
    for asset in assets:
        before, size = needs.get(asset.get, 0), asset.to_get
        needs[asset.get] = None if before is None or size is None else before + size
    return needs
