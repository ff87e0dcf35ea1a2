"""Committed similarities of the quick set, and the pairs whose rank moved most against them.

`<results>/records/quick/` holds sidecars alone, in folders as a run's. A sidecar there never makes
a cell count as done: only the one beside a record does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Float
from harness.core.files import write_atomically
from harness.core.tensors import TensorFile
from harness.results.layout import RECORDS
from harness.results.records import Cell, Store, sidecar_metadata

MOST = 10

# Similarities that agree to here are the same: encoders repeat their coordinates to 4e-7, and a
# calibration may stretch that.
SAME = 1e-5


@dataclass(frozen=True)
class PairMove:
    """One pair, counted from 1: its similarity and its rank (mid-ranks for ties), then and now."""

    pair: int
    committed: float
    measured: float
    committed_rank: float
    measured_rank: float
    texts: tuple[str, str] | None = None

    def __str__(self) -> str:
        texts = "" if self.texts is None else f"  {self.texts[0]!r} | {self.texts[1]!r}"
        return (
            f"pair {self.pair}: similarity {self.committed:.4f} -> {self.measured:.4f}, "
            f"rank {self.committed_rank:g} -> {self.measured_rank:g}{texts}"
        )


def path_of(results: Path, cell: Cell) -> Path:
    """Where the committed similarities of a cell stand or would stand."""
    return (results / RECORDS).joinpath("quick", *cell.names).with_suffix(".safetensors")


def read(results: Path, cell: Cell) -> Float[np.ndarray, " P"] | None:
    """The committed similarities of a cell, or None where there are no whole ones."""
    file = TensorFile.parse(path_of(results, cell))
    return file.read("cosine") if file else None


def promote(cell: Cell, runs: Path, committed: Path) -> bool:
    """Copy a cell's similarities from a run; those that agree stay as they are."""
    source, target = Store(runs).path(cell).with_suffix(".safetensors"), path_of(committed, cell)
    new, old = Store(runs).cosines(cell), read(committed, cell)
    if new is None:
        return False
    if (
        old is not None
        and _measured_with(source) == _measured_with(target)
        and old.shape == new.shape
        and np.abs(old - new).max(initial=0.0) <= SAME
    ):
        return False
    write_atomically(target, source.read_bytes())
    return True


def _measured_with(path: Path) -> dict[str, str]:
    """A sidecar's identity but for the code."""
    return {k: v for k, v in (sidecar_metadata(path) or {}).items() if k != "code"}


def most_moved(
    committed: Float[np.ndarray, " P"], measured: Float[np.ndarray, " P"], most: int = MOST
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved, most moved first."""
    from scipy.stats import rankdata

    old, new = rankdata(committed), rankdata(measured)
    moves = np.abs(new - old)
    order = [i for i in np.argsort(-moves, kind="stable")[:most] if moves[i] > 0]
    return tuple(
        PairMove(int(i) + 1, float(committed[i]), float(measured[i]), float(old[i]), float(new[i]))
        for i in order
    )
