"""The word on a claim and a task: does one method lie above another, as far as seeds or items tell?

Everything is in points (x100).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import fmean

from harness.core.errors import HarnessError
from harness.core.types import Method
from harness.registry import Registry
from harness.results.claims import Claim, Claims, address
from harness.results.index import NOT_RUN, Results, Value, score_at, value
from harness.results.protocols import SEVEN, Protocol
from harness.results.row_comparisons import Comparisons
from harness.results.verdict import TOLERANCES, student_quantile

STALE = "stale"
SENTEVAL = ".senteval"
AVERAGE = "Avg."


class Word(StrEnum):
    """What is said of a claim; the last is the word of a hole."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Side:
    """A method's scores by seed, in points (None: undefined); without any, the word for that."""

    scores: Mapping[int, float | None]
    seeded: bool = False
    state: str = NOT_RUN

    @property
    def value(self) -> Value:
        """Mean and spread over the seeds, or a word."""
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
    """The word, the difference, its 95 % interval, and what the word rests on."""

    word: Word
    difference: float | None = None
    interval: tuple[float, float] | None = None
    by: str = ""


@dataclass(frozen=True)
class Finding:
    """One claim on one task (or on their average): both published numbers, both measured."""

    label: str
    published: tuple[float, float]
    sides: tuple[Side, Side]
    decision: Decision

    @property
    def claimed(self) -> float:
        """The published difference."""
        return round(self.published[0] - self.published[1], 9)


@dataclass(frozen=True)
class Judgement:
    """A claim with a finding for each task, the average where there is one, and the word for all.

    It holds if it holds on more than half of its tasks, and does not if the opposite is true on
    more than half; a hole counts as a task, and the average does not.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    average: Finding | None

    @property
    def words(self) -> list[Word]:
        """The words of its tasks."""
        return [finding.decision.word for finding in self.findings]

    @property
    def word(self) -> Word:
        """The word on the whole claim."""
        if set(self.words) == {Word.NOT_MEASURED}:
            return Word.NOT_MEASURED
        most = [w for w in (Word.HOLDS, Word.FAILS) if 2 * self.words.count(w) > len(self.words)]
        return most[0] if most else Word.UNDECIDED


def decide(better: Side, worse: Side, items: tuple[float, float] | None = None) -> Decision:
    """Whether the first lies above the second.

    Where either is seeded, by Welch's 95 % interval over seeds; else by `items`, the bootstrap's
    interval over test items; without one by the sign, and a difference that another platform could
    turn has none.
    """
    if not better.scores or not worse.scores:
        return Decision(Word.NOT_MEASURED)
    above, below = better.value.mean, worse.value.mean
    if above is None or below is None:
        return Decision(Word.UNDECIDED, by="undefined")
    difference = round(above - below, 9)
    if better.too_few or worse.too_few:
        return Decision(Word.UNDECIDED, difference, by="too few seeds")
    if better.seeded or worse.seeded:
        h = half_width([side for side in (better, worse) if side.seeded])
        return _within(difference, (difference - h, difference + h), "seeds")
    if items is not None:
        return _within(difference, items, "items")
    if abs(difference) <= TOLERANCES.match:
        return Decision(Word.UNDECIDED, difference, by="sign")
    return _within(difference, None, "sign")


def _within(difference: float, interval: tuple[float, float] | None, by: str) -> Decision:
    low, high = interval or (difference, difference)
    word = Word.HOLDS if low > 0 else Word.FAILS if high < 0 else Word.UNDECIDED
    return Decision(word, difference, interval, by)


def half_width(sides: Sequence[Side]) -> float:
    """Of Welch's 95 % interval for a difference of means; a side without spread adds nothing."""
    parts = [((side.value.sd or 0.0) ** 2 / len(side.scores), len(side.scores)) for side in sides]
    total = math.fsum(part for part, _ in parts)
    if total == 0:
        return 0.0
    df = 1 / math.fsum((part / total) ** 2 / (k - 1) for part, k in parts)
    return student_quantile(df) * math.sqrt(total)


@dataclass(frozen=True)
class Judge:
    """What is asked: records, methods that can be composed, comparisons."""

    results: Results
    registry: Registry
    comparisons: Mapping[str, Comparisons]

    def judge(self, claim: Claim) -> Judgement:
        """Every task of a claim, and their average."""
        findings = []
        for column in claim.columns:
            task, path = address(claim.table, column)
            better, worse = (self.side(method, task, path) for method in claim.methods)
            found = decide(better, worse)
            findings.append(Finding(column.label, claim.published(column), (better, worse), found))
        average = self._average(claim, findings) if claim.comparable else None
        return Judgement(claim, tuple(findings), average)

    def side(self, method: str, task: str, path: tuple[str, ...]) -> Side:
        """The scores of a cell by seed; none where its records are of other settings."""
        records, made = self.results.records(method, task), self._parsed(method)
        if made is not None and any(record.repr != repr(made) for record in records):
            return Side({}, state=STALE)
        seeded = len(records) > 1 or (made is not None and made.seeded)
        return Side({record.seed: score_at(record.scores, path) for record in records}, seeded)

    def _parsed(self, method: str) -> Method | None:
        try:
            return self.registry.parse(method)
        except HarnessError:
            return None

    def _average(self, claim: Claim, findings: Sequence[Finding]) -> Finding:
        published = [finding.published for finding in findings]
        better, worse = (
            averaged([finding.sides[which] for finding in findings]) for which in (0, 1)
        )
        found = decide(better, worse, self._items(claim, better, worse))
        means = fmean(one for one, _ in published), fmean(other for _, other in published)
        return Finding(AVERAGE, means, (better, worse), found)

    def _items(self, claim: Claim, better: Side, worse: Side) -> tuple[float, float] | None:
        """The stored interval for the average of the seven, if these very rows were neighbours."""
        at = [address(claim.table, column) for column in claim.columns]
        forms = {task.endswith(SENTEVAL) for task, _ in at}
        if sorted(task.removesuffix(SENTEVAL) for task, _ in at) != sorted(SEVEN) or len(forms) > 1:
            return None
        text = "senteval" if forms == {True} else "raw"
        protocol = Protocol(text, claim.table.metric, str(claim.table.aggregation))
        encoder = claim.methods[0].partition(".")[0]
        known = self.comparisons.get(f"{encoder}.{protocol.id}")
        for method, side in zip(claim.methods, (better, worse), strict=True):
            mean = side.value.mean
            if known is None or mean is None or known.averages.get(method) != round(mean, 2):
                return None
        for rows in known.rows if known else ():
            if (rows.above, rows.below) == claim.methods:
                return rows.low, rows.high
            if (rows.below, rows.above) == claim.methods:
                return -rows.high, -rows.low
        return None


def averaged(sides: Sequence[Side]) -> Side:
    """The mean over tasks of each seed that all of them have; none where a task has no score."""
    seeds = set.intersection(*(set(side.scores) for side in sides))
    columns = {seed: [side.scores[seed] for side in sides] for seed in sorted(seeds)}
    if not seeds or any(score is None for column in columns.values() for score in column):
        return Side({}, state="–")
    means = {seed: fmean(s for s in column if s is not None) for seed, column in columns.items()}
    return Side(means, any(side.seeded for side in sides))


@dataclass(frozen=True)
class Order:
    """How many pairs of rows stand as published, and how many the other way."""

    same: int
    opposite: int
    pairs: int

    def __str__(self) -> str:
        """Kendall's tau, and the pairs it comes from."""
        if not self.pairs:
            return str(Word.NOT_MEASURED)
        return f"{(self.same - self.opposite) / self.pairs:+.2f} ({self.same} of {self.pairs})"


def order(published: Sequence[float], measured: Sequence[float]) -> Order:
    """The order of rows against the published one; rows that are published as equal have none."""
    pairs = combinations(zip(published, measured, strict=True), 2)
    signs = [(a - c) * (b - d) for (a, b), (c, d) in pairs if a != c]
    return Order(sum(s > 0 for s in signs), sum(s < 0 for s in signs), len(signs))


def judged(claims: Claims, judge: Judge) -> tuple[Judgement, ...]:
    """Every claim, in the order of the file."""
    return tuple(judge.judge(claim) for claim in claims.claims)
