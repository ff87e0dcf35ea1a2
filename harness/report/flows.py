"""The page that answers whether a flow matters or a linear map is enough."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from harness.report.markdown import page, table
from harness.report.sentences import tasks_counted
from harness.results.index import Results
from harness.results.map_comparisons import (
    NONE,
    Encodings,
    MapComparison,
    Maps,
    compare_maps,
    encodings,
)
from harness.results.protocols import BERT_FLOW, LABELS, Protocol, row
from harness.results.verdict import TOLERANCES

PROTOCOLS = (BERT_FLOW, Protocol("raw", "spearman", "all"))
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


def flows_page(results: Results, maps: Maps) -> str | None:
    """A section for all encodings on which a flow was measured; None where there are none."""
    parts = [INTRODUCTION]
    for on in encodings(results, maps):
        parts.append(f"## `{on.plain}`, fitted on `{on.corpus}`")
        for protocol in PROTOCOLS:
            shown = _table(results, on, maps, protocol)
            found = compare_maps(results, on, maps, protocol)
            parts += [f"**{protocol.title}**", shown, answer(found)]
    return page("Flows and linear maps", parts, results.digest()) if len(parts) > 1 else None


def answer(comparisons: Sequence[MapComparison]) -> str:
    """Which is ahead where and by how much, and what follows; or that nothing does yet."""
    if not comparisons:
        return (
            f"No task has both a linear map and a flow of {TOLERANCES.seeds} seeds: no answer yet."
        )
    each = ", ".join(
        f"{LABELS[c.task]} {c.difference:+.2f} (`{c.linear}`, `{c.flow}`, h {c.half_width:.2f})"
        for c in comparisons
    )
    mean = fmean(comparison.difference for comparison in comparisons)
    ahead = [comparison.ahead for comparison in comparisons]
    linear, flow, undecided = (ahead.count(side) for side in (1, -1, 0))
    leads = [c.lead_over_none for c in comparisons if c.lead_over_none is not None]
    return (
        f"Best linear map minus best flow: {each}; {mean:+.2f} on average. "
        f"The linear map is ahead by more than h on {linear} of {tasks_counted(len(ahead))}, the "
        f"flow on {flow}, and on {undecided} another run of the flow could turn it: a linear map "
        f"is enough on {linear + undecided} of {len(ahead)}. Neither is better than no map at all "
        f"on {sum(lead <= 0 for lead in leads)} of {tasks_counted(len(leads))}."
    )


def _table(results: Results, on: Encodings, maps: Maps, protocol: Protocol) -> str:
    """Every map, the linear ones first; what is seeded and lacks seeds says how many it has."""
    measured = [chain for chain in maps.measured if on.method(chain) in results.methods]
    kinds = {NONE: "", **dict.fromkeys(maps.linear, "linear")}
    kinds |= dict.fromkeys([*maps.flows, *measured], "flow")
    rows = []
    for chain, kind in kinds.items():
        values = row(results, on.method(chain), protocol)
        few = TOLERANCES.seeds if kind == "flow" else 0
        cells = [f"{v} (k={v.seeds})" if 0 < v.seeds < few else str(v) for v in values]
        rows.append([chain if chain == NONE else f"`{chain}`", kind, *cells])
    return table(["map", "", *LABELS.values(), "Avg."], rows, words=2)
