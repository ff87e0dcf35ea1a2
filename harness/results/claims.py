"""Claims of papers about two methods, and whether they hold: files, stored intervals, tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from statistics import fmean

from harness.core.files import write_atomically
from harness.core.toml import read_typed
from harness.core.types import is_method_id
from harness.registry import Registry
from harness.results.index import NOT_MEASURED, Results, Value, score_at, value
from harness.results.layout import RECORDS
from harness.results.published import SCORES, Column, Row, Table, score_path
from harness.results.reproduction import composed, is_stale
from harness.results.verdict import TOLERANCES, CellState, welch_half_width

# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
Score = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    better: str
    worse: str
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Interval:
    """A difference in points, its 95 % interval, and the bootstrap's resamples and seed."""

    difference: float
    low: float
    high: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class _Row(Interval):
    """An interval as it is stored, with the difference that it belongs to."""

    contrast: Contrast

    @property
    def interval(self) -> Interval:
        return Interval(self.difference, self.low, self.high, self.resamples, self.seed)


Intervals = Mapping[Contrast, Interval]


def intervals_file(results: Path) -> Path:
    """The file of intervals in a results folder."""
    return results / RECORDS / "claims.json"


def read_intervals(results: Path) -> Intervals:
    """Every stored interval; none where there is no file. Raises DataError for another file."""
    path = intervals_file(results)
    rows = read_typed(tuple[_Row, ...], path) if path.exists() else ()
    return {row.contrast: row.interval for row in rows}


def write_intervals(results: Path, intervals: Intervals) -> None:
    """Store intervals in the order of their names; a file that has them is left alone."""
    path, known = intervals_file(results), sorted(intervals.items(), key=lambda item: repr(item[0]))
    rows = [{"contrast": asdict(contrast), **asdict(interval)} for contrast, interval in known]
    data = (json.dumps(rows, indent=1) + "\n").encode()
    if known and (not path.exists() or path.read_bytes() != data):
        write_atomically(path, data)


@dataclass(frozen=True)
class ClaimEntry:
    """A claim as the file has it, by the ids of its table, rows and columns.

    With `methods` it is made in words alone: `better` and `worse` are then words, and no rows.
    `part_of` says of which sentence of the paper several claims are parts.
    """

    id: str
    claim: str
    table: str
    better: str
    worse: str
    methods: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    note: str = ""
    part_of: str = ""


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
    note: str = ""
    part_of: str = ""
    failed_training: str = ""

    def published(self, column: Column) -> tuple[float, float] | None:
        """The two printed numbers, in points, the claimed one first; None in words alone."""
        if not self.better.values:
            return None
        return self.table.score(self.better, column), self.table.score(self.worse, column)

    @property
    def comparable(self) -> bool:
        """Whether its columns have an average: two or more, all of one metric."""
        metrics = {column.metric or self.table.metric for column in self.columns}
        return len(self.columns) > 1 and len(metrics) == 1


@dataclass(frozen=True)
class Claims:
    """The file: a text about the models, the stand-in of each row by table, the claims.

    `failed_trainings` are encoders whose training does not work, each with a sentence that says so.
    """

    about: str
    rows: Mapping[str, Mapping[str, str]]
    claims: tuple[ClaimEntry, ...]
    tables: Mapping[str, Table]
    failed_trainings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise ValueError(fault)

    @property
    def resolved(self) -> tuple[Claim, ...]:
        """The claims with their tables, rows, columns and methods."""
        return tuple(map(self._resolve, self.claims))

    def _resolve(self, entry: ClaimEntry) -> Claim:
        table = self.tables[entry.table]
        if entry.methods:
            above, below = map(in_words, (entry.better, entry.worse))
            methods = entry.methods[0], entry.methods[1]
        else:
            stand_ins, rows = self.rows[entry.table], {row.id: row for row in table.rows}
            above, below = rows[entry.better], rows[entry.worse]
            methods = stand_ins[entry.better], stand_ins[entry.worse]
        columns = (c for c in scored(table) if entry.columns is None or c.id in entry.columns)
        encoders = (method.partition(".")[0] for method in methods)
        failed = next(filter(None, map(self.failed_trainings.get, encoders)), "")
        own = (entry.id, entry.claim, table, above, below, methods, tuple(columns))
        return Claim(*own, entry.note, entry.part_of, failed)

    def _faults(self) -> Iterator[str]:
        for name, stand_ins in self.rows.items():
            faults = _row_faults(self.tables.get(name), stand_ins)
            yield from (f"rows.{name}: {fault}" for fault in faults)
        named = [m for of in self.rows.values() for m in of.values()]
        named += [method for entry in self.claims for method in entry.methods]
        for encoder in self.failed_trainings.keys() - {m.partition(".")[0] for m in named}:
            yield f"failed_trainings: no method here is of the encoder {encoder!r}; remove it"
        ids = [entry.id for entry in self.claims]
        for entry in self.claims:
            if ids.count(entry.id) > 1:
                yield f"claim {entry.id}: the id stands twice; rename one of the claims"
            stand_ins = self.rows.get(entry.table, {})
            of = _words_faults(entry) if entry.methods else _stand_in_faults(entry, stand_ins)
            wrong = (*of, *_column_faults(entry, self.tables))
            yield from (f"claim {entry.id}: {fault}" for fault in wrong)


def address(table: Table, column: Column) -> tuple[str, tuple[str, ...]]:
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


def _row_faults(table: Table | None, stand_ins: Mapping[str, str]) -> Iterator[str]:
    """Each row is the table's and under its protocol; each method stands for one row."""
    rows = {row.id: row for row in table.rows} if table else {}
    if table is None:
        yield "there is no such published table"
    for name, method in stand_ins.items():
        if name not in rows:
            yield f"there is no row {name!r}"
        elif table and rows[name].aggregation not in (None, table.aggregation):
            yield f"{name!r} is printed under another aggregation than its table"
        if not is_method_id(method):
            yield f"{method!r} is no method id"
        if list(stand_ins.values()).count(method) > 1:
            yield f"{method} stands for two rows; the order of rows needs one each"


def in_words(label: str) -> Row:
    """What a claim in words compares, as a row that prints nothing."""
    return Row(label, label, "", "", "", values={})


def _words_faults(entry: ClaimEntry) -> Iterator[str]:
    """Two methods are named."""
    if len(set(entry.methods)) != 2 or not all(map(is_method_id, entry.methods)):
        yield f"methods: wanted the ids of two methods, found {list(entry.methods)}"


def _stand_in_faults(entry: ClaimEntry, stand_ins: Mapping[str, str]) -> Iterator[str]:
    """Both rows have a stand-in."""
    for name in (entry.better, entry.worse):
        if name not in stand_ins:
            yield f"no method stands for {name!r} of {entry.table!r}; add it"
    if entry.better == entry.worse:
        yield f"wanted two rows, found {entry.better!r} twice"


def _column_faults(entry: ClaimEntry, tables: Mapping[str, Table]) -> Iterator[str]:
    """The columns hold scores, and both rows print one in each."""
    if entry.table not in tables:
        yield f"there is no published table {entry.table!r}"
        return
    table = tables[entry.table]
    ids = [column.id for column in scored(table)]
    chosen = ids if entry.columns is None else list(entry.columns)
    if not chosen or len(set(chosen)) < len(chosen) or set(chosen) - {*ids}:
        yield f"columns are some of {', '.join(ids)}; found {chosen}"
    for row in table.rows:
        if row.id in (entry.better, entry.worse) and (lost := set(chosen) - {*row.values}):
            yield f"wanted a score printed in {table.id}/{row.id}/{min(lost)}, found none"


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
