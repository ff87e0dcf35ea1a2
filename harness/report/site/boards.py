"""The tables of the leaderboard: one a protocol of the seven STS tasks, one for each other section.

Each cell names the score that it shows, so that the page can open it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.metrics import metric_of
from harness.core.types import Task
from harness.registry import Registry
from harness.report.leaderboard import SECTIONS
from harness.report.markdown import CODE
from harness.results.coverage import coverage_notes
from harness.results.index import Results, Value
from harness.results.protocols import (
    LABELS,
    PROTOCOLS,
    SEVEN,
    Protocol,
    columns_by_label,
    ranked,
    row,
)
from harness.results.sections import columns_of, legend_of, rows_of

AVERAGE = "Avg."


@dataclass(frozen=True)
class BoardColumn:
    """A column: heading, task, and the path of the score in a record; an average has neither."""

    heading: str
    task: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Board:
    """A table of methods by tasks, best first."""

    id: str
    title: str
    about: str
    columns: Sequence[BoardColumn]
    rows: Sequence[tuple[str, Sequence[Value]]]


def boards(results: Results, registry: Registry) -> Iterator[Board]:
    """Every table that has a row."""
    for protocol in PROTOCOLS:
        if board := _seven(results, protocol):
            yield board
    tasks = tuple(registry.tasks.values())
    for name, (heading, about) in SECTIONS.items():
        columns = columns_of(name, tasks)
        rows = rows_of(columns, results, results.methods, best_first=name != "other")
        if rows:
            legends = (legend_of(results, task, column) for task, column in columns)
            shown = [
                BoardColumn(column.heading, task.name, column.score or _main(task))
                for task, column in columns
            ]
            named = {column.heading: task.name for task, column in columns}
            known_tokens = coverage_notes(results, [method for method, _ in rows], named)
            text = " ".join(filter(None, [about, *legends, known_tokens]))
            yield Board(name, heading, plain(text), shown, rows)


def plain(text: str) -> str:
    """A text without the marks of code."""
    return CODE.sub(lambda found: found[0].strip("`"), text)


def _seven(results: Results, protocol: Protocol) -> Board | None:
    known = [
        method
        for method in results.methods
        if any(value.mean is not None for value in row(results, method, protocol))
    ]
    if not known:
        return None
    path = (protocol.correlation, protocol.aggregation)
    columns = [BoardColumn(LABELS[task], protocol.task(task), path) for task in SEVEN]
    rows = {m: row(results, m, protocol) for m in ranked(results, known, protocol)}
    # The average goes first: on a phone the last columns are out of sight.
    ordered = [(method, [values[-1], *values[:-1]]) for method, values in rows.items()]
    title = f"Seven STS tasks: {plain(protocol.title)}"
    about = plain(coverage_notes(results, known, columns_by_label(protocol)))
    return Board(protocol.id, title, about, [BoardColumn(AVERAGE), *columns], ordered)


def _main(task: Task) -> tuple[str, ...]:
    return metric_of(task).main_score
