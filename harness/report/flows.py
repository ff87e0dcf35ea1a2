"""Does the flow matter, or is a linear map enough? Both on the same encodings, and the answer.

Which maps are compared is data (`results/questions/flows.toml`); on which encodings follows from
the records: every encoder, pooling and fit corpus under which a flow was measured.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from harness.core.errors import DataError
from harness.report.markdown import page, table
from harness.results.index import Results, Value
from harness.results.protocols import BERT_FLOW, LABELS, SEVEN, Protocol, row
from harness.results.verdict import TOLERANCES, Spread

FILE = "flows.toml"
KEYS = ("linear", "flows", "measured")
PROTOCOLS = (BERT_FLOW, Protocol("raw", "spearman", "all"))
NONE = "none"
INTRODUCTION = (
    "A normalising flow maps sentence embeddings to a Gaussian, whitening does so as far as a "
    "linear map can. Does the flow matter, or is a linear map enough? Here are both on the same "
    "encodings, and beside them the encodings as they are (`none`). Spearman x100 of cosine and "
    "gold, mean ± standard deviation over seeds where a fit is seeded. An average exists only "
    "where all its cells do; `not run` is a hole, never a zero. The answers compare the best "
    "linear map of each task with its best flow, both best on the very pairs that are scored, so "
    f"both are flattered; a flow of fewer than {TOLERANCES.seeds} seeds takes no part. h is the "
    "half-width of the interval in which one more run of that flow falls (95 %)."
)


@dataclass(frozen=True)
class Section:
    """One encoder, pooling and fit corpus."""

    plain: str
    corpus: str

    def method(self, chain: str) -> str:
        """The id of a map on these encodings."""
        return self.plain if chain == NONE else f"{self.plain}+{chain}@{self.corpus}"


@dataclass(frozen=True)
class Duel:
    """The best linear map of a task and its best flow, with h of that flow, and what no map gives.

    All in points.
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


def flows_page(results: Results, path: Path) -> str | None:
    """All sections; None where no flow was measured. Raises DataError for a file of other keys."""
    maps = read_maps(path)
    parts = [INTRODUCTION]
    for section in sections(results, maps):
        parts.append(f"## `{section.plain}`, fitted on `{section.corpus}`")
        for protocol in PROTOCOLS:
            shown = _table(results, section, maps, protocol)
            found = duels(results, section, maps, protocol)
            parts += [f"**{protocol.title}**", shown, answer(found)]
    return page("Flows and linear maps", parts, results.digest()) if len(parts) > 1 else None


def read_maps(path: Path) -> Mapping[str, Sequence[str]]:
    """Which chains are linear, which are flows, and which of these are shown only if measured."""
    try:
        maps = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path.name}: wanted lists of maps, found {error!r}") from None
    lists = all(
        isinstance(chains, list) and all(isinstance(chain, str) for chain in chains)
        for chains in maps.values()
    )
    if set(maps) != set(KEYS) or not lists:
        raise DataError(f"{path.name}: wanted the lists {', '.join(KEYS)}, found {sorted(maps)}")
    return maps


def sections(results: Results, maps: Mapping[str, Sequence[str]]) -> list[Section]:
    """Wherever a flow was measured, in the order of the records."""
    found: dict[Section, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in {*maps["flows"], *maps["measured"]}:
            found[Section(plain, corpus)] = None
    return list(found)


def duels(
    results: Results, section: Section, maps: Mapping[str, Sequence[str]], protocol: Protocol
) -> list[Duel]:
    """Every task on which a linear map and a flow of enough seeds were measured."""
    found = []
    for task in SEVEN:
        linear = best(results, section, maps["linear"], protocol, task)
        flows = [*maps["flows"], *maps["measured"]]
        flow = best(results, section, flows, protocol, task, TOLERANCES.seeds)
        if linear is None or flow is None:
            continue
        spread = Spread(flow.mean, flow.value.sd or 0.0, flow.value.seeds)
        none = score(results, section, NONE, protocol, task).mean
        lead = None if none is None else max(linear.mean, flow.mean) - none
        gap = linear.mean - flow.mean
        found.append(Duel(task, linear.chain, flow.chain, gap, spread.half_width, lead))
    return found


class Best(NamedTuple):
    """A chain and its score."""

    mean: float
    chain: str
    value: Value


def best(
    results: Results,
    section: Section,
    chains: Sequence[str],
    protocol: Protocol,
    task: str,
    seeds: int = 1,
) -> Best | None:
    """The chain with the highest score on a task, of those with so many seeds."""
    values = {chain: score(results, section, chain, protocol, task) for chain in chains}
    there = [
        Best(value.mean, chain, value)
        for chain, value in values.items()
        if value.mean is not None and value.seeds >= seeds
    ]
    return max(there, key=lambda found: found.mean, default=None)


def score(results: Results, section: Section, chain: str, protocol: Protocol, task: str) -> Value:
    """One cell of the table."""
    path = (protocol.correlation, protocol.aggregation)
    return results.value(section.method(chain), protocol.task(task), *path)


def answer(found: Sequence[Duel]) -> str:
    """Who is ahead where and by how much, and what that says; three sentences, or that none can."""
    if not found:
        return (
            f"No task has both a linear map and a flow of {TOLERANCES.seeds} seeds: no answer yet."
        )
    every = ", ".join(
        f"{LABELS[duel.task]} {duel.difference:+.2f} (`{duel.linear}`, `{duel.flow}`, "
        f"h {duel.half_width:.2f})"
        for duel in found
    )
    mean = fmean(duel.difference for duel in found)
    ahead = [duel.ahead for duel in found]
    linear, flow, turns = (ahead.count(who) for who in (1, -1, 0))
    leads = [duel.lead_over_none for duel in found if duel.lead_over_none is not None]
    return (
        f"Best linear map minus best flow: {every}; {mean:+.2f} on average. The linear map is "
        f"ahead by more than h on {linear} of {_tasks(len(found))}, the flow on {flow}, and on "
        f"{turns} another run of the flow could turn it: a linear map is enough on "
        f"{linear + turns} of {len(found)}. Neither is better than no map at all on "
        f"{sum(lead <= 0 for lead in leads)} of {_tasks(len(leads))}."
    )


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _table(
    results: Results, section: Section, maps: Mapping[str, Sequence[str]], protocol: Protocol
) -> str:
    """Every map, the linear ones first; what is seeded and lacks seeds says how many it has."""
    there = [chain for chain in maps["measured"] if _measured(results, section, chain)]
    kinds = {NONE: "", **dict.fromkeys(maps["linear"], "linear")}
    kinds |= dict.fromkeys([*maps["flows"], *there], "flow")
    rows = []
    for chain, kind in kinds.items():
        values = row(results, section.method(chain), protocol)
        few = TOLERANCES.seeds if kind == "flow" else 0
        cells = [f"{v} (k={v.seeds})" if 0 < v.seeds < few else str(v) for v in values]
        rows.append([chain if chain == NONE else f"`{chain}`", kind, *cells])
    return table(["map", "", *LABELS.values(), "Avg."], rows, words=2)


def _measured(results: Results, section: Section, chain: str) -> bool:
    return section.method(chain) in results.methods
