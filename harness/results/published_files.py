"""The methods and tasks that a published table names, looked up in the registry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.core.toml import read_toml
from harness.core.types import GRAMMAR, is_method_id, is_transductive
from harness.registry import Registry, known, load_registry, nearest
from harness.results.published import (
    AGGREGATION_OF,
    EVIDENCE,
    METRICS,
    SCORES,
    Column,
    PublishedCell,
    Row,
    Table,
    reasons,
)
from harness.results.verdict import NUMBER


def name_faults(table: Table, registry: Registry) -> Iterator[tuple[str, str]]:
    """Place and fault of every name that the registry does not know, with the nearest ones."""
    for column in table.columns:
        if column.task:
            yield from _unknown_task(f", column {column.id}", "task", column.task, registry)
    for row in table.rows:
        place = f", row {row.id}"
        for name, task in row.tasks.items():
            yield from _unknown_task(place, f"tasks.{name}", task, registry)
        methods = {"method": row.method, **{f"methods.{n}": m for n, m in row.methods.items()}}
        for key, method in methods.items():
            if method is not None and not row.model_free:
                yield from _unknown_method(place, key, method, registry)


def _unknown_task(place: str, key: str, task: str, registry: Registry) -> Iterator[tuple[str, str]]:
    try:
        known("task", task, registry.tasks)
    except UsageError as error:
        yield place, f"{key}: {error}"


def _unknown_method(
    place: str, key: str, method: str, registry: Registry
) -> Iterator[tuple[str, str]]:
    try:
        registry.parse(method)
    except UsageError as error:
        yield place, f"{key}: {method!r} is no method here: {error}"


def published_cell(name: str, tables: Sequence[Table]) -> PublishedCell:
    """The cell of that name. Raises UsageError, which looks inside the named table first."""
    of, _, rest = name.partition("/")
    table = published_table(of, tables)
    cells = {cell.id: cell for cell in table.cells()}
    if name in cells:
        return cells[name]
    row, _, column = rest.partition("/")
    own = {cell.column.id: cell.id for cell in cells.values() if cell.row.id == row}
    rows = {cell.row.id for cell in cells.values()}
    near = nearest(column, own) if own else nearest(row, rows) or nearest(name, cells)
    missing = f"it has no row {row!r}" if row else "wanted TABLE/ROW/COLUMN"
    missing = f"row {row!r} has no column {column!r}" if own else missing
    raise UsageError(
        f"unknown published cell {name!r}: {missing}; {near + ' ' if near else ''}"
        f"harness list cells {table.id} shows all"
    )


def published_table(name: str, tables: Sequence[Table]) -> Table:
    """The table of that name. Raises UsageError, which offers the nearest ones."""
    return known("published table", name, {table.id: table for table in tables})


TASK_ID = re.compile(r"[a-z0-9-]+(\.[a-z]+)*")
ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


def load_tables(folder: Path, registry: Registry | None = None) -> tuple[Table, ...]:
    """Every table of a folder, by id, with the methods and tasks that it names looked up.

    They are those that come with the harness, and those of encoders by hand that a registry has.
    Raises DataError if there is no table, one stands twice, or a name is unknown.
    """
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise DataError(
            f"{folder}: wanted published tables (*.toml), found none; restore the folder"
        )
    tables, known = tuple(map(load_table, paths)), load_registry()
    if registry is not None:
        known = known.with_encoders(registry.by_hand.values())
    for table in tables:
        for place, fault in name_faults(table, known):
            raise DataError(f"{table.id}.toml{place}: {fault}")
    first: dict[tuple[str, str], Table] = {}
    for table in tables:
        other = first.setdefault((table.paper, table.table), table)
        if other is not table:
            raise DataError(
                f"{table.id}.toml: {table.paper}, {table.table} also stands in {other.id}"
            )
    return tables


def load_table(path: Path) -> Table:
    """One table, checked in itself. Raises DataError that names file, row and key."""
    table = read_toml(Table, path, id=path.stem)
    for place, fault in _faults(table):
        raise DataError(f"{path.name}{place}: {fault}")
    return table


def _faults(table: Table) -> Iterator[tuple[str, str]]:
    """Place and fault of everything that the types of the fields allow and a table does not."""
    yield from (("", fault) for fault in _word_faults("metric", table.metric, METRICS))
    if table.scale not in (1, 100):
        yield "", f"scale: wanted 1 or 100, found {table.scale}"
    yield from (("", fault) for fault in _word_faults("evidence", table.evidence, EVIDENCE))
    levels: tuple[tuple[str, Table | Column | Row], ...] = (
        ("", table),
        *((f", column {column.id}", column) for column in table.columns),
        *((f", row {row.id}", row) for row in table.rows),
    )
    for place, level in levels:
        yield from ((place, fault) for fault in _level_faults(level))
    for kind, levels_of in (("column", table.columns), ("row", table.rows)):
        ids = [level.id for level in levels_of]
        yield from (("", f"{kind} id {i!r} stands twice") for i in ids if ids.count(i) > 1)
    for column in table.columns:
        yield from ((f", column {column.id}", fault) for fault in _column_faults(column, table))
    heads = [(column.label, column.metric or table.metric) for column in table.columns]
    yield from (
        ("", f"two columns are headed {h[0]!r}") for h in dict.fromkeys(heads) if heads.count(h) > 1
    )
    for row in table.rows:
        yield from ((f", row {row.id}", fault) for fault in _row_faults(row, table))
    for above, row in pairwise(table.rows):
        if above.group and not row.group:
            yield f", row {row.id}", f"group: wanted one, as the row above has {above.group!r}"


def _level_faults(level: Table | Column | Row) -> Iterator[str]:
    yield from _word_faults("aggregation", level.aggregation, AGGREGATION_OF)
    if unknown := sorted(set(level.verbatim) - {"metric", "aggregation"}):
        yield f"verbatim: unknown word {unknown[0]!r}, wanted metric or aggregation"
    if not ID.fullmatch(level.id):
        yield f"{level.id!r} is no id: lower-case letters and digits between hyphens or dots"


def _word_faults(key: str, word: str | None, words: Iterable[str]) -> Iterator[str]:
    """A word that is none of a closed list."""
    if word not in (None, *words):
        yield f"{key}: wanted one of {', '.join(words)}, found {word!r}"


def _column_faults(column: Column, table: Table) -> Iterator[str]:
    keys = [name for name in ("task", "average_of", "why_not") if getattr(column, name)]
    if len(keys) != 1:
        yield f"wanted exactly one of task, average_of and why_not, found {_listed(keys)}"
    yield from _word_faults("why_not", column.why_not, reasons())
    if column.task and not TASK_ID.fullmatch(column.task):
        yield f"task: {_no_task(column.task)}"
    yield from _word_faults("metric", column.metric, METRICS)
    tasks = {other.id for other in table.columns if other.task}
    if unknown := sorted(set(column.average_of) - tasks):
        those = _listed(sorted(tasks))
        yield f"average_of: {unknown[0]!r} is no column with a task; those are {those}"


def _scale_faults(row: Row, table: Table) -> Iterator[str]:
    """A score of more than 100 points: the table's scale is not that of its numbers."""
    for column in table.columns:
        printed = row.values.get(column.id, "")
        if not NUMBER.fullmatch(printed) or (column.metric or table.metric) not in SCORES:
            continue
        points = float(printed) * 100 / table.scale
        if abs(points) > 100:
            yield (
                f"values.{column.id}: {printed} is {points:g} points at scale = {table.scale}, "
                "wanted 100 at most; scale is 100 where points are printed, 1 where fractions are"
            )


def _row_faults(row: Row, table: Table) -> Iterator[str]:
    if bool(row.method) == bool(row.why_not):
        keys = [name for name in ("method", "why_not") if getattr(row, name)]
        yield f"wanted exactly one of method and why_not, found {_listed(keys)}"
    yield from _word_faults("why_not", row.why_not, reasons())
    if row.methods and not row.method:
        yield "methods: wanted beside method, for the columns that differ"
    for method in (row.method, *row.methods.values()) if row.method else ():
        if not row.model_free and not is_method_id(str(method)):
            yield f"method: {method!r} is no method id; the form is {GRAMMAR}"
        if (fitted := is_transductive(str(method))) != row.transductive:
            wanted, found = (str(flag).lower() for flag in (fitted, row.transductive))
            yield (
                f"transductive: wanted {wanted}, found {found}; {method!r} is "
                f"{'' if fitted else 'not '}fitted on the sentences that are scored"
            )
    yield from _word_faults("evidence", row.evidence, EVIDENCE)
    if row.method and not (row.evidence or table.evidence):
        yield f"evidence: wanted one of {', '.join(EVIDENCE)} here or in the table, found none"
    if not row.values:
        yield "values: wanted at least one number, found none"
    ids = {column.id for column in table.columns}
    for name in ("values", "sd", "median", "methods", "tasks", "notes"):
        if unknown := sorted(set(getattr(row, name)) - ids):
            columns = [column.id for column in table.columns]
            yield f"{name}: {unknown[0]!r} is no column; the table's are {_listed(columns)}"
    numbers = ((name, n) for name in ("values", "sd", "median") for n in getattr(row, name).items())
    for name, (column, number) in numbers:
        if not NUMBER.fullmatch(number):
            yield f"{name}.{column}: wanted a number as printed, like 58.40, found {number!r}"
    yield from _scale_faults(row, table)
    strange = ((key, task) for key, task in row.tasks.items() if not TASK_ID.fullmatch(task))
    yield from (f"tasks.{key}: {_no_task(task)}" for key, task in strange)
    if row.sd_row is not None and row.sd_row not in {other.id for other in table.rows}:
        rows = _listed(other.id for other in table.rows)
        yield f"sd_row: {row.sd_row!r} is no row; the table's are {rows}"
    if (row.sd or row.sd_row) and (row.n is None or row.n < 2):
        yield f"n: a standard deviation needs two runs or more, found {row.n}"


def _no_task(text: str) -> str:
    """In words, that a text is no task's id here, with the task that another program calls so."""
    other = load_registry().tasks_by_name.get(text)
    meant = f"here it is {other.name!r}" if other else "harness list tasks shows them"
    return f"{text!r} is no task id; {meant}"


def _listed(names: Iterable[str]) -> str:
    """Names between commas, or that there is none."""
    return ", ".join(names) or "none"
