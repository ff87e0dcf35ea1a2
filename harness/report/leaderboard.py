"""The pages of the leaderboard: one of all encoders, and one for each encoder.

The leaderboard has a chapter for each size of encoders, then chapters on other sections.
An encoder's page has its boards under every protocol. What is printed of a board and
above it comes after the pages.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.files import file_name
from harness.core.types import Record, Section, is_transductive
from harness.registry import Registry
from harness.report.boards import (
    SECTIONS,
    Board,
    Sizes,
    records_of_boards,
    section_board,
    sts_board,
)
from harness.report.markdown import Page, escape, link_to, table, texts
from harness.report.sentences import origin_in_words
from harness.results.comparisons import Comparisons
from harness.results.costs import milliseconds, shared_the_machine
from harness.results.encoder_sizes import in_groups, sizes_of_encoders
from harness.results.index import Results, encoder_of_method
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import compose_method
from harness.results.scorings import (
    SCORINGS,
    SIMCSE,
    WHITENING,
    Scoring,
    complete_encoders,
)
from harness.results.verdict import CellState

# The headings of chapters of the leaderboard.
PUBLISHED_HEADING = "Published and measured"
SOME_TASKS_HEADING = "On some tasks only"
UNMEASURED_HEADING = "Published tables without a measured number"
SECTIONS_OF_LEADERBOARD: tuple[Section, ...] = ("transfer", "embedded")

COST_HEADING = "ms / sentence"
NOT_TIMED = "not timed"
SHARED_MACHINE_MARK = " ‡"  # of a cost that other processes may have raised


# The leaderboard


@dataclass(frozen=True)
class _Chapter:
    """A chapter of the leaderboard.

    Attributes:
        contents: Its line in the list of contents, with links.
        parts: Its Markdown, from the heading on.
        boards: The boards that are printed in it.
    """

    contents: str
    parts: Sequence[str]
    boards: Sequence[Board] = ()


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
    chapters = [
        _chapter_on_published(results, counts),
        *_chapters_of_encoders(results, registry, sizes, comparisons),
        *_chapters_of_other_boards(results, registry, sizes),
    ]
    if unmeasured:
        heading = UNMEASURED_HEADING
        chapters.append(_Chapter(link_to(heading), [f"## {heading}", unmeasured]))
    parts = ["\n".join(f"* {chapter.contents}" for chapter in chapters)]
    boards: list[Board] = []
    for chapter in chapters:
        parts += chapter.parts
        boards += chapter.boards
    return Page(
        title="Leaderboard", parts=parts, records=records_of_boards(boards, results)
    )


def _chapter_on_published(results: Results, counts: str) -> _Chapter:
    """The counts of the papers, and how the tables below are read."""
    parts = [
        f"## {PUBLISHED_HEADING}",
        counts,
        texts()["papers"],
        "## How to read the tables",
        texts()["how-to-read"],
        texts()["cost"],
        *origin_notes(results, results.methods),
    ]
    return _Chapter(link_to(PUBLISHED_HEADING), parts)


def _chapters_of_encoders(
    results: Results,
    registry: Registry,
    sizes: Sizes,
    comparisons: Mapping[str, Comparisons],
) -> Iterator[_Chapter]:
    """A chapter for each size of the encoders that were measured on all seven tasks."""
    methods_by_encoder = complete_encoders(results)
    for size, encoders in in_groups(methods_by_encoder, sizes).items():
        links = ", ".join(link_to(encoder) for encoder in encoders)
        parts = [f"## {size.heading}"]
        boards: list[Board] = []
        for encoder in encoders:
            methods = methods_by_encoder[encoder]
            parts += [
                f"### {escape(encoder)}",
                _weights_note(encoder, methods, results, registry),
                *method_notes(registry, methods),
            ]
            for scoring in (SIMCSE, WHITENING):
                board = sts_board(results, methods, scoring, sizes)
                if board is not None:
                    compared_rows = comparisons.get(f"{encoder}.{scoring.id}")
                    parts += timed_parts(board, results, scoring, compared_rows)
                    boards.append(board)
        yield _Chapter(f"{link_to(size.heading)}: {links}", parts, boards)


def _chapters_of_other_boards(
    results: Results, registry: Registry, sizes: Sizes
) -> Iterator[_Chapter]:
    """The encoders that were measured on some of the seven tasks, then the other sections."""
    encoders_on_all_tasks = complete_encoders(results)
    methods_on_some_tasks = [
        method
        for method in results.methods
        if encoder_of_method(method) not in encoders_on_all_tasks
    ]
    board = sts_board(results, methods_on_some_tasks, SIMCSE, sizes)
    if board is not None:
        parts = timed_parts(board, results, SIMCSE, comparisons=None)
        heading = SOME_TASKS_HEADING
        yield _Chapter(link_to(heading), [f"## {heading}", *parts], [board])
    for section in SECTIONS_OF_LEADERBOARD:
        board = section_board(section, results, registry, results.methods, sizes)
        if board is not None:
            yield _Chapter(
                link_to(board.title), board_parts(board, f"## {board.title}"), [board]
            )


# The page of an encoder


def encoder_page(
    results: Results,
    registry: Registry,
    encoder: str,
    methods: Sequence[str],
    sizes: Sizes,
) -> Page:
    """Every protocol of one encoder, then the other sections.

    Args:
        results: All records.
        registry: Methods and tasks by name.
        encoder: The encoder.
        methods: Its methods.
        sizes: The sizes of all encoders.
    """
    boards = []
    for scoring in SCORINGS:
        boards.append(sts_board(results, methods, scoring, sizes))
    for section in SECTIONS:
        boards.append(section_board(section, results, registry, methods, sizes))
    boards_with_rows = [board for board in boards if board is not None]

    parts = [texts()["how-to-read"], *origin_notes(results, methods)]
    parts += method_notes(registry, methods)
    for board in boards_with_rows:
        parts += board_parts(board, f"## {board.title}")
    return Page(
        title=encoder, parts=parts, records=records_of_boards(boards_with_rows, results)
    )


# Notes above boards


def origin_notes(results: Results, methods: Sequence[str]) -> list[str]:
    """Which methods were measured here, and which by plug-ins.

    The first is said only where other methods come with the harness.
    """
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
    name_without_length = encoder.partition(":")[0]
    config = registry.encoders.get(name_without_length)
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


# A board in Markdown


def method_label(method: str) -> str:
    """The method's id, marked where it was fitted on the sentences that are scored."""
    return f"`{method}` †" if is_transductive(method) else f"`{method}`"


def board_parts(
    board: Board,
    heading: str,
    tied_methods: Collection[str] = (),
    costs: Mapping[str, str] | None = None,
) -> list[str]:
    """A board under a heading, with its introduction and its note on coverage.

    Args:
        board: The board.
        heading: The heading, in Markdown.
        tied_methods: The methods that are not distinguishable from the row above.
        costs: The cost of each method, for a last column; None: there is no such column.
    """
    head = ["method", *(column.heading for column in board.columns)]
    if costs is not None:
        head.append(COST_HEADING)
    has_several_sizes = len(set(board.size_of_row.values())) > 1
    size_of_row_above = None
    lines: list[list[object]] = []
    for method, values in board.rows:
        size = board.size_of_row[method]
        if has_several_sizes and size is not size_of_row_above:
            empty_cells = [""] * (len(head) - 1)
            lines.append([f"*{size.heading}*", *empty_cells])
        size_of_row_above = size
        label = method_label(method)
        if method in tied_methods:
            label += " ≈"
        line: list[object] = [label, *values]
        if costs is not None:
            line.append(costs[method])
        lines.append(line)
    parts = [heading, board.about, table(head, lines), board.coverage]
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
    costs: dict[str, str] = {}
    for method, values in board.rows:
        average = values[-1].mean
        if average is not None:
            averages[method] = average
        costs[method] = cost_in_words(results, method, scoring)
    heading = f"**{board.title}**"
    if comparisons is not None and comparisons.hold_for(averages):
        note = "compared-over-seeds" if comparisons.over_seeds else "compared-seed-0"
        tied_methods = comparisons.indistinguishable
        parts = board_parts(board, heading, tied_methods, costs)
        return [*parts, texts()[note]]
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
