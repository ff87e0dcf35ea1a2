"""Why a published number has no method here: a closed list, which `reasons.toml` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path

from harness.core.errors import DataError
from harness.core.toml import read_rows
from harness.core.types import AGGREGATIONS, Aggregation
from harness.results.verdict import Published


@dataclass(frozen=True)
class Reason:
    """One reason: the id that rows and columns name in `why_not`, and its explanation.

    `other_protocol` marks a number that belongs to the protocol of another paper.
    """

    id: str
    explanation: str
    other_protocol: bool = False


@cache
def reasons() -> Mapping[str, Reason]:
    """The closed list, by id."""
    rows = read_rows(Reason, Path(__file__).with_name("reasons.toml"), "reason")
    return {reason.id: reason for reason in rows}


# Metrics that are scores, by their key in a record, and what else the papers print.
SCORES = ("spearman", "pearson", "auc", "edit_distance", "gold_similarity", "accuracy")
METRICS = (*SCORES, "word statistic")

# The aggregation of a record's score that each word picks. A single set has no subsets.
AGGREGATION_OF: Mapping[str, Aggregation] = {
    **{name: name for name in AGGREGATIONS},
    "single set": "all",
}

# How the protocol of a row is known: its method, pooling, text, aggregation and fit corpus. The
# least certain of them decides.
EVIDENCE: Mapping[str, str] = {
    "confirmed": "our scores under the row's protocol equal those of the authors' own program",
    "code": "read from the code that the authors released",
    "paper": "stated in the paper",
    "inferred": "stated nowhere: concluded from the numbers, or from what others found",
}

Words = Mapping[str, str]


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
    verbatim: Words = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row: exactly one of `method` and `why_not`; `values` and the other maps are by column.

    `n` runs with the standard deviations `sd`, which another row of the table may print
    (`sd_row`). `statistic` says what a row prints over the runs, if not one run's score.
    `evidence` is one of `EVIDENCE` and stands before the table's. `group` is the heading under
    which the paper prints the row.
    """

    id: str
    label: str
    backbone: str
    fit: str
    supervision: str
    values: Words
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
    sd: Words = field(default_factory=dict)
    sd_row: str | None = None
    median: Words = field(default_factory=dict)
    methods: Words = field(default_factory=dict)
    tasks: Words = field(default_factory=dict)
    table: str = ""
    source: str = ""
    note: str = ""
    notes: Words = field(default_factory=dict)
    verbatim: Words = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The label with the heading that it stands under, which may tell it from another row."""
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
    verbatim: Words = field(default_factory=dict)

    def cells(self) -> tuple[PublishedCell, ...]:
        """Every printed number, row by row, in the order of the columns."""
        pairs = ((row, column) for row in self.rows for column in self.columns)
        return tuple(PublishedCell(self, r, c) for r, c in pairs if c.id in r.values)

    def score(self, row: Row, column: Column) -> float:
        """A printed score in points. Raises DataError where the column prints no score."""
        points = PublishedCell(self, row, column).points
        if points is None:
            raise DataError(f"{self.id}/{row.id}/{column.id}: wanted a score, found a statistic")
        return points


@dataclass(frozen=True)
class PublishedCell:
    """One printed number with the protocol it belongs to."""

    table: Table
    row: Row
    column: Column

    @property
    def id(self) -> str:
        """`table/row/column`."""
        return f"{self.table.id}/{self.row.id}/{self.column.id}"

    @property
    def value(self) -> str:
        """The printed digits."""
        return self.row.values[self.column.id]

    @property
    def in_points(self) -> str | None:
        """The printed digits, with the point moved where a fraction is printed; None: no score."""
        if self.metric not in SCORES:
            return None
        return f"{Decimal(self.value).scaleb(2 if self.table.scale == 1 else 0):f}"

    @property
    def points(self) -> float | None:
        """The number in points (x100), whatever the table's own scale; None: no score."""
        return None if self.in_points is None else float(self.in_points)

    @property
    def method(self) -> str | None:
        """The method that reproduces it; `gold` where the number needs no model."""
        return None if self.why_not else self.row.methods.get(self.column.id, self.row.method)

    @property
    def task(self) -> str | None:
        """The task scored; None in an average and where no task fits."""
        return self.row.tasks.get(self.column.id, self.column.task)

    @property
    def average_of(self) -> tuple[str, ...]:
        """The tasks that an average runs over, in this row's own text form."""
        by_id = {column.id: column.task or "" for column in self.table.columns}
        return tuple(self.row.tasks.get(name, by_id[name]) for name in self.column.average_of)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its task alone, or those that it averages; none where no task fits."""
        return self.average_of or ((self.task,) if self.task else ())

    @property
    def metric(self) -> str:
        """A key of a record's scores, or a metric that no record has."""
        return self.column.metric or self.table.metric

    @property
    def aggregation(self) -> str | None:
        """`all`, `mean` or `wmean`; the nearest of column, row and table decides."""
        word = self.column.aggregation or self.row.aggregation or self.table.aggregation
        return AGGREGATION_OF[word] if word else None

    @property
    def why_not(self) -> Reason | None:
        """Why no method and task of the harness reproduce it."""
        name = self.row.why_not or self.column.why_not
        return reasons()[name] if name else None

    @property
    def evidence(self) -> str | None:
        """How its protocol is known, one of `EVIDENCE`; None where nothing reproduces it."""
        return None if self.why_not else self.row.evidence or self.table.evidence

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on this number, nearest first; the table's own notes stand apart."""
        every = (self.row.notes.get(self.column.id), self.row.note, self.column.note)
        return tuple(note for note in every if note)

    @property
    def sd(self) -> float | None:
        """The published standard deviation over `row.n` runs, in points."""
        printed = self._sd
        return None if printed is None else float(printed) * 100 / self.table.scale

    @property
    def published(self) -> Published | None:
        """The number as a verdict takes it; None where it is no score."""
        if self.in_points is None:
            return None
        return Published(self.in_points, self.sd, self.row.n if self.sd is not None else None)

    @property
    def source(self) -> str:
        """The source from which the number was read."""
        return self._filled(self.row.source or self.table.source)

    @property
    def place(self) -> str:
        """The paper and its table in which the number is printed."""
        return f"{self.table.paper}, {self._filled(self.row.table or self.table.table)}"

    @property
    def _sd(self) -> str | None:
        if self.row.sd_row is None:
            return self.row.sd.get(self.column.id)
        spread = next(row for row in self.table.rows if row.id == self.row.sd_row)
        return spread.values.get(self.column.id)

    def _filled(self, text: str) -> str:
        """A text with its {placeholders} filled from this cell."""
        given = {
            "file": self.column.file,
            "metric": self.metric,
            "n": self.row.n,
            "statistic": self.row.statistic,
            "sd": self._sd,
            "median": self.row.median.get(self.column.id),
        }
        for name, value in given.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


def score_path(metric: str, aggregation: str | None) -> tuple[str, ...]:
    """The path of a score in a record; only a correlation is there under each aggregation."""
    if aggregation is None or metric not in ("spearman", "pearson"):
        return (metric,)
    return metric, AGGREGATION_OF[aggregation]
