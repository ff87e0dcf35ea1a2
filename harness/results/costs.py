"""The cost of a sentence under each method, by the clocks of the records, against its scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.core.types import Record
from harness.results.index import Results
from harness.results.protocols import SEVEN, SIMCSE, Protocol, averages


def milliseconds(results: Results, method: str, protocol: Protocol) -> float | None:
    """Milliseconds a distinct sentence over the records of the protocol's tasks.

    None without records, or where one of them has no clock.
    """
    records = _records(results, method, protocol)
    sentences = [record.facts.get("distinct_sentences", 0) for record in records]
    clocks = [record.timings.get(name) for record in records for name in ("encode", "apply")]
    if not records or not all(sentences) or None in clocks:
        return None
    seconds = math.fsum(clock for clock in clocks if clock is not None)
    # A clock that stood still measured nothing.
    return 1000 * seconds / math.fsum(sentences) or None


def beside_others(results: Results, method: str, protocol: Protocol) -> bool:
    """Whether other processes of the run worked beside one that measured a record."""
    return any(r.facts.get("workers", 1) > 1 for r in _records(results, method, protocol))


def _records(results: Results, method: str, protocol: Protocol) -> list[Record]:
    tasks = [protocol.task(task) for task in SEVEN]
    return [record for task in tasks for record in results.by_cell.get((method, task), ())]


def post_processing(method: str) -> str:
    """The post-processors of a method, without their arguments and what they were fitted on."""
    posts = method.partition("@")[0].split("+")[1:]
    return " + ".join(post.partition(":")[0] for post in posts) or "as encoded"


def best(results: Results) -> Mapping[tuple[str, str], tuple[str, float]]:
    """The method with the best average of each encoder and post-processing, best first."""
    best_of: dict[tuple[str, str], tuple[str, float]] = {}
    for method, average in averages(results, results.methods, SIMCSE).items():
        if milliseconds(results, method, SIMCSE) is not None:
            group = method.partition(".")[0], post_processing(method)
            best_of.setdefault(group, (method, average))
    return best_of


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points (cost, score) that no other is both cheaper and better than, by cost."""
    edge: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not edge or score > edge[-1][1]:
            edge.append((cost, score))
    return edge
