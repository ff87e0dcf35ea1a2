"""`gate.toml` of a results folder: the cells of the quick set, and tolerances of single cells."""

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
    """A tolerance of one cell, in place of the platform's tolerance.

    Attributes:
        method: The method of the cell.
        task: Its task.
        tolerance: How far its scores may move on any platform, in points.
        reason: Why it has a tolerance of its own.
    """

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
    """The content of `gate.toml`; results/gate.toml is an example.

    Attributes:
        quick: The quick set.
        overrides: The tolerances of single cells.
    """

    quick: tuple[QuickCell, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        quick_names = {(cell.method, cell.task) for cell in self.quick}
        if len(quick_names) < len(self.quick):
            raise ValueError("the set quick names a cell twice")
        if len(self.override_of_cell) < len(self.overrides):
            raise ValueError("a method on a task has two overrides")

    @property
    def quick_cells(self) -> tuple[Cell, ...]:
        """The cells of the quick set, one a seed; none where it is not named."""
        cells: list[Cell] = []
        for quick_cell in self.quick:
            for seed in range(quick_cell.seeds):
                cells.append(Cell(quick_cell.method, quick_cell.task, seed))
        return tuple(cells)

    @property
    def override_of_cell(self) -> dict[tuple[str, str], Override]:
        """The overrides by method and task."""
        return {
            (override.method, override.task): override for override in self.overrides
        }


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none without a file. Raises DataError naming the file."""
    path = results / GATE
    return read_typed(Rules, path) if path.is_file() else Rules()
