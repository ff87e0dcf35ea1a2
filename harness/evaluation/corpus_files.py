"""Files of corpora: moments, or rows for fits that need the vectors themselves.

Each is a sealed safetensors file, complete or absent. Rows are a float32 matrix (n, D), written a
batch at a time and read through a memory map, so that they may be larger than memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.interfaces import Transform
from harness.core.tensors import TensorFile, write_tensors
from harness.transforms.affine import Moments

TENSOR = "rows"
PART = 8192  # rows that stand in memory at a time


@dataclass(frozen=True, eq=False)
class StoredCorpus:
    """The moments or rows of a corpus, and the seconds of the pass that made them."""

    vectors: Moments | Float32[np.ndarray, "n D"]
    seconds: float


@dataclass
class MomentsWriter:
    """Moments that grow by some rows at a time, on their way into a file."""

    path: Path
    moments: Moments | None = None
    paid: float = 0.0  # seconds, by the pass that was interrupted

    @property
    def partial(self) -> Path:
        """Where the moments of an interrupted pass lie."""
        return self.path.with_name(f".{self.path.name}.partial")

    def kept(self) -> int:
        """How many rows an interrupted pass kept the moments of."""
        found = read_corpus(self.partial)
        return found.vectors.count if found and isinstance(found.vectors, Moments) else 0

    def go_on(self) -> None:
        """Take them up."""
        found = read_corpus(self.partial)
        if found and isinstance(found.vectors, Moments):
            self.moments, self.paid = found.vectors, found.seconds

    def keep(self, seconds: float) -> None:
        """Keep the moments so far, for a pass that goes on after an interruption."""
        self._write(self.partial, seconds)

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Merge rows in."""
        moments = Moments.of(rows)
        self.moments = moments if self.moments is None else self.moments.merge(moments)

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        self._write(self.path, seconds)
        self.partial.unlink(missing_ok=True)

    def _write(self, path: Path, seconds: float) -> None:
        if self.moments is not None:
            tensors = {"mean": self.moments.mean, "scatter": self.moments.scatter}
            about = {"count": str(self.moments.count), "seconds": repr(self.paid + seconds)}
            write_tensors(path, tensors, about)


@dataclass
class RowsWriter:
    """At most `count` rows, on their way into a file that does not exist before `finish`."""

    path: Path
    count: int
    added: int = 0
    matrix: Float32[np.ndarray, "n D"] | None = None

    def kept(self) -> int:
        """0: rows are many, and an interrupted pass over them begins anew."""
        return 0

    def go_on(self) -> None:
        """Do nothing: rows are not kept over an interruption."""

    def keep(self, seconds: float) -> None:
        """Do nothing: rows are not kept over an interruption."""

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Append rows."""
        if self.matrix is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.matrix = _on_disk(self.path.parent, (self.count, rows.shape[1]), np.float32)
        self.matrix[self.added : self.added + len(rows)] = rows
        self.added += len(rows)

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        if self.matrix is not None:
            rows = {TENSOR: self.matrix[: self.added]}
            write_tensors(self.path, rows, {"seconds": repr(seconds)})


def read_corpus(path: Path) -> StoredCorpus | None:
    """Stored moments or rows; None if there are none, or they were damaged."""
    file = TensorFile.parse(path)
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors} if file else {}
    if file is None or any(tensor is None for tensor in tensors.values()):
        return None
    seconds = float(file.metadata["seconds"])
    if TENSOR in tensors:
        return StoredCorpus(tensors[TENSOR], seconds)
    return StoredCorpus(Moments(int(file.metadata["count"]), **tensors), seconds)


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
    """Rows behind a map, in float64, on the disk of a folder."""
    behind = _on_disk(folder, (len(x), transform(x[:1]).shape[1]), np.float64)
    start = 0
    for part in parts(x):
        behind[start : start + len(part)] = transform(part)
        start += len(part)
    return behind


def _on_disk(folder: Path, shape: tuple[int, int], dtype: type[np.floating]) -> np.ndarray:
    """A matrix of zeros in a scratch file of the folder, which goes when the matrix does."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype, "w+", shape=shape)
