"""A published table: columns and rows in the paper's own order, numbers as printed strings.

A row names the method that reproduces it, or says in words why none can; a column names the task,
the columns that it averages, or why no task fits. What differs in one cell stands in the row's
maps by column (`tasks`, `notes`, `sd`). `label`, `backbone`, `fit`, `supervision`, `pooling`,
`split` and, where ours differ, `verbatim` keep the words of the transcription that the tables were
made from, so that a test can tell whether a number was lost or changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from harness.results.verdict import Published

# Metrics that are scores, by their key in a record, and what else the papers print.
SCORES = ("spearman", "pearson", "auc", "edit_distance", "gold_similarity", "accuracy")
METRICS = (*SCORES, "word statistic")

# The aggregation of a record's score that each word picks. A single set has no subsets.
AGGREGATIONS = {"all": "all", "mean": "mean", "wmean": "wmean", "single set": "all"}

Words = Mapping[str, str]


@dataclass(frozen=True)
class Column:
    """One column: exactly one of `task`, `average_of` (ids of other columns) and `why_not`."""

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
    """

    id: str
    label: str
    backbone: str
    fit: str
    supervision: str
    values: Words
    method: str | None = None
    why_not: str | None = None
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
    tasks: Words = field(default_factory=dict)
    table: str = ""
    source: str = ""
    note: str = ""
    notes: Words = field(default_factory=dict)
    verbatim: Words = field(default_factory=dict)


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
    scale: int = 100
    notes: tuple[str, ...] = ()
    verbatim: Words = field(default_factory=dict)

    def cells(self) -> tuple[Cell, ...]:
        """Every printed number, row by row, in the order of the columns."""
        pairs = ((row, column) for row in self.rows for column in self.columns)
        return tuple(Cell(self, row, column) for row, column in pairs if column.id in row.values)


@dataclass(frozen=True, repr=False)
class Cell:
    """One printed number with the protocol it belongs to."""

    table: Table
    row: Row
    column: Column

    def __repr__(self) -> str:
        return f"Cell({self.id} = {self.value})"

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
        return None if self.why_not else self.row.method

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
    def metric(self) -> str:
        """A key of a record's scores, or a metric that no record has."""
        return self.column.metric or self.table.metric

    @property
    def aggregation(self) -> str | None:
        """`all`, `mean` or `wmean`; the nearest of column, row and table decides."""
        word = self.column.aggregation or self.row.aggregation or self.table.aggregation
        return AGGREGATIONS[word] if word else None

    @property
    def why_not(self) -> str | None:
        """Why no method and task of the harness reproduce it."""
        return self.row.why_not or self.column.why_not

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of this number, nearest first; the table's own notes stand apart."""
        every = (self.row.notes.get(self.column.id), self.row.note, self.column.note)
        return tuple(note for note in every if note)

    @property
    def sd(self) -> float | None:
        """The published standard deviation over `row.n` runs, in points."""
        printed = self._sd
        return None if printed is None else float(printed) * 100 / self.table.scale

    @property
    def n(self) -> int | None:
        """Over how many runs; None for a single one."""
        return self.row.n

    @property
    def transductive(self) -> bool:
        """Fitted on the very sentences that are scored, no labels seen."""
        return self.row.transductive

    @property
    def published(self) -> Published | None:
        """What a verdict takes; None where the number is no score."""
        if self.in_points is None:
            return None
        return Published(self.in_points, self.sd, self.n if self.sd is not None else None)

    @property
    def source(self) -> str:
        """Where the number was read."""
        return self._filled(self.row.source or self.table.source)

    @property
    def transcribed(self) -> Mapping[str, str | int | None]:
        """The cell in the fields and words of the transcription."""
        row, column, table = self.row, self.column, self.table
        return {
            "paper": table.paper,
            "table": self._filled(row.table or table.table),
            "row": row.label,
            "backbone": row.backbone,
            "fit_data": row.fit,
            "task": column.label,
            "metric": self._filled(self._verbatim("metric") or f"{self.metric} x{table.scale}"),
            "split": column.split,
            "aggregation": self._filled(self._verbatim("aggregation")),
            "dims": row.dims,
            "value": self.value,
            "scale": table.scale,
            "supervision": row.supervision,
            "pooling": row.pooling,
            "source": self.source,
        }

    @property
    def _sd(self) -> str | None:
        if self.row.sd_row is None:
            return self.row.sd.get(self.column.id)
        spread = next(row for row in self.table.rows if row.id == self.row.sd_row)
        return spread.values.get(self.column.id)

    def _verbatim(self, key: str) -> str:
        """The word of the nearest level that has one: its `verbatim`, or its own field."""
        if key == "aggregation" and self.column.average_of and not self.column.verbatim:
            return f"mean of the {len(self.column.average_of)} columns"
        for level in (self.column, self.row, self.table):
            own = level.aggregation if key == "aggregation" else None
            if word := level.verbatim.get(key) or own:
                return word
        return ""

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
