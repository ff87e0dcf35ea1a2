"""Claims of papers about two methods, and whether they hold: files, stored intervals, tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from statistics import fmean

from harness.core.json_text import write_sealed
from harness.core.toml import read_sealed, read_typed
from harness.registry import Registry
from harness.results.index import NOT_MEASURED, Results, SeedScores, mean_over_tasks
from harness.results.layout import RECORDS
from harness.results.published import SCORES, Column, Row, Table, score_path
from harness.results.reproduction import seed_scores
from harness.results.verdict import TOLERANCES, CellState, welch_half_width

# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
TaskScore = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    better: str
    worse: str
    scores: tuple[TaskScore, ...]


@dataclass(frozen=True)
class Interval:
    """A difference in points, its 95 % interval, and the bootstrap's resamples and seed."""

    contrast: Contrast
    difference: float
    low: float
    high: float
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
    false of a test on an encoder of which no paper claims anything.
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


@dataclass(frozen=True)
class Claim:
    """That `better` lies above `worse` in each of the columns, and which methods stand for them.

    The rows of a claim in words alone hold no values. `failed_training` says why the training of
    one of the methods does not work; empty where all do.
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
    failed_training: str
    of_paper: bool = True

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
    """The file: a text about the models, the substitute of each row by table, the claims.

    `failed_trainings` are encoders whose training does not work, each with a sentence that says so.
    """

    about: str
    rows: Mapping[str, Mapping[str, str]]
    claims: tuple[ClaimEntry, ...]
    tables: Mapping[str, Table]
    failed_trainings: Mapping[str, str] = field(default_factory=dict)

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
            failed = (self.failed_trainings.get(method.partition(".")[0]) for method in methods)
            claim = Claim(
                entry.id,
                entry.claim,
                table,
                better,
                worse,
                methods,
                tuple(columns[name] for name in entry.columns or columns),
                entry.note,
                entry.part_of,
                next(filter(None, failed), ""),
                of_paper=entry.of_paper,
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
SIGN = "sign"  # what a decision rests on that has neither seeds nor an interval
MOVED = 0.01  # points: an interval belongs to the difference that it was made for


class ClaimOutcome(StrEnum):
    """The outcome of testing a claim on measured scores; the last is for missing ones."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


@dataclass(frozen=True)
class Decision:
    """The outcome, the difference, its 95 % interval, and what the outcome rests on."""

    outcome: ClaimOutcome
    difference: float | None = None
    interval: tuple[float, float] | None = None
    by: str = ""


def decide(
    better: SeedScores, worse: SeedScores, items: tuple[float, float] | None = None
) -> Decision:
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
    seeded = [side for side in (better, worse) if side.seeded]
    if any(len(side.scores) < TOLERANCES.seeds for side in seeded):
        return Decision(ClaimOutcome.UNDECIDED, difference, by=CellState.TOO_FEW_SEEDS)
    interval, by = items, "items" if items else SIGN
    if seeded:
        h = welch_half_width(*((side.value.sd or 0.0, len(side.scores)) for side in seeded))
        interval, by = (difference - h, difference + h), "seeds"
    if interval is None and abs(difference) <= TOLERANCES.match:
        return Decision(ClaimOutcome.UNDECIDED, difference, by=SIGN)
    low, high = interval or (difference, difference)
    outcome = ClaimOutcome.HOLDS if low > 0 else ClaimOutcome.UNDECIDED
    outcome = ClaimOutcome.FAILS if high < 0 else outcome
    return Decision(outcome, difference, interval, by)


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
    more than half; a missing score counts as a task, and the average does not.
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
        decision, stored = decide(better, worse), self.intervals.get(contrast)
        # A stored interval stands where the sign alone would decide, and the difference is its.
        if stored and decision.by == SIGN and decision.difference is not None:
            moved = abs(stored.difference - decision.difference) > MOVED
            items = None if moved else (stored.low, stored.high)
            decision = decide(better, worse, items)
        return Finding(label, contrast, published, (better, worse), decision)
