"""The tolerances of the gate, and those that `gate.toml` of a results folder adds.

The tolerances stand here (that of one platform in `harness.results.records`, which writes by it,
too). The file names the quick set (the cells that `harness run --quick` measures and `harness
check` wants) and the cells that have a tolerance of their own, each with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.toml import read_toml
from harness.results.layout import GATE
from harness.results.records import Cell

FILE = GATE

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
    path = results / FILE
    return read_toml(Rules, path) if path.is_file() else Rules()
