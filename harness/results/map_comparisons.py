"""The best linear map of a task against its best flow, both fitted on the same encodings.

Which maps are compared is data (`results/questions/flows.toml`); on which encodings follows from
the records: every encoder, pooling and fit corpus under which a flow was measured. Everything is in
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        (best_linear, linear_mean), (best_flow, flow_mean) = linear, flow
        score = _score(results, on, best_flow, protocol, task)
        half_width = prediction_half_width(score.sd or 0.0, score.seeds)
        none = _score(results, on, NONE, protocol, task).mean
        lead = None if none is None else max(linear_mean, flow_mean) - none
        gap = linear_mean - flow_mean
        comparisons.append(MapComparison(task, best_linear, best_flow, gap, half_width, lead))
    return comparisons


def _best(
    results: Results,
    on: Encodings,
    chains: Sequence[str],
    protocol: Protocol,
    task: str,
    seeds: int = 1,
) -> tuple[str, float] | None:
    """The chain with the highest score on a task, of those with so many seeds, and its mean."""
    values = {chain: _score(results, on, chain, protocol, task) for chain in chains}
    enough = [(c, v.mean) for c, v in values.items() if v.mean is not None and v.seeds >= seeds]
    return max(enough, key=lambda score: score[1], default=None)


def _score(results: Results, on: Encodings, chain: str, protocol: Protocol, task: str) -> Value:
    path = (protocol.correlation, protocol.aggregation)
    return results.value(on.method(chain), protocol.task(task), *path)
