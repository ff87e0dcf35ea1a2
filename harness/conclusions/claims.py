"""Claims of papers that one method is better than another, tested on measured scores.

The file `results/questions/claims.toml` names tables, rows and columns by their ids
(`ClaimEntry`). When it is read, each id is looked up (`Claim`). `claim_result` tests each
column with the methods of both rows (`Finding`); the outcome of the claim follows from
its findings (`ClaimResult`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from harness.core.hardware import base_name
from harness.core.toml import read_typed
from harness.registry import Registry
from harness.results.differences import (
    NO_FLOORS,
    SEEDS_ALONE,
    Contrast,
    Difference,
    Differences,
    Floors,
    Outcome,
    corrected,
    measured,
    with_test,
)
from harness.results.index import Results, TaskScore, encoder_of_method
from harness.results.published import PUBLISHED_SCORES, Column, Row, Table, score_path
from harness.results.records import CellName

AVERAGE = "Avg."

# The printed numbers of two rows, in points, the row that is claimed to be better first.
Printed = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ClaimEntry:
    """A claim as the file has it, by the ids of its table, rows and columns.

    Attributes:
        id: The claim's name.
        claim: The claim in a sentence.
        table: The id of the published table.
        better: The id of the row that is claimed to be better, or a text where no row
            prints it.
        worse: The id of the other row, or a text.
        methods: The methods that are compared for this claim; by default the methods of
            the rows.
        columns: The ids of the columns that it is claimed for; by default all columns
            with scores of a single task.
        note: A note on the claim.
        part_of: The id of a claim of the paper that has several parts, one of them this.
        of_paper: False for a test on an encoder about which no paper claims anything.
        conjunction: Whether it is claimed for every column, and not for most of them.
    """

    id: str
    claim: str
    table: str
    better: str
    worse: str
    methods: tuple[str, str] | None = None
    columns: tuple[str, ...] | None = None
    note: str = ""
    part_of: str = ""
    of_paper: bool = True
    conjunction: bool = False


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim with what its ids name.

    Attributes:
        entry: The claim as the file has it.
        table: The published table.
        rows: The row that is claimed to be better, and the other one. Those of a claim in
            words alone have no values.
        methods: The methods that are compared, in the order of the rows.
        columns: The columns that it is claimed for.
    """

    entry: ClaimEntry
    table: Table
    rows: tuple[Row, Row]
    methods: tuple[str, str]
    columns: tuple[Column, ...]

    @property
    def id(self) -> str:
        """The claim's name."""
        return self.entry.id

    @property
    def encoders(self) -> tuple[str, ...]:
        """The encoders of the two methods, the one of `better` first; one if they are the same."""
        encoders = [encoder_of_method(method) for method in self.methods]
        return tuple(dict.fromkeys(encoders))

    @property
    def is_of_own_encoder(self) -> bool:
        """Whether both methods have the encoder that the paper's row has."""
        return all(
            row.method is not None
            and base_name(encoder_of_method(row.method))
            == base_name(encoder_of_method(method))
            for row, method in zip(self.rows, self.methods, strict=True)
        )

    @property
    def is_printed(self) -> bool:
        """Whether the paper prints numbers for it, and not words alone."""
        return bool(self.rows[0].values)

    @property
    def parts(self) -> Iterator[tuple[str, Printed | None, Contrast]]:
        """The heading, the printed numbers and the contrast of each column.

        The average comes last, where all of several columns have one metric. Raises
        DataError for a row that prints no number in a column.
        """
        scores, printed = [], []
        for column in self.columns:
            score = score_of_column(self.table, column)
            numbers = None
            if self.is_printed:
                better, worse = (self.table.score(row, column) for row in self.rows)
                numbers = (better, worse)
                printed.append(numbers)
            scores.append(score)
            yield column.label, numbers, Contrast(*self.methods, (score,))
        if len(scores) > 1 and len({path[0] for _, path in scores}) == 1:
            means = None
            if printed:
                means = (fmean(a for a, _ in printed), fmean(b for _, b in printed))
            yield AVERAGE, means, Contrast(*self.methods, tuple(scores))


@dataclass(frozen=True, kw_only=True)
class Claims:
    """The file of claims.

    Attributes:
        about: A text about the models.
        rows: By the id of a table and then of a row, the method that the row is tested
            with.
        claims: The claims.
        tables: The published tables by id.
    """

    about: str
    rows: Mapping[str, Mapping[str, str]]
    claims: tuple[ClaimEntry, ...]
    tables: Mapping[str, Table]

    def __post_init__(self) -> None:
        unknown = self.rows.keys() - self.tables.keys()
        if unknown:
            raise ValueError(f"rows: there is no published table {min(unknown)!r}")
        if len({claim.id for claim in self.resolved}) < len(self.claims):
            raise ValueError("claims: two of them have one id")

    @cached_property
    def resolved(self) -> tuple[Claim, ...]:
        """The claims with their tables, rows, columns and methods."""
        return tuple(self._resolve(entry) for entry in self.claims)

    def _resolve(self, entry: ClaimEntry) -> Claim:
        """The claim of an entry. Raises ValueError for an unknown name."""
        try:
            table = self.tables[entry.table]
            rows = {row.id: row for row in table.rows}
            columns = {column.id: column for column in score_columns(table)}
            sides = (entry.better, entry.worse)
            if entry.methods:
                better, worse = (
                    rows.get(side) or _row_of_words(side) for side in sides
                )
                methods = entry.methods
            else:
                better, worse = (rows[side] for side in sides)
                method_of_row = self.rows.get(entry.table, {})
                methods = (method_of_row[entry.better], method_of_row[entry.worse])
            claim = Claim(
                entry=entry,
                table=table,
                rows=(better, worse),
                methods=methods,
                columns=tuple(columns[name] for name in entry.columns or columns),
            )
            list(claim.parts)  # raises for a row without a number in a column
        except LookupError as error:
            raise ValueError(
                f"claim {entry.id}: {error} is no such table, row or column"
            ) from None
        if {better.aggregation, worse.aggregation} - {None, table.aggregation}:
            raise ValueError(
                f"claim {entry.id}: a row has another aggregation than its table"
            )
        return claim


def _row_of_words(words: str) -> Row:
    """A row without numbers, for one side of a claim in words."""
    return Row(id=words, label=words, backbone="", fit="", supervision="", values={})


def score_of_column(table: Table, column: Column) -> TaskScore:
    """Task and path of the score that a column prints.

    The aggregation is the column's or the table's. That of a row is not looked at: a row
    that quotes another paper may have its own.
    """
    aggregation = column.aggregation or table.aggregation
    return str(column.task), score_path(column.metric or table.metric, aggregation)


def score_columns(table: Table) -> tuple[Column, ...]:
    """The columns with scores of a single task. Averages are computed, not read."""
    return tuple(
        column
        for column in table.columns
        if column.task and (column.metric or table.metric) in PUBLISHED_SCORES
    )


def read_claims(path: Path, tables: Iterable[Table]) -> Claims:
    """The claims of a file. Raises DataError for an unknown, missing or repeated name."""
    return read_typed(Claims, path, tables={table.id: table for table in tables})


# Tests


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim on one task, or on the average of its tasks.

    Attributes:
        label: The heading of the column, or `Avg.`.
        published: The two printed numbers in points, the row that is claimed to be
            better first; None for a claim in words alone.
        difference: The difference of the measured scores of both methods, tested.
        other: The difference with the other floor of narrow coordinates, where a flow
            was measured with both.
    """

    label: str
    published: Printed | None
    difference: Difference
    other: Difference | None = None

    @property
    def outcome(self) -> Outcome:
        """Whether the first method is higher or lower; undecided if two floors disagree."""
        outcome = self.difference.outcome
        if self.other is not None and self.other.outcome != outcome:
            return Outcome.UNDECIDED
        return outcome

    @property
    def claimed(self) -> float | None:
        """The published difference; None where the claim is in words alone."""
        if self.published is None:
            return None
        better, worse = self.published
        return round(better - worse, 9)


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """A claim with a finding for each task, and one for the average if there is one.

    Its outcome is the outcome of more than half of its tasks. A task without a score
    counts, and the average does not. A conjunction is higher if it is higher on all
    tasks, and lower if it is lower on one.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    average: tuple[Finding, ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome on each task."""
        return [finding.outcome for finding in self.findings]

    @property
    def outcome(self) -> Outcome:
        """The outcome of the whole claim."""
        return self._outcome_of(self.outcomes)

    def _outcome_of(self, outcomes: Sequence[Outcome]) -> Outcome:
        if set(outcomes) == {Outcome.NOT_MEASURED}:
            return Outcome.NOT_MEASURED
        if self.claim.entry.conjunction:
            if Outcome.LOWER in outcomes:
                return Outcome.LOWER
            is_on_all = set(outcomes) == {Outcome.HIGHER}
            return Outcome.HIGHER if is_on_all else Outcome.UNDECIDED
        for outcome in (Outcome.HIGHER, Outcome.LOWER):
            if 2 * outcomes.count(outcome) > len(outcomes):
                return outcome
        return Outcome.UNDECIDED

    @property
    def rests_on_seeds_alone(self) -> bool:
        """Whether it is decided, and would not be without the tests over seeds alone.

        These tests do not take the choice of items into account.
        """
        with_items = [
            Outcome.UNDECIDED
            if finding.difference.by == SEEDS_ALONE
            else finding.outcome
            for finding in self.findings
        ]
        is_decided = self.outcome in (Outcome.HIGHER, Outcome.LOWER)
        return is_decided and self._outcome_of(with_items) != self.outcome

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings, with the average last where there is one."""
        return (*self.findings, *self.average)

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that the claim was tested on."""
        cells: list[CellName] = []
        for finding in self.findings:
            cells += finding.difference.contrast.cells
        return tuple(cells)

    @property
    def in_paper(self) -> int:
        """The number of tasks on which the paper's own numbers have the claimed order."""
        return sum((finding.claimed or 0.0) > 0 for finding in self.findings)


def claim_result(
    claim: Claim,
    results: Results,
    registry: Registry,
    stored: Differences,
    floors: Floors = NO_FLOORS,
) -> ClaimResult:
    """Every task of a claim, and their average if all have one metric.

    Args:
        claim: The claim.
        results: The records.
        registry: Methods by name.
        stored: The stored differences.
        floors: Scores of flows with the other floor.
    """
    findings = []
    for label, published, contrast in claim.parts:
        difference = measured(contrast, results, registry)
        other = measured(contrast, results, registry, floors)
        finding = Finding(
            label=label,
            published=published,
            difference=with_test(difference, stored.get(contrast)),
            other=None if other == difference else with_test(other),
        )
        findings.append(finding)
    tasks = len(claim.columns)
    return ClaimResult(
        claim=claim,
        findings=_corrected(findings[:tasks]),
        average=_corrected(findings[tasks:]),
    )


def _corrected(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings with the p of their differences corrected for all of them, with each floor."""
    differences = corrected([finding.difference for finding in findings])
    others = corrected([finding.other or finding.difference for finding in findings])
    return tuple(
        replace(finding, difference=difference, other=finding.other and other)
        for finding, difference, other in zip(
            findings, differences, others, strict=True
        )
    )
