"""Published tables: printed digits with their protocols.

`published_tables` reads them from files and checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path

from harness.core.errors import DataError
from harness.core.metrics.similarity import CORRELATION_SCORES
from harness.core.scores import ScorePath
from harness.core.toml import read_rows
from harness.core.types import AGGREGATIONS, Aggregation
from harness.results.index import CellName
from harness.results.verdict import CellState, Published


@dataclass(frozen=True)
class Reason:
    """One reason: the id that rows and columns name in `why_not`, and its explanation.

    `state` is the word that its numbers have in place of a verdict.
    """

    id: str
    explanation: str
    state: str = CellState.NO_METHOD

    def __post_init__(self) -> None:
        if self.state not in tuple(CellState):
            raise ValueError(f"state: {self.state!r} is no state of a cell")


@cache
def reasons() -> Mapping[str, Reason]:
    """The closed list, by id."""
    rows = read_rows(Reason, Path(__file__).with_name("reasons.toml"), "reason")
    return {reason.id: reason for reason in rows}


# Metrics that are scores, by their key in a record, and what else the papers print.
PUBLISHED_SCORES = (
    *CORRELATION_SCORES,
    "auc",
    "edit_distance",
    "gold_similarity",
    "accuracy",
)
PUBLISHED_METRICS = (*PUBLISHED_SCORES, "reciprocal_rank", "word statistic")

# The aggregation of a record's score that each word picks. A single set has no subsets.
AGGREGATION_OF: Mapping[str, Aggregation] = {
    **{name: name for name in AGGREGATIONS},
    "single set": "all",
}

# How the protocol of a row is known: its method, pooling, text, aggregation and fit
# corpus. The least certain of them decides.
EVIDENCE: Mapping[str, str] = {
    "confirmed": "our scores under the row's protocol equal those of the authors' own program",
    "code": "read from the code that the authors released",
    "paper": "stated in the paper",
    "inferred": "stated nowhere: concluded from the numbers, or from what others found",
}

TextByName = Mapping[str, str]


@dataclass(frozen=True)
class Column:
    """One column: exactly one of `task`, `average_of` (ids of columns) and `why_not` (a reason)."""

    id: str
    label: str
    task: str | None = None
    average_of: tuple[str, ...] = ()
    why_not: str | None = None
    metric: str | None = None
    aggregation: str | None = None
    split: str = ""
    file: str = ""
    revision: str = ""
    note: str = ""
    verbatim: TextByName = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row: exactly one of `method` and `why_not`; `values` and the other maps are by column.

    `n` runs with the standard deviations `sd`, which another row of the table may print
    (`sd_row`). `statistic` says what a row prints over the runs, if not one run's
    score. `evidence` is one of `EVIDENCE` and is taken before the table's. `group` is
    the heading under which the paper prints the row.
    """

    id: str
    label: str
    backbone: str
    fit: str
    supervision: str
    values: TextByName
    method: str | None = None
    why_not: str | None = None
    evidence: str | None = None
    group: str | None = None
    trained_on: str | None = None
    model_free: bool = False
    transductive: bool = False
    pooling: str | None = None
    dims: int | None = None
    aggregation: str | None = None
    statistic: str = "score"
    n: int | None = None
    sd: TextByName = field(default_factory=dict)
    sd_row: str | None = None
    median: TextByName = field(default_factory=dict)
    methods: TextByName = field(default_factory=dict)
    tasks: TextByName = field(default_factory=dict)
    table: str = ""
    source: str = ""
    note: str = ""
    notes: TextByName = field(default_factory=dict)
    verbatim: TextByName = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The label with the heading above it, which may tell it from another row."""
        return f"{self.label} ({self.group})" if self.group else self.label


@dataclass(frozen=True)
class Table:
    """One published table. `id` is the file's stem; `scale` is 100 where points are printed."""

    id: str
    paper: str
    table: str
    title: str
    cite: str
    source: str
    metric: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    aggregation: str | None = None
    evidence: str | None = None
    scale: int = 100
    notes: tuple[str, ...] = ()
    verbatim: TextByName = field(default_factory=dict)

    @cached_property
    def cells(self) -> tuple[PublishedCell, ...]:
        """Every printed number, row by row, in the order of the columns."""
        cells = []
        for row in self.rows:
            for column in self.columns:
                if column.id in row.values:
                    cells.append(self.cell(row, column))
        return tuple(cells)

    def cell(self, row: Row, column: Column) -> PublishedCell:
        """A printed number, with what the nearest of column, row and table says of it."""
        value = row.values[column.id]
        metric = column.metric or self.metric
        aggregation = column.aggregation or row.aggregation or self.aggregation
        why_not = row.why_not or column.why_not
        points = Decimal(value).scaleb(2 if self.scale == 1 else 0)
        sd = self._spreads(row).get(column.id)
        notes = (row.notes.get(column.id), row.note, column.note)
        place = f"{self.paper}, {row.table or self.table}"
        return PublishedCell(
            table=self,
            row=row,
            column=column,
            id=f"{self.id}/{row.id}/{column.id}",
            value=value,
            in_points=f"{points:f}" if metric in PUBLISHED_SCORES else None,
            task=self._task(row, column.id),
            average_of=tuple(self._task(row, name) or "" for name in column.average_of),
            metric=metric,
            aggregation=AGGREGATION_OF[aggregation] if aggregation else None,
            method=None if why_not else row.methods.get(column.id, row.method),
            why_not=reasons()[why_not] if why_not else None,
            evidence=None if why_not else row.evidence or self.evidence,
            notes=tuple(note for note in notes if note),
            sd=None if sd is None else float(sd) * (100 // self.scale),
            source=(row.source or self.source).replace("{file}", str(column.file)),
            place=place.replace("{file}", str(column.file)),
        )

    @cached_property
    def _task_of_column(self) -> Mapping[str, str | None]:
        return {column.id: column.task for column in self.columns}

    def _task(self, row: Row, column: str) -> str | None:
        """The task of a column, which a row may have in another text form."""
        return row.tasks.get(column, self._task_of_column[column])

    def _spreads(self, row: Row) -> TextByName:
        """The printed standard deviations of a row, which another row may hold."""
        for other in self.rows:
            if other.id == row.sd_row:
                return other.values
        return row.sd

    def score(self, row: Row, column: Column) -> float:
        """A printed score in points. Raises DataError where the column prints no score."""
        return self.cell(row, column).score


@dataclass(frozen=True, kw_only=True)
class PublishedCell:
    """One printed number with the protocol that it belongs to.

    Attributes:
        table: Its table.
        row: Its row.
        column: Its column.
        id: `TABLE/ROW/COLUMN`.
        value: The printed digits.
        in_points: The digits with the point moved where a fraction is printed; None: no
            score.
        task: The task; None in an average and where no task fits.
        average_of: The tasks that an average runs over, in this row's text form.
        metric: A key of a record's scores, or a metric that no record has.
        aggregation: `all`, `mean` or `wmean`.
        method: The method that reproduces it.
        why_not: Why no method and task of the harness reproduce it.
        evidence: How its protocol is known, of `EVIDENCE`; None where nothing
            reproduces it.
        notes: Notes on this number, nearest first, without the table's own.
        sd: The published standard deviation over `row.n` runs, in points.
        source: What the number was read from.
        place: The paper and its table in which the number is printed.
    """

    table: Table
    row: Row
    column: Column
    id: str
    value: str
    in_points: str | None
    task: str | None
    average_of: tuple[str, ...]
    metric: str
    aggregation: str | None
    method: str | None
    why_not: Reason | None
    evidence: str | None
    notes: tuple[str, ...]
    sd: float | None
    source: str
    place: str

    @property
    def points(self) -> float | None:
        """The number in points (x100), whatever the table's own scale; None: no score."""
        return None if self.in_points is None else float(self.in_points)

    @property
    def score(self) -> float:
        """The number in points. Raises DataError for a number that is no score."""
        if self.points is None:
            raise DataError(f"{self.id}: wanted a score, found a statistic")
        return self.points

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its task alone, or those that it averages; none where no task fits."""
        return self.average_of or ((self.task,) if self.task else ())

    @property
    def measured_cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that reproduces it; none where no method does."""
        return tuple((self.method, task) for task in self.tasks) if self.method else ()

    @property
    def published(self) -> Published | None:
        """The number as a verdict takes it; None where it is no score."""
        if self.in_points is None:
            return None
        return Published(
            self.in_points, self.sd, self.row.n if self.sd is not None else None
        )


def score_path(metric: str, aggregation: str | None) -> ScorePath:
    """The path of a score in a record; only a correlation is there under each aggregation."""
    if aggregation is None or metric not in CORRELATION_SCORES:
        return (metric,)
    return metric, AGGREGATION_OF[aggregation]
