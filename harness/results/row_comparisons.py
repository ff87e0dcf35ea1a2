"""Stored comparisons of neighbouring rows, written by `harness.evaluation.bootstrap_rows`.

One JSON file for each encoder and protocol. Comparisons belong to the averages that they were made
for, to 0.01 points; where those have moved since, the table shows none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.core.toml import read_json
from harness.results.layout import RECORDS

LEVEL = 0.05


@dataclass(frozen=True)
class Neighbours:
    """A row against the row above: the bootstrap's difference of averages, and Holm's p."""

    above: str
    below: str
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparisons:
    """All neighbouring rows of one table."""

    encoder: str
    protocol: str
    resamples: int
    seed: int
    averages: Mapping[str, float]
    rows: tuple[Neighbours, ...]

    @property
    def name(self) -> str:
        """The file's stem."""
        return f"{self.encoder}.{self.protocol}"

    def hold_for(self, averages: Mapping[str, float]) -> bool:
        """Whether these are the rows, in this order, with the averages that were compared."""
        return list(self.averages.items()) == list(rounded(averages).items())

    def indistinguishable(self, averages: Mapping[str, float]) -> set[str]:
        """Rows whose average is not distinguishable from the row above; none if rows moved."""
        if not self.hold_for(averages):
            return set()
        return {neighbours.below for neighbours in self.rows if neighbours.p_holm > LEVEL}

    def interval(self, better: str, worse: str) -> tuple[float, float] | None:
        """The 95 % interval of the difference of two rows, if they were neighbours."""
        for rows in self.rows:
            if (rows.above, rows.below) == (better, worse):
                return rows.low, rows.high
            if (rows.below, rows.above) == (better, worse):
                return -rows.high, -rows.low
        return None


def rounded(averages: Mapping[str, float]) -> dict[str, float]:
    """Averages as they are printed."""
    return {method: round(average, 2) for method, average in averages.items()}


def folder(results: Path) -> Path:
    """The folder of comparisons in a results folder."""
    return results / RECORDS / "comparisons"


def read(results: Path) -> Mapping[str, Comparisons]:
    """Every stored comparison by name. Raises DataError for a damaged file."""
    tables = (read_json(Comparisons, path) for path in sorted(folder(results).glob("*.json")))
    return {table.name: table for table in tables}


def write(results: Path, comparisons: Comparisons) -> None:
    """Store comparisons, whole or not at all; what is there already is left alone."""
    path = folder(results) / f"{file_name(comparisons.name)}.json"
    data = (json.dumps(asdict(comparisons), indent=1) + "\n").encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
