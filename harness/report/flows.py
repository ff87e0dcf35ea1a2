"""The page of flows: beside linear maps and no map at all, and variants against each other."""

from __future__ import annotations

from statistics import fmean

from harness.report.markdown import page, table
from harness.report.sentences import tasks_counted
from harness.results.claim_tests import (
    NONE,
    TIMED,
    ClaimOutcome,
    Decision,
    Encodings,
    MapComparison,
    Maps,
    compare_maps,
    fit_seconds,
    map_encodings,
)
from harness.results.index import NOT_MEASURED, Results
from harness.results.protocols import LABELS, Scoring, row
from harness.results.verdict import TOLERANCES, CellState

Compared = dict[tuple[Encodings, Scoring], list[MapComparison]]
PROTOCOLS = tuple(Scoring("raw", "spearman", way) for way in ("wmean", "all"))
INTRODUCTION = (
    "A normalising flow maps sentence embeddings to a Gaussian, whitening does so as far as a "
    "linear map can. Does the flow matter, or is a linear map enough? And which of its settings "
    "matter? Here are flows and linear maps on the same encodings, and beside them the encodings "
    "as they are (`none`). Spearman x100 of cosine and gold, mean ± standard deviation over seeds "
    "where a fit is seeded, on raw text (BERT-flow was scored on SentEval's, but for STS-B). An "
    "average exists only where all its cells do; `not run` is a hole, never a zero. Each question "
    "compares two maps that were chosen in advance for what they are, "
    "not for their scores: `whitening` is the linear map that makes mean and covariance those of "
    "a standard Gaussian, `flow` BERT-flow. ± is half of Welch's 95 % interval over the seeds; a "
    "task whose interval holds 0 is undecided and counts for neither side, nor does one of fewer "
    f"than {TOLERANCES.seeds} seeds. Other sentences could turn more than other seeds could, "
    "which this does not test. `fit` is the mean of the seconds that a fit takes on the sentences "
    f"of {LABELS[TIMED]}, on one thread of the machine that measured it; with dropout they are "
    "encoded for each fit, and that counts. "
    "`docs/flows.md` says what each flow is."
)


def flows_page(results: Results, maps: Maps) -> str | None:
    """A section for all encodings on which a flow was measured; None where there are none."""
    compared: Compared = {}
    parts = []
    for on in map_encodings(results, maps):
        parts.append(f"## `{on.plain}`, fitted on `{on.corpus}`")
        for protocol in PROTOCOLS:
            compared[on, protocol] = found = compare_maps(results, on, maps, protocol)
            parts += [f"**{protocol.title}**", _table(results, on, maps, protocol), answers(found)]
    if not parts:
        return None
    every = [INTRODUCTION, *overview(compared, maps), *parts]
    return page("Flows and linear maps", every, results.digest())


def overview(compared: Compared, maps: Maps) -> list[str]:
    """The first question's first map beside every flow: a table with a row for all encodings."""
    first = maps.questions[0].first
    flows = [question.second for question in maps.questions if question.first == first]
    rows = []
    for (on, protocol), comparisons in compared.items():
        own = {c.question.second: c for c in comparisons if c.question.first == first}
        if own:
            cells = [_tally(own[flow]) if flow in own else "not run" for flow in flows]
            rows.append([f"`{on.plain}`", f"`{on.corpus}`", f"`{protocol.aggregation}`", *cells])
    if not rows:
        return []
    about = (
        f"`{first}` minus each flow, in points on average over the tasks that have both; in "
        "brackets on how many tasks it is ahead, and on how many behind, by more than the seeds "
        "explain. The sections below have the tasks."
    )
    head = ["encodings", "fitted on", "", *(f"`{flow}`" for flow in flows)]
    return [f"## `{first}` beside every flow", about, table(head, rows, words=3)]


def _tally(comparison: MapComparison) -> str:
    mean = _mean(comparison)
    ahead, behind = (
        len(comparison.where(outcome)) for outcome in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS)
    )
    return f"{mean:+.2f} ({ahead}, {behind})"


def _mean(comparison: MapComparison) -> float:
    return fmean(found.difference or 0.0 for found in comparison.tasks.values())


def answers(comparisons: list[MapComparison]) -> str:
    """A line for each question of which both maps were measured; or that there is none yet."""
    if not comparisons:
        return "No question has both of its maps measured: no answer yet."
    return "\n".join(f"* {answer(comparison)}" for comparison in comparisons)


def answer(comparison: MapComparison) -> str:
    """Which map is ahead where and by how much, of the tasks that are decided."""
    question, decisions = comparison.question, comparison.tasks
    first, second = (f"`{chain}`" for chain in (question.first, question.second))
    each = ", ".join(f"{LABELS[task]} {_signed(found)}" for task, found in decisions.items())
    ahead = comparison.where(ClaimOutcome.HOLDS)
    behind = comparison.where(ClaimOutcome.FAILS)
    undecided = [LABELS[task] for task in comparison.where(ClaimOutcome.UNDECIDED)]
    counted = f"{first} is ahead on {len(ahead)}, {second} on {len(behind)}, of "
    decided = counted + tasks_counted(len(decisions)) if ahead or behind else "no task is decided"
    left = f"; undecided: {', '.join(undecided)}" if undecided and (ahead or behind) else ""
    return (
        f"**{question.text}** {first} minus {second}: {each}; {_mean(comparison):+.2f} on average: "
        f"{decided}{left}."
    )


def _signed(decision: Decision) -> str:
    """The difference with half of its interval, or why it has none."""
    difference = f"{decision.difference:+.2f}"
    if decision.by == CellState.TOO_FEW_SEEDS:
        return f"{difference} ({decision.by})"
    if decision.interval is None:
        return difference
    low, high = decision.interval
    return f"{difference} ± {(high - low) / 2:.2f}"


def _table(results: Results, on: Encodings, maps: Maps, protocol: Scoring) -> str:
    """Every map that was run or is planned on these encodings, the linear ones first; then others.

    What is seeded and lacks seeds says how many it has.
    """
    kinds = {NONE: "", **dict.fromkeys(maps.linear, "linear"), **dict.fromkeys(maps.flows, "flow")}
    rows, absent = [], []
    for chain, kind in kinds.items():
        if on.method(chain) not in results.methods and chain not in on.planned(maps):
            absent.append(chain if chain == NONE else f"`{chain}`")
            continue
        values = row(results, on.method(chain), protocol)
        few = TOLERANCES.seeds if kind == "flow" else 0
        cells = [f"{v} (k={v.seeds})" if 0 < v.seeds < few else str(v) for v in values]
        seconds = fit_seconds(results, on.method(chain))
        cost = NOT_MEASURED if seconds is None else f"{seconds:.1f} s"
        name, cost = (chain, "–") if chain == NONE else (f"`{chain}`", cost)
        rows.append([name, kind, *cells, cost])
    shown = table(["map", "", *LABELS.values(), "Avg.", "fit"], rows, words=2)
    return f"{shown}\n\nNot run on these encodings: {', '.join(absent)}." if absent else shown
