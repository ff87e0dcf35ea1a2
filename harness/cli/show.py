"""`harness show`: measured scores and costs, with the published numbers of each."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.selection import record_patterns
from harness.core.errors import UsageError
from harness.registry import look_up
from harness.results.folder import ResultsFolder
from harness.results.layout import is_results, reading_order, require_own
from harness.results.score_rows import ScoreRow, folder_rows

# The columns that a table has by default; the formats for programs have all.
TABLE_COLUMNS = (
    "method",
    "task",
    "seed",
    "metric",
    "aggregation",
    "score",
    "published",
    "verdict",
    "plugin",
)
# The characters by which a spreadsheet takes a text for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def show_command(
    method: opt.Methods = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Records = Path("results"),
    form: Annotated[str, typer.Option("--format", help="table, csv, json.")] = "table",
    columns: Annotated[
        str | None, typer.Option(help="Names of columns, separated by commas, or all.")
    ] = None,
    only_own: opt.OnlyOwn = False,
    every_score: Annotated[
        bool,
        typer.Option(
            "--every-score", help="A row for each metric, aggregation and subset."
        ),
    ] = False,
) -> None:
    """Print measured scores, their costs and published numbers.

    One row per cell and seed; a table has one more for each further metric and
    aggregation that a number is published for. Your own results, in `results` and
    `runs`, are followed by those that come with the harness.
    """
    print_rows = look_up("format", form, PRINTERS)
    names = _column_names(columns, is_table=form == "table")
    opt.require_folder("--results", results)
    order = reading_order(results, with_runs=True, only_own=only_own)
    if only_own and not any(map(is_results, order)):
        require_own("--only-own", results)

    patterns = record_patterns(method, task, encoder)
    folder = ResultsFolder(results, patterns.registry, folders=order)
    rows = [
        row
        for row in folder_rows(folder, every_score, published_too=form == "table")
        if patterns.selects(row.method, row.task)
    ]
    patterns.require_known({row.method for row in rows})
    if not rows:
        remedy = f"harness show --results {results} shows all"
        if not folder.records.by_cell:
            remedy = "it holds none; harness run measures cells"
        raise UsageError(
            f"{results}: wanted records of these methods and tasks, found none: {remedy}"
        )
    has_several_sources = len({row.source for row in rows}) > 1
    if not columns and has_several_sources and "source" not in names:
        names.append("source")
    print_rows([_columns_of(row, names) for row in rows])


def _columns_of(row: ScoreRow, names: Sequence[str]) -> dict[str, Any]:
    """The named columns of a row."""
    return {name: getattr(row, name) for name in names}


def _column_names(columns: str | None, is_table: bool) -> list[str]:
    """The columns that an option names, or all that the format has. Raises UsageError."""
    fields_by_name = {field.name: field for field in fields(ScoreRow)}
    if not columns and is_table:
        return list(TABLE_COLUMNS)
    if not columns or columns == "all":
        return list(fields_by_name)
    names = [name.strip() for name in columns.split(",")]
    for name in names:
        look_up("column", name, fields_by_name)
    return names


def say_csv(rows: opt.PrintedRows) -> None:
    """Print rows as CSV. A text that a spreadsheet would compute gets a quote in front."""
    text = io.StringIO()
    column_names = list(rows[0])
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column_names)
    for row in rows:
        writer.writerow([_as_text(row[name]) for name in column_names])
    opt.say(text.getvalue().rstrip("\n"))


def _as_text(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula; any other value as it is."""
    if not isinstance(value, str):
        return value
    quote = "'" if value.startswith(FORMULA_STARTS) else ""
    return quote + value.replace("\r", " ")


def _say_json(rows: opt.PrintedRows) -> None:
    opt.say_rows(rows, as_json=True)


PRINTERS: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], None]] = {
    "table": opt.say_rows,
    "csv": say_csv,
    "json": _say_json,
}
