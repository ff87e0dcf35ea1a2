"""`harness table`: measured scores, in four views.

Without more it lists the scores of cells with the numbers that are published for them.
`--markdown`, `--latex` or `--beside` make a table of methods for a paper, and `--test`
tests the difference of two methods on the same pairs.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.conclusions.folder import Conclusions
from harness.core.errors import UsageError
from harness.core.terminal import counted, progress_on
from harness.core.types import AGGREGATIONS
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.compare import (
    Resampler,
    compare_methods,
    measuring_command,
    ties_with_best,
)
from harness.registry import is_glob, look_up, matches
from harness.report.method_table import columns_of, method_table, tasks_of
from harness.report.table import ShownTable, escape, terminal
from harness.report.table import latex as in_latex
from harness.report.table import markdown as in_markdown
from harness.resolve import Resolution
from harness.results.origins import sentences_on_copies
from harness.results.score_rows import folder_rows

# What is printed of a score for people; --csv and --json have all columns.
CELL_COLUMNS = (
    "method",
    "task",
    "seed",
    "metric",
    "aggregation",
    "score",
    "published",
    "verdict",
    "plugin",
    "source",
)


def table_command(
    folders: opt.Folders,
    method: opt.Methods = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Measured = None,
    test: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help="Test the difference of two methods on the same pairs."
        ),
    ] = None,
    paper_tables: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            help="Published table (harness list papers) whose rows of this protocol are added; "
            "several are allowed. Without -t, its columns are the table's.",
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            help=f"Of the subsets of a task: {', '.join(AGGREGATIONS)}.  [default: those of the "
            "published tables, or all]"
        ),
    ] = None,
    every_score: Annotated[
        bool,
        typer.Option(
            "--every-score", help="A row for each metric, aggregation and subset."
        ),
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A table of methods for a page.")
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="A table of methods for a paper.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="CSV, with all columns.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Print measured scores and published ones: a list, a table for a paper, or a test.

    A list has one row per cell and seed, and one per further published metric. A table
    of methods has mean and spread over seeds, the best in bold, a caption that states
    the protocol, and marks what does not differ significantly from the best of a column
    (paired bootstrap, Holm's correction). A test is a paired bootstrap over pairs with
    Holm's correction over tasks; it compares the means over all seeds.
    """
    known = opt.resolved([*(method or []), *(test or ())], task, encoder)
    folder = opt.measured_folder(results, known.registry)
    loader = TaskLoader(folders.places(), known.registry.corpora)
    with progress_on(sys.stderr) as progress:
        resampler = Resampler(folder, loader, progress)
        if test is not None:
            _say_test(known, resampler, is_csv=as_csv, as_json=as_json)
        elif markdown or latex or paper_tables:
            look_up("aggregation", aggregation or "all", dict.fromkeys(AGGREGATIONS))
            table = _table_of_methods(known, resampler, paper_tables, aggregation)
            if latex:
                opt.say(in_latex(table))
            elif markdown:
                opt.say(f"{in_markdown(table)}\n\n{escape(' '.join(table.notes))}")
            else:
                opt.say(f"{terminal(table, opt.terminal_width())}\n")
                for sentence in table.notes:
                    opt.note(sentence)
        else:
            _say_cells(known, folder, every_score, is_csv=as_csv, as_json=as_json)


# Cells


def _say_cells(
    known: Resolution,
    folder: Conclusions,
    every_score: bool,
    *,
    is_csv: bool,
    as_json: bool,
) -> None:
    """A row for each cell and seed, with the number that is published for it."""
    is_for_people = not is_csv and not as_json
    rows = [
        row
        for row in folder_rows(
            folder, every_score, published_too=is_for_people, methods=known.methods
        )
        if known.selects(row.method, row.task)
    ]
    known.require_known({row.method for row in rows})
    if not rows:
        remedy = "harness table without -m and -t shows all"
        if not known.methods and not folder.records.by_cell:
            remedy = "harness run measures cells"
        raise UsageError(
            f"{folder.path}: found no score of these methods and tasks; {remedy}"
        )
    shown = [vars(row) for row in rows]
    if is_for_people:
        names = [name for name in CELL_COLUMNS if name != "source"]
        if len({row.source for row in rows}) > 1:
            names.append("source")
        shown = [{name: row[name] for name in names} for row in shown]
    _say_rows(shown, is_csv, as_json)
    methods = {row.method: None for row in rows}
    records = folder.records_of_methods(known.methods)
    for sentence in sentences_on_copies([*methods], records, folder.registry):
        opt.note(f"Note: {sentence}.")


def _say_rows(rows: opt.PrintedRows, is_csv: bool, as_json: bool) -> None:
    """Print rows as CSV, as JSON, or as a table for people."""
    if not is_csv:
        opt.say_rows(rows, as_json)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    opt.say(text.getvalue().rstrip("\n"))


# Methods


def _table_of_methods(
    known: Resolution,
    resampler: Resampler,
    paper_tables: Sequence[str] | None,
    aggregation: str | None,
) -> ShownTable:
    """The methods, their columns, and the tests of each column against its best."""
    folder = resampler.results
    registry = folder.registry
    known.require_known(folder.records.methods)
    tasks = registry.select_tasks(known.tasks)
    published = [folder.table(name) for name in paper_tables or ()]
    columns = columns_of(folder, tasks, published, aggregation)
    names = tasks_of(columns)
    measured = {method for method, task in folder.records.by_cell if task in names}
    methods: dict[str, None] = {}  # each once, in the order of the patterns
    for pattern in known.methods:
        methods |= dict.fromkeys(
            method
            for method in folder.records.methods
            if method in measured and matches(method, [pattern])
        )
    # A pattern means one's own rows, where there are some; a name means any.
    named = {pattern for pattern in known.methods if not is_glob(pattern)}
    own = {
        method
        for method, task in folder.records.by_cell
        if method in methods and task in names and not folder.is_packaged(method, task)
    }
    shown = [method for method in methods if not own or method in own | named]
    if len(shown) < len(methods):
        hidden = counted(len(methods) - len(shown), "method")
        opt.note(
            f"{hidden} that come with the harness are left out: name them by -m ID, or all by "
            "--results FOLDER"
        )
    if not methods or not columns:
        raise UsageError(
            f"nothing selected of {folder.path}: give -m METHOD, and -t TASK or --beside TABLE"
        )
    ties = ties_with_best(shown, columns, resampler)
    return method_table(shown, columns, folder, published, ties)


# Tests


def _say_test(
    known: Resolution, resampler: Resampler, *, is_csv: bool, as_json: bool
) -> None:
    """The test of two methods on each task, and how to make one that lacks similarities."""
    folder = resampler.results
    known.require_known(folder.records.methods)
    first, second = known.methods[-2:]
    tasks = folder.registry.select_tasks(known.tasks)
    missing: dict[str, None] = {}  # the methods that lack similarities, each once
    untested_tasks: list[str] = []
    rows, facts = [], []
    for test in compare_methods(first, second, tasks, resampler):
        [(task, path)] = test.contrast.scores
        lacking = [] if test.p is not None else resampler.lacking(test.contrast)
        missing |= dict.fromkeys(lacking)
        if lacking:
            untested_tasks.append(task)
        means = [side.value.mean for side in test.sides]
        differs = None if test.p_holm is None else not test.is_tie
        facts.append(
            {
                "task": task,
                "metric": path[0],
                "first": means[0],
                "second": means[1],
                "difference": test.points,
                "low": test.low,
                "high": test.high,
                "p": test.p,
                "p_holm": test.p_holm,
                "missing": lacking,
                "differs": differs,
            }
        )
        row = {
            "task": task,
            "score": path[0],
            first: means[0],
            second: means[1],
            "difference": f"{test.points:+.2f}",
            "95 % interval": "",
            "p (Holm)": "",
            "result": "no test",
        }
        if differs is not None:
            row["95 % interval"] = f"{test.low:+.2f} to {test.high:+.2f}"
            row["p (Holm)"] = f"{test.p_holm:.4f}"
            row["result"] = "differs" if differs else "not distinguishable"
        rows.append(row)
    is_for_people = not is_csv and not as_json
    _say_rows(rows if is_for_people else facts, is_csv, as_json)
    if missing and is_for_people:
        command = measuring_command([*missing], untested_tasks, folder)
        opt.note(
            f"No test: per-pair similarities of {', '.join(missing)} are not stored. Run: {command}"
        )
