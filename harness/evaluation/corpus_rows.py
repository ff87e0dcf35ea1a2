"""Rows of a corpus in a file: for fits that need the vectors themselves, in bounded memory.

A float32 matrix (n, D) in safetensors form, written a batch at a time and read through a memory
map. It is complete or absent, and carries a digest over all that it holds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.tensors import MatrixWriter, TensorFile
from harness.core.types import Transform
from harness.transforms.affine import Moments

TENSOR = "rows"
PART = 8192  # rows that stand in memory at a time


@dataclass(frozen=True, eq=False)
class Rows:
    """A stored matrix, and the seconds of the pass that made it."""

    matrix: Float32[np.ndarray, "n D"]
    seconds: float


def rows_writer(path: Path) -> MatrixWriter:
    """Rows on their way into a file that does not exist before the last of them."""
    return MatrixWriter(path, TENSOR)


def read_rows(path: Path) -> Rows | None:
    """Stored rows; None if there are none, or they were damaged (then they are made again)."""
    file = TensorFile.parse(path)
    matrix = file.read(TENSOR) if file else None
    if file is None or matrix is None or "seconds" not in file.metadata:
        return None
    return Rows(matrix, float(file.metadata["seconds"]))


def parts(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows, so many at a time as stand in memory."""
    for start in range(0, len(x), PART):
        yield x[start : start + PART]


def moments_of(x: Float[np.ndarray, "n D"]) -> Moments:
    """The moments of rows on disk."""
    return Moments.merged(Moments.of(part) for part in parts(x))


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """Rows behind a map, in float64, in a scratch file of the folder that goes when they do."""
    width = transform(x[:1]).shape[1]
    with tempfile.TemporaryFile(dir=folder) as file:
        behind = np.memmap(file, np.float64, "w+", shape=(len(x), width))
    start = 0
    for part in parts(x):
        behind[start : start + len(part)] = transform(part)
        start += len(part)
    return behind
