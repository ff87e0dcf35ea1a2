"""Published tables: printed digits with their protocols, read from TOML files and checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.core.metrics.similarity import CORRELATION_SCORES
from harness.core.scores import ScorePath
from harness.core.toml import read_rows, read_typed
from harness.core.types import AGGREGATIONS, Aggregation, is_transductive
from harness.registry import Registry, load_registry, look_up
from harness.results.index import CellName
from harness.results.verdict import NUMBER, CellState, Published


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
SCORES = (*CORRELATION_SCORES, "auc", "edit_distance", "gold_similarity", "accuracy")
METRICS = (*SCORES, "reciprocal_rank", "word statistic")

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

BY_COLUMN = ("values", "sd", "median", "methods", "tasks", "notes")  # keys of a row

ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")

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

    @cached_property
    def cells(self) -> tuple[PublishedCell, ...]:
        """Every printed number, row by row, in the order of the columns."""
        pairs = ((row, column) for row in self.rows for column in self.columns)
        return tuple(self.cell(r, c) for r, c in pairs if c.id in r.values)

    def cell(self, row: Row, column: Column) -> PublishedCell:
        """A printed number, with what the nearest of column, row and table says of it."""
        metric, factor = column.metric or self.metric, 100 // self.scale
        word = column.aggregation or row.aggregation or self.aggregation
        why_not = row.why_not or column.why_not
        tasks = {c.id: row.tasks.get(c.id, c.task) for c in self.columns}
        spreads = next((other.values for other in self.rows if other.id == row.sd_row), row.sd)
        points = Decimal(row.values[column.id]).scaleb(2 if self.scale == 1 else 0)
        return PublishedCell(
            self,
            row,
            column,
            id=f"{self.id}/{row.id}/{column.id}",
            value=row.values[column.id],
            in_points=f"{points:f}" if metric in SCORES else None,
            task=tasks[column.id],
            average_of=tuple(tasks[name] or "" for name in column.average_of),
            metric=metric,
            aggregation=AGGREGATION_OF[word] if word else None,
            method=None if why_not else row.methods.get(column.id, row.method),
            why_not=reasons()[why_not] if why_not else None,
            evidence=None if why_not else row.evidence or self.evidence,
            notes=tuple(filter(None, (row.notes.get(column.id), row.note, column.note))),
            sd=float(spreads[column.id]) * factor if column.id in spreads else None,
            source=(row.source or self.source).replace("{file}", str(column.file)),
            place=f"{self.paper}, {row.table or self.table}".replace("{file}", str(column.file)),
        )

    def score(self, row: Row, column: Column) -> float:
        """A printed score in points. Raises DataError where the column prints no score."""
        points = self.cell(row, column).points
        if points is None:
            raise DataError(f"{self.id}/{row.id}/{column.id}: wanted a score, found a statistic")
        return points


@dataclass(frozen=True)
class PublishedCell:
    """One printed number with the protocol that it belongs to."""

    table: Table
    row: Row
    column: Column
    id: str  # `table/row/column`
    value: str  # the printed digits
    in_points: str | None  # with the point moved where a fraction is printed; None: no score
    task: str | None  # None in an average and where no task fits
    average_of: tuple[str, ...]  # the tasks that an average runs over, in this row's text form
    metric: str  # a key of a record's scores, or a metric that no record has
    aggregation: str | None  # `all`, `mean` or `wmean`
    method: str | None  # the one that reproduces it
    why_not: Reason | None  # why no method and task of the harness reproduce it
    evidence: str | None  # how its protocol is known, of EVIDENCE; None where nothing reproduces it
    notes: tuple[str, ...]  # on this number, nearest first, without the table's own
    sd: float | None  # the published standard deviation over `row.n` runs, in points
    source: str  # what the number was read from
    place: str  # the paper and its table in which the number is printed

    @property
    def points(self) -> float | None:
        """The number in points (x100), whatever the table's own scale; None: no score."""
        return None if self.in_points is None else float(self.in_points)

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
        return Published(self.in_points, self.sd, self.row.n if self.sd is not None else None)


def score_path(metric: str, aggregation: str | None) -> ScorePath:
    """The path of a score in a record; only a correlation is there under each aggregation."""
    if aggregation is None or metric not in CORRELATION_SCORES:
        return (metric,)
    return metric, AGGREGATION_OF[aggregation]


def load_tables(folder: Path, registry: Registry | None = None) -> tuple[Table, ...]:
    """Every table of a folder, by id, with the methods and tasks that it names looked up.

    They are those that come with the harness, and those of encoders by hand that a registry has.
    Raises DataError if there is no table, one stands twice, or a name is unknown.
    """
    every = load_registry().with_encoders(registry.by_hand.values() if registry else ())
    tables: dict[tuple[str, str], Table] = {}
    for path in sorted(folder.glob("*.toml")):
        table = load_table(path)
        _require_known_names(table, every)
        first = tables.setdefault((table.paper, table.table), table)
        if first is not table:
            raise DataError(
                f"{table.id}.toml: {table.paper}, {table.table} also stands in {first.id}"
            )
    if not tables:
        raise DataError(
            f"{folder}: wanted published tables (*.toml), found none; restore the folder"
        )
    return tuple(tables.values())


def load_table(path: Path) -> Table:
    """One table, checked in itself. Raises DataError that names file, row and key."""
    table = read_typed(Table, path, id=path.stem)
    for place, fault in _faults(table):
        raise DataError(f"{path.name}{place}: {fault}")
    return table


def published_table(name: str, tables: Sequence[Table]) -> Table:
    """The table of that name. Raises UsageError, which offers the nearest ones."""
    return look_up("published table", name, {table.id: table for table in tables})


def published_cell(name: str, tables: Sequence[Table]) -> PublishedCell:
    """The cell TABLE/ROW/COLUMN. Raises UsageError, which offers the nearest ones."""
    of, _, rest = name.partition("/")
    table = published_table(of, tables)
    row, _, column = rest.partition("/")
    remedy = f"; harness list cells {table.id} shows TABLE/ROW/COLUMN"
    cells: dict[str, dict[str, PublishedCell]] = {}
    for cell in table.cells:
        cells.setdefault(cell.row.id, {})[cell.column.id] = cell
    columns = look_up(f"row of {table.id}", row, cells, remedy)
    return look_up(f"column of {table.id}/{row}", column, columns, remedy)


def _require_known_names(table: Table, registry: Registry) -> None:
    """Raise DataError for the first number whose task or method the registry does not know."""
    for cell in table.cells:
        try:
            for task in cell.tasks:
                look_up("task", task, registry.tasks)
            if cell.method:
                registry.parse(cell.method)
        except UsageError as error:
            place = f"row {cell.row.id}, column {cell.column.id}"
            raise DataError(f"{table.id}.toml, {place}: {error}") from None


def _faults(table: Table) -> Iterator[tuple[str, str]]:
    """Place and fault of everything that the types of the fields allow and a table does not."""
    if table.scale not in (1, 100):
        yield "", f"scale: wanted 1 or 100, found {table.scale}"
    for kind, of in (("column", table.columns), ("row", table.rows)):
        counts = Counter(level.id for level in of)
        yield from (("", f"{kind} id {i!r} stands twice") for i, n in counts.items() if n > 1)
    closed: Mapping[str, Iterable[str]] = {
        "metric": METRICS,
        "aggregation": AGGREGATION_OF,
        "evidence": EVIDENCE,
        "why_not": reasons(),
        "sd_row": [row.id for row in table.rows],
        "average_of": [column.id for column in table.columns if column.task],
    }
    columns = [column.id for column in table.columns]
    closed_in_rows = {**closed, **dict.fromkeys(BY_COLUMN, columns)}
    levels: list[tuple[str, Table | Column | Row]] = [("", table)]
    levels += [(f", column {column.id}", column) for column in table.columns]
    levels += [(f", row {row.id}", row) for row in table.rows]
    for place, level in levels:
        if not ID.fullmatch(level.id):
            yield place, f"{level.id!r} is no id: lower-case letters and digits between - or ."
        for key, words in (closed_in_rows if isinstance(level, Row) else closed).items():
            word = getattr(level, key, None)
            given = [word] if isinstance(word, str) else word or ()
            if unknown := [name for name in given if name not in words]:
                yield place, f"{key}: wanted one of {', '.join(words)}, found {unknown[0]!r}"
        if isinstance(level, Row):
            yield from ((place, fault) for fault in _row_faults(level, table))
        elif isinstance(level, Column) and _count(level, "task", "average_of", "why_not") != 1:
            yield place, "wanted exactly one of task, average_of and why_not"


def _count(level: Column | Row, *keys: str) -> int:
    return sum(bool(getattr(level, key)) for key in keys)


def _row_faults(row: Row, table: Table) -> Iterator[str]:
    methods = [str(method) for method in (row.method, *row.methods.values()) if row.method]
    checks = {
        "wanted exactly one of method and why_not": _count(row, "method", "why_not") != 1,
        "transductive: wanted true where every method ends in @target, false where none does": any(
            is_transductive(method) != row.transductive for method in methods
        ),
        "model_free: wanted no method, and why_not = no-evidence": row.model_free and methods,
        "evidence: wanted here or in the table": methods and not (row.evidence or table.evidence),
        "values: wanted at least one number, found none": not row.values,
        "n: a standard deviation needs two runs or more": (row.sd or row.sd_row)
        and (row.n or 0) < 2,
    }
    yield from (fault for fault, is_there in checks.items() if is_there)
    for name in ("values", "sd", "median"):
        for column, number in getattr(row, name).items():
            if not NUMBER.fullmatch(number):
                yield f"{name}.{column}: wanted a number as printed, like 58.40, found {number!r}"
    metrics = {column.id: column.metric or table.metric for column in table.columns}
    for column, number in row.values.items():
        points = float(number) * 100 / table.scale
        if metrics[column] in SCORES and abs(points) > 100:
            yield (
                f"values.{column}: {number} is {points:g} points at scale = {table.scale}, "
                "wanted 100 at most; scale is 100 where points are printed, 1 for fractions"
            )
