"""How far anything may move before it counts, and what `gate.toml` of a results folder adds.

The tolerances stand here (that of one platform in `harness.results.records`, which writes by it,
too). The file names sets of cells (`quick` is what `harness run --quick` measures and `harness
check` wants) and the cells that have a tolerance of their own, each with its reason.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.results.records import Cell

FILE = "gate.toml"
QUICK = "quick"

# In points. Another processor or another build of the libraries sums in another order.
ACROSS_PLATFORMS = 0.05

# Of golden vectors: the largest difference of a coordinate after normalisation. MiniLM's moves by
# 4e-7 with threads, batches and instruction sets, and by 3e-4 with weights rounded to float16.
GOLDEN_SAME_PLATFORM = 1e-5
GOLDEN_ACROSS_PLATFORMS = 1e-4

# Two environments that agree in these are one platform.
PLATFORM = ("system", "machine", "processor", "threads", "packages", "device")


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM}


@dataclass(frozen=True)
class Override:
    """A cell's own tolerance, in points and on every platform, and why it has one."""

    tolerance: float
    reason: str


@dataclass(frozen=True)
class Rules:
    """What `gate.toml` says: sets of cells by name, overrides by method and task."""

    sets: Mapping[str, tuple[Cell, ...]] = field(default_factory=dict)
    overrides: Mapping[tuple[str, str], Override] = field(default_factory=dict)

    @property
    def quick(self) -> tuple[Cell, ...]:
        """The quick set; empty where none is named."""
        return self.sets.get(QUICK, ())


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none where it has no file. Raises DataError naming the file.

    ```toml
    [sets]
    quick = [{ method = "minilm.mean", task = "sts-b" }]   # seeds = 5: seeds 0 to 4, default 1

    [[override]]
    method = "minilm.mean+flow@target"
    task = "sts-b"
    tolerance = 0.2
    reason = "..."
    ```
    """
    path = results / FILE
    if not path.is_file():
        return Rules()
    try:
        return _parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise DataError(f"{path}: {error}; correct it") from None


def _parse(found: dict[str, Any]) -> Rules:
    _require(found, set(), {"sets", "override"}, "the file")
    sets = {name: _cells(name, rows) for name, rows in found.get("sets", {}).items()}
    overrides: dict[tuple[str, str], Override] = {}
    for row in found.get("override", []):
        _require(row, {"method", "task", "tolerance", "reason"}, set(), "an override")
        address = row["method"], row["task"]
        if address in overrides:
            raise ValueError(f"{address[0]} on {address[1]} has two overrides")
        overrides[address] = _override(row)
    return Rules(sets, overrides)


def _cells(name: str, rows: list[dict[str, Any]]) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for row in rows:
        _require(row, {"method", "task"}, {"seeds"}, f"a cell of the set {name}")
        seeds = row.get("seeds", 1)
        if not isinstance(seeds, int) or seeds < 1:
            raise ValueError(f"the set {name}: wanted 1 or more seeds, found {seeds!r}")
        cells += [Cell(row["method"], row["task"], seed) for seed in range(seeds)]
    if len(set(cells)) < len(cells):
        raise ValueError(f"the set {name} names a cell twice")
    return tuple(cells)


def _override(row: Mapping[str, Any]) -> Override:
    tolerance, reason = row["tolerance"], str(row["reason"]).strip()
    if not isinstance(tolerance, int | float) or not 0 < tolerance < math.inf:
        raise ValueError(f"wanted a tolerance above 0, found {tolerance!r}")
    if not reason:
        raise ValueError(f"the override of {row['method']} on {row['task']} has no reason")
    return Override(float(tolerance), reason)


def _require(row: Mapping[str, Any], wanted: set[str], allowed: set[str], what: str) -> None:
    if not wanted <= row.keys() <= wanted | allowed:
        names = ", ".join(sorted(wanted | allowed))
        raise ValueError(f"{what} has {names}; found {', '.join(row) or 'nothing'}")
