"""The tables of docs/flows.md: the noise of encodings, and scores under two floors of coordinates.

A flow leaves out the coordinates whose range is below a floor, a share of the widest
range. The floor is 1e-6 (`harness/transforms/flows.py`). It was 3e-5 for a time, and
mpnet-base's flows on the last layer were measured with that: their scores under both
floors are in `results/records/flow_floors.json`. Noise is how far the encodings of the
same sentences differ when they are made in several ways; it is in `encoding_noise.json`
(`benchmarks/encoding_noise.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.core.scores import ScorePath
from harness.core.toml import read_sealed
from harness.report.markdown import between_markers, table
from harness.results.index import value

OVER_ALL_PAIRS: ScorePath = ("spearman", "all")
OVER_SUBSETS: ScorePath = ("spearman", "wmean")
NOISE_HEAD = (
    "",
    "coordinates",
    "largest noise / widest range",
    "least deviation / noise",
    "narrow: number, range / widest range",
)
SUMMARY_HEAD = (
    "flow and fit corpus",
    "cells",
    "moved, over all scores",
    "largest range over seeds, 1e-6",
    "largest range over seeds, 3e-5",
)
NARROW_SHARE = 1e-3  # of the widest range; narrower coordinates are listed


# The noise of encodings


@dataclass(frozen=True)
class Coordinate:
    """A coordinate of an encoder's vectors.

    Attributes:
        number: Its number, from 0.
        mean: Its mean over sentences.
        deviation: Its standard deviation over sentences.
        of_widest: Its range over sentences, as a share of the widest coordinate's range.
        noise: The root mean square, over sentences and ways to encode them, of the
            difference to the mean of all ways.
    """

    number: int
    mean: float
    deviation: float
    of_widest: float
    noise: float

    @property
    def ratio(self) -> float:
        """The deviation as a multiple of the noise."""
        return self.deviation / self.noise if self.noise else float("inf")


@dataclass(frozen=True)
class EncodingNoise:
    """The noise of the coordinates of one encoder and pooling.

    Attributes:
        encoder: The encoder.
        pooling: The pooling.
        dimensions: How many coordinates there are.
        of_widest: The largest noise of a coordinate, as a share of the widest range.
        rounding: The noise of a coordinate as a share of its largest absolute value, in
            units of float32's epsilon: the least, the median and the largest.
        ratios: The deviation of a coordinate as a multiple of its noise: the least, the
            median and the largest.
        least: The coordinates with the smallest ratios of deviation and noise.
    """

    encoder: str
    pooling: str
    dimensions: int
    of_widest: float
    rounding: tuple[float, float, float]
    ratios: tuple[float, float, float]
    least: tuple[Coordinate, ...]


@dataclass(frozen=True)
class MeasuredNoise:
    """The content of `encoding_noise.json`.

    Attributes:
        environment: Where it was measured.
        task: The task whose sentences were encoded.
        sentences: How many sentences.
        ways: The ways in which they were encoded.
        noise: The noise of each encoder and pooling.
    """

    environment: Mapping[str, Any]
    task: str
    sentences: int
    ways: tuple[str, ...]
    noise: tuple[EncodingNoise, ...]


def noise_table(path: Path) -> str:
    """A line for each encoder and pooling, with its narrow coordinates."""
    lines = []
    for noise in read_sealed(MeasuredNoise, path).noise:
        narrow_coordinates = []
        for coordinate in noise.least:
            if coordinate.of_widest < NARROW_SHARE:
                narrow_coordinates.append(
                    f"{coordinate.number}: {coordinate.of_widest:.1g}, "
                    f"{coordinate.ratio:.1g} times its noise"
                )
        least_ratio, _, _ = noise.ratios
        lines.append(
            [
                f"`{noise.encoder}.{noise.pooling}`",
                noise.dimensions,
                f"{noise.of_widest:.1e}",
                f"{least_ratio:.1e}",
                "; ".join(narrow_coordinates) or "none",
            ]
        )
    return table(NOISE_HEAD, lines, word_columns=1)


# Scores under two floors


@dataclass(frozen=True)
class FloorRow:
    """A score of a cell under both floors; no scores where it was not measured with one.

    Attributes:
        method: The method.
        task: The task.
        score: The path of the score in a record.
        low: The score of each seed with the floor 1e-6, in points.
        high: The same with the floor 3e-5.
        floor: The floor of the record that is committed.
    """

    method: str
    task: str
    score: ScorePath
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: str

    @property
    def is_measured_twice(self) -> bool:
        """Whether it was measured with both floors."""
        return bool(self.low and self.high)

    @property
    def move(self) -> float:
        """The mean over seeds without the narrow coordinate, minus the mean with it."""
        return fmean(self.high) - fmean(self.low)

    @property
    def calibration(self) -> str:
        """The post-processor and its fit corpus, as the method's id has them."""
        return self.method.partition("+")[2]

    def equals(self, row: FloorRow) -> bool:
        """Whether it has the scores of another row, under both floors."""
        return (self.low, self.high) == (row.low, row.high)


@dataclass(frozen=True)
class StoredRows:
    """The content of `flow_floors.json`."""

    rows: tuple[FloorRow, ...]


def read_floors(path: Path) -> tuple[FloorRow, ...]:
    """Every row that the floor moves. Raises DataError for a damaged file."""
    return read_sealed(StoredRows, path).rows


def floors_table(rows: Sequence[FloorRow]) -> str:
    """A line for each score that was measured with both floors."""
    rows_over_all_pairs = {
        (row.method, row.task): row for row in rows if row.score == OVER_ALL_PAIRS
    }
    lines = []
    for row in rows:
        if not row.is_measured_twice:
            continue
        if row.score == OVER_SUBSETS:
            row_over_all_pairs = rows_over_all_pairs.get((row.method, row.task))
            if row_over_all_pairs is not None and row.equals(row_over_all_pairs):
                continue  # the pairs of the task are one set: the line would be there twice
        low, high = value(row.low), value(row.high)
        lines.append(
            [
                f"`{row.method}`",
                row.task,
                " ".join(row.score),
                str(low),
                str(high),
                f"{row.move:+.2f}",
            ]
        )
    return table(
        ["method", "task", "score", "1e-6", "3e-5", "moved"], lines, word_columns=3
    )


def summary_table(rows: Sequence[FloorRow]) -> str:
    """A line for each flow and fit corpus: how far scores move, and how far seeds differ."""
    rows_by_calibration: dict[str, list[FloorRow]] = {}
    for row in rows:
        if row.is_measured_twice:
            rows_by_calibration.setdefault(row.calibration, []).append(row)
    lines = []
    for calibration, its_rows in sorted(rows_by_calibration.items()):
        moves = [row.move for row in its_rows]
        lines.append(
            [
                f"`{calibration}`",
                len({(row.method, row.task) for row in its_rows}),
                f"{min(moves):+.2f} to {max(moves):+.2f}",
                f"{max(max(row.low) - min(row.low) for row in its_rows):.2f}",
                f"{max(max(row.high) - min(row.high) for row in its_rows):.2f}",
            ]
        )
    return table(SUMMARY_HEAD, lines, word_columns=1)


def one_floor_table(rows: Sequence[FloorRow]) -> str:
    """The methods and tasks that were measured with the floor of 3e-5 alone."""
    tasks_by_method: dict[str, dict[str, None]] = {}  # each task once
    for row in rows:
        if not row.low:
            tasks_by_method.setdefault(row.method, {})[row.task] = None
    lines = [
        [f"`{method}`", len(tasks), ", ".join(tasks)]
        for method, tasks in tasks_by_method.items()
    ]
    return table(["method", "tasks", "which"], lines, word_columns=1)


# The page


def floors_part(rows: Sequence[FloorRow]) -> str:
    """The part of the page on both floors."""
    cells = {(row.method, row.task) for row in rows}
    cells_of_both_floors = {
        (row.method, row.task) for row in rows if row.is_measured_twice
    }
    cells_of_one_floor = cells - cells_of_both_floors
    cells_to_replace = {
        (row.method, row.task)
        for row in rows
        if row.is_measured_twice and row.floor == "3e-5"
    }
    exception = ""
    if cells_to_replace:
        exception = (
            f", except of {len(cells_to_replace)} cells: an average over tasks is of one floor, "
            "and their methods are not measured again on all tasks"
        )
    paragraphs = [
        f"{len(cells)} cells of methods and tasks are on the last layer of `mpnet-base`. "
        f"{len(cells_of_both_floors)} of them were measured with both floors, five seeds each. The "
        f"committed records are those of 1e-6{exception}. In short, in points:",
        summary_table(rows),
        "Each score:",
        floors_table(rows),
        f"The other {len(cells_of_one_floor)} were measured with the floor of 3e-5 alone. "
        "Their numbers are those of a flow without the coordinate until they are measured "
        "again:",
        one_floor_table(rows),
    ]
    return "\n\n".join(paragraphs)


def flows_page(text: str, records: Path) -> str:
    """The page on flows with both of its parts made anew, from the records of that folder."""
    noise = noise_table(records / "encoding_noise.json")
    floors = floors_part(read_floors(records / "flow_floors.json"))
    text = between_markers(text, "noise", noise)
    return between_markers(text, "floors", floors)
