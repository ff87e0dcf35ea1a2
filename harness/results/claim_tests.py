"""Does a claim hold: does one method lie above another, as far as seeds or test items can tell?

Everything is in points (x100).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from statistics import fmean

from harness.registry import Registry
from harness.results.claims import Claim, Claims, Contrast, Intervals, Score, address
from harness.results.index import NOT_MEASURED, Results, Value, score_at, value
from harness.results.protocols import SEVEN, Scoring
from harness.results.published import Column, Table
from harness.results.reproduction import composed, is_stale
from harness.results.verdict import TOLERANCES, CellState, welch_half_width

AVERAGE = "Avg."
SIGN = "sign"  # what a decision rests on that has neither seeds nor an interval
MOVED = 0.01  # points: an interval belongs to the difference that it was made for


class ClaimOutcome(StrEnum):
    """The outcome of testing a claim on measured scores; the last is for missing ones."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


@dataclass(frozen=True)
class Side:
    """A method's scores by seed, in points (None: undefined); without any, why there are none."""

    scores: Mapping[int, float | None]
    seeded: bool = False
    state: str = CellState.NOT_RUN

    @property
    def value(self) -> Value:
        """Mean and spread over the seeds, or the state."""
        if not self.scores:
            return Value(None, state=self.state)
        return value(list(self.scores.values()))

    @property
    def too_few(self) -> bool:
        """Whether another seed could give another score, and there are not enough of them."""
        return self.seeded and len(self.scores) < TOLERANCES.seeds

    def __str__(self) -> str:
        seeds = f" (k={len(self.scores)})" if self.seeded and self.scores else ""
        return f"{self.value}{seeds}"


@dataclass(frozen=True)
class Decision:
    """The outcome, the difference, its 95 % interval, and what the outcome rests on."""

    outcome: ClaimOutcome
    difference: float | None = None
    interval: tuple[float, float] | None = None
    by: str = ""


@dataclass(frozen=True)
class Finding:
    """One claim on one task, or on their average: numbers published, if any, and measured."""

    label: str
    contrast: Contrast
    published: tuple[float, float] | None
    sides: tuple[Side, Side]
    decision: Decision

    @property
    def claimed(self) -> float | None:
        """The published difference; None where the claim is in words alone."""
        return None if self.published is None else round(self.published[0] - self.published[1], 9)


@dataclass(frozen=True)
class ClaimResult:
    """A claim with a finding for each task, the average where there is one, and the outcome.

    It holds if it holds on more than half of its tasks, and does not if the opposite is true on
    more than half; a missing score counts as a task, and the average does not.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    average: Finding | None

    @property
    def outcomes(self) -> list[ClaimOutcome]:
        """The outcome on each task."""
        return [finding.decision.outcome for finding in self.findings]

    @property
    def outcome(self) -> ClaimOutcome:
        """The outcome of the whole claim."""
        outcomes = self.outcomes
        if set(outcomes) == {ClaimOutcome.NOT_MEASURED}:
            return ClaimOutcome.NOT_MEASURED
        for outcome in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS):
            if 2 * outcomes.count(outcome) > len(outcomes):
                return outcome
        return ClaimOutcome.UNDECIDED

    @property
    def every(self) -> tuple[Finding, ...]:
        """The findings, the average among them where there is one."""
        return (*self.findings, *filter(None, [self.average]))

    @property
    def in_paper(self) -> int:
        """On how many tasks the paper's own numbers have the claimed order."""
        return sum(f.claimed is not None and f.claimed > 0 for f in self.findings)


def decide(better: Side, worse: Side, items: tuple[float, float] | None = None) -> Decision:
    """Whether the first lies above the second.

    Where either is seeded, by Welch's 95 % interval over seeds; else by `items`, the bootstrap's
    interval over test items; without one by the sign, and a difference that another platform could
    turn is undecided.
    """
    if not better.scores or not worse.scores:
        return Decision(ClaimOutcome.NOT_MEASURED)
    above, below = better.value.mean, worse.value.mean
    if above is None or below is None:
        return Decision(ClaimOutcome.UNDECIDED, by=CellState.UNDEFINED)
    difference = round(above - below, 9)
    if better.too_few or worse.too_few:
        return Decision(ClaimOutcome.UNDECIDED, difference, by=CellState.TOO_FEW_SEEDS)
    if seeded := [side for side in (better, worse) if side.seeded]:
        h = welch_half_width(*((side.value.sd or 0.0, len(side.scores)) for side in seeded))
        return _by_interval(difference, (difference - h, difference + h), "seeds")
    if items is not None:
        return _by_interval(difference, items, "items")
    if abs(difference) <= TOLERANCES.match:
        return Decision(ClaimOutcome.UNDECIDED, difference, by=SIGN)
    return _by_interval(difference, None, SIGN)


def _by_interval(difference: float, interval: tuple[float, float] | None, by: str) -> Decision:
    low, high = interval or (difference, difference)
    holds, fails = low > 0, high < 0
    decided = ClaimOutcome.HOLDS if holds else ClaimOutcome.FAILS
    return Decision(decided if holds or fails else ClaimOutcome.UNDECIDED, difference, interval, by)


@dataclass(frozen=True)
class ClaimTests:
    """Tests of claims on records, with the intervals over test pairs that are stored."""

    results: Results
    registry: Registry
    intervals: Intervals
    tested: dict[str, ClaimResult] = field(default_factory=dict, compare=False, repr=False)

    def test(self, claim: Claim) -> ClaimResult:
        """Every task of a claim, and their average; a claim is tested once for all pages."""
        if claim.id not in self.tested:
            self.tested[claim.id] = self._test(claim)
        return self.tested[claim.id]

    def _test(self, claim: Claim) -> ClaimResult:
        findings = [
            self._finding(c.label, claim.published(c), claim, [address(claim.table, c)])
            for c in claim.columns
        ]
        average = self._average(claim, findings) if claim.comparable else None
        return ClaimResult(claim, tuple(findings), average)

    def side(self, identifier: str, task: str, path: tuple[str, ...]) -> Side:
        """The scores of a cell by seed; none where its records are of other settings."""
        records = self.results.records(identifier, task)
        method = composed(identifier, self.registry)
        if is_stale(records, method):
            return Side({}, state=CellState.STALE)
        seeded = len(records) > 1 or (method is not None and method.seeded)
        return Side({record.seed: score_at(record.scores, path) for record in records}, seeded)

    def row_order(self, claims: Claims, table: Table, column: Column) -> str:
        """The published and the measured order of the rows of a table that have a stand-in."""
        task, path = address(table, column)
        published, measured = [], []
        for row in table.rows:
            if row.id not in claims.rows[table.id] or column.id not in row.values:
                continue
            mean = self.side(claims.rows[table.id][row.id], task, path).value.mean
            if mean is not None:
                published.append(table.score(row, column))
                measured.append(mean)
        return rank_order(published, measured)

    def _average(self, claim: Claim, findings: Sequence[Finding]) -> Finding:
        printed = [finding.published for finding in findings if finding.published is not None]
        means = (fmean(a for a, _ in printed), fmean(b for _, b in printed)) if printed else None
        return self._finding(AVERAGE, means, claim, [f.contrast.scores[0] for f in findings])

    def _finding(
        self,
        label: str,
        published: tuple[float, float] | None,
        claim: Claim,
        scores: Sequence[Score],
    ) -> Finding:
        """The claim on the mean of some scores, of which one task may have the only one."""
        contrast = Contrast(*claim.methods, tuple(scores))
        above, below = (
            averaged([self.side(method, *score) for score in scores]) for method in claim.methods
        )
        decision = self._decide(contrast, above, below)
        return Finding(label, contrast, published, (above, below), decision)

    def _decide(self, contrast: Contrast, better: Side, worse: Side) -> Decision:
        """By the stored interval where the sign alone would decide, and the difference is its."""
        decision, known = decide(better, worse), self.intervals.get(contrast)
        if known is None or decision.by != SIGN or decision.difference is None:
            return decision
        if abs(known.difference - decision.difference) > MOVED:
            return decision
        return decide(better, worse, (known.low, known.high))


def averaged(sides: Sequence[Side]) -> Side:
    """The mean over tasks of each seed that all of them have; none where a task has no score."""
    if len(sides) == 1:
        return sides[0]
    seeds = set.intersection(*(set(side.scores) for side in sides))
    columns = {seed: [side.scores[seed] for side in sides] for seed in sorted(seeds)}
    if not seeds or any(score is None for column in columns.values() for score in column):
        return Side({}, state="–")
    means = {seed: fmean(s for s in column if s is not None) for seed, column in columns.items()}
    return Side(means, any(side.seeded for side in sides))


def rank_order(published: Sequence[float], measured: Sequence[float]) -> str:
    """Kendall's tau of rows in two orders, and how many pairs of how many stand in the same one.

    Rows that are published as equal have no order.
    """
    pairs = combinations(zip(published, measured, strict=True), 2)
    signs = [(a - c) * (b - d) for (a, b), (c, d) in pairs if a != c]
    if not signs:
        return NOT_MEASURED
    same, opposite = sum(s > 0 for s in signs), sum(s < 0 for s in signs)
    return f"{(same - opposite) / len(signs):+.2f} ({same} of {len(signs)})"


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


def map_encodings(results: Results, maps: Maps) -> list[Encodings]:
    """Wherever a flow was measured, in the order of the records."""
    measured: dict[Encodings, None] = {}
    for method in results.methods:
        base, _, corpus = method.partition("@")
        plain, _, chain = base.partition("+")
        if chain in maps.flows:
            measured[Encodings(plain, corpus)] = None
    return list(measured)


def compare_maps(
    results: Results, on: Encodings, maps: Maps, protocol: Scoring
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


def _side(results: Results, method: str, flow: bool, protocol: Scoring, task: str) -> Side:
    """The scores of a map by seed; a flow is seeded, another map where its encoder is."""
    path = (protocol.correlation, protocol.aggregation)
    records = results.records(method, protocol.task(task))
    scores = {record.seed: score_at(record.scores, path) for record in records}
    return Side(scores, seeded=flow or len(scores) > 1)
