"""The sections of the leaderboard beside the seven STS tasks: columns that tasks ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from harness.core.metrics import metric_of
from harness.core.scores import LeaderboardColumn, Section
from harness.core.types import Task
from harness.results.index import Results, Value

Columns = Sequence[tuple[Task, LeaderboardColumn]]


def columns_of(section: Section, tasks: Iterable[Task]) -> Columns:
    """The columns that tasks ask for in a section: main scores first, then others."""
    every = ((task, column) for task in tasks for column in task.columns)
    own = [(task, column) for task, column in every if column.section == section]
    return sorted(own, key=lambda pair: bool(pair[1].score))


def rows_of(
    columns: Columns, results: Results, methods: Sequence[str], best_first: bool
) -> list[tuple[str, list[Value]]]:
    """Methods with their values; those that have none are left out.

    `best_first` sorts them by the first column; a method without a value there stands last.
    """
    paths = [(t.name, *(column.score or metric_of(t).main_score)) for t, column in columns]
    every = [(method, [results.value(method, *path) for path in paths]) for method in methods]
    rows = [row for row in every if any(value.mean is not None for value in row[1])]
    if best_first:
        rows.sort(key=lambda row: -inf if (mean := row[1][0].mean) is None else mean, reverse=True)
    return rows


def legend_of(results: Results, task: Task, column: LeaderboardColumn) -> str:
    """A legend with the scores of the first method that has all of them; empty without one."""
    for method in results.methods if column.legend else ():
        values = {name: results.value(method, task.name, name) for name in column.legend_scores}
        if all(value.mean is not None for value in values.values()):
            return column.legend.format(**values)
    return ""
