"""Claims of papers that one method is better than another, from `claims.toml`.

The file `results/questions/claims.toml` names tables, rows and columns by their ids
(`ClaimEntry`). When it is read, each id is looked up (`Claim`).
`harness.results.claim_tests` tests claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.core.toml import read_typed
from harness.results.index import encoder_of_method
from harness.results.intervals import TaskScore
from harness.results.published import PUBLISHED_SCORES, Column, Row, Table, score_path


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
    """A claim with its table, rows, columns and methods, whose ids a `ClaimEntry` has.

    It says that `better` is above `worse` in each of the columns. The rows of a claim in
    words alone have no values.
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
        """The encoders of the two methods, the one of `better` first; one if they are the same."""
        encoders = [encoder_of_method(method) for method in self.methods]
        return tuple(dict.fromkeys(encoders))

    def published(self, column: Column) -> tuple[float, float] | None:
        """The printed numbers of `better` and `worse`, in points; None for a claim in words."""
        if not self.better.values:
            return None
        better = self.table.score(self.better, column)
        worse = self.table.score(self.worse, column)
        return better, worse


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
            claim = self._look_up_names(entry)
            for column in claim.columns:
                claim.published(column)  # raises for a row without a number in it
        except LookupError as error:
            raise ValueError(
                f"claim {entry.id}: {error} is no such table, row or column"
            ) from None
        aggregations = {claim.better.aggregation, claim.worse.aggregation}
        if aggregations - {None, claim.table.aggregation}:
            raise ValueError(
                f"claim {entry.id}: a row has another aggregation than its table"
            )
        return claim

    def _look_up_names(self, entry: ClaimEntry) -> Claim:
        """The claim of an entry. Raises LookupError for an unknown table, row or column."""
        table = self.tables[entry.table]
        rows = {row.id: row for row in table.rows}
        columns = {column.id: column for column in score_columns(table)}
        if entry.methods:
            better = rows.get(entry.better) or _row_of_words(entry.better)
            worse = rows.get(entry.worse) or _row_of_words(entry.worse)
            methods = (entry.methods[0], entry.methods[1])
        else:
            better = rows[entry.better]
            worse = rows[entry.worse]
            method_of_row = self.rows.get(entry.table, {})
            methods = (method_of_row[entry.better], method_of_row[entry.worse])
        return Claim(
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
    columns = []
    for column in table.columns:
        metric = column.metric or table.metric
        if column.task and metric in PUBLISHED_SCORES:
            columns.append(column)
    return tuple(columns)


def read_claims(path: Path, tables: Iterable[Table]) -> Claims:
    """The claims of a file. Raises DataError for an unknown, missing or repeated name."""
    return read_typed(Claims, path, tables={table.id: table for table in tables})
