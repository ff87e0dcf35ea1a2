"""Claims of papers about two methods, and whether they hold: files, stored intervals, tests.

What is dear to compute, the bootstrap of an interval, a run computes and stores; reading takes what
is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from statistics import NormalDist, fmean

from harness.core.json_text import write_sealed
from harness.core.scores import ScorePath
from harness.core.toml import read_sealed, read_typed
from harness.registry import Registry
from harness.results.comparisons import LEVEL, holm
from harness.results.index import NOT_MEASURED, CellName, Results, SeedScores, mean_over_tasks
from harness.results.layout import RECORDS
from harness.results.published import SCORES, Column, Row, Table, score_path
from harness.results.reproduction import seed_scores
from harness.results.verdict import TOLERANCES, CellState, welch_test

# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
TaskScore = tuple[str, ScorePath]


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    better: str
    worse: str
    scores: tuple[TaskScore, ...]

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that it compares."""
        return tuple(
            (method, task) for method in (self.better, self.worse) for task, _ in self.scores
        )


@dataclass(frozen=True)
class Interval:
    """A difference in points, its 95 % interval and two-sided p, and how they were computed.

    `by` is what was resampled: `ITEMS`, `SEEDS_AND_ITEMS`, or `NORMAL` for a p that was computed
    later, from the interval. `resamples` and `seed` are the bootstrap's.
    """

    contrast: Contrast
    difference: float
    low: float
    high: float
    p: float
    by: str
    resamples: int
    seed: int


Intervals = Mapping[Contrast, Interval]


@dataclass(frozen=True)
class StoredIntervals:
    """The file of intervals, in the order of their contrasts."""

    intervals: tuple[Interval, ...]


def intervals_file(results: Path) -> Path:
    """The file of intervals in a results folder."""
    return results / RECORDS / "claims.json"


def read_intervals(results: Path) -> Intervals:
    """Every stored interval; none where there is no file. Raises DataError for another file."""
    path = intervals_file(results)
    rows = read_sealed(StoredIntervals, path).intervals if path.exists() else ()
    return {interval.contrast: interval for interval in rows}


def write_intervals(results: Path, intervals: Intervals) -> None:
    """Store intervals in the order of their contrasts; a file that has them is left alone."""
    rows = tuple(intervals[contrast] for contrast in sorted(intervals, key=repr))
    if rows:
        write_sealed(intervals_file(results), asdict(StoredIntervals(rows)))


@dataclass(frozen=True)
class ClaimEntry:
    """A claim as the file has it, by the ids of its table, rows and columns.

    `methods` stand for this claim alone in the rows' place. One that is made in words alone has
    words for `better` and `worse`. `part_of` says of what several claims are parts. `of_paper` is
    false of a test on an encoder of which no paper claims anything. A `conjunction` claims every
    column, and not most of them.
    """

    id: str
    claim: str
    table: str
    better: str
    worse: str
    methods: tuple[str, str] | tuple[()] = ()
    columns: tuple[str, ...] | None = None
    note: str = ""
    part_of: str = ""
    of_paper: bool = True
    conjunction: bool = False


@dataclass(frozen=True)
class Claim:
    """That `better` lies above `worse` in each of the columns, and which methods stand for them.

    The rows of a claim in words alone hold no values.
    """

    id: str
    claim: str
    table: Table
    better: Row
    worse: Row
    methods: tuple[str, str]
    columns: tuple[Column, ...]
    note: str
    part_of: str
    of_paper: bool = True
    conjunction: bool = False

    @property
    def encoders(self) -> tuple[str, ...]:
        """The encoders that it was tested on: of `better`, then of `worse`."""
        return tuple(dict.fromkeys(method.partition(".")[0] for method in self.methods))

    def published(self, column: Column) -> tuple[float, float] | None:
        """The two printed numbers, in points, the claimed one first; None in words alone."""
        if not self.better.values:
            return None
        return self.table.score(self.better, column), self.table.score(self.worse, column)


@dataclass(frozen=True)
class Claims:
    """The file: a text about the models, the substitute of each row by table, the claims."""

    about: str
    rows: Mapping[str, Mapping[str, str]]
    claims: tuple[ClaimEntry, ...]
    tables: Mapping[str, Table]

    def __post_init__(self) -> None:
        if unknown := self.rows.keys() - self.tables.keys():
            raise ValueError(f"rows: there is no published table {min(unknown)!r}")
        if len({claim.id for claim in self.resolved}) < len(self.claims):
            raise ValueError("claims: two of them have one id")

    @cached_property
    def resolved(self) -> tuple[Claim, ...]:
        """The claims with their tables, rows, columns and methods."""
        return tuple(map(self._resolve, self.claims))

    def _resolve(self, entry: ClaimEntry) -> Claim:
        try:
            table, sides = self.tables[entry.table], (entry.better, entry.worse)
            rows, stand_ins = {row.id: row for row in table.rows}, self.rows.get(entry.table, {})
            if entry.methods:  # words are rows that print nothing
                rows = {words: Row(words, words, "", "", "", values={}) for words in sides} | rows
                stand_ins = dict(zip(sides, entry.methods, strict=True))
            better, worse = (rows[side] for side in sides)
            methods = stand_ins[entry.better], stand_ins[entry.worse]
            columns = {column.id: column for column in scored(table)}
            claim = Claim(
                id=entry.id,
                claim=entry.claim,
                table=table,
                better=better,
                worse=worse,
                methods=methods,
                columns=tuple(columns[name] for name in entry.columns or columns),
                note=entry.note,
                part_of=entry.part_of,
                of_paper=entry.of_paper,
                conjunction=entry.conjunction,
            )
            for column in claim.columns:
                claim.published(column)
        except LookupError as error:
            raise ValueError(f"claim {entry.id}: {error} is no such table, row or column") from None
        if {better.aggregation, worse.aggregation} - {None, table.aggregation}:
            raise ValueError(f"claim {entry.id}: a row has another aggregation than its table")
        return claim


def address(table: Table, column: Column) -> TaskScore:
    """Task and path of the score under the table's own protocol, whatever a row quotes."""
    aggregation = column.aggregation or table.aggregation
    return str(column.task), score_path(column.metric or table.metric, aggregation)


def scored(table: Table) -> tuple[Column, ...]:
    """The columns that hold scores of single tasks; averages are computed and never taken over."""
    columns = (column for column in table.columns if column.task)
    return tuple(c for c in columns if (c.metric or table.metric) in SCORES)


def read_claims(path: Path, tables: Iterable[Table]) -> Claims:
    """The claims with their tables. Raises DataError for whatever is unknown, missing or double."""
    return read_typed(Claims, path, tables={table.id: table for table in tables})


AVERAGE = "Avg."
# Points: an interval belongs to the difference that it was made for. Fits round otherwise on other
# processors, so that five seeds there are another five: their means moved by 0.08 at most.
MOVED, REFITTED = 0.01, 0.1

# What a decision rests on.
ITEMS = "items"  # resampled, between methods without seeds
NORMAL = "items, normal p"  # resampled; p is that of a normal distribution with this interval
SEEDS_AND_ITEMS = "seeds and items"  # both resampled
SEEDS = "seeds alone"  # Welch's test: the items were not resampled
NO_INTERVAL = "no interval"  # neither: the sign of a difference decides nothing
INCOMPLETE = (SEEDS, NORMAL, NO_INTERVAL)  # for which a run makes an interval


class ClaimOutcome(StrEnum):
    """The outcome of testing a claim on measured scores; the last is for missing ones."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


@dataclass(frozen=True)
class Decision:
    """The outcome, the difference, its 95 % interval, p, and what they rest on.

    `p_holm` is p corrected for the tasks of the claim; it decides. The interval is not corrected.
    """

    outcome: ClaimOutcome
    difference: float | None = None
    interval: tuple[float, float] | None = None
    by: str = ""
    p: float | None = None
    p_holm: float | None = None

    def corrected(self, p_holm: float) -> Decision:
        """The decision with p as it is corrected for several tests."""
        outcome = ClaimOutcome.UNDECIDED
        if p_holm <= LEVEL and self.difference:
            outcome = ClaimOutcome.HOLDS if self.difference > 0 else ClaimOutcome.FAILS
        return replace(self, outcome=outcome, p_holm=p_holm)


def decide(better: SeedScores, worse: SeedScores, stored: Interval | None = None) -> Decision:
    """Whether the first lies above the second, by one test.

    By the stored interval where there is one for this difference. Else, where either is seeded, by
    Welch's test over seeds, which says nothing of the choice of items. Else it is undecided.
    """
    if not better.scores or not worse.scores:
        return Decision(ClaimOutcome.NOT_MEASURED)
    above, below = better.value.mean, worse.value.mean
    if above is None or below is None:
        return Decision(ClaimOutcome.UNDECIDED, by=CellState.UNDEFINED)
    difference = round(above - below, 9)
    seeded = [side for side in (better, worse) if side.seeded]
    if any(len(side.scores) < TOLERANCES.seeds for side in seeded):
        return Decision(ClaimOutcome.UNDECIDED, difference, by=CellState.TOO_FEW_SEEDS)
    if stored and abs(stored.difference - difference) <= (REFITTED if seeded else MOVED):
        interval, p = _at(difference, stored)
        by = stored.by
    elif seeded:
        welch = welch_test(
            difference, *((side.value.sd or 0.0, len(side.scores)) for side in seeded)
        )
        interval, by, p = (difference - welch.half, difference + welch.half), SEEDS, welch.p
    else:
        return Decision(ClaimOutcome.UNDECIDED, difference, by=NO_INTERVAL)
    return Decision(ClaimOutcome.UNDECIDED, difference, interval, by, p).corrected(p)


def _at(difference: float, stored: Interval) -> tuple[tuple[float, float], float]:
    """A stored interval and p, where seeds were fitted anew shifted to their difference.

    The shifted p is the larger of the stored one and that of a normal distribution.
    """
    shift = difference - stored.difference
    if abs(shift) <= MOVED:
        return (stored.low, stored.high), stored.p
    deviation = (stored.high - stored.low) / (2 * NormalDist().inv_cdf(0.975))
    normal_p = math.erfc(abs(difference) / deviation / math.sqrt(2)) if deviation else stored.p
    return (stored.low + shift, stored.high + shift), max(stored.p, normal_p)


def correct_for_tasks(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a claim, their p corrected by Holm's procedure: its tasks are the family."""
    adjusted = iter(holm([f.decision.p for f in findings if f.decision.p is not None]))
    return [
        f if f.decision.p is None else replace(f, decision=f.decision.corrected(next(adjusted)))
        for f in findings
    ]


@dataclass(frozen=True)
class Finding:
    """One claim on one task, or on their average: numbers published, if any, and measured."""

    label: str
    contrast: Contrast
    published: tuple[float, float] | None
    sides: tuple[SeedScores, SeedScores]
    decision: Decision

    @property
    def claimed(self) -> float | None:
        """The published difference; None where the claim is in words alone."""
        return None if self.published is None else round(self.published[0] - self.published[1], 9)


@dataclass(frozen=True)
class ClaimResult:
    """A claim with a finding for each task, and the average where there is one.

    It holds if it holds on more than half of its tasks, and does not if the opposite is true on
    more than half; a missing score counts as a task, and the average does not. A conjunction holds
    if it holds on all, and does not if the opposite is true on one.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    average: Finding | None

    @property
    def outcomes(self) -> list[ClaimOutcome]:
        return [finding.decision.outcome for finding in self.findings]

    @property
    def outcome(self) -> ClaimOutcome:
        """The outcome of the whole claim."""
        outcomes = self.outcomes
        if set(outcomes) == {ClaimOutcome.NOT_MEASURED}:
            return ClaimOutcome.NOT_MEASURED
        if self.claim.conjunction:
            return _of_every(outcomes)
        for outcome in (ClaimOutcome.HOLDS, ClaimOutcome.FAILS):
            if 2 * outcomes.count(outcome) > len(outcomes):
                return outcome
        return ClaimOutcome.UNDECIDED

    @property
    def every(self) -> tuple[Finding, ...]:
        """The findings, the average among them where there is one."""
        return (*self.findings, *filter(None, [self.average]))

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that the claim was tested on."""
        return tuple(cell for finding in self.findings for cell in finding.contrast.cells)

    @property
    def in_paper(self) -> int:
        """On how many tasks the paper's own numbers have the claimed order."""
        return sum(f.claimed is not None and f.claimed > 0 for f in self.findings)


def _of_every(outcomes: Sequence[ClaimOutcome]) -> ClaimOutcome:
    """The outcome of a claim of which every part has to hold."""
    if ClaimOutcome.FAILS in outcomes:
        return ClaimOutcome.FAILS
    return ClaimOutcome.HOLDS if {*outcomes} == {ClaimOutcome.HOLDS} else ClaimOutcome.UNDECIDED


@dataclass(frozen=True)
class ClaimTests:
    """Tests of claims on records, with the intervals over test pairs that are stored."""

    results: Results
    registry: Registry
    intervals: Intervals

    def test(self, claim: Claim) -> ClaimResult:
        """Every task of a claim, and their average if all have one metric."""
        findings = [
            self._finding(c.label, claim.published(c), claim, [address(claim.table, c)])
            for c in claim.columns
        ]
        findings = correct_for_tasks(findings)
        average = None
        metrics = {column.metric or claim.table.metric for column in claim.columns}
        if len(findings) > 1 and len(metrics) == 1:
            printed = [finding.published for finding in findings if finding.published]
            means = None
            if printed:
                means = fmean(above for above, _ in printed), fmean(below for _, below in printed)
            scores = [finding.contrast.scores[0] for finding in findings]
            average = self._finding(AVERAGE, means, claim, scores)
        return ClaimResult(claim, tuple(findings), average)

    def scores(self, identifier: str, score: TaskScore) -> SeedScores:
        """The scores of a method by seed."""
        return seed_scores(identifier, *score, self.results, self.registry)

    def _finding(
        self,
        label: str,
        published: tuple[float, float] | None,
        claim: Claim,
        scores: Sequence[TaskScore],
    ) -> Finding:
        """The claim on the mean of some scores, of which one task may have the only one."""
        contrast = Contrast(*claim.methods, tuple(scores))
        better, worse = (
            mean_over_tasks([self.scores(method, score) for score in scores])
            for method in claim.methods
        )
        decision = decide(better, worse, self.intervals.get(contrast))
        return Finding(label, contrast, published, (better, worse), decision)
