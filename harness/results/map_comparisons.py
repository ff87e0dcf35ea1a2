"""The best linear map of a task against its best flow, both fitted on the same encodings.

Which maps are compared is data (`results/questions/flows.toml`); on which encodings follows from
the records: every encoder, pooling and fit corpus under which a flow was measured. Everything is in
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.results.index import Results, Value
from harness.results.protocols import SEVEN, Protocol
from harness.results.verdict import TOLERANCES, prediction_half_width

NONE = "none"  # the encodings as they are


@dataclass(frozen=True)
class Maps:
    """The chains of post-processors that are compared; `measured` are flows shown if measured."""

    linear: tuple[str, ...]
    flows: tuple[str, ...]
    measured: tuple[str, ...]

    @property
    def every_flow(self) -> tuple[str, ...]:
        """All flows, whether measured or not."""
        return (*self.flows, *self.measured)


@dataclass(frozen=True)
class Encodings:
    """One encoder and pooling (`plain`, a method id) and the corpus that maps are fitted on."""

    plain: str
    corpus: str

    def method(self, chain: str) -> str:
        """The id of a map on these encodings."""
        return self.plain if chain == NONE else f"{self.plain}+{chain}@{self.corpus}"


class MapScore(NamedTuple):
    """A chain with its mean and its score over seeds."""

    chain: str
    mean: float
    value: Value


@dataclass(frozen=True)
class MapComparison:
    """The best linear map of a task and its best flow, both best on the pairs that are scored.

    `half_width` is that of the interval in which one more run of the flow falls (95 %),
    `lead_over_none` how far the better of the two lies above no map at all.
    """

    task: str
    linear: str
    flow: str
    difference: float
    half_width: float
    lead_over_none: float | None

    @property
    def ahead(self) -> int:
        """1 the linear map, -1 the flow, 0 if another run of the flow could turn it."""
        if abs(self.difference) <= self.half_width:
            return 0
        return 1 if self.difference > 0 else -1


def encodings(results: Results, maps: Maps) -> list[Encodings]:
    """Wherever a flow was measured, in the order of the records."""
    measured: dict[Encodings, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in maps.every_flow:
            measured[Encodings(plain, corpus)] = None
    return list(measured)


def compare_maps(
    results: Results, on: Encodings, maps: Maps, protocol: Protocol
) -> list[MapComparison]:
    """Every task on which a linear map and a flow of enough seeds were measured."""
    comparisons = []
    for task in SEVEN:
        linear = _best(results, on, maps.linear, protocol, task)
        flow = _best(results, on, maps.every_flow, protocol, task, TOLERANCES.seeds)
        if linear is None or flow is None:
            continue
        half_width = prediction_half_width(flow.value.sd or 0.0, flow.value.seeds)
        none = _score(results, on, NONE, protocol, task).mean
        lead = None if none is None else max(linear.mean, flow.mean) - none
        gap = linear.mean - flow.mean
        comparisons.append(MapComparison(task, linear.chain, flow.chain, gap, half_width, lead))
    return comparisons


def _best(
    results: Results,
    on: Encodings,
    chains: Sequence[str],
    protocol: Protocol,
    task: str,
    seeds: int = 1,
) -> MapScore | None:
    """The chain with the highest score on a task, of those with so many seeds."""
    values = {chain: _score(results, on, chain, protocol, task) for chain in chains}
    enough = [
        MapScore(chain, value.mean, value)
        for chain, value in values.items()
        if value.mean is not None and value.seeds >= seeds
    ]
    return max(enough, key=lambda score: score.mean, default=None)


def _score(results: Results, on: Encodings, chain: str, protocol: Protocol, task: str) -> Value:
    path = (protocol.correlation, protocol.aggregation)
    return results.value(on.method(chain), protocol.task(task), *path)
