"""Stored 95 % intervals of the differences that claims rest on.

They come from the paired bootstrap over test pairs (`harness.evaluation.compare`), which
needs the similarities of both methods, and stand in `records/claims.json`. An interval belongs to
the difference that it was made for, to 0.01 points; where that has moved since, there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.core.files import write_atomically
from harness.core.toml import read_json_rows, read_toml
from harness.core.types import is_method_id
from harness.results.layout import RECORDS
from harness.results.published import SCORES, Column, Row, Table, score_path

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
    rows = read_json_rows(_Row, path) if path.exists() else ()
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
    return read_toml(Claims, path, tables={table.id: table for table in tables})


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
