"""The leaderboard: every method of every encoder on the seven STS tasks, then other sections.

A `Board` is one of its tables, for the Markdown here and for the page of results alike.
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
BESIDE = "Published beside measured"
SOME_TASKS = "On some tasks only"
UNMEASURED = "Published tables without a measured number"
# The headings of the sections apart from the seven tasks; `texts.toml` has what to know
# of some.
SECTIONS: Mapping[Section, str] = {
    "other": "Other tasks",
    "transfer": "Transfer (accuracy)",
    "embedded": "Embedded tasks",
}
Sizes = Mapping[str, EncoderSize]
COST = "ms / sentence"
NOT_TIMED = "not timed"
SHARED_MACHINE = " ‡"  # the mark of a cost that other processes may have raised


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
        about: What to know of its tasks.
        coverage: Which shares of the words have a vector.
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
        shown = [(method, task) for method, _ in self.rows for task in tasks]
        return [*shown, *self.legend_cells]


def sts_board(
    results: Results, methods: Sequence[str], scoring: Scoring, sizes: Sizes
) -> Board | None:
    """The seven tasks and their average; None where no method has any of them."""
    measured = []
    for method in methods:
        values = scorings.seven_values(results, method, scoring)
        if any(value.mean is not None for value in values):
            measured.append((method, values))
    if not measured:
        return None
    tasks = scoring.tasks_by_label
    columns = [
        BoardColumn(heading, task, scoring.path) for heading, task in tasks.items()
    ]
    rows = largest_first(scorings.best_first(measured, column=-1), sizes)
    return Board(
        id=scoring.id,
        title=title_of(scoring),
        about="",
        coverage=coverage_notes(results, [method for method, _ in rows], tasks),
        columns=[*columns, BoardColumn("Avg.")],
        rows=rows,
        size_of_row=sizes_of_rows(rows, sizes),
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
    rows = largest_first(rows, sizes)
    about = [texts()[name]] if name in texts() else []
    legend_cells = []
    board_columns = []
    for task, column in columns:
        path = column.score or metric_of(task).main_score
        board_columns.append(BoardColumn(column.heading, task.name, path))
        method = _method_of_legend(results, task, column)
        if method is not None:
            about.append(_legend(results, method, task, column))
            legend_cells.append((method, task.name))
    tasks = {column.heading: task.name for task, column in columns}
    return Board(
        id=name,
        title=SECTIONS[name],
        about=" ".join(about),
        coverage=coverage_notes(results, [method for method, _ in rows], tasks),
        columns=board_columns,
        rows=rows,
        size_of_row=sizes_of_rows(rows, sizes),
        legend_cells=legend_cells,
    )


def largest_first(
    rows: Sequence[scorings.MethodRow], sizes: Sizes
) -> list[scorings.MethodRow]:
    """Rows in the groups of their encoders' sizes; within a group they keep their order."""
    order = [*EncoderSize]
    return sorted(rows, key=lambda row: order.index(size_of_method(row[0], sizes)))


def sizes_of_rows(
    rows: Sequence[scorings.MethodRow], sizes: Sizes
) -> Mapping[str, EncoderSize]:
    """The size of the encoder of each method."""
    return {method: size_of_method(method, sizes) for method, _ in rows}


def size_of_method(method: str, sizes: Sizes) -> EncoderSize:
    """The size of a method's encoder."""
    return sizes[base_name(method.partition(".")[0])]


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


def title_of(scoring: Scoring) -> str:
    """The heading of a table: `` Spearman, `all`, SentEval text ``."""
    text = "SentEval text" if scoring.text == "senteval" else "raw text"
    return f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text}"


def records_of_boards(boards: Iterable[Board], results: Results) -> Results:
    """The records that some boards show."""
    return results.select(cell for board in boards for cell in board.cells)


# A board in Markdown


def label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}` †" if is_transductive(method) else f"`{method}`"


def board_parts(
    board: Board,
    heading: str,
    tied: Collection[str] = (),
    costs: Mapping[str, str] | None = None,
) -> list[str]:
    """A board under its heading, with what to know of it.

    Args:
        board: The board.
        heading: The heading in Markdown, with `{}` for the board's title.
        tied: Methods that are not distinguishable from the row above.
        costs: The cost of each method, for a last column; none without it.
    """
    head = ["method", *(column.heading for column in board.columns)]
    if costs is not None:
        head.append(COST)
    rows: list[list[object]] = []
    is_mixed = len({*board.size_of_row.values()}) > 1
    group = None
    for method, values in board.rows:
        size = board.size_of_row[method]
        if is_mixed and size is not group:
            rows.append([f"*{size.heading}*", *[""] * (len(head) - 1)])
        group = size
        name = f"{label(method)} ≈" if method in tied else label(method)
        row = [name, *values]
        if costs is not None:
            row.append(costs[method])
        rows.append(row)
    parts = [
        heading.format(board.title),
        board.about,
        table(head, rows),
        board.coverage,
    ]
    return list(filter(None, parts))


def timed_parts(
    board: Board, results: Results, scoring: Scoring, comparisons: Comparisons | None
) -> list[str]:
    """A board of the seven tasks with costs, and the rows that are not distinguishable.

    `comparisons` were stored for the board; those of other averages are not shown.
    """
    averages = {
        method: row[-1].mean for method, row in board.rows if row[-1].mean is not None
    }
    costs = {method: cost_of(results, method, scoring) for method, _ in board.rows}
    heading = "**{}**"
    if comparisons is not None and comparisons.hold_for(averages):
        note = "compared-over-seeds" if comparisons.over_seeds else "compared-seed-0"
        tied = comparisons.indistinguishable
        return [*board_parts(board, heading, tied, costs), texts()[note]]
    parts = board_parts(board, heading, costs=costs)
    if len(averages) > 1:
        parts.append(texts()["not-compared"])
    return parts


def cost_of(results: Results, method: str, scoring: Scoring) -> str:
    """Milliseconds a sentence with two digits, or why there are none."""
    cost = milliseconds(results, method, scoring)
    if cost is None:
        tasks = scoring.tasks_by_label.values()
        is_measured = any((method, task) in results.by_cell for task in tasks)
        return NOT_TIMED if is_measured else CellState.NOT_RUN
    decimals = max(0, 1 - math.floor(math.log10(cost)))
    mark = SHARED_MACHINE if shared_the_machine(results, method, scoring) else ""
    return f"{cost:.{decimals}f}{mark}"


# Notes above boards


def origin_notes(results: Results, methods: Sequence[str]) -> list[str]:
    """Which methods were measured here, if others are packaged, and which by plug-ins."""
    notes = []
    if results.packaged:
        own = [f"`{method}`" for method in methods if method not in results.packaged]
        measured = ", ".join(own) or "none"
        notes.append(
            f"Measured here, at least in part: {measured}. All others come with the harness."
        )
    by_plugin = _methods_by_plugin(results, methods)
    if by_plugin:
        named = [
            f"{escape(name)} ({', '.join(group)})" for name, group in by_plugin.items()
        ]
        notes.append(
            f"By plug-ins, which do not come with the harness: {'; '.join(named)}."
        )
    return notes


def _methods_by_plugin(
    results: Results, methods: Collection[str]
) -> Mapping[str, Iterable[str]]:
    """The methods that were measured by each plug-in, as code."""
    by_plugin: dict[str, dict[str, None]] = {}
    shown = {*methods}
    for (method, _), records in results.by_cell.items():
        if method in shown:
            for name, version in records[0].facts.get("plugins", {}).items():
                by_plugin.setdefault(f"{name} {version}".strip(), {})[f"`{method}`"] = (
                    None
                )
    return by_plugin


def method_notes(registry: Registry, methods: Sequence[str]) -> list[str]:
    """The notes of methods, such as a deviation from the paper; methods with one note share it."""
    names: dict[str, list[str]] = {}
    for name in methods:
        method = compose_method(name, registry)
        if method is not None and method.note:
            names.setdefault(method.note, []).append(f"`{name}`")
    return [f"{', '.join(group)}: {escape(note)}." for note, group in names.items()]


def _weights_note(
    encoder: str, methods: Sequence[str], results: Results, registry: Registry
) -> str:
    """Where the weights of an encoder come from, what they were trained on, and their licence."""
    config = registry.encoders.get(encoder.partition(":")[0])
    if config is None:
        return "Weights: by hand, unpinned."
    records: list[Record] = []
    shown = {*methods}
    for (method, _), measured in results.by_cell.items():
        if method in shown:
            records += measured
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
    contents = [f"* {link_to(BESIDE)}"]
    parts = [f"## {BESIDE}", counts, texts()["papers"], "## How to read the tables"]
    parts += [
        texts()["how-to-read"],
        texts()["cost"],
        *origin_notes(results, results.methods),
    ]
    boards: list[Board] = []
    complete = scorings.complete_encoders(results)
    for size, encoders in in_groups(complete, sizes).items():
        contents.append(
            f"* {link_to(size.heading)}: {', '.join(map(link_to, encoders))}"
        )
        parts.append(f"## {size.heading}")
        for encoder in encoders:
            shown = sts_boards(results, complete[encoder], sizes)
            boards += shown.values()
            parts += encoder_parts(
                encoder, complete[encoder], shown, results, registry, comparisons
            )
    others = [
        method for method in results.methods if method.partition(".")[0] not in complete
    ]
    incomplete = sts_board(results, others, SIMCSE, sizes)
    if incomplete is not None:
        boards.append(incomplete)
        contents.append(f"* {link_to(SOME_TASKS)}")
        parts.append(f"## {SOME_TASKS}")
        parts += timed_parts(incomplete, results, SIMCSE, comparisons=None)
    for section in ("transfer", "embedded"):
        board = section_board(section, results, registry, results.methods, sizes)
        if board is not None:
            boards.append(board)
            contents.append(f"* {link_to(board.title)}")
            parts += board_parts(board, "## {}")
    if unmeasured:
        contents.append(f"* {link_to(UNMEASURED)}")
        parts += [f"## {UNMEASURED}", unmeasured]
    records = records_of_boards(boards, results)
    return Page(
        title="Leaderboard", parts=["\n".join(contents), *parts], records=records
    )


def sts_boards(
    results: Results, methods: Sequence[str], sizes: Sizes
) -> Mapping[Scoring, Board]:
    """The tables of the seven tasks that a complete encoder has on the leaderboard."""
    boards = {}
    for scoring in (SIMCSE, WHITENING):
        board = sts_board(results, methods, scoring, sizes)
        if board is not None:
            boards[scoring] = board
    return boards


def encoder_parts(
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
        stored = comparisons.get(f"{encoder}.{scoring.id}")
        parts += timed_parts(board, results, scoring, stored)
    return parts


def encoder_page(
    results: Results,
    registry: Registry,
    encoder: str,
    methods: Sequence[str],
    sizes: Mapping[str, EncoderSize],
) -> Page:
    """Every protocol of one encoder, then the other sections; `sizes` are of all encoders."""
    parts = [texts()["how-to-read"], *origin_notes(results, methods)]
    parts += method_notes(registry, methods)
    candidates = [sts_board(results, methods, scoring, sizes) for scoring in SCORINGS]
    for section in SECTIONS:
        candidates.append(section_board(section, results, registry, methods, sizes))
    boards = [board for board in candidates if board is not None]
    for board in boards:
        parts += board_parts(board, "## {}")
    return Page(title=encoder, parts=parts, records=records_of_boards(boards, results))
