"""`gate.toml` of a results folder: the quick set, and tolerances that single cells have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from harness.core.toml import read_typed
from harness.evaluation.select import MOST_SEEDS
from harness.results.layout import GATE
from harness.results.records import Cell


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
            raise ValueError(
                f"the override of {self.method} on {self.task} has no reason"
            )


@dataclass(frozen=True)
class Rules:
    """The content of `gate.toml`: the quick set, and overrides, as results/gate.toml shows them."""

    quick: tuple[QuickCell, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        if len({(row.method, row.task) for row in self.quick}) < len(self.quick):
            raise ValueError("the set quick names a cell twice")
        if len(self.override_of_cell) < len(self.overrides):
            raise ValueError("a method on a task has two overrides")

    @property
    def quick_cells(self) -> tuple[Cell, ...]:
        """The cells of the quick set, one a seed; none where it is not named."""
        return tuple(
            Cell(row.method, row.task, seed)
            for row in self.quick
            for seed in range(row.seeds)
        )

    @property
    def override_of_cell(self) -> dict[tuple[str, str], Override]:
        """The overrides by method and task."""
        return {(row.method, row.task): row for row in self.overrides}


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none without a file. Raises DataError naming the file."""
    path = results / GATE
    return read_typed(Rules, path) if path.is_file() else Rules()
