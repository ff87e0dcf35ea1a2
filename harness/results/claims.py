"""Claims of the papers as data (`results/questions/claims.toml`), and what the records say of each.

A claim is that one row of a published table lies above another. The file names, for rows of a
table, the methods that stand in for them here, and the claims by their rows; the published numbers
stay where they are, in `results/papers`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.core.errors import DataError
from harness.core.ids import is_method_id
from harness.results.published import AGGREGATIONS, SCORES, Cell, Column, Row, Table

FILE = "claims.toml"
TOP = {"about", "rows", "claim"}
KEYS = {"id", "claim", "table", "better", "worse"}
MAY = {"columns", "note"}


@dataclass(frozen=True)
class Claim:
    """That `better` lies above `worse` in each of the columns, and which methods stand for them."""

    id: str
    claim: str
    table: Table
    better: Row
    worse: Row
    methods: tuple[str, str]
    columns: tuple[Column, ...]
    note: str = ""

    def published(self, column: Column) -> tuple[float, float]:
        """The two printed numbers, in points; the claimed one first."""
        return points(self.table, self.better, column), points(self.table, self.worse, column)

    @property
    def comparable(self) -> bool:
        """Whether its columns have an average: two or more, all of one metric."""
        metrics = {column.metric or self.table.metric for column in self.columns}
        return len(self.columns) > 1 and len(metrics) == 1


@dataclass(frozen=True)
class Claims:
    """The file: what the small model is, which methods stand in for rows, and the claims."""

    about: str
    rows: Mapping[str, Mapping[str, str]]
    claims: tuple[Claim, ...]
    tables: Mapping[str, Table]


def points(table: Table, row: Row, column: Column) -> float:
    """A printed number in points. Raises DataError where none is printed, or it is no score."""
    cell = Cell(table, row, column)
    found = cell.points if column.id in row.values else None
    if found is None:
        _refuse(f"wanted a score printed in {cell.id}, found none")
    return found


def address(table: Table, column: Column) -> tuple[str, tuple[str, ...]]:
    """Task and path of the score under the table's own protocol, whatever a row quotes."""
    metric, word = column.metric or table.metric, column.aggregation or table.aggregation
    scored = metric in ("spearman", "pearson") and word
    return str(column.task), (metric, AGGREGATIONS[str(word)]) if scored else (metric,)


def scored(table: Table) -> tuple[Column, ...]:
    """The scores of single tasks; averages are computed here and never taken over."""
    columns = (column for column in table.columns if column.task)
    return tuple(c for c in columns if (c.metric or table.metric) in SCORES)


def read_claims(path: Path, tables: Iterable[Table]) -> Claims:
    """The claims with their tables. Raises DataError for whatever is unknown, missing or double."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(f"wanted claims, found {error!r}")
    by_id = {table.id: table for table in tables}
    if set(raw) != TOP or not isinstance(raw["about"], str):
        _refuse(f"wanted {', '.join(sorted(TOP))}, found {sorted(raw)}")
    if not isinstance(raw["rows"], dict) or not isinstance(raw["claim"], list):
        _refuse("wanted tables of rows and a list of claims")
    for table, stand_ins in raw["rows"].items():
        _check_rows(by_id, table, stand_ins)
    claims = tuple(_claim(one, raw["rows"], by_id) for one in raw["claim"])
    ids = [claim.id for claim in claims]
    if double := sorted({one for one in ids if ids.count(one) > 1}):
        _refuse(f"{double[0]}: the id stands twice; rename one of the claims")
    return Claims(raw["about"], raw["rows"], claims, by_id)


def _check_rows(tables: Mapping[str, Table], name: str, stand_ins: Any) -> None:
    """Each row is the table's and under its protocol; each method an id, and stands for one row."""
    if name not in tables:
        _refuse(f"rows: there is no published table {name!r}")
    if not isinstance(stand_ins, dict) or not _texts(list(stand_ins.values())):
        _refuse(f"rows.{name}: wanted a method for each row, found {stand_ins!r}")
    rows = {row.id: row for row in tables[name].rows}
    for row, method in stand_ins.items():
        if row not in rows:
            _refuse(f"rows.{name}: there is no row {row!r}")
        if rows[row].aggregation not in (None, tables[name].aggregation):
            _refuse(f"rows.{name}: {row!r} is printed under another aggregation than its table")
        if not is_method_id(method):
            _refuse(f"rows.{name}: {method!r} is no method id")
        if list(stand_ins.values()).count(method) > 1:
            _refuse(f"rows.{name}: {method} stands for two rows; the order of rows needs one each")


def _claim(
    raw: Any, stand_ins: Mapping[str, Mapping[str, str]], tables: Mapping[str, Table]
) -> Claim:
    texts = {k: v for k, v in raw.items() if k != "columns"} if isinstance(raw, dict) else {}
    if not KEYS <= set(raw) <= KEYS | MAY or not _texts(list(texts.values())):
        _refuse(f"a claim has {', '.join(sorted(KEYS))} and may have {', '.join(MAY)}; found {raw}")
    own = stand_ins.get(raw["table"], {})
    for row in (raw["better"], raw["worse"]):
        if row not in own:
            _refuse(f"{raw['id']}: no method stands for {row!r} of {raw['table']!r}; add it")
    if raw["better"] == raw["worse"]:
        _refuse(f"{raw['id']}: wanted two rows, found {raw['better']!r} twice")
    table = tables[raw["table"]]
    columns = {column.id: column for column in scored(table)}
    chosen = raw.get("columns", list(columns))
    if (
        not _texts(chosen)
        or not chosen
        or len(set(chosen)) < len(chosen)
        or set(chosen) - {*columns}
    ):
        _refuse(f"{raw['id']}: columns are some of {', '.join(columns)}; found {chosen}")
    rows = {row.id: row for row in table.rows}
    made = Claim(
        raw["id"],
        raw["claim"],
        table,
        rows[raw["better"]],
        rows[raw["worse"]],
        (own[raw["better"]], own[raw["worse"]]),
        tuple(columns[name] for name in chosen),
        raw.get("note", ""),
    )
    for column in made.columns:
        made.published(column)  # both must be printed
    return made


def _texts(found: Any) -> bool:
    return isinstance(found, Sequence) and all(isinstance(one, str) for one in found)


def _refuse(fault: str) -> NoReturn:
    raise DataError(f"{FILE}: {fault}")
