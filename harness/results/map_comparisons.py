"""Maps of the same encodings against each other: linear ones and flows, pair by pair.

Which pairs are compared is data (`results/questions/flows.toml`), chosen for what the maps are and
not for their scores; on which encodings follows from the records: every encoder, pooling and fit
corpus under which a flow was measured. Everything is in points.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from harness.results.claim_tests import ClaimOutcome, Decision, Side, decide
from harness.results.index import Results, score_at
from harness.results.protocols import SEVEN, Protocol

NONE = "none"  # the encodings as they are
TIMED = (
    "sts-b"  # the task whose fits are timed: corpora differ in size, and this one has most flows
)


@dataclass(frozen=True)
class Question:
    """What the comparison of two maps answers; each is a chain of post-processors, or `none`."""

    text: str
    first: str
    second: str


@dataclass(frozen=True)
class Maps:
    """The chains of post-processors that have a row, and the pairs of them that are compared.

    A chain has a row where it was run; the `planned` flows have one on `planned_on` in any case,
    each written as in an id (`minilm.mean@target`).
    """

    linear: tuple[str, ...]
    flows: tuple[str, ...]
    questions: tuple[Question, ...]
    planned: tuple[str, ...] = ()
    planned_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if unknown := [chain for chain in self.planned if chain not in self.flows]:
            raise ValueError(f"planned: wanted some of the flows, found {', '.join(unknown)}")


@dataclass(frozen=True)
class Encodings:
    """One encoder and pooling (`plain`, a method id) and the corpus that maps are fitted on."""

    plain: str
    corpus: str

    def method(self, chain: str) -> str:
        """The id of a map on these encodings."""
        return self.plain if chain == NONE else f"{self.plain}+{chain}@{self.corpus}"

    def planned(self, maps: Maps) -> tuple[str, ...]:
        """The flows that have a row on these encodings before they are run."""
        return maps.planned if f"{self.plain}@{self.corpus}" in maps.planned_on else ()


@dataclass(frozen=True)
class MapComparison:
    """The first map of a question minus the second on each task that has both, and their average.

    What is seeded is compared by Welch's 95 % interval over seeds: it tells whether other seeds
    could turn the difference, not whether other sentences could.
    """

    question: Question
    tasks: dict[str, Decision]

    def where(self, outcome: ClaimOutcome) -> list[str]:
        """The tasks with this outcome; on those where it holds, the first map is ahead."""
        return [task for task, decision in self.tasks.items() if decision.outcome == outcome]


def encodings(results: Results, maps: Maps) -> list[Encodings]:
    """Wherever a flow was measured, in the order of the records."""
    measured: dict[Encodings, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in maps.flows:
            measured[Encodings(plain, corpus)] = None
    return list(measured)


def compare_maps(
    results: Results, on: Encodings, maps: Maps, protocol: Protocol
) -> list[MapComparison]:
    """Every question of which both maps were measured on some task."""
    comparisons = []
    for question in maps.questions:
        tasks = {}
        for task in SEVEN:
            first, second = (
                _side(results, on.method(chain), chain in maps.flows, protocol, task)
                for chain in (question.first, question.second)
            )
            decision = decide(first, second)
            if decision.difference is not None:
                tasks[task] = decision
        if tasks:
            comparisons.append(MapComparison(question, tasks))
    return comparisons


def fit_seconds(results: Results, method: str) -> float | None:
    """The mean seconds of a method's fit for the timed task; None without a clock."""
    clocks = [record.timings.get("fit") for record in results.records(method, TIMED)]
    seconds = [clock for clock in clocks if clock is not None]
    return fmean(seconds) if seconds and len(seconds) == len(clocks) else None


def _side(results: Results, method: str, flow: bool, protocol: Protocol, task: str) -> Side:
    """The scores of a map by seed; a flow is seeded, another map where its encoder is."""
    path = (protocol.correlation, protocol.aggregation)
    records = results.records(method, protocol.task(task))
    scores = {record.seed: score_at(record.scores, path) for record in records}
    return Side(scores, seeded=flow or len(scores) > 1)
