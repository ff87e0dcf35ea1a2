"""The leaderboard: every method of every encoder on the seven STS tasks, then other sections.

A `Board` is one of its tables: the page of results shows the same boards in HTML. Boards
are made first, then come their Markdown, the notes above them, and the two kinds of
pages: the leaderboard, and a page for each encoder.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.files import file_name
from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import LeaderboardColumn, Record, Section, Task, is_transductive
from harness.registry import Registry
from harness.report.coverage import coverage_notes
from harness.report.markdown import Page, escape, link_to, table, texts
from harness.report.sentences import origin_in_words
from harness.results import scorings
from harness.results.comparisons import Comparisons
from harness.results.costs import milliseconds, shared_the_machine
from harness.results.encoder_sizes import EncoderSize, in_groups, sizes_of_encoders
from harness.results.index import CellName, Results, Value
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import compose_method
from harness.results.scorings import SCORINGS, SIMCSE, WHITENING, Scoring
from harness.results.verdict import CellState

# The headings of chapters of the leaderboard.
PUBLISHED_HEADING = "Published and measured"
SOME_TASKS_HEADING = "On some tasks only"
UNMEASURED_HEADING = "Published tables without a measured number"
# The headings of the sections apart from the seven tasks; `texts.toml` has introductions
# to some of them.
SECTIONS: Mapping[Section, str] = {
    "other": "Other tasks",
    "transfer": "Transfer (accuracy)",
    "embedded": "Embedded tasks",
}
COST_HEADING = "ms / sentence"
NOT_TIMED = "not timed"
SHARED_MACHINE_MARK = " ‡"  # of a cost that other processes may have raised

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
        coverage: Which shares of the words have a vector; empty where all have.
        columns: Its columns, without that of the methods.
        rows: Each method with a value for each column.
        size_of_row: The size of the encoder of each method.
        legend_cells: Method and task of the measured cells whose scores `about` names.
    """

    id: str
    title: str
    about: str
    coverage: str
    columns: Sequence[BoardColumn]
    rows: Sequence[tuple[str, Sequence[Value]]]
    size_of_row: Mapping[str, EncoderSize]
    legend_cells: Sequence[CellName] = ()

    @property
    def cells(self) -> list[CellName]:
        """Method and task of each measured cell that it shows."""
        tasks = [column.task for column in self.columns if column.task]
        cells = [(method, task) for method, _ in self.rows for task in tasks]
        return [*cells, *self.legend_cells]


# Boards


def sts_board(
    results: Results, methods: Sequence[str], scoring: Scoring, sizes: Sizes
) -> Board | None:
    """The seven tasks and their average; None where no method has any of them."""
    rows = []
    for method in methods:
        values = scorings.seven_values(results, method, scoring)
        if any(value.mean is not None for value in values):
            rows.append((method, values))
    if not rows:
        return None
    rows = _largest_first(scorings.best_first(rows, column=-1), sizes)
    tasks = scoring.tasks_by_label
    columns = [
        BoardColumn(heading, task, scoring.path) for heading, task in tasks.items()
    ]
    columns.append(BoardColumn("Avg."))
    return Board(
        id=scoring.id,
        title=_scoring_title(scoring),
        about="",
        coverage=coverage_notes(results, [method for method, _ in rows], tasks),
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
    columns = scorings.columns_of_section(name, registry.tasks.values())
    rows = scorings.rows_of_columns(columns, results, methods)
    if not rows:
        return None
    if name != "other":
        rows = scorings.best_first(rows, column=0)
    rows = _largest_first(rows, sizes)
    introduction = [texts()[name]] if name in texts() else []
    legend_cells = []
    board_columns = []
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
        coverage=coverage_notes(results, [method for method, _ in rows], tasks),
        columns=board_columns,
        rows=rows,
        size_of_row=_sizes_of_rows(rows, sizes),
        legend_cells=legend_cells,
    )


def _largest_first(
    rows: Sequence[scorings.MethodRow], sizes: Sizes
) -> list[scorings.MethodRow]:
    """Rows in the groups of their encoders' sizes; within a group they keep their order."""
    size_of_row = _sizes_of_rows(rows, sizes)
    sizes_in_order = list(EncoderSize)
    return sorted(rows, key=lambda row: sizes_in_order.index(size_of_row[row[0]]))


def _sizes_of_rows(
    rows: Sequence[scorings.MethodRow], sizes: Sizes
) -> Mapping[str, EncoderSize]:
    """The size of the encoder of each method."""
    return {method: sizes[base_name(method.partition(".")[0])] for method, _ in rows}


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


# A board in Markdown


def method_label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}` †" if is_transductive(method) else f"`{method}`"


def board_parts(
    board: Board,
    heading: str,
    tied: Collection[str] = (),
    costs: Mapping[str, str] | None = None,
) -> list[str]:
    """A board under its heading, with its introduction and its note on coverage.

    Args:
        board: The board.
        heading: The heading in Markdown, with `{}` for the board's title.
        tied: Methods that are not distinguishable from the row above.
        costs: The cost of each method, for a last column; None: there is no such column.
    """
    head = ["method", *(column.heading for column in board.columns)]
    if costs is not None:
        head.append(COST_HEADING)
    rows: list[list[object]] = []
    has_several_sizes = len(set(board.size_of_row.values())) > 1
    size_of_row_above = None
    for method, values in board.rows:
        size = board.size_of_row[method]
        if has_several_sizes and size is not size_of_row_above:
            empty_cells = [""] * (len(head) - 1)
            rows.append([f"*{size.heading}*", *empty_cells])
        size_of_row_above = size
        label = method_label(method)
        row: list[object] = [f"{label} ≈" if method in tied else label, *values]
        if costs is not None:
            row.append(costs[method])
        rows.append(row)
    parts = [
        heading.format(board.title),
        board.about,
        table(head, rows),
        board.coverage,
    ]
    return [part for part in parts if part]


def timed_parts(
    board: Board, results: Results, scoring: Scoring, comparisons: Comparisons | None
) -> list[str]:
    """A board of the seven tasks with costs, and the rows that are not distinguishable.

    Args:
        board: The board, whose last column is the average.
        results: The records, which have the costs.
        scoring: The scoring of the board.
        comparisons: The comparisons of neighbouring rows that were stored for the board.
            They are shown if they were made with its averages.
    """
    averages: dict[str, float] = {}
    for method, values in board.rows:
        average = values[-1].mean
        if average is not None:
            averages[method] = average
    costs = {
        method: cost_in_words(results, method, scoring) for method, _ in board.rows
    }
    heading = "**{}**"
    if comparisons is not None and comparisons.hold_for(averages):
        note = "compared-over-seeds" if comparisons.over_seeds else "compared-seed-0"
        tied = comparisons.indistinguishable
        return [*board_parts(board, heading, tied, costs), texts()[note]]
    parts = board_parts(board, heading, costs=costs)
    if len(averages) > 1:
        parts.append(texts()["not-compared"])
    return parts


def cost_in_words(results: Results, method: str, scoring: Scoring) -> str:
    """Milliseconds a sentence with two significant digits, or why there are none."""
    cost = milliseconds(results, method, scoring)
    if cost is None:
        tasks = scoring.tasks_by_label.values()
        is_measured = any((method, task) in results.by_cell for task in tasks)
        return NOT_TIMED if is_measured else CellState.NOT_RUN
    decimals = max(0, 1 - math.floor(math.log10(cost)))
    is_shared = shared_the_machine(results, method, scoring)
    mark = SHARED_MACHINE_MARK if is_shared else ""
    return f"{cost:.{decimals}f}{mark}"


# Notes above boards


def origin_notes(results: Results, methods: Sequence[str]) -> list[str]:
    """Which methods were measured here, if others are packaged, and which by plug-ins."""
    notes = []
    if results.packaged:
        measured_here = [
            f"`{method}`" for method in methods if method not in results.packaged
        ]
        names = ", ".join(measured_here) or "none"
        notes.append(
            f"Measured here, at least in part: {names}. All others come with the harness."
        )
    plugins = [
        f"{escape(plugin)} ({', '.join(labels)})"
        for plugin, labels in _methods_by_plugin(results, methods).items()
    ]
    if plugins:
        notes.append(
            f"By plug-ins, which do not come with the harness: {'; '.join(plugins)}."
        )
    return notes


def _methods_by_plugin(
    results: Results, methods: Collection[str]
) -> Mapping[str, Iterable[str]]:
    """The methods that were measured by each plug-in, as code, each once."""
    methods_by_plugin: dict[str, dict[str, None]] = {}
    shown_methods = set(methods)
    for (method, _), records in results.by_cell.items():
        if method not in shown_methods:
            continue
        for name, version in records[0].facts.get("plugins", {}).items():
            plugin = f"{name} {version}".strip()
            methods_by_plugin.setdefault(plugin, {})[f"`{method}`"] = None
    return methods_by_plugin


def method_notes(registry: Registry, methods: Sequence[str]) -> list[str]:
    """The notes of methods, such as a deviation from the paper; methods with one note share it."""
    names_by_note: dict[str, list[str]] = {}
    for name in methods:
        method = compose_method(name, registry)
        if method is not None and method.note:
            names_by_note.setdefault(method.note, []).append(f"`{name}`")
    return [
        f"{', '.join(names)}: {escape(note)}." for note, names in names_by_note.items()
    ]


def _weights_note(
    encoder: str, methods: Sequence[str], results: Results, registry: Registry
) -> str:
    """Where the weights of an encoder come from, what they were trained on, and their licence."""
    config = registry.encoders.get(encoder.partition(":")[0])
    if config is None:
        return "Weights: by hand, unpinned."
    records: list[Record] = []
    encoder_methods = set(methods)
    for (method, _), cell_records in results.by_cell.items():
        if method in encoder_methods:
            records += cell_records
    origin = origin_in_words(origin_of_encoder(config, records))
    return (
        f"Weights: {escape(origin)}. Trained on: {escape(config.trained_on)}. "
        f"Licence: {escape(config.licence)}. "
        f"Every protocol: [tables](tables/{file_name(encoder)}.md)."
    )


# Pages


def leaderboard(
    results: Results,
    registry: Registry,
    counts: str,
    unmeasured: str,
    comparisons: Mapping[str, Comparisons],
) -> Page:
    """The whole page: how much of the papers was reproduced, then every encoder, largest first.

    Args:
        results: All records.
        registry: Methods and tasks by name.
        counts: The counts of measured published numbers, in Markdown.
        unmeasured: The published tables without a measured number, a line each, in
            Markdown.
        comparisons: The stored comparisons of neighbouring rows, by the name of their
            table.
    """
    sizes = sizes_of_encoders(results, registry)
    boards: list[Board] = []
    contents = [f"* {link_to(PUBLISHED_HEADING)}"]
    parts = [
        f"## {PUBLISHED_HEADING}",
        counts,
        texts()["papers"],
        "## How to read the tables",
        texts()["how-to-read"],
        texts()["cost"],
        *origin_notes(results, results.methods),
    ]
    # The encoders that were measured on all seven tasks, with their methods.
    complete_encoders = scorings.complete_encoders(results)
    for size, encoders in in_groups(complete_encoders, sizes).items():
        links = ", ".join(link_to(encoder) for encoder in encoders)
        contents.append(f"* {link_to(size.heading)}: {links}")
        parts.append(f"## {size.heading}")
        for encoder in encoders:
            methods = complete_encoders[encoder]
            encoder_boards = _sts_boards(results, methods, sizes)
            boards += encoder_boards.values()
            parts += _encoder_parts(
                encoder, methods, encoder_boards, results, registry, comparisons
            )

    other_methods = [
        method
        for method in results.methods
        if method.partition(".")[0] not in complete_encoders
    ]
    incomplete_board = sts_board(results, other_methods, SIMCSE, sizes)
    if incomplete_board is not None:
        boards.append(incomplete_board)
        contents.append(f"* {link_to(SOME_TASKS_HEADING)}")
        parts.append(f"## {SOME_TASKS_HEADING}")
        parts += timed_parts(incomplete_board, results, SIMCSE, comparisons=None)

    sections: tuple[Section, ...] = ("transfer", "embedded")
    for section in sections:
        board = section_board(section, results, registry, results.methods, sizes)
        if board is not None:
            boards.append(board)
            contents.append(f"* {link_to(board.title)}")
            parts += board_parts(board, "## {}")
    if unmeasured:
        contents.append(f"* {link_to(UNMEASURED_HEADING)}")
        parts += [f"## {UNMEASURED_HEADING}", unmeasured]
    return Page(
        title="Leaderboard",
        parts=["\n".join(contents), *parts],
        records=records_of_boards(boards, results),
    )


def _sts_boards(
    results: Results, methods: Sequence[str], sizes: Sizes
) -> Mapping[Scoring, Board]:
    """The tables of the seven tasks that a complete encoder has on the leaderboard."""
    boards = {}
    for scoring in (SIMCSE, WHITENING):
        board = sts_board(results, methods, scoring, sizes)
        if board is not None:
            boards[scoring] = board
    return boards


def _encoder_parts(
    encoder: str,
    methods: Sequence[str],
    boards: Mapping[Scoring, Board],
    results: Results,
    registry: Registry,
    comparisons: Mapping[str, Comparisons],
) -> list[str]:
    """An encoder on the leaderboard: its weights, notes on its methods, and its tables."""
    parts = [
        f"### {escape(encoder)}",
        _weights_note(encoder, methods, results, registry),
    ]
    parts += method_notes(registry, methods)
    for scoring, board in boards.items():
        board_comparisons = comparisons.get(f"{encoder}.{scoring.id}")
        parts += timed_parts(board, results, scoring, board_comparisons)
    return parts


def encoder_page(
    results: Results,
    registry: Registry,
    encoder: str,
    methods: Sequence[str],
    sizes: Sizes,
) -> Page:
    """Every protocol of one encoder, then the other sections; `sizes` are of all encoders."""
    parts = [texts()["how-to-read"], *origin_notes(results, methods)]
    parts += method_notes(registry, methods)
    boards_or_none = [
        sts_board(results, methods, scoring, sizes) for scoring in SCORINGS
    ]
    for section in SECTIONS:
        boards_or_none.append(section_board(section, results, registry, methods, sizes))
    boards = [board for board in boards_or_none if board is not None]
    for board in boards:
        parts += board_parts(board, "## {}")
    return Page(title=encoder, parts=parts, records=records_of_boards(boards, results))
