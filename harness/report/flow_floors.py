"""The tables of the page on flows: the noise of encodings, and what the floor of coordinates moves.

Flows leave out coordinates whose range is below 1e-6 of the widest
(`harness/transforms/flows.py`). From version 0.3.0 on it was 3e-5 for a time, and
mpnet-base's flows on the last layer were measured with it:
`results/records/flow_floors.json` has the rows of both times, and
`benchmarks/encoding_noise.py` measures `encoding_noise.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.scores import ScorePath
from harness.core.toml import read_sealed
from harness.report.markdown import between_markers, table
from harness.results.index import value

NARROW = 1e-3  # of the widest range: coordinates that the page lists


@dataclass(frozen=True)
class Coordinate:
    """A coordinate: its mean, deviation and range over sentences, and its noise.

    `of_widest` is its range as a share of the widest coordinate's.
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
    """The coordinates of an encoder's pooling.

    `rounding` holds the least, the median and the largest share that the noise of a
    coordinate has of its largest absolute value, in units of float32's epsilon;
    `ratios` those of deviation over noise. `of_widest` is the largest noise of a
    coordinate as a share of the widest range.
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
    """What was measured: of which sentences, in which ways, and where."""

    environment: Mapping[str, Any]
    task: str
    sentences: int
    ways: tuple[str, ...]
    noise: tuple[EncodingNoise, ...]


def noise_table(path: Path) -> str:
    """A line for each encoder and pooling, with its narrow coordinates."""
    lines = []
    for noise in read_sealed(MeasuredNoise, path).noise:
        narrow = [c for c in noise.least if c.of_widest < NARROW]
        shown = (
            f"{c.number}: {c.of_widest:.1g}, {c.ratio:.1g} times its noise"
            for c in narrow
        )
        lines.append(
            [
                f"`{noise.encoder}.{noise.pooling}`",
                noise.dimensions,
                f"{noise.of_widest:.1e}",
                f"{noise.ratios[0]:.1e}",
                "; ".join(shown) or "none",
            ]
        )
    head = [
        "",
        "coordinates",
        "largest noise / widest range",
        "least deviation / noise",
    ]
    return table([*head, "narrow: number, range / widest range"], lines, words=1)


@dataclass(frozen=True)
class FloorRow:
    """The scores of a cell by seed under the floors 1e-6 and 3e-5; none where it was not measured.

    `floor` is the one of the record that is committed.
    """

    method: str
    task: str
    score: ScorePath
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: str


@dataclass(frozen=True)
class StoredRows:
    """The file of rows."""

    rows: tuple[FloorRow, ...]


def read_floors(path: Path) -> tuple[FloorRow, ...]:
    """Every row that the floor moves. Raises DataError for a damaged file."""
    return read_sealed(StoredRows, path).rows


def floors_table(rows: Sequence[FloorRow]) -> str:
    """A line for each score that was measured with both floors."""
    lines = []
    for row in rows:
        single = row.score == ("spearman", "wmean") and (*row.low, *row.high) == both(
            rows, row
        )
        if row.low and row.high and not single:
            means = value(row.low), value(row.high)
            difference = (means[1].mean or 0.0) - (means[0].mean or 0.0)
            name = f"`{row.method}`"
            lines.append(
                [
                    name,
                    row.task,
                    " ".join(row.score),
                    *map(str, means),
                    f"{difference:+.2f}",
                ]
            )
    return table(["method", "task", "score", "1e-6", "3e-5", "moved"], lines, words=3)


def both(rows: Sequence[FloorRow], like: FloorRow) -> tuple[float, ...]:
    """The scores over all pairs of a row's cell; its subsets have the same where there is one."""
    found = (
        (*row.low, *row.high)
        for row in rows
        if (row.method, row.task, row.score)
        == (like.method, like.task, ("spearman", "all"))
    )
    return next(found, ())


def one_floor_table(rows: Sequence[FloorRow]) -> str:
    """The methods and tasks that were measured with the floor of 3e-5 alone."""
    tasks: dict[str, dict[str, None]] = {}
    for row in rows:
        if not row.low:
            tasks.setdefault(row.method, {})[row.task] = None
    lines = [
        [f"`{m}`", len(of_method), ", ".join(of_method)]
        for m, of_method in tasks.items()
    ]
    return table(["method", "tasks", "which"], lines, words=1)


def floors_part(rows: Sequence[FloorRow]) -> str:
    """The generated part of the page."""
    cells = {(row.method, row.task) for row in rows}
    measured = {(row.method, row.task) for row in rows if row.low and row.high}
    return "\n\n".join(
        [
            f"{len(cells)} cells of methods and tasks are on the last layer of `mpnet-base`. "
            f"{len(measured)} of them were measured with both floors, five seeds each; the "
            "committed records are those of 1e-6.",
            floors_table(rows),
            f"The other {len(cells) - len(measured)} were measured with the floor of 3e-5 alone. "
            "Their numbers are those of a flow without the coordinate until they are measured "
            "again:",
            one_floor_table(rows),
        ]
    )


def flows_page(text: str, records: Path) -> str:
    """The page on flows with both of its parts made anew, from the records of that folder."""
    with_noise = between_markers(
        text, "noise", noise_table(records / "encoding_noise.json")
    )
    floors = floors_part(read_floors(records / "flow_floors.json"))
    return between_markers(with_noise, "floors", floors)
