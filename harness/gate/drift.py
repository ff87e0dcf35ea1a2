"""Margins: how far a score may fall before `harness check --fail-below` fails.

With a margin a cell fails if its score is lower than the committed one by more, whatever made it
so: other weights and a moved encoder are then no failure by themselves. Other data are, since
their scores cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness.core.errors import UsageError
from harness.core.toml import read_typed
from harness.core.types import Record
from harness.results.index import Results, main_score
from harness.results.layout import GATE
from harness.results.records import SAME_PLATFORM, Cell, cell_of, largest_move
from harness.results.verdict import prediction_half_width

FORM = "wanted POINTS or TASK=POINTS, as 0.5 or 'sts*=1'"


@dataclass(frozen=True)
class Margins:
    """Margins in points: of tasks, as name or glob, and of all others (None: held as ever).

    The first task that matches decides.
    """

    by_task: tuple[tuple[str, float], ...] = ()
    others: float | None = None

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Margins:
        """Margins as they are written on the command line. Raises UsageError."""
        parsed = []
        for text in texts:
            task, equals, points = text.rpartition("=")
            try:
                margin = float(points)
            except ValueError:
                margin = math.nan
            if not 0 <= margin < math.inf or (equals and not task):
                raise UsageError(f"--fail-below {text}: {FORM}")
            parsed.append((task, margin))
        others = [margin for task, margin in parsed if not task]
        if len(others) > 1:
            raise UsageError(f"--fail-below: found two margins for all tasks; {FORM}")
        by_task = tuple((task, margin) for task, margin in parsed if task)
        return cls(by_task, others[0] if others else None)

    def of(self, task: str) -> float | None:
        """The margin of a task, or None."""
        matching = (points for pattern, points in self.by_task if fnmatchcase(task, pattern))
        return next(matching, self.others)


# In points. Another processor or another build of the libraries sums in another order.
ACROSS_PLATFORMS = 0.05

# Of golden vectors: the largest difference of a coordinate after normalisation. MiniLM's moves by
# 4e-7 with threads, batches and instruction sets, and by 3e-4 with weights rounded to float16.
GOLDEN_SAME_PLATFORM = 1e-5
GOLDEN_ACROSS_PLATFORMS = 1e-4

MOST_SEEDS = 1000  # of a cell of the quick set

# Two environments that agree in these are one platform.
PLATFORM = ("system", "machine", "processor", "threads", "packages", "device")


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM}


@dataclass(frozen=True)
class QuickCell:
    """A method on a task in the quick set, with seeds 0 to `seeds` - 1."""

    method: str
    task: str
    seeds: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise ValueError(f"wanted 1 to {MOST_SEEDS} seeds, found {self.seeds}")


@dataclass(frozen=True)
class Override:
    """A cell's own tolerance, in points and on every platform, and why it has one."""

    method: str
    task: str
    tolerance: float
    reason: str

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"wanted a tolerance above 0, found {self.tolerance}")
        if not self.reason.strip():
            raise ValueError(f"the override of {self.method} on {self.task} has no reason")


@dataclass(frozen=True)
class Rules:
    """The content of `gate.toml`: the quick set, and overrides.

    ```toml
    quick = [{ method = "minilm.mean", task = "sts-b" }]   # seeds = 5: seeds 0 to 4, default 1

    [[override]]
    method = "minilm.mean+flow@target"
    task = "sts-b"
    tolerance = 0.2
    reason = "..."
    ```
    """

    quick: tuple[QuickCell, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.quick_cells)) < len(self.quick_cells):
            raise ValueError("the set quick names a cell twice")
        if len(self.by_cell) < len(self.overrides):
            raise ValueError("a method on a task has two overrides")

    @property
    def quick_cells(self) -> tuple[Cell, ...]:
        """The cells of the quick set, one a seed; none where it is not named."""
        return tuple(Cell(row.method, row.task, s) for row in self.quick for s in range(row.seeds))

    @property
    def by_cell(self) -> dict[tuple[str, str], Override]:
        """The overrides by method and task."""
        return {(row.method, row.task): row for row in self.overrides}


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none without a file. Raises DataError naming the file."""
    path = results / GATE
    return read_typed(Rules, path) if path.is_file() else Rules()


# Of a record's digests, the two that say nothing of what went in.
NO_INPUT = {"code", "encoding"}


@dataclass(frozen=True)
class Move:
    """One cell against its committed record; `points` is None where there is none.

    `others` are the inputs that are not the committed ones; `note` says why the tolerance is not
    the usual one. `before` and `after` are the main scores where they are defined: before, that of
    the same seed, else the mean of the committed ones.
    """

    cell: Cell
    points: float | None
    tolerance: float
    others: tuple[str, ...] = ()
    note: str = ""
    before: float | None = None
    after: float | None = None

    @property
    def reason(self) -> str:
        """In words, which inputs are not the committed ones; empty if all are."""
        return f"other {', '.join(self.others)}" if self.others else ""

    @property
    def fall(self) -> float:
        """The points that the main score lost; below 0 where it rose, infinite where it is gone."""
        if self.before is None or self.after is None:
            return math.inf
        return round(self.before - self.after, 9)

    @property
    def change(self) -> str:
        """The main score before and after, in words."""
        scores = ("undefined" if s is None else f"{s:.4f}" for s in (self.before, self.after))
        return " -> ".join(scores)

    @property
    def moved(self) -> bool:
        """Beyond the tolerance, or of other data, weights or configuration.

        Rounded, so that tolerances are decimal numbers; what is no number is never within.
        """
        beyond = self.points is not None and not round(self.points, 9) <= self.tolerance
        return bool(self.reason) or beyond

    @property
    def why(self) -> str:
        """The comparison in words, without the cell."""
        note = f" ({self.note})" if self.note else ""
        if self.reason:
            return self.reason
        if self.points is None:
            return "there is no committed record"
        if math.isinf(self.points):
            return "a score stands on one side only, or is undefined there"
        return f"{self.points:.4f} points, tolerance {self.tolerance:.4g}{note}"

    def __str__(self) -> str:
        return f"{self.cell}: {self.why}"


def compare_records(records: Iterable[Record], committed: Results, rules: Rules) -> list[Move]:
    """Each record against the committed one of the same cell, by the committed folder's rules."""
    return [
        judge(
            record,
            committed.records(record.method, record.task),
            rules.by_cell.get((record.method, record.task)),
        )
        for record in records
    ]


def judge(record: Record, seeds: Sequence[Record], override: Override | None) -> Move:
    """One record against the committed ones of its method and task, one a seed.

    Against its own seed in every score; where that has moved and there are others, its main score
    (one number, so that 95 % means 95 %) against the interval for one more run.
    """
    cell = cell_of(record)
    same_seed = next((old for old in seeds if old.seed == record.seed), None)
    if same_seed is None and len(seeds) < 2:
        return Move(cell, None, 0.0)
    nearest = same_seed or seeds[0]
    same = platform(nearest.environment) == platform(record.environment)
    tolerance, note = (SAME_PLATFORM if same else ACROSS_PLATFORMS), ""
    if override is not None:
        tolerance, note = override.tolerance, override.reason
    points = largest_move(same_seed.scores, record.scores) if same_seed else math.inf
    scores = [main_score(old.scores)[1] for old in seeds]
    defined, after = [s for s in scores if s is not None], main_score(record.scores)[1]
    mean = fmean(defined) if defined and len(defined) == len(scores) else None
    before = main_score(same_seed.scores)[1] if same_seed else mean
    other = other_inputs(seeds, record)
    move = Move(cell, points, tolerance, other, note, before, after)
    hole = same_seed is not None and math.isinf(points)
    if len(seeds) < 2 or hole or other or not move.moved or (override and same_seed):
        return move
    if after is None or mean is None:
        return replace(move, points=math.inf, note="")
    half_width = prediction_half_width(stdev(defined), len(defined))
    note = f"from the mean of {len(defined)} committed seeds"
    if half_width >= tolerance:
        note += "; their interval for one more run"
    return replace(move, points=abs(after - mean), tolerance=max(tolerance, half_width), note=note)


def other_inputs(seeds: Sequence[Record], new: Record) -> tuple[str, ...]:
    """The inputs that are not the committed ones: data, weights, tokenizer, configuration.

    What differs between committed seeds is what training made of each, and no input.
    """
    names = set(new.digests).union(*(old.digests for old in seeds)) - NO_INPUT
    fixed = [name for name in names if len({old.digests.get(name) for old in seeds}) == 1]
    return tuple(sorted(n for n in fixed if seeds[0].digests.get(n) != new.digests.get(n)))
