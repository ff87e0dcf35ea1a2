"""The leaderboard: every method of every encoder on the seven STS tasks, then other sections.

A `Board` is one of its tables, for the Markdown here and for the page of results alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.files import file_name
from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import LeaderboardColumn, Section, Task, is_transductive
from harness.registry import Registry
from harness.report.coverage import coverage_notes
from harness.report.markdown import Page, escape, table, texts
from harness.report.sentences import origin_in_words
from harness.results import scorings
from harness.results.comparisons import Comparisons
from harness.results.costs import milliseconds, shared_the_machine
from harness.results.index import CellName, Results, Value
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import composed
from harness.results.scorings import SCORINGS, SIMCSE, WHITENING, Scoring
from harness.results.verdict import CellState

# The headings of the sections beside the seven tasks; `texts.toml` has what to know of some.
SECTIONS: Mapping[Section, str] = {
    "other": "Other tasks",
    "transfer": "Transfer (accuracy)",
    "embedded": "Embedded tasks",
}
COST = "ms / sentence"
NOT_TIMED = "not timed"
BESIDE = " ‡"


@dataclass(frozen=True)
class BoardColumn:
    """A column: heading, task, and the path of the score in a record; an average has neither."""

    heading: str
    task: str = ""
    path: ScorePath = ()


@dataclass(frozen=True)
class Board:
    """A table of methods by tasks, best first.

    Attributes:
        about: What to know of its tasks.
        coverage: Which shares of the words have a vector.
        legend_cells: Method and task of the measured cells whose scores `about` names.
    """

    id: str
    title: str
    about: str
    coverage: str
    columns: Sequence[BoardColumn]
    rows: Sequence[tuple[str, Sequence[Value]]]
    legend_cells: Sequence[CellName] = ()

    @property
    def cells(self) -> list[CellName]:
        """Method and task of each measured cell that it shows."""
        tasks = [column.task for column in self.columns if column.task]
        shown = [(method, task) for method, _ in self.rows for task in tasks]
        return [*shown, *self.legend_cells]


def sts_board(results: Results, methods: Sequence[str], protocol: Scoring) -> Board | None:
    """The seven tasks and their average; None where no method has any of them."""
    every = ((method, scorings.seven_values(results, method, protocol)) for method in methods)
    rows = [line for line in every if any(value.mean is not None for value in line[1])]
    rows = scorings.best_first(rows, column=-1)
    tasks = protocol.tasks_by_label
    coverage = coverage_notes(results, [method for method, _ in rows], tasks)
    path = (protocol.correlation, protocol.aggregation)
    columns = [BoardColumn(heading, task, path) for heading, task in tasks.items()]
    columns.append(BoardColumn("Avg."))
    return Board(protocol.id, title_of(protocol), "", coverage, columns, rows) if rows else None


def section_board(
    name: Section, results: Results, registry: Registry, methods: Sequence[str]
) -> Board | None:
    """A section beside the seven tasks; None where no method has a value."""
    columns = scorings.columns_of_section(name, registry.tasks.values())
    rows = scorings.rows_of_columns(columns, results, methods)
    rows = rows if name == "other" else scorings.best_first(rows, column=0)
    if not rows:
        return None
    tasks = {column.heading: task.name for task, column in columns}
    coverage = coverage_notes(results, [method for method, _ in rows], tasks)
    about = [texts()[name]] if name in texts() else []
    legend_cells = []
    for task, column in columns:
        method = _method_of_legend(results, task, column)
        if method is not None:
            about.append(_legend(results, method, task, column))
            legend_cells.append((method, task.name))
    shown = [
        BoardColumn(column.heading, task.name, column.score or metric_of(task).main_score)
        for task, column in columns
    ]
    return Board(
        id=name,
        title=SECTIONS[name],
        about=" ".join(about),
        coverage=coverage,
        columns=shown,
        rows=rows,
        legend_cells=legend_cells,
    )


def _method_of_legend(results: Results, task: Task, column: LeaderboardColumn) -> str | None:
    """The first method that has every score that a column's legend names; None without a legend."""
    if not column.legend:
        return None
    for method in results.by_task.get(task.name, ()):
        values = [results.value(method, task.name, name) for name in column.legend_scores]
        if all(value.mean is not None for value in values):
            return method
    return None


def _legend(results: Results, method: str, task: Task, column: LeaderboardColumn) -> str:
    """A column's legend, with the scores of a method in it."""
    values = {name: results.value(method, task.name, name) for name in column.legend_scores}
    return column.legend.format(**values)


def label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}`" + (" †" if is_transductive(method) else "")


def board_parts(
    board: Board,
    heading: str,
    marks: Mapping[str, str] | None = None,
    costs: Mapping[str, str] | None = None,
) -> list[str]:
    """A board under its heading; `marks` stand behind methods, `costs` in a last column."""
    head = ["method", *(column.heading for column in board.columns), *([COST] if costs else [])]
    lines = [
        [label(m) + (marks or {}).get(m, ""), *values, *([costs[m]] if costs else [])]
        for m, values in board.rows
    ]
    parts = heading.format(board.title), board.about, table(head, lines), board.coverage
    return list(filter(None, parts))


def origin_notes(results: Results, methods: Sequence[str]) -> list[str]:
    """Which methods were measured here, where others are packaged, and which by plug-ins."""
    here = ", ".join(f"`{m}`" for m in methods if m not in results.packaged)
    note = f"Measured here, at least in part: {here or 'none'}. All others come with the harness."
    by_plugin: dict[str, dict[str, None]] = {}
    for (method, _), records in results.by_cell.items():
        plugins = records[0].facts.get("plugins", {}) if method in methods else {}
        for name, version in plugins.items():
            by_plugin.setdefault(f"{name} {version}".strip(), {})[f"`{method}`"] = None
    named = (f"{escape(name)} ({', '.join(chosen)})" for name, chosen in by_plugin.items())
    plugins_note = f"By plug-ins, which do not come with the harness: {'; '.join(named)}."
    return [note] * bool(results.packaged) + [plugins_note] * bool(by_plugin)


def method_notes(registry: Registry, methods: Sequence[str]) -> list[str]:
    """What is to be known of methods, each note with those that have it."""
    noted: dict[str, list[str]] = {}
    for name in methods:
        method = composed(name, registry)
        if method is not None and method.note:
            noted.setdefault(method.note, []).append(f"`{name}`")
    return [f"{', '.join(names)}: {escape(note)}." for note, names in noted.items()]


def title_of(scoring: Scoring) -> str:
    """The heading of a table: `` Spearman, `all`, SentEval text ``."""
    text = "SentEval text" if scoring.text == "senteval" else "raw text"
    return f"{scoring.correlation.capitalize()}, `{scoring.aggregation}`, {text}"


def cost_of(results: Results, method: str, protocol: Scoring) -> str:
    """Milliseconds a sentence with two digits, or why there are none."""
    cost = milliseconds(results, method, protocol)
    if cost is None:
        tasks = protocol.tasks_by_label.values()
        ran = any((method, task) in results.by_cell for task in tasks)
        return NOT_TIMED if ran else CellState.NOT_RUN
    shared = BESIDE if shared_the_machine(results, method, protocol) else ""
    return f"{cost:.{max(0, 1 - math.floor(math.log10(cost)))}f}{shared}"


def leaderboard(
    results: Results, registry: Registry, counts: str, comparisons: Mapping[str, Comparisons]
) -> Page:
    """The whole page: how much of the papers was reproduced, then every encoder."""
    parts = ["## Published beside measured", counts, texts()["papers"], "## Measured"]
    parts += [texts()["how-to-read"], texts()["cost"], *origin_notes(results, results.methods)]
    shown: list[Board] = []

    def timed(methods: Sequence[str], protocol: Scoring, table_id: str = "") -> list[str]:
        board = sts_board(results, methods, protocol)
        if board is None:
            return []
        shown.append(board)
        costs = {method: cost_of(results, method, protocol) for method in methods}
        averages = scorings.averages(results, methods, protocol)
        compared = comparisons.get(table_id)
        tested = compared is not None and compared.hold_for(averages)
        ties = compared.indistinguishable if compared and tested else ()
        parts = board_parts(board, "**{}**", dict.fromkeys(ties, " ≈"), costs)
        if compared is not None and tested:
            return [
                *parts,
                texts()[f"compared-{'over-seeds' if compared.over_seeds else 'seed-0'}"],
            ]
        return parts if len(averages) < 2 else [*parts, texts()["not-compared"]]

    complete = scorings.complete_encoders(results)
    for encoder, methods in complete.items():
        parts.append(f"### {escape(encoder)}")
        config = registry.encoders.get(encoder.partition(":")[0])
        records = [r for (m, _), rs in results.by_cell.items() if m in methods for r in rs]
        if config is None:
            parts.append("Weights: by hand, unpinned.")
        else:
            parts.append(
                f"Weights: {escape(origin_in_words(origin_of_encoder(config, records)))}. "
                f"Trained on: {escape(config.trained_on)}. Licence: {escape(config.licence)}. "
                f"Every protocol: [tables](tables/{file_name(encoder)}.md)."
            )
        parts += method_notes(registry, methods)
        for protocol in (SIMCSE, WHITENING):
            parts += timed(methods, protocol, f"{encoder}.{protocol.id}")
    rest = [method for method in results.methods if method.partition(".")[0] not in complete]
    if rows := timed(rest, SIMCSE):
        parts += ["### On some tasks only", *rows]
    for name in ("transfer", "embedded"):
        board = section_board(name, results, registry, results.methods)
        if board is not None:
            shown.append(board)
            parts += board_parts(board, "### {}")
    return Page("Leaderboard", parts, records_of_boards(shown, results))


def encoder_page(
    results: Results, registry: Registry, encoder: str, methods: Sequence[str]
) -> Page:
    """Every protocol of one encoder, then the other sections."""
    parts = [texts()["how-to-read"], *origin_notes(results, methods)]
    parts += method_notes(registry, methods)
    boards = [sts_board(results, methods, protocol) for protocol in SCORINGS]
    boards += [section_board(name, results, registry, methods) for name in SECTIONS]
    shown = [board for board in boards if board is not None]
    for board in shown:
        parts += board_parts(board, "## {}")
    return Page(encoder, parts, records_of_boards(shown, results))


def records_of_boards(boards: Iterable[Board], results: Results) -> Results:
    """The records that some boards show."""
    return results.select(cell for board in boards for cell in board.cells)
