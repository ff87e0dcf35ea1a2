"""Published numbers as data: one TOML file of `results/papers` holds one published table.

The file's stem is the table's id, its top level the fields of `published.Table`, its inline
`columns` and its `[[row]]` blocks those of `Column` and `Row`. Numbers are strings: 58.40 is not
58.4. Whatever is unknown, missing or contradictory is refused by file, row and key. Standard
library alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from harness.core.ids import is_method_id
from harness.results.published import AGGREGATIONS, METRICS, Cell, Column, Row, Table

__all__ = ["Cell", "Column", "Row", "Table", "load_table", "load_tables", "unresolved"]

NUMBER = re.compile(r"-?\d+(\.\d+)?")
TASK_ID = re.compile(r"[a-z0-9-]+(\.[a-z]+)*")
ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")

# What the type of a field asks of TOML, and how to say so.
KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "str | None": (str, "text"),
    "int": (int, "a whole number"),
    "int | None": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "tuple[str, ...]": (list, "a list of texts"),
    "Words": (dict, "a table of texts"),
}

Made = TypeVar("Made", Column, Row, Table)


def load_tables(folder: Path, naming: str | None = None) -> tuple[Table, ...]:
    """Every table of a folder, by id. Raises DataError if there is none, or one stands twice.

    With `naming`, those alone in whose text this stands in quotes, such as a method id.
    """
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        _refuse(f"{folder}", "wanted published tables (*.toml), found none; restore the folder")
    if naming is not None:
        paths = [p for p in paths if f'"{naming}"'.encode() in p.read_bytes()]
    tables = tuple(map(load_table, paths))
    first: dict[tuple[str, str], Table] = {}
    for table in tables:
        other = first.setdefault((table.paper, table.table), table)
        if other is not table:
            _refuse(f"{table.id}.toml", f"{table.paper}, {table.table} also stands in {other.id}")
    return tables


def load_table(path: Path) -> Table:
    """One table, checked. Raises DataError that names file, row and key."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(path.name, f"wanted a TOML table, found: {error}")
    columns, rows = _list(raw, "columns", path.name), _list(raw, "row", path.name)
    table = _make(
        Table,
        raw,
        path.name,
        id=path.stem,
        columns=tuple(_make(Column, c, f"{path.name}, column {_name(c)}") for c in columns),
        rows=tuple(_make(Row, r, f"{path.name}, row {_name(r)}") for r in rows),
    )
    for place, fault in _faults(table):
        _refuse(f"{path.name}{place}", fault)
    return table


def unresolved(
    tables: Iterable[Table],
    is_method: Callable[[str], bool],
    is_task: Callable[[str], bool],
) -> Iterator[str]:
    """Each cell that names a method or a task unknown to the caller, in words."""
    for cell in (cell for table in tables for cell in table.cells()):
        if cell.method and not cell.row.model_free and not is_method(cell.method):
            yield f"{cell.id}: unknown method {cell.method!r}"
        yield from (
            f"{cell.id}: unknown task {task!r}"
            for task in (cell.task, *cell.average_of)
            if task and not is_task(task)
        )


def _make(cls: type[Made], raw: Mapping[str, Any], place: str, **given: Any) -> Made:
    """A dataclass from a TOML table: no key unknown, none missing, each of its field's kind."""
    known = {f.name: f for f in fields(cls) if f.name not in given}
    if unknown := sorted(set(raw) - set(known)):
        _refuse(place, f"unknown key {unknown[0]!r}; known are {', '.join(known)}")
    for name, f in known.items():
        if name not in raw and f.default is MISSING and f.default_factory is MISSING:
            _refuse(place, f"the key {name!r} is missing")
    for name, value in raw.items():
        kind, words = KINDS[str(known[name].type)]
        parts = value.values() if isinstance(value, dict) else value
        nested = isinstance(value, dict | list) and not all(isinstance(p, str) for p in parts)
        if type(value) is not kind or nested:
            _refuse(place, f"{name}: wanted {words}, found {value!r}")
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return cls(**plain, **given)


def _faults(table: Table) -> Iterator[tuple[str, str]]:
    """Where and what: everything that the kinds of the fields do not say."""
    yield from (("", f"unknown metric {m!r}") for m in {table.metric} - set(METRICS))
    if table.scale not in (1, 100):
        yield "", f"scale: wanted 1 or 100, found {table.scale}"
    levels: tuple[Table | Column | Row, ...] = (table, *table.columns, *table.rows)
    for level in levels:
        if level.aggregation not in (None, *AGGREGATIONS):
            yield "", f"unknown aggregation {level.aggregation!r} of {level.id}"
        if unknown := sorted(set(level.verbatim) - {"metric", "aggregation"}):
            yield "", f"verbatim: unknown word {unknown[0]!r} of {level.id}"
        if not ID.fullmatch(level.id):
            yield (
                "",
                f"{level.id!r} is no id: lower-case letters and digits between hyphens or dots",
            )
    for ids in ([column.id for column in table.columns], [row.id for row in table.rows]):
        yield from (("", f"{i!r} stands twice") for i in ids if ids.count(i) > 1)
    for column in table.columns:
        yield from ((f", column {column.id}", fault) for fault in _column_faults(column, table))
    for row in table.rows:
        yield from ((f", row {row.id}", fault) for fault in _row_faults(row, table))


def _column_faults(column: Column, table: Table) -> Iterator[str]:
    if [bool(column.task), bool(column.average_of), bool(column.why_not)].count(True) != 1:
        yield "wanted exactly one of task, average_of and why_not"
    if column.task and not TASK_ID.fullmatch(column.task):
        yield f"{column.task!r} is no task id"
    if column.metric not in (None, *METRICS):
        yield f"unknown metric {column.metric!r}"
    tasks = {other.id for other in table.columns if other.task}
    if unknown := sorted(set(column.average_of) - tasks):
        yield f"average_of: {unknown[0]!r} is no column with a task"


def _row_faults(row: Row, table: Table) -> Iterator[str]:
    if bool(row.method) == bool(row.why_not):
        yield "wanted exactly one of method and why_not"
    if row.method and not row.model_free and not is_method_id(row.method):
        yield f"{row.method!r} is no method id"
    if row.method and row.method.endswith("@target") != row.transductive:
        yield f"transductive: {row.method!r} says the opposite"
    if not row.values:
        yield "values: wanted at least one number, found none"
    ids = {column.id for column in table.columns}
    for name in ("values", "sd", "median", "tasks", "notes"):
        if unknown := sorted(set(getattr(row, name)) - ids):
            yield f"{name}: {unknown[0]!r} is no column of the table"
    numbers = ((name, n) for name in ("values", "sd", "median") for n in getattr(row, name).items())
    for name, (column, number) in numbers:
        if not NUMBER.fullmatch(number):
            yield f"{name}.{column}: wanted a number as printed, like 58.40, found {number!r}"
    strange = (task for task in row.tasks.values() if not TASK_ID.fullmatch(task))
    yield from (f"tasks: {task!r} is no task id" for task in strange)
    if row.sd_row is not None and row.sd_row not in {other.id for other in table.rows}:
        yield f"sd_row: {row.sd_row!r} is no row of the table"
    if (row.sd or row.sd_row) and (row.n is None or row.n < 2):
        yield f"n: a standard deviation needs two runs or more, found {row.n}"


def _list(raw: dict[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    found = raw.pop(key, None)
    if not isinstance(found, list) or not found or not all(isinstance(x, dict) for x in found):
        _refuse(place, f"{key}: wanted one table or more, found {found!r}")
    return found


def _name(raw: Mapping[str, Any]) -> str:
    return str(raw.get("id", "without an id"))


def _refuse(place: str, fault: str) -> NoReturn:
    """Raise the project's error; its module brings NumPy, so it is imported only to complain."""
    from harness.core.errors import DataError

    raise DataError(f"{place}: {fault}")
