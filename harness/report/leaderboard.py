"""The leaderboard, and the page of each encoder.

The leaderboard begins with the papers' tables, published beside measured. After them
come all methods, under the two protocols of the papers. The page of an encoder has its
methods under every protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.files import file_name
from harness.core.types import Record, Section
from harness.registry import Registry
from harness.report.boards import SECTIONS, section_board, seven_tasks
from harness.report.front import measured_most, missing, papers_tables, published_tables
from harness.report.markdown import escape
from harness.report.papers import legend
from harness.report.render import rendered
from harness.report.sentences import origin_in_words
from harness.results.encoder_sizes import in_groups
from harness.results.folder import ResultsFolder
from harness.results.index import Results, methods_by_encoder
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import compose_method
from harness.results.scorings import SCORINGS, SIMCSE, WHITENING

SECTIONS_OF_LEADERBOARD: tuple[Section, ...] = ("transfer", "embedded")


def encoder_file(encoder: str) -> str:
    """The file of an encoder's page."""
    return f"{file_name(encoder)}.md"


def leaderboard(folder: ResultsFolder) -> str:
    """The whole page."""
    results = folder.records
    boards = [
        seven_tasks(results.methods, scoring, folder) for scoring in (SIMCSE, WHITENING)
    ]
    boards += [
        section_board(section, results.methods, folder)
        for section in SECTIONS_OF_LEADERBOARD
    ]
    links_by_size = {}
    encoders = methods_by_encoder(results.methods)
    for size, names in in_groups(encoders, folder.encoder_sizes).items():
        links_by_size[size.heading] = [
            f"[{escape(name)}](tables/{encoder_file(name)})" for name in names
        ]
    return rendered(
        "leaderboard.md",
        title="Leaderboard",
        measured_most=measured_most(folder),
        missing=missing(folder),
        papers=papers_tables(folder),
        legend=legend(),
        published_tables=published_tables(folder),
        boards=[board for board in boards if board is not None],
        links_by_size=links_by_size,
        notes=origin_notes(results, results.methods),
        digest=results.digest(),
    )


def encoder_page(encoder: str, folder: ResultsFolder) -> str:
    """Where an encoder is from, and its methods under every protocol."""
    results, registry = folder.records, folder.registry
    methods = methods_by_encoder(results.methods)[encoder]
    own = results.select(cell for cell in results.by_cell if cell[0] in methods)
    boards = [
        seven_tasks(methods, scoring, folder, encoder=encoder) for scoring in SCORINGS
    ]
    boards += [section_board(section, methods, folder) for section in SECTIONS]
    notes = [
        _weights_note(encoder, own, registry),
        *origin_notes(own, methods),
        *method_notes(registry, methods),
    ]
    return rendered(
        "encoder.md",
        title=encoder,
        boards=[board for board in boards if board is not None],
        notes=notes,
        digest=own.digest(),
    )


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


def _weights_note(encoder: str, own: Results, registry: Registry) -> str:
    """Where the weights of an encoder come from, what they were trained on, and their licence."""
    config = registry.encoders.get(encoder.partition(":")[0])
    if config is None:
        return "Weights: by hand, unpinned."
    records: list[Record] = []
    for records_of_cell in own.by_cell.values():
        records += records_of_cell
    origin = origin_in_words(origin_of_encoder(config, records))
    return (
        f"Weights: {escape(origin)}. Trained on: {escape(config.trained_on)}. "
        f"Licence: {escape(config.licence)}."
    )
