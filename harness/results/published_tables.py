"""Published tables read from TOML files and checked, and cells by name.

The types of `Table`, `Row` and `Column` hold most rules of a file. The last part of this
module checks the others: words of closed lists, keys that contradict each other, and
values that have to be numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.core.toml import read_typed
from harness.core.types import is_transductive
from harness.registry import Registry, load_registry, look_up
from harness.results.published import (
    AGGREGATION_OF,
    EVIDENCE,
    PUBLISHED_METRICS,
    PUBLISHED_SCORES,
    Column,
    PublishedNumber,
    Row,
    Table,
    reasons,
)
from harness.results.verdict import PRINTED_NUMBER

TABLE_ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")

# The similarity of a name to the paper's that it misspells; SimCSE's and DiffCSE's are below.
SPELLING_SIMILARITY = 0.85

# The keys of a row that hold a value for each column.
KEYS_BY_COLUMN = ("values", "sd", "median", "methods", "tasks", "notes", "misprints")
KEYS_OF_NUMBERS = ("values", "sd", "median")  # the keys among these that hold numbers


def load_tables(
    folder: Path, registry: Registry | None = None, paths: Sequence[Path] | None = None
) -> tuple[Table, ...]:
    """Every table of a folder, by id, or those of some of its files.

    Args:
        folder: The folder of the files.
        registry: Its encoders that were given by hand may be named by tables, in
            addition to everything that comes with the harness.
        paths: The files that are read, such as `tables_naming` finds; None reads all.

    Raises:
        DataError: There is no table, two files have the same table, or a table names an
            unknown method or task.
    """
    known_names = load_registry()
    if registry is not None:
        known_names = known_names.with_encoders(registry.by_hand.values())
    tables: dict[tuple[str, str], Table] = {}
    if paths is None:
        paths = sorted(folder.glob("*.toml"))
        if not paths:
            raise DataError(
                f"{folder}: wanted published tables (*.toml), found none; restore the folder"
            )
    for path in paths:
        table = load_table(path, known_names)
        _require_known_names(table, known_names)
        first_table = tables.setdefault((table.paper, table.table), table)
        if first_table is not table:
            raise DataError(
                f"{table.id}.toml: {table.paper}, {table.table} is also in {first_table.id}"
            )
    return tuple(tables.values())


def load_table(path: Path, registry: Registry | None = None) -> Table:
    """The table of a file, whose names of methods and tasks are not looked up yet.

    Raises DataError that names file, row and key.
    """
    table = read_typed(Table, path, id=path.stem, registry=registry or load_registry())
    for place, fault in _faults(table):
        raise DataError(f"{path.name}{place}: {fault}")
    return table


def published_table(name: str, tables: Sequence[Table]) -> Table:
    """The table of that name. Raises UsageError, which offers the nearest ones."""
    tables_by_id = {table.id: table for table in tables}
    papers = {table_id.partition(".")[0] for table_id in tables_by_id}
    paper = name.partition(".")[0]
    is_misspelt = get_close_matches(paper, papers, cutoff=SPELLING_SIMILARITY)
    if not is_misspelt and name not in tables_by_id:
        raise UsageError(
            f"no number of {paper!r} is here (harness list papers); a model of it is measured by "
            "harness run -m MODEL -t 'sts*'"
        )
    return look_up("published table", name, tables_by_id)


def published_number(name: str, tables: Sequence[Table]) -> PublishedNumber:
    """The number TABLE/ROW/COLUMN. Raises UsageError, which offers the nearest ones."""
    table_name, _, row_and_column = name.partition("/")
    table = published_table(table_name, tables)
    row, _, column = row_and_column.partition("/")
    remedy = f"; harness list cells {table.id} shows TABLE/ROW/COLUMN"
    numbers: dict[str, dict[str, PublishedNumber]] = {}
    for number in table.numbers:
        numbers.setdefault(number.row.id, {})[number.column.id] = number
    columns = look_up(f"row of {table.id}", row, numbers, remedy)
    id_by_plain_name = {plain_name(column_id): column_id for column_id in columns}
    column = id_by_plain_name.get(plain_name(column), column)
    return look_up(f"column of {table.id}/{row}", column, columns, remedy)


# Plain names (`plain_name`) of columns in other programs, with ours.
SAME_COLUMNS = {
    "sst": "sst2",
    "stsbenchmark": "stsb",
    "sick": "sickr",
    "sickrelatedness": "sickr",
    "average": "avg",
    "mean": "avg",
}


def plain_name(column: str) -> str:
    """A column's name without case and punctuation: `stsb` for `STSBenchmark` and `sts-b`."""
    plain = "".join(filter(str.isalnum, column.lower()))
    return SAME_COLUMNS.get(plain, plain)


def _require_known_names(table: Table, registry: Registry) -> None:
    """Raise DataError for the first number whose task or method the registry does not know."""
    for number in table.numbers:
        try:
            for task in number.tasks:
                look_up("task", task, registry.tasks)
            if number.method:
                registry.parse(number.method)
        except UsageError as error:
            place = f"row {number.row.id}, column {number.column.id}"
            raise DataError(f"{table.id}.toml, {place}: {error}") from None


# Faults that the types of the fields do not exclude


def _faults(table: Table) -> Iterator[tuple[str, str]]:
    """Every fault of a table: its place, empty for the table itself, and a sentence."""
    if table.scale not in (1, 100):
        yield "", f"scale: wanted 1 or 100, found {table.scale}"
    columns = [column.id for column in table.columns]
    rows = [row.id for row in table.rows]
    for kind, names in (("column", columns), ("row", rows)):
        for name, count in Counter(names).items():
            if count > 1:
                yield "", f"{kind} id {name!r} is there twice"
    # The words that a key of a table, a column or a row may have. The keys of a row that
    # hold a value for each column have ids of columns.
    words: dict[str, Collection[str]] = {
        "metric": PUBLISHED_METRICS,
        "aggregation": AGGREGATION_OF,
        "evidence": EVIDENCE,
        "why_not": reasons(),
        "sd_row": rows,
        "average_of": [column.id for column in table.columns if column.task],
    }
    words_of_rows = {**words, **dict.fromkeys(KEYS_BY_COLUMN, columns)}
    for fault in _unknown_words(table, words):
        yield "", fault
    for column in table.columns:
        place = f", column {column.id}"
        for fault in _unknown_words(column, words):
            yield place, fault
        kinds = [column.task, column.average_of, column.why_not]
        if len([kind for kind in kinds if kind]) != 1:
            yield place, "wanted exactly one of task, average_of and why_not"
    for row in table.rows:
        place = f", row {row.id}"
        for fault in (
            *_unknown_words(row, words_of_rows),
            *_contradictions(row, table),
            *_number_faults(row, table),
        ):
            yield place, fault


def _unknown_words(
    level: Table | Column | Row, words: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """A malformed id, and the first unknown word of each key that has a closed list."""
    if not TABLE_ID.fullmatch(level.id):
        yield f"{level.id!r} is no id: lower-case letters and digits between - or ."
    for key, allowed in words.items():
        value = getattr(level, key, None)
        if value is None:
            continue
        names = [value] if isinstance(value, str) else value
        unknown = [name for name in names if name not in allowed]
        if unknown:
            yield f"{key}: wanted one of {', '.join(allowed)}, found {unknown[0]!r}"


def _contradictions(row: Row, table: Table) -> Iterator[str]:
    """Keys of a row that contradict each other."""
    if bool(row.method) == bool(row.why_not):
        yield "wanted exactly one of method and why_not"
    methods = [row.method, *row.methods.values()] if row.method else []
    if any(is_transductive(method) != row.transductive for method in methods):
        yield (
            "transductive: wanted true where every method ends in @target, false where none does"
        )
    if row.model_free and methods:
        yield "model_free: wanted no method, and why_not = no-evidence"
    if methods and not (row.evidence or table.evidence):
        yield "evidence: wanted here or in the table"
    if not row.values:
        yield "values: wanted at least one number, found none"
    has_spread = bool(row.sd or row.sd_row)
    if has_spread and (row.n is None or row.n < 2):
        yield "n: a standard deviation needs two runs or more"


def _number_faults(row: Row, table: Table) -> Iterator[str]:
    """Values of a row that are no numbers, or no scores at the table's scale."""
    for key in KEYS_OF_NUMBERS:
        for column, number in getattr(row, key).items():
            if not PRINTED_NUMBER.fullmatch(number):
                yield f"{key}.{column}: wanted a number as printed, like 58.40, found {number!r}"
    metrics = {column.id: column.metric or table.metric for column in table.columns}
    for column, number in row.values.items():
        if column not in metrics or not PRINTED_NUMBER.fullmatch(number):
            continue  # told already
        points = float(number) * 100 / table.scale
        if metrics[column] in PUBLISHED_SCORES and abs(points) > 100:
            yield (
                f"values.{column}: {number} is {points:g} points at scale = {table.scale}, "
                "wanted 100 at most; scale is 100 where points are printed, 1 for fractions"
            )
