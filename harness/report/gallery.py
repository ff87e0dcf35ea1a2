"""The pictures that records and published numbers make, by the file that holds each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.core.files import write_atomically
from harness.core.toml import read_toml
from harness.registry import Registry, load_registry
from harness.report import (
    alignment_chart,
    cost_chart,
    directions_chart,
    distance_chart,
    reproduction_chart,
    seeds_chart,
    spectrum_chart,
    steps_chart,
    words_chart,
)
from harness.report.pictures import Picture
from harness.results.index import Results
from harness.results.layout import QUESTIONS
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import Reproduction, reproductions

# The pictures that need nothing but records, in the order in which pages show them.
FROM_RECORDS: Mapping[str, Callable[[Results], Picture | None]] = {
    directions_chart.PICTURE: directions_chart.score_against_directions,
    seeds_chart.PICTURE: seeds_chart.seeds_of_methods,
    alignment_chart.PICTURE: alignment_chart.alignment_against_uniformity,
    spectrum_chart.PICTURE: spectrum_chart.spectrum_of_embeddings,
    distance_chart.PICTURE: distance_chart.similarity_against_distance,
    words_chart.PICTURE: words_chart.frequency_of_words,
    cost_chart.PICTURE: cost_chart.quality_against_cost,
}


def write_pdfs(
    folder: Path, papers: Path, into: Path, registry: Registry | None = None
) -> list[Path]:
    """Write each picture as a PDF, as LaTeX includes them; returns the files."""
    records, found = Results.read(Store(folder)), registry or load_registry()
    tables = load_tables(papers, found)
    cells = [reproductions(table, records.unread(), found) for table in tables]
    written = []
    for name, picture in gallery(papers.parent, cells, records).items():
        written.append(into / f"{Path(name).stem}.pdf")
        write_atomically(written[-1], picture.pdf())
    return written


def gallery(
    given: Path, cells: Sequence[Mapping[str, Reproduction]], results: Results
) -> dict[str, Picture]:
    """Every picture that something was measured for, in the order in which pages show them."""
    every = {name: cell for table in cells for name, cell in table.items()}
    path = given / QUESTIONS / "steps.toml"
    steps = read_toml(steps_chart.Steps, path) if path.exists() else None
    published = {name: one.cell for name, one in every.items()}
    made = {
        reproduction_chart.PICTURE: reproduction_chart.published_against_measured(
            every.values(), results.unread()
        ),
        steps_chart.PICTURE: steps_chart.protocol_steps(steps, published, results.unread())
        if steps
        else None,
        **{name: draw(results.unread()) for name, draw in FROM_RECORDS.items()},
    }
    return {name: picture for name, picture in made.items() if picture is not None}
