"""Boards: tables of methods by tasks, which the leaderboard and the page of results show.

A board has the seven STS tasks with their average under one scoring, or the columns of
one section apart from them. Its rows are in groups by the size of the encoder, the
papers' size first, and within a group the best method is first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import LeaderboardColumn, Section, Task, is_transductive
from harness.registry import Registry
from harness.report.coverage import coverage_notes
from harness.report.papers import DAGGER
from harness.report.table import HEADING, ShownCell, ShownColumn, ShownRow, ShownTable
from harness.results.costs import milliseconds, shared_the_machine
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
from harness.results.verdict import CellState

# The sections apart from the seven tasks, with their titles and introductions.
SECTIONS: Mapping[Section, tuple[str, str]] = {
    "other": ("Other tasks", ""),
    "transfer": (
        "Transfer (accuracy)",
        "SentEval's transfer tasks: the accuracy, ×100, of a logistic regression that is "
        "trained on the vectors, under SimCSE's test protocol (Adam, ten folds, one seed); "
        f"best on MR first. {DAGGER} fitted on all sentences of the task, without their labels.",
    ),
    "embedded": (
        "Embedded tasks",
        "Sentences that the harness makes itself, so that every machine can score them; best on "
        "mini-STS first. No paper has these tasks: they compare methods with each other. "
        "Spearman, `all`; AUC; for lexical the correlation with edit distance; accuracy of a "
        "classifier.",
    ),
}
TIE_MARK = "≈"
SHARED_MACHINE_MARK = "‡"  # of a cost that other processes may have raised

Sizes = Mapping[str, EncoderSize]  # by the name of the encoder
# Further columns: the text for a method, by the heading.
FactColumns = Mapping[str, Callable[[str], str]]


@dataclass(frozen=True)
class Board:
    """A table of methods, and the measured cells that it shows."""

    table: ShownTable
    cells: Sequence[CellName]

    @property
    def methods(self) -> list[str]:
        """The methods, from top to bottom."""
        return [row.key for row in self.table.rows if row.kind != HEADING]


def sts_board(
    results: Results,
    methods: Sequence[str],
    scoring: Scoring,
    sizes: Sizes,
    *,
    facts: FactColumns | None = None,
    tied: Collection[str] = (),
) -> Board | None:
    """The seven tasks and their average; None where no method has any of them.

    Args:
        results: The records.
        methods: The methods to choose from.
        scoring: How the tasks are scored.
        sizes: The sizes of the encoders.
        facts: Further columns.
        tied: The methods that are not distinguishable from the row above.
    """
    rows = []
    for method in methods:
        values = seven_values(results, method, scoring)
        if any(value.mean is not None for value in values):
            rows.append(MethodRow(method, values))
    if not rows:
        return None
    rows = best_first(rows, column=-1)
    columns = [
        ShownColumn(label, key=_score_key(task, scoring.path))
        for label, task in scoring.tasks_by_label.items()
    ]
    columns.append(ShownColumn("Avg."))
    text = "SentEval text" if scoring.text == "senteval" else "raw text"
    title = f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text}"
    coverage = coverage_notes(
        results, [row.method for row in rows], scoring.tasks_by_label
    )
    return _board(scoring.id, title, "", coverage, columns, rows, sizes, facts, tied)


def section_board(
    section: Section,
    results: Results,
    registry: Registry,
    methods: Sequence[str],
    sizes: Sizes,
) -> Board | None:
    """A section apart from the seven tasks; None where no method has a value."""
    columns_of_tasks = columns_of_section(section, registry.tasks.values())
    rows = rows_of_columns(columns_of_tasks, results, methods)
    if not rows:
        return None
    if section != "other":  # whose tasks are of several kinds
        rows = best_first(rows, column=0)
    title, about = SECTIONS[section]
    sentences = [about] if about else []
    legend_cells: list[CellName] = []
    columns = []
    for task, column in columns_of_tasks:
        path = column.score or metric_of(task).main_score
        columns.append(ShownColumn(column.heading, key=_score_key(task.name, path)))
        method = _method_of_legend(results, task, column)
        if method is not None:
            values = {
                name: results.value(method, task.name, name)
                for name in column.legend_scores
            }
            sentences.append(column.legend.format(**values))
            legend_cells.append((method, task.name))
    tasks = {column.heading: task.name for task, column in columns_of_tasks}
    coverage = coverage_notes(results, [row.method for row in rows], tasks)
    about = " ".join(sentences)
    board = _board(section, title, about, coverage, columns, rows, sizes)
    return Board(board.table, [*board.cells, *legend_cells])


def _board(
    key: str,
    title: str,
    about: str,
    coverage: str,
    columns: Sequence[ShownColumn],
    rows: Iterable[MethodRow],
    sizes: Sizes,
    facts: FactColumns | None = None,
    tied: Collection[str] = (),
) -> Board:
    """A board of rows that are in order within their groups."""
    facts = facts or {}
    rows_by_size: dict[EncoderSize, list[ShownRow]] = {size: [] for size in EncoderSize}
    cells: list[CellName] = []
    for method, values in rows:
        mark = f" {DAGGER}" if is_transductive(method) else ""
        if method in tied:
            mark += f" {TIE_MARK}"
        texts = [ShownCell(str(value)) for value in values]
        texts += [ShownCell(fact(method)) for fact in facts.values()]
        row = ShownRow([ShownCell(f"`{method}`", mark=mark), *texts], key=method)
        rows_by_size[sizes[base_name(encoder_of_method(method))]].append(row)
        tasks = [column.key.partition("/")[0] for column in columns if column.key]
        cells += [(method, task) for task in tasks]
    groups = {size: group for size, group in rows_by_size.items() if group}
    all_rows: list[ShownRow] = []
    for size, group in groups.items():
        if len(groups) > 1:
            all_rows.append(ShownRow([ShownCell(size.heading)], HEADING))
        all_rows += group
    table = ShownTable(
        columns=[
            ShownColumn("method", is_text=True),
            *columns,
            *map(ShownColumn, facts),
        ],
        rows=all_rows,
        title=title,
        about=about,
        notes=[coverage] if coverage else [],
        key=key,
    )
    return Board(table, cells)


def _score_key(task: str, path: ScorePath) -> str:
    """A task and the path of its score: `sts12/spearman.all`."""
    return f"{task}/{'.'.join(path)}"


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


def cost_in_words(results: Results, scoring: Scoring, method: str) -> str:
    """Milliseconds a sentence with two significant digits, or why there are none."""
    cost = milliseconds(results, method, scoring)
    if cost is None:
        tasks = scoring.tasks_by_label.values()
        is_measured = any((method, task) in results.by_cell for task in tasks)
        return "not timed" if is_measured else CellState.NOT_RUN
    decimals = max(0, 1 - math.floor(math.log10(cost)))
    is_shared = shared_the_machine(results, method, scoring)
    mark = f" {SHARED_MACHINE_MARK}" if is_shared else ""
    return f"{cost:.{decimals}f}{mark}"
