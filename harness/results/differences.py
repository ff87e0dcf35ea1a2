"""Differences of two methods' scores: `A minus B`, with a 95 % interval and a p.

Claims, ties of tables and `harness table --test` compare two methods by one score, or by
the mean of several (`Contrast`). A `Difference` says how far apart they are and how that
was tested. Its bootstrap takes long (`harness.evaluation.compare`), so a run computes and
stores it, and commands that read results take it from the file; without one, scores over
seeds are compared by Welch's test. Differences that answer one question are corrected
together, by Holm's procedure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise, product
from pathlib import Path
from statistics import NormalDist

from harness.core.files import write_json
from harness.core.toml import read_typed
from harness.core.types import ScorePath
from harness.registry import Registry
from harness.results.index import (
    NOT_MEASURED,
    Results,
    SeedScores,
    TaskScore,
    mean_over_tasks,
)
from harness.results.layout import RECORDS
from harness.results.records import CellName
from harness.results.reproduction import seed_scores
from harness.results.scorings import Scoring
from harness.results.verdict import TOLERANCES, CellState, welch_test

SIGNIFICANCE_LEVEL = 0.05  # of tests: methods differ if p is at most this

# Points by which a difference may have moved since it was stored. For methods with seeds
# it is more, since fits round differently on another processor, where five seeds act like
# another five: their means moved by 0.08 at most.
SAME_DIFFERENCE = 0.01
SAME_DIFFERENCE_REFITTED = 0.1

# What was resampled by the bootstrap (`Difference.by`).
ITEMS = "items"
SEEDS_AND_ITEMS = "seeds and items"
ITEMS_OF_SEED_0 = "items of seed 0"  # the difference itself is of the means over seeds
ITEMS_AND_NORMAL_P = "items, normal p"  # p is a normal distribution's with the interval
# Without a bootstrap: Welch's test, which leaves out the choice of items, or no test.
SEEDS_ALONE = "seeds alone"
NO_INTERVAL = "no interval"
# For these a run computes the bootstrap.
WITHOUT_BOOTSTRAP = (SEEDS_ALONE, ITEMS_AND_NORMAL_P, NO_INTERVAL)

# Scores of flows with the other floor of narrow coordinates than the records', by method,
# task and path (docs/flows.md).
Floors = Mapping[tuple[str, str, ScorePath], SeedScores]
NO_FLOORS: Floors = {}


@dataclass(frozen=True)
class Contrast:
    """Two methods on one score, or on the mean of several."""

    first: str
    second: str
    scores: tuple[TaskScore, ...]

    @property
    def methods(self) -> tuple[str, str]:
        """Both methods."""
        return self.first, self.second

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that it compares."""
        return tuple(product(self.methods, [task for task, _ in self.scores]))


class Outcome(StrEnum):
    """Whether the first of two methods is higher or lower than the second."""

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


@dataclass(frozen=True)
class BestTests:
    """The methods of a column of a table beside the best of them.

    Attributes:
        tied: Those that are not distinguishable from it.
        untested: Those that have a score, and no similarities from which it can be
            resampled.
    """

    tied: frozenset[str]
    untested: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first method's score minus the second's, and its test.

    Attributes:
        contrast: The methods and scores.
        points: The difference in points; None where a score is missing or undefined.
        low: The lower end of its 95 % interval; None without a test.
        high: The upper end; None without a test.
        p: The two-sided p of no difference; None without a test.
        by: What was resampled, or why there is no test; empty where a method was not
            measured.
        sides: The scores of both methods by seed. They are not stored.
        p_holm: p corrected for the tests that answer the same question, which are not
            stored either.
    """

    contrast: Contrast
    points: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    by: str = ""
    sides: tuple[SeedScores, ...] = field(default=(), repr=False)
    p_holm: float | None = None

    @property
    def outcome(self) -> Outcome:
        """Whether the first method is higher or lower, by the corrected p."""
        if not self.by:
            return Outcome.NOT_MEASURED
        if self.p_holm is None or self.is_tie or not self.points:
            return Outcome.UNDECIDED
        return Outcome.HIGHER if self.points > 0 else Outcome.LOWER

    @property
    def is_tie(self) -> bool:
        """Whether it was tested, and the corrected p does not tell the methods apart."""
        return self.p_holm is not None and self.p_holm > SIGNIFICANCE_LEVEL

    def is_of(self, points: float) -> bool:
        """Whether it was tested for this difference, in points."""
        return self.points is not None and abs(points - self.points) <= SAME_DIFFERENCE


def measured(
    contrast: Contrast, results: Results, registry: Registry, floors: Floors = NO_FLOORS
) -> Difference:
    """The difference of the scores of two methods in records, without a test.

    Args:
        contrast: The methods and scores.
        results: The records.
        registry: Methods by name.
        floors: The scores that are taken in place of the records'.
    """
    sides = []
    for method in contrast.methods:
        of_tasks = [
            floors.get((method, task, path))
            or seed_scores(method, task, path, results, registry)
            for task, path in contrast.scores
        ]
        sides.append(mean_over_tasks(of_tasks))
    untested = Difference(contrast=contrast, sides=tuple(sides))
    if not all(side.scores for side in sides):
        return untested
    first, second = (side.value.mean for side in sides)
    if first is None or second is None:
        return replace(untested, by=CellState.UNDEFINED)
    return replace(untested, points=round(first - second, 9), by=NO_INTERVAL)


def with_test(difference: Difference, stored: Difference | None = None) -> Difference:
    """A measured difference with its test.

    The stored test is taken if it is of these scores. Otherwise, if a side has seeds,
    Welch's test over the seeds is made, which does not take the choice of items into
    account. Otherwise there is no test.

    Args:
        difference: The difference of records.
        stored: The stored difference of the same contrast; None without one.
    """
    points = difference.points
    if points is None:
        return difference
    seeded_sides = [side for side in difference.sides if side.seeded]
    if any(len(side.scores) < TOLERANCES.seeds for side in seeded_sides):
        return replace(difference, by=CellState.TOO_FEW_SEEDS)
    if stored is not None and stored.points is not None:
        allowed_move = SAME_DIFFERENCE_REFITTED if seeded_sides else SAME_DIFFERENCE
        if abs(points - stored.points) <= allowed_move:
            return replace(_moved_to(points, stored), sides=difference.sides)
    if not seeded_sides:
        return difference
    # A side without seeds does not vary, and is left out.
    samples = [(side.value.sd or 0.0, len(side.scores)) for side in seeded_sides]
    welch = welch_test(points, *samples)
    return replace(
        difference,
        low=points - welch.half,
        high=points + welch.half,
        p=welch.p,
        by=SEEDS_ALONE,
    )


def _moved_to(points: float, stored: Difference) -> Difference:
    """A stored difference, with its interval shifted to where another fit moved the seeds.

    Its p is the larger one of the stored p and of the p of a normal distribution with
    the shifted interval.
    """
    low, high, p = stored.low, stored.high, stored.p
    shift = points - (stored.points or 0.0)
    is_same = abs(shift) <= SAME_DIFFERENCE
    if is_same or low is None or high is None or p is None:
        return replace(stored, points=points)
    deviation = (high - low) / (2 * NormalDist().inv_cdf(0.975))
    if deviation > 0:
        p = max(p, math.erfc(abs(points) / deviation / math.sqrt(2)))
    return replace(stored, points=points, low=low + shift, high=high + shift, p=p)


# Several tests


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """The differences that answer one question, with p corrected by Holm's procedure."""
    adjusted = iter(holm([d.p for d in differences if d.p is not None]))
    return [
        d if d.p is None else replace(d, p_holm=next(adjusted)) for d in differences
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p-values, in the order of the arguments.

    The smallest of m values is multiplied by m, the next by m - 1, and so on. An adjusted
    value is at least as large as the adjusted value of each smaller p, and at most 1. It
    is compared with the level of the test.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(
        sorted(range(len(p_values)), key=p_values.__getitem__)
    ):
        largest = max(largest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = largest
    return adjusted


# Neighbouring rows of a table


def neighbours(
    averages: Mapping[str, float], scoring: Scoring
) -> dict[Contrast, float]:
    """Each row of a table with the row below it, and the difference of their averages.

    Args:
        averages: The averages over the seven tasks by method, best first.
        scoring: How the seven tasks are scored.
    """
    return {
        Contrast(above, below, scoring.task_scores): averages[above] - averages[below]
        for above, below in pairwise(averages)
    }


def differences_of_rows(
    averages: Mapping[str, float], scoring: Scoring, stored: Differences
) -> list[Difference]:
    """The stored differences of neighbouring rows, corrected for all rows of their table.

    There are none unless each pair of neighbours has a stored one of their averages.
    """
    found = []
    for contrast, points in neighbours(averages, scoring).items():
        difference = stored.get(contrast)
        if difference is None or not difference.is_of(points):
            return []
        found.append(difference)
    return corrected(found)


# The file

Differences = Mapping[Contrast, Difference]


def differences_file(results: Path) -> Path:
    """The file of differences in a results folder."""
    return results / RECORDS / "differences.json"


def read_differences(results: Path) -> Differences:
    """Every stored difference; none where there is no file. Raises DataError for another file."""
    path = differences_file(results)
    stored = read_typed(tuple[Difference, ...], path) if path.exists() else ()
    return {difference.contrast: difference for difference in stored}


def write_differences(results: Path, differences: Differences) -> None:
    """Store differences to four decimals of a point; an equal file is not written again."""
    rows = []
    for contrast in sorted(differences, key=repr):
        row = asdict(differences[contrast])
        del row["sides"]  # are in the records
        del row["p_holm"]  # belongs to the question that is asked
        rounded = {name: round(row[name], 4) for name in ("points", "low", "high")}
        rows.append({**row, **rounded})
    path = differences_file(results)
    if rows or path.exists():
        write_json(path, rows)


# The floors of flows


@dataclass(frozen=True)
class FloorRow:
    """A score of a flow by seed, with a low and a high floor of narrow coordinates.

    Attributes:
        method: The method.
        task: The task.
        score: The path of the score.
        low: The scores with the low floor; none where it was not measured.
        high: The scores with the high floor.
        floor: The floor of the method's records: `1e-6` or `3e-5`.
    """

    method: str
    task: str
    score: ScorePath
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: str


def read_floors(results: Path) -> Floors:
    """The scores with the other floor than the records'; none where there is no file."""
    path = results / RECORDS / "flow_floors.json"
    rows = read_typed(tuple[FloorRow, ...], path) if path.exists() else ()
    floors: dict[tuple[str, str, ScorePath], SeedScores] = {}
    for row in rows:
        other = row.high if row.floor == "1e-6" else row.low
        if other:
            scores = SeedScores(dict(enumerate(other)), seeded=True)
            floors[row.method, row.task, row.score] = scores
    return floors
