"""The sections of the leaderboard beside the seven STS tasks: columns that tasks ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from harness.core.metrics import metric_of
from harness.core.scores import LeaderboardColumn, Section
from harness.core.types import Task
from harness.results.index import Results, Value


@dataclass(frozen=True)
class Columns:
    """The columns of one section with their tasks."""

    columns: tuple[tuple[Task, LeaderboardColumn], ...]

    @classmethod
    def of(cls, section: Section, tasks: Iterable[Task]) -> Columns:
        """The columns that tasks ask for in a section: main scores first, then others."""
        every = ((task, column) for task in tasks for column in task.columns)
        own = [(task, column) for task, column in every if column.section == section]
        return cls(tuple(sorted(own, key=lambda pair: bool(pair[1].score))))

    @property
    def headings(self) -> list[str]:
        """The headings of the columns."""
        return [column.heading for _, column in self.columns]

    def rows(
        self, results: Results, methods: Sequence[str], best_first: bool = False
    ) -> list[tuple[str, list[Value]]]:
        """Methods with their values; those that have none are left out.

        `best_first` sorts them by the first column; a method without a value there stands last.
        """
        paths = [(t.name, *(column.score or metric_of(t).main_score)) for t, column in self.columns]
        every = [(method, [results.value(method, *path) for path in paths]) for method in methods]
        rows = [row for row in every if any(value.mean is not None for value in row[1])]
        if best_first:
            rows.sort(key=lambda row: _height(row[1][0]), reverse=True)
        return rows

    def legends(self, results: Results) -> list[str]:
        """The legends whose scores a record has, filled in."""
        filled = (_filled(results, task, column) for task, column in self.columns)
        return [legend for legend in filled if legend]


def _height(value: Value) -> float:
    return -inf if value.mean is None else value.mean


def _filled(results: Results, task: Task, column: LeaderboardColumn) -> str:
    """A legend with the scores of the first method that has all of them; empty without one."""
    for method in results.methods if column.legend else ():
        values = {name: results.value(method, task.name, name) for name in column.legend_scores}
        if all(value.mean is not None for value in values.values()):
            return column.legend.format(**values)
    return ""
