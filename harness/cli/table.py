"""`harness table`: a table for a paper, or one of a paper.

With --paper it is a published table, with the measured numbers. Otherwise rows are
measured methods, and columns are tasks, or the columns of published tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from harness.assets.places import Places
from harness.cli import options as opt
from harness.cli.selection import record_patterns
from harness.core.errors import UsageError
from harness.core.progress import progress_on
from harness.core.types import AGGREGATIONS, Task
from harness.evaluation.compare import against_best
from harness.evaluation.resampler import MethodGroup, Resampler
from harness.registry import Registry, look_up
from harness.report.method_table import MethodTable
from harness.report.paper_tables import paper_latex, paper_page
from harness.report.score_columns import (
    ScoreColumns,
    columns_of_published,
    columns_of_tasks,
)
from harness.resolve import Resolver
from harness.results.folder import ResultsFolder
from harness.results.layout import OWN, RUNS, own_or_committed
from harness.tasks.loader import TaskLoader


def table_command(
    folders: opt.Folders,
    method: opt.Methods = None,
    task: opt.Tasks = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: Annotated[
        Path | None,
        opt.option(
            help="Folder of a run: records and per-pair similarities.  [default: runs; with "
            "--paper results]"
        ),
    ] = None,
    paper: Annotated[
        str | None,
        opt.option(
            help="Published table (harness list papers): its numbers, and the measured ones below "
            "them."
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        opt.option(
            help=f"Of the subsets of a task: {', '.join(AGGREGATIONS)}.  [default: those of the "
            "published tables, or all]"
        ),
    ] = None,
    paper_tables: Annotated[
        list[str] | None,
        opt.option(
            "--beside",
            help="Published table whose rows of this protocol are added; several are allowed. "
            "Without -t, its columns are the table's.",
        ),
    ] = None,
    encoder: opt.Encoders = None,
    latex: Annotated[
        bool, typer.Option("--latex/--markdown", help="The form of the table.")
    ] = False,
) -> None:
    """Print a table for a paper: methods by tasks, or a published table with the measured numbers.

    Mean and spread over seeds, the best in bold, and a caption that states protocol,
    seeds, fit corpora and digests. Methods that do not differ significantly from the
    best of a column are marked (paired bootstrap, Holm's correction).
    """
    if paper is not None:
        if method or task or paper_tables or aggregation:
            raise UsageError(
                "--paper prints a published table as it is; leave out -m, -t, --beside and "
                "--aggregation"
            )
        registry = Resolver.from_options(Places(Path()), encoder or []).registry
        opt.say(_published_table(paper, results or OWN, registry, as_latex=latex))
        return
    if encoder:
        raise UsageError(
            "--encoder goes with --paper; other tables read the ids of the records"
        )
    results = results or RUNS
    opt.require_folder("--results", results)
    look_up("aggregation", aggregation or "all", dict.fromkeys(AGGREGATIONS))
    patterns = record_patterns(method, task)
    registry = patterns.registry
    folder = ResultsFolder(results, registry)
    patterns.require_known(folder.records.methods)

    tasks = registry.select_tasks(patterns.tasks)
    published = [folder.table(name) for name in paper_tables or ()]
    columns = columns_of_published(published, registry, tasks)
    if aggregation:
        columns = columns_of_tasks(tasks or _tasks_of(columns), aggregation)
    methods = _measured_methods(patterns.methods, _tasks_of(columns), folder)
    if not methods or not columns:
        raise UsageError(
            f"nothing selected of {results}: give -m METHOD, and -t TASK or --beside TABLE"
        )

    groups = {}
    for name, scores in columns.items():
        if scores:
            groups[name] = MethodGroup(methods, scores)
    loader = TaskLoader(folders.places(), registry.corpora)
    with progress_on(sys.stderr) as progress:
        p_holm = against_best(groups, Resampler(folder, loader, progress))
    table = MethodTable(
        methods=methods,
        columns=columns,
        results=folder.records,
        registry=registry,
        p_holm=p_holm,
        paper_tables=published,
    )
    opt.say(table.latex() if latex else table.markdown())


def _published_table(
    name: str, results: Path, registry: Registry, *, as_latex: bool
) -> str:
    """A published table with the numbers measured in a results folder, as Markdown or LaTeX."""
    path = own_or_committed(results)
    opt.require_folder("--results", path)
    folder = ResultsFolder(path, registry)
    published = folder.table(name)
    cells = folder.reproductions(published)
    records = folder.records_of_table(published)
    if as_latex:
        return paper_latex(published, cells, folder.registry, records)
    return paper_page(published, cells, folder.registry, records).text.rstrip()


def _tasks_of(columns: ScoreColumns) -> list[Task]:
    """The tasks of the scores in columns, each once, in order."""
    tasks: dict[Task, None] = {}
    for scores in columns.values():
        for task, _ in scores:
            tasks[task] = None
    return list(tasks)


def _measured_methods(
    patterns: Sequence[str], tasks: Iterable[Task], folder: ResultsFolder
) -> tuple[str, ...]:
    """The methods that match a pattern and were measured on a task, in the patterns' order."""
    task_names = {task.name for task in tasks}
    measured = {method for method, task in folder.records.by_cell if task in task_names}
    selected: dict[str, None] = {}  # each once, in order
    for pattern in patterns:
        for method in folder.records.methods:
            if method in measured and fnmatchcase(method, pattern):
                selected[method] = None
    return tuple(selected)
