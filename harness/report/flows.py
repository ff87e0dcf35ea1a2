"""The page of flows: beside linear maps and no map at all, and variants against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from harness.report.markdown import page, table, texts
from harness.report.sentences import tasks_counted
from harness.results.claims import ClaimOutcome, Decision, decide
from harness.results.index import NOT_MEASURED, Results, SeedScores, score_at
from harness.results.protocols import LABELS, SEVEN, Scoring, row
from harness.results.questions import Maps, Question
from harness.results.verdict import TOLERANCES, CellState

NONE = "none"  # the encodings as they are
TIMED = "sts-b"  # whose fits are timed: corpora differ in size, and this one has most flows
PROTOCOLS = tuple(Scoring("raw", "spearman", way) for way in ("wmean", "all"))


@dataclass(frozen=True)
class Encodings:
    """One encoder and pooling (`plain`, a method id) and the corpus that maps are fitted on."""

    plain: str
    corpus: str

    def method(self, chain: str) -> str:
        """The id of a map on these encodings."""
        return self.plain if chain == NONE else f"{self.plain}+{chain}@{self.corpus}"


Decisions = Mapping[str, Decision]  # of the first map of a question against the second, by task


def flows_page(results: Results, maps: Maps) -> str | None:
    """A section for all encodings on which a flow was measured; None where there are none."""
    on_flows: dict[Encodings, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in maps.flows:
            on_flows[Encodings(plain, corpus)] = None
    if not on_flows:
        return None
    first = maps.questions[0].first
    beside = [question for question in maps.questions if question.first == first]
    overview: list[list[str]] = []
    parts = []
    for on in on_flows:
        parts.append(f"## `{on.plain}`, fitted on `{on.corpus}`")
        for protocol in PROTOCOLS:
            compared = {
                question: decisions
                for question in maps.questions
                if (decisions := _decisions(results, on, maps, question, protocol))
            }
            answers = "\n".join(f"* {answer_line(*item)}" for item in compared.items())
            unanswered = "No question has both of its maps measured: no answer yet."
            rows = _table(results, on, maps, protocol)
            parts += [f"**{protocol.title}**", rows, answers or unanswered]
            if any(question in compared for question in beside):
                cells = [_tally(compared[q]) if q in compared else "not run" for q in beside]
                names = [f"`{n}`" for n in (on.plain, on.corpus, protocol.aggregation)]
                overview.append([*names, *cells])
    about = (
        f"`{first}` minus each flow, in points on average over the tasks that have both; in "
        "brackets on how many tasks it is ahead, and on how many behind, by more than the seeds "
        "explain. The sections below have the tasks."
    )
    head = ["encodings", "fitted on", "", *(f"`{question.second}`" for question in beside)]
    shown = [f"## `{first}` beside every flow", about, table(head, overview, words=3)]
    opening = texts()["flows"].format(seeds=TOLERANCES.seeds, timed=LABELS[TIMED])
    every = [opening, *(shown if overview else []), *parts]
    return page("Flows and linear maps", every, results.digest())


def _decisions(
    results: Results, on: Encodings, maps: Maps, question: Question, protocol: Scoring
) -> Decisions:
    """The maps of a question against each other on each task on which both were measured.

    What is seeded is compared by Welch's 95 % interval over seeds: it tells whether other seeds
    could turn the difference, not whether other sentences could.
    """
    path = (protocol.correlation, protocol.aggregation)

    def side(chain: str, task: str) -> SeedScores:
        records = results.records(on.method(chain), protocol.task(task))
        scores = {record.seed: score_at(record.scores, path) for record in records}
        return SeedScores(scores, seeded=chain in maps.flows or len(scores) > 1)

    every = {
        task: decide(side(question.first, task), side(question.second, task)) for task in SEVEN
    }
    return {task: decision for task, decision in every.items() if decision.difference is not None}


def _ahead(decisions: Decisions, outcome: ClaimOutcome) -> list[str]:
    """The tasks with this outcome; on those where it holds, the first map is ahead."""
    return [task for task, decision in decisions.items() if decision.outcome == outcome]


def _mean(decisions: Decisions) -> float:
    return fmean(decision.difference or 0.0 for decision in decisions.values())


def _tally(decisions: Decisions) -> str:
    ahead, behind = (len(_ahead(decisions, o)) for o in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS))
    return f"{_mean(decisions):+.2f} ({ahead}, {behind})"


def answer_line(question: Question, decisions: Decisions) -> str:
    """Which map is ahead where and by how much, of the tasks that are decided."""
    first, second = (f"`{chain}`" for chain in (question.first, question.second))
    each = ", ".join(f"{LABELS[task]} {_signed(one)}" for task, one in decisions.items())
    ahead, behind = (_ahead(decisions, o) for o in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS))
    undecided = [LABELS[task] for task in _ahead(decisions, ClaimOutcome.UNDECIDED)]
    decided = "no task is decided"
    if ahead or behind:
        decided = f"{first} is ahead on {len(ahead)}, {second} on {len(behind)}, of "
        decided += tasks_counted(len(decisions))
        decided += f"; undecided: {', '.join(undecided)}" if undecided else ""
    return (
        f"**{question.text}** {first} minus {second}: {each}; {_mean(decisions):+.2f} on average: "
        f"{decided}."
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
    planned = maps.planned if f"{on.plain}@{on.corpus}" in maps.planned_on else ()
    rows, absent = [], []
    for chain, kind in kinds.items():
        method, name = on.method(chain), chain if chain == NONE else f"`{chain}`"
        if method not in results.methods and chain not in planned:
            absent.append(name)
            continue
        few = TOLERANCES.seeds if kind == "flow" else 0
        values = row(results, method, protocol)
        cells = [f"{v} (k={v.seeds})" if 0 < v.seeds < few else str(v) for v in values]
        clocks = [record.timings.get("fit") for record in results.records(method, TIMED)]
        seconds = [clock for clock in clocks if clock is not None]
        timed = seconds and len(seconds) == len(clocks)
        cost = f"{fmean(seconds):.1f} s" if timed else NOT_MEASURED
        rows.append([name, kind, *cells, "–" if chain == NONE else cost])
    shown = table(["map", "", *LABELS.values(), "Avg.", "fit"], rows, words=2)
    return f"{shown}\n\nNot run on these encodings: {', '.join(absent)}." if absent else shown
