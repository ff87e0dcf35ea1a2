"""The leaderboard, and the page of each encoder.

The leaderboard begins with the papers' tables, published beside measured. After them
come all methods, under the two protocols of the papers. The page of an encoder has its
methods under every protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.conclusions.encoder_sizes import in_groups
from harness.conclusions.folder import Conclusions
from harness.core.files import file_name
from harness.core.types import Section
from harness.registry import Registry
from harness.report.boards import SECTIONS, boards
from harness.report.front import PAPERS_TABLES, published_tables
from harness.report.papers import legend, published_table
from harness.report.table import markdown, rendered
from harness.report.training import TrainingPicture, courses_of, training_table
from harness.results.index import Results, methods_by_encoder
from harness.results.origins import origin_of_encoder
from harness.results.reproduction import compose_method
from harness.results.scorings import COMPARED_SCORINGS, SCORINGS, SIMCSE

SECTIONS_OF_LEADERBOARD: tuple[Section, ...] = ("transfer", "embedded")


def encoder_file(encoder: str) -> str:
    """The file of an encoder's page, in a folder of its own: no page is called as an encoder."""
    return f"encoders/{file_name(encoder)}.md"


def leaderboard(folder: Conclusions, begins_with: Mapping[str, Any]) -> str:
    """The whole page, which begins with what `front` says."""
    methods = folder.records.methods
    tables = {table.id: table for table in folder.tables}
    papers = []
    for name in PAPERS_TABLES:
        if name in tables:
            shown = published_table(tables[name], folder, with_footnotes=False)
            papers.append((tables[name], shown))
    return rendered(
        "leaderboard.md",
        title="Leaderboard",
        papers=papers,
        legend=legend(),
        published_tables=published_tables(folder),
        boards=boards(methods, folder, COMPARED_SCORINGS, SECTIONS_OF_LEADERBOARD),
        encoders=in_groups(methods_by_encoder(methods), folder.encoder_sizes),
        encoder_file=encoder_file,
        has_atlas=bool(folder.atlases),
        digest=folder.records.digest,
        **begins_with,
        **_origins(folder.records, methods),
    )


def encoder_page(encoder: str, folder: Conclusions) -> str:
    """Where an encoder is from, and its methods under every protocol."""
    methods = methods_by_encoder(folder.records.methods)[encoder]
    own_methods = {*methods}
    own = folder.records.select(
        cell for cell in folder.records.by_cell if cell[0] in own_methods
    )
    config = folder.registry.encoders.get(encoder.partition(":")[0])
    weights = ["by hand, unpinned"]
    if config is not None:
        copies = [copy for name in methods for copy in folder.records.copies(name)]
        origin = origin_of_encoder(config, copies)
        weights = [str(origin)]
        if not origin.difference:
            weights += [
                f"Trained on: {config.trained_on}",
                f"Licence: {config.licence}",
            ]
    notes: dict[str, list[str]] = {}  # such as a deviation from the paper
    for name in methods:
        method = compose_method(name, folder.registry)
        if method is not None and method.note:
            notes.setdefault(method.note, []).append(f"`{name}`")
    courses = courses_of(methods, folder.records)
    return rendered(
        "encoder.md",
        title=encoder,
        training=training_table(courses) if courses else None,
        training_picture=TrainingPicture(encoder, courses).file,
        boards=boards(methods, folder, SCORINGS, SECTIONS, with_ties=True),
        weights=weights,
        notes=notes,
        digest=own.digest,
        **_origins(own, methods),
    )


def _origins(results: Results, methods: Sequence[str]) -> Mapping[str, Any]:
    """Which methods were measured here, and which by plug-ins.

    The first are None where no other methods come with the harness.
    """
    measured_here = None
    if results.packaged:
        measured_here = [
            f"`{method}`" for method in methods if method not in results.packaged
        ]
    plugins: dict[str, dict[str, None]] = {}  # each method once
    for (method, _), records in results.by_cell.items():
        for name, version in records[0].facts.get("plugins", {}).items():
            plugins.setdefault(f"{name} {version}", {})[f"`{method}`"] = None
    return {"measured_here": measured_here, "plugins": plugins}


def examples_part(records: Path, registry: Registry) -> str:
    """A table of each encoder: the example plug-ins, and what comes with the harness."""
    folder = Conclusions(records, registry)
    tables = []
    for methods in methods_by_encoder(folder.records.methods).values():
        tables += boards(methods, folder, [SIMCSE], [])
    return "\n\n".join(map(markdown, tables))
