"""Rows of a corpus in a file: for fits that need the vectors themselves, in bounded memory.

A float32 matrix (n, D) in safetensors form, written a batch at a time and read through a memory
map. It is complete or absent, and carries a digest over all that it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.types import Transform
from harness.encoders.cache.encodings import read_header
from harness.transforms.affine import Moments

HEADER = 1024  # bytes, blanks at its end included: it is written when all rows are there
PART = 8192  # rows that stand in memory at a time

Name = TypeVar("Name")


@dataclass(frozen=True, eq=False)
class Rows:
    """A stored matrix, and the seconds of the pass that made it."""

    matrix: Float32[np.ndarray, "n D"]
    seconds: float


@dataclass
class RowsWriter:
    """Rows on their way into a file that does not exist before `finish`."""

    path: Path
    temporary: Path = Path()
    file: BinaryIO | None = None
    shape: tuple[int, int] = (0, 0)
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Append rows."""
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".", suffix=".tmp")
            self.temporary = Path(name)
            self.file = os.fdopen(handle, "wb")
            self.file.write(b" " * HEADER)
        data = np.ascontiguousarray(rows, dtype="<f4").data
        self.digest.update(data)
        self.file.write(data)
        self.shape = (self.shape[0] + len(rows), rows.shape[1])

    def finish(self, seconds: float) -> None:
        """Put the file in its place; without a row there is none."""
        if self.file is None:
            return
        about = {"seconds": repr(seconds)}
        about["sha256"] = _seal(self.digest, self.shape, about)
        end = 4 * self.shape[0] * self.shape[1]
        tensor = {"dtype": "F32", "shape": self.shape, "data_offsets": (0, end)}
        header = json.dumps({"__metadata__": about, "rows": tensor}).encode()
        self.file.seek(0)
        self.file.write((HEADER - 8).to_bytes(8, "little") + header.ljust(HEADER - 8))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.temporary.chmod(0o644)
        self.temporary.replace(self.path)
        self.file = None

    def discard(self) -> None:
        """Leave nothing behind of a file that was not finished."""
        if self.file is not None:
            self.file.close()
            self.temporary.unlink(missing_ok=True)
            self.file = None


def read_rows(path: Path, check: bool = True) -> Rows | None:
    """Stored rows; None if there are none, or they were damaged (then they are made again).

    What was checked once in a run need not be read through again.
    """
    parsed = read_header(path)
    if parsed is None:
        return None
    header, start = parsed
    try:
        about, shape = header["__metadata__"], tuple(header["rows"]["shape"])
        matrix = np.memmap(path, "<f4", "r", start, shape)
        seal, seconds = about.pop("sha256"), float(about["seconds"])
    except (KeyError, TypeError, ValueError):
        return None
    digest = hashlib.sha256()
    for part in parts(matrix) if check else ():
        digest.update(part.data)
    return Rows(matrix, seconds) if not check or seal == _seal(digest, shape, about) else None


def _seal(digest: Any, shape: tuple[int, ...], about: dict[str, str]) -> str:
    sealed = digest.copy()
    sealed.update(repr((tuple(shape), sorted(about.items()))).encode())
    return str(sealed.hexdigest())


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


@contextlib.contextmanager
def writing(paths: Mapping[Name, Path]) -> Iterator[dict[Name, RowsWriter]]:
    """Writers by name; none leaves anything half-written behind."""
    writers = {name: RowsWriter(path) for name, path in paths.items()}
    try:
        yield writers
    finally:
        for writer in writers.values():
            writer.discard()
