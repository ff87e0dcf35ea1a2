"""Stored intervals of the differences between two methods, by which claims are tested.

The bootstrap of an interval takes long, so a run computes and stores it, and commands
that read results take it from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from harness.core.json_text import write_json
from harness.core.scores import ScorePath
from harness.core.toml import read_typed
from harness.results.index import CellName
from harness.results.layout import RECORDS

# What was resampled for an interval: for methods without seeds, the items alone. In
# `ITEMS_AND_NORMAL_P`, p is computed from the interval as for a normal distribution.
ITEMS_ALONE = "items"
SEEDS_AND_ITEMS = "seeds and items"
ITEMS_AND_NORMAL_P = "items, normal p"

# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
TaskScore = tuple[str, ScorePath]


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    better: str
    worse: str
    scores: tuple[TaskScore, ...]

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that it compares."""
        tasks = [task for task, _ in self.scores]
        return tuple(product((self.better, self.worse), tasks))


@dataclass(frozen=True)
class Interval:
    """A difference of two methods with its 95 % interval, and how they were computed.

    Attributes:
        contrast: The methods and scores.
        difference: The difference in points.
        low: The lower end of the 95 % interval.
        high: The upper end.
        p: The two-sided p of no difference.
        by: What was resampled: `ITEMS_ALONE`, `SEEDS_AND_ITEMS` or
            `ITEMS_AND_NORMAL_P`.
        resamples: How many resamples there were.
        seed: The seed of the bootstrap.
    """

    contrast: Contrast
    difference: float
    low: float
    high: float
    p: float
    by: str
    resamples: int
    seed: int


Intervals = Mapping[Contrast, Interval]


@dataclass(frozen=True)
class StoredIntervals:
    """The file of intervals, in the order of their contrasts."""

    intervals: tuple[Interval, ...]


def intervals_file(results: Path) -> Path:
    """The file of intervals in a results folder."""
    return results / RECORDS / "claims.json"


def read_intervals(results: Path) -> Intervals:
    """Every stored interval; none where there is no file. Raises DataError for another file."""
    path = intervals_file(results)
    if not path.exists():
        return {}
    intervals = read_typed(StoredIntervals, path).intervals
    return {interval.contrast: interval for interval in intervals}


def write_intervals(results: Path, intervals: Intervals) -> None:
    """Store intervals in the order of their contrasts; an equal file is not written again."""
    if not intervals:
        return
    in_order = [intervals[contrast] for contrast in sorted(intervals, key=repr)]
    stored = StoredIntervals(tuple(in_order))
    write_json(intervals_file(results), asdict(stored))
