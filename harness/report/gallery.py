"""The pictures that records and published numbers make, by the file that holds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.files import write_atomically
from harness.core.toml import read_toml
from harness.registry import load_registry
from harness.report import (
    cost_chart,
    directions_chart,
    reproduction_chart,
    seeds_chart,
    steps_chart,
)
from harness.report.pictures import Picture
from harness.results.index import Results
from harness.results.layout import QUESTIONS
from harness.results.published_files import load_tables
from harness.results.records import Store
from harness.results.reproduction import Reproduction, reproductions


def write_pdfs(folder: Path, papers: Path, into: Path) -> list[Path]:
    """Write each picture as a PDF, as LaTeX includes them; returns the files."""
    records, registry = Results.read(Store(folder)), load_registry()
    cells = [reproductions(table, records.unread(), registry) for table in load_tables(papers)]
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
    own = [results.unread() for _ in range(5)]
    made = {
        reproduction_chart.PICTURE: reproduction_chart.published_against_measured(
            every.values(), own[0]
        ),
        steps_chart.PICTURE: steps_chart.protocol_steps(steps, published, own[1])
        if steps
        else None,
        directions_chart.PICTURE: directions_chart.score_against_directions(own[2]),
        seeds_chart.PICTURE: seeds_chart.seeds_of_methods(own[3]),
        cost_chart.PICTURE: cost_chart.quality_against_cost(own[4]),
    }
    return {name: picture for name, picture in made.items() if picture is not None}
