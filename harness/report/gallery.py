"""The pictures that records and published numbers make, by the file that holds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.core.toml import read_toml
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
from harness.results.reproduction import Reproduction


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
