"""The leaderboard, and the page of each encoder.

The leaderboard begins with the papers' tables, published beside measured. After them
come the methods of this project, encoder by encoder. An encoder's page has its boards
under every protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.core.files import file_name
from harness.core.types import Record, Section
from harness.registry import Registry
from harness.report.boards import (
    SECTIONS,
    Board,
    Sizes,
    cost_in_words,
    section_board,
    sts_board,
)
from harness.report.front import Front
from harness.report.markdown import escape
from harness.report.render import Page
from harness.report.sentences import origin_in_words
from harness.results.comparisons import Comparisons
from harness.results.encoder_sizes import in_groups, sizes_of_encoders
from harness.results.index import CellName, Results, encoder_of_method
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import compose_method
from harness.results.scorings import (
    SCORINGS,
    SIMCSE,
    WHITENING,
    Scoring,
    averages,
    complete_encoders,
)

SEED_0_COMPARED = (
    "≈ compares seed 0 of each row over test items; averages are means over all seeds."
)
SEEDS_COMPARED = "≈ compares means over seeds, test items and seeds resampled together."
NOT_COMPARED = (
    "Neighbouring rows of this table were not compared, so no row is marked ≈."
)
SECTIONS_OF_LEADERBOARD: tuple[Section, ...] = ("transfer", "embedded")


@dataclass(frozen=True)
class EncoderPart:
    """The part of an encoder: its name, notes in Markdown, and its boards with remarks."""

    encoder: str
    notes: Sequence[str]
    boards: Sequence[tuple[Board, str]]


def leaderboard(
    results: Results,
    registry: Registry,
    comparisons: Mapping[str, Comparisons],
    front: Front | None = None,
) -> Page:
    """The whole page.

    Args:
        results: All records.
        registry: Methods and tasks by name.
        comparisons: The stored comparisons of neighbouring rows, by the name of their
            table.
        front: What was reproduced of the papers; None: the page has methods alone.
    """
    sizes = sizes_of_encoders(results, registry)
    methods_by_encoder = complete_encoders(results)
    parts_by_size: dict[str, list[EncoderPart]] = {}
    for size, encoders in in_groups(methods_by_encoder, sizes).items():
        parts = []
        for encoder in encoders:
            methods = methods_by_encoder[encoder]
            boards = [*_compared_boards(results, encoder, methods, sizes, comparisons)]
            notes = [
                _weights_note(encoder, methods, results, registry),
                *method_notes(registry, methods),
            ]
            parts.append(EncoderPart(encoder, notes, boards))
        parts_by_size[size.heading] = parts

    methods_on_some_tasks = [
        method
        for method in results.methods
        if encoder_of_method(method) not in methods_by_encoder
    ]
    some_tasks = [
        *_compared_boards(results, "", methods_on_some_tasks, sizes, {}, (SIMCSE,))
    ]
    sections = [
        section_board(section, results, registry, results.methods, sizes)
        for section in SECTIONS_OF_LEADERBOARD
    ]
    section_boards = [board for board in sections if board is not None]

    cells: list[CellName] = []
    for board in section_boards:
        cells += board.cells
    for board, _ in some_tasks:
        cells += board.cells
    for parts in parts_by_size.values():
        for part in parts:
            for board, _ in part.boards:
                cells += board.cells
    values = {
        "title": "Leaderboard",
        "front": front,
        "notes": origin_notes(results, results.methods),
        "parts_by_size": parts_by_size,
        "some_tasks": some_tasks,
        "sections": section_boards,
    }
    return Page("leaderboard.md", values, results.select(cells))


def _compared_boards(
    results: Results,
    encoder: str,
    methods: Sequence[str],
    sizes: Sizes,
    comparisons: Mapping[str, Comparisons],
    scorings: Sequence[Scoring] = (SIMCSE, WHITENING),
) -> Iterator[tuple[Board, str]]:
    """Boards of the seven tasks with costs, each with a remark on its ties.

    Ties are shown if the stored comparisons were made with the board's averages.
    """
    for scoring in scorings:
        means = averages(results, methods, scoring)
        compared = comparisons.get(f"{encoder}.{scoring.id}")
        tied: Collection[str] = ()
        remark = ""
        if compared is not None and compared.hold_for(means):
            tied = compared.indistinguishable
            remark = SEEDS_COMPARED if compared.over_seeds else SEED_0_COMPARED
        elif len(means) > 1:
            remark = NOT_COMPARED
        cost = partial(cost_in_words, results, scoring)
        facts = {"ms / sentence": cost}
        board = sts_board(results, methods, scoring, sizes, facts=facts, tied=tied)
        if board is not None:
            yield board, remark


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
    boards = [sts_board(results, methods, scoring, sizes) for scoring in SCORINGS]
    for section in SECTIONS:
        boards.append(section_board(section, results, registry, methods, sizes))
    shown = [board for board in boards if board is not None]
    cells: list[CellName] = []
    for board in shown:
        cells += board.cells
    notes = origin_notes(results, methods) + method_notes(registry, methods)
    values = {"title": encoder, "notes": notes, "boards": shown}
    return Page("encoder.md", values, results.select(cells))


# Notes above boards, in Markdown


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
    methods_by_plugin: dict[str, dict[str, None]] = {}  # each method once
    for (method, _), records in results.by_cell.items():
        if method in methods:
            for name, version in records[0].facts.get("plugins", {}).items():
                plugin = escape(f"{name} {version}")
                methods_by_plugin.setdefault(plugin, {})[f"`{method}`"] = None
    plugins = [
        f"{plugin} ({', '.join(names)})" for plugin, names in methods_by_plugin.items()
    ]
    if plugins:
        notes.append(
            f"By plug-ins, which do not come with the harness: {'; '.join(plugins)}."
        )
    return notes


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
    for (method, _), cell_records in results.by_cell.items():
        if method in methods:
            records += cell_records
    origin = origin_in_words(origin_of_encoder(config, records))
    return (
        f"Weights: {escape(origin)}. Trained on: {escape(config.trained_on)}. "
        f"Licence: {escape(config.licence)}. "
        f"Every protocol: [tables](tables/{file_name(encoder)}.md)."
    )
