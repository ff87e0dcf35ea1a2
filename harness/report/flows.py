"""The page of flows: beside linear maps and no map at all, and variants against each other."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from harness.report.markdown import page, table, texts
from harness.report.sentences import tasks_counted
from harness.results.claims import ClaimOutcome, Decision, decide
from harness.results.index import NOT_MEASURED, Results, SeedScores, score_at, value
from harness.results.protocols import LABELS, SEVEN, Scoring, row
from harness.results.questions import Maps, Question
from harness.results.verdict import TOLERANCES, CellState

NONE = "none"  # the encodings as they are
TIMED = "sts-b"  # whose fits are timed: corpora differ in size, and this one has most flows
PROTOCOLS = tuple(Scoring("raw", "spearman", way) for way in ("wmean", "all"))


On = tuple[str, str]  # encoder and pooling, `minilm.mean`, and the corpus that maps are fitted on
Decisions = Mapping[str, Decision]  # of the first map of a question against the second, by task


def flows_page(results: Results, maps: Maps) -> str | None:
    """A section for all encodings on which a flow was measured; None where there are none."""
    on_flows: dict[On, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in maps.flows:
            on_flows[plain, corpus] = None
    if not on_flows:
        return None
    first = maps.questions[0].first
    beside = [question for question in maps.questions if question.first == first]
    overview: list[list[str]] = []
    parts = []
    for on in on_flows:
        parts.append("## `{}`, fitted on `{}`".format(*on))
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
                tallies = [_summary(compared[q]) if q in compared else None for q in beside]
                cells = ["{} ({}, {})".format(*of) if of else "not run" for of in tallies]
                overview.append([*(f"`{name}`" for name in (*on, protocol.aggregation)), *cells])
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


def _method(on: On, chain: str) -> str:
    return on[0] if chain == NONE else f"{on[0]}+{chain}@{on[1]}"


def _decisions(
    results: Results, on: On, maps: Maps, question: Question, protocol: Scoring
) -> Decisions:
    """The maps of a question against each other on each task on which both were measured."""
    path = (protocol.correlation, protocol.aggregation)

    def side(chain: str, task: str) -> SeedScores:
        records = results.records(_method(on, chain), protocol.task(task))
        scores = {record.seed: score_at(record.scores, path) for record in records}
        return SeedScores(scores, seeded=chain in maps.flows or len(scores) > 1)

    first, second = question.first, question.second
    decisions = {task: decide(side(first, task), side(second, task)) for task in SEVEN}
    return {task: made for task, made in decisions.items() if made.difference is not None}


def _labels(decisions: Decisions, outcome: ClaimOutcome) -> list[str]:
    return [LABELS[task] for task, made in decisions.items() if made.outcome == outcome]


def _summary(decisions: Decisions) -> tuple[str, int, int]:
    """The mean difference, and on how many tasks the first map is ahead, and behind."""
    mean = fmean(decision.difference or 0.0 for decision in decisions.values())
    ahead, behind = (_labels(decisions, o) for o in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS))
    return f"{mean:+.2f}", len(ahead), len(behind)


def answer_line(question: Question, decisions: Decisions) -> str:
    """Which map is ahead where and by how much, of the tasks that are decided."""
    first, second = (f"`{chain}`" for chain in (question.first, question.second))
    each = ", ".join(f"{LABELS[task]} {_signed(made)}" for task, made in decisions.items())
    mean, ahead, behind = _summary(decisions)
    decided = "no task is decided"
    if ahead or behind:
        decided = f"{first} is ahead on {ahead}, {second} on {behind}, of "
        decided += tasks_counted(len(decisions))
        undecided = _labels(decisions, ClaimOutcome.UNDECIDED)
        decided += f"; undecided: {', '.join(undecided)}" if undecided else ""
    answer = f"{first} minus {second}: {each}; {mean} on average: {decided}."
    return f"**{question.text}** {answer}"


def _signed(decision: Decision) -> str:
    """The difference with half of its interval, or why it has none."""
    difference = f"{decision.difference:+.2f}"
    if decision.by == CellState.TOO_FEW_SEEDS:
        return f"{difference} ({decision.by})"
    if decision.interval is None:
        return difference
    low, high = decision.interval
    return f"{difference} ± {(high - low) / 2:.2f}"


def _table(results: Results, on: On, maps: Maps, protocol: Scoring) -> str:
    """Every map that was run or is planned on these encodings, linear first; then the others."""
    kinds = {NONE: "", **dict.fromkeys(maps.linear, "linear"), **dict.fromkeys(maps.flows, "flow")}
    planned = maps.planned if "@".join(on) in maps.planned_on else ()
    rows, absent = [], []
    for chain, kind in kinds.items():
        method, name = _method(on, chain), chain if chain == NONE else f"`{chain}`"
        if method not in results.methods and chain not in planned:
            absent.append(name)
            continue
        few = TOLERANCES.seeds if kind == "flow" else 0
        values = row(results, method, protocol)
        cells = [f"{v} (k={v.seeds})" if 0 < v.seeds < few else str(v) for v in values]
        seconds = value([r.timings.get("fit") for r in results.records(method, TIMED)]).mean
        cost = NOT_MEASURED if seconds is None else f"{seconds:.1f} s"
        rows.append([name, kind, *cells, "–" if chain == NONE else cost])
    shown = table(["map", "", *LABELS.values(), "Avg.", "fit"], rows, words=2)
    return f"{shown}\n\nNot run on these encodings: {', '.join(absent)}." if absent else shown
