"""Stored 95 % intervals of the differences that claims rest on.

They come from the paired bootstrap over test pairs (`harness.evaluation.bootstrap_claims`), which
needs the similarities of both methods, and stand in `records/claims.json`. An interval belongs to
the difference that it was made for, to 0.01 points; where that has moved since, there is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.files import write_atomically
from harness.core.toml import read_json_rows
from harness.results.layout import RECORDS

# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
Score = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    better: str
    worse: str
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Interval:
    """A difference in points, its 95 % interval, and the bootstrap's resamples and seed."""

    difference: float
    low: float
    high: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class _Row(Interval):
    """An interval as it is stored, with the difference that it belongs to."""

    contrast: Contrast

    @property
    def interval(self) -> Interval:
        return Interval(self.difference, self.low, self.high, self.resamples, self.seed)


Intervals = Mapping[Contrast, Interval]


def file(results: Path) -> Path:
    """The file of intervals in a results folder."""
    return results / RECORDS / "claims.json"


def read(results: Path) -> Intervals:
    """Every stored interval; none where there is no file. Raises DataError for another file."""
    path = file(results)
    rows = read_json_rows(_Row, path) if path.exists() else ()
    return {row.contrast: row.interval for row in rows}


def write(results: Path, intervals: Intervals) -> None:
    """Store intervals in the order of their names; a file that has them is left alone."""
    path, known = file(results), sorted(intervals.items(), key=lambda item: repr(item[0]))
    rows = [{"contrast": asdict(contrast), **asdict(interval)} for contrast, interval in known]
    data = (json.dumps(rows, indent=1) + "\n").encode()
    if known and (not path.exists() or path.read_bytes() != data):
        write_atomically(path, data)
