"""The tables of the leaderboard: methods by tasks, as objects that every format prints.

A `Board` holds either the seven STS tasks with their average under one scoring, or the
columns of one section apart from them. `leaderboard` prints boards in Markdown, and the
page of results in HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import LeaderboardColumn, Section, Task
from harness.registry import Registry
from harness.report.coverage import coverage_notes
from harness.report.markdown import texts
from harness.results.encoder_sizes import EncoderSize
from harness.results.index import CellName, Results, encoder_of_method
from harness.results.scorings import (
    MethodRow,
    Scoring,
    best_first,
    columns_of_section,
    rows_of_columns,
    seven_values,
)

# The headings of the sections apart from the seven tasks; `texts.toml` has introductions
# to some of them.
SECTIONS: Mapping[Section, str] = {
    "other": "Other tasks",
    "transfer": "Transfer (accuracy)",
    "embedded": "Embedded tasks",
}

Sizes = Mapping[str, EncoderSize]  # by the name of the encoder


@dataclass(frozen=True)
class BoardColumn:
    """A column: heading, task, and the path of the score in a record; an average has neither."""

    heading: str
    task: str = ""
    path: ScorePath = ()


@dataclass(frozen=True)
class Board:
    """A table of methods by tasks: in groups by the size of the encoder, in each best first.

    Attributes:
        id: The name of its scoring or section.
        title: Its heading.
        about: An introduction to its tasks; empty where none is needed.
        coverage: The shares of the words that have a vector, in words; empty where all
            have one.
        columns: The columns with scores. The column of the methods is not among them.
        rows: Each method with a value for each column.
        size_of_row: The size of the encoder of each method.
        legend_cells: The measured cells whose scores are in `about`.
    """

    id: str
    title: str
    about: str
    coverage: str
    columns: Sequence[BoardColumn]
    rows: Sequence[MethodRow]
    size_of_row: Mapping[str, EncoderSize]
    legend_cells: Sequence[CellName] = ()

    @property
    def cells(self) -> list[CellName]:
        """Method and task of each measured cell that it shows."""
        cells: list[CellName] = []
        for row in self.rows:
            for column in self.columns:
                if column.task:
                    cells.append((row.method, column.task))
        return [*cells, *self.legend_cells]


# Boards


def sts_board(
    results: Results, methods: Sequence[str], scoring: Scoring, sizes: Sizes
) -> Board | None:
    """The seven tasks and their average; None where no method has any of them."""
    rows = []
    for method in methods:
        values = seven_values(results, method, scoring)
        if any(value.mean is not None for value in values):
            rows.append(MethodRow(method, values))
    if not rows:
        return None
    average_column = -1
    rows = _largest_first(best_first(rows, average_column), sizes)
    tasks = scoring.tasks_by_label
    columns = [
        BoardColumn(heading, task, scoring.path) for heading, task in tasks.items()
    ]
    columns.append(BoardColumn("Avg."))
    return Board(
        id=scoring.id,
        title=_scoring_title(scoring),
        about="",
        coverage=coverage_notes(results, [row.method for row in rows], tasks),
        columns=columns,
        rows=rows,
        size_of_row=_sizes_of_rows(rows, sizes),
    )


def section_board(
    name: Section,
    results: Results,
    registry: Registry,
    methods: Sequence[str],
    sizes: Sizes,
) -> Board | None:
    """A section apart from the seven tasks; None where no method has a value."""
    columns = columns_of_section(name, registry.tasks.values())
    rows = rows_of_columns(columns, results, methods)
    if not rows:
        return None
    if name != "other":  # whose tasks are of several kinds
        rows = best_first(rows, column=0)
    rows = _largest_first(rows, sizes)

    introduction: list[str] = []
    if name in texts():
        introduction.append(texts()[name])
    legend_cells: list[CellName] = []
    board_columns: list[BoardColumn] = []
    for task, column in columns:
        path = column.score or metric_of(task).main_score
        board_columns.append(BoardColumn(column.heading, task.name, path))
        method = _method_of_legend(results, task, column)
        if method is not None:
            introduction.append(_legend(results, method, task, column))
            legend_cells.append((method, task.name))
    tasks = {column.heading: task.name for task, column in columns}
    return Board(
        id=name,
        title=SECTIONS[name],
        about=" ".join(introduction),
        coverage=coverage_notes(results, [row.method for row in rows], tasks),
        columns=board_columns,
        rows=rows,
        size_of_row=_sizes_of_rows(rows, sizes),
        legend_cells=legend_cells,
    )


def _largest_first(rows: Sequence[MethodRow], sizes: Sizes) -> list[MethodRow]:
    """Rows in the groups of their encoders' sizes; within a group they keep their order."""
    size_of_row = _sizes_of_rows(rows, sizes)
    sizes_in_order = list(EncoderSize)
    return sorted(rows, key=lambda row: sizes_in_order.index(size_of_row[row.method]))


def _sizes_of_rows(
    rows: Sequence[MethodRow], sizes: Sizes
) -> Mapping[str, EncoderSize]:
    """The size of the encoder of each method."""
    return {row.method: sizes[base_name(encoder_of_method(row.method))] for row in rows}


def _method_of_legend(
    results: Results, task: Task, column: LeaderboardColumn
) -> str | None:
    """The first method that has every score that a column's legend names; None without a legend."""
    if not column.legend:
        return None
    for method in results.by_task.get(task.name, ()):
        values = [
            results.value(method, task.name, name) for name in column.legend_scores
        ]
        if all(value.mean is not None for value in values):
            return method
    return None


def _legend(
    results: Results, method: str, task: Task, column: LeaderboardColumn
) -> str:
    """A column's legend, with the scores of a method in it."""
    values = {
        name: results.value(method, task.name, name) for name in column.legend_scores
    }
    return column.legend.format(**values)


def _scoring_title(scoring: Scoring) -> str:
    """The heading of a table: `` Spearman, `all`, SentEval text ``."""
    text = "SentEval text" if scoring.text == "senteval" else "raw text"
    return f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text}"


def records_of_boards(boards: Iterable[Board], results: Results) -> Results:
    """The records that some boards show."""
    return results.select(cell for board in boards for cell in board.cells)
