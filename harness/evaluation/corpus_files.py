"""Files of corpora: moments, or rows for fits that need the vectors themselves.

Each is a sealed safetensors file, complete or absent. Rows are a float32 matrix (n, D), written a
batch at a time and read through a memory map, so that they may be larger than memory. What a pass
has made so far can be kept, and another goes on from there.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.files import naming
from harness.core.interfaces import Transform
from harness.core.tensors import TensorFile, write_tensors
from harness.transforms.affine import Moments

TENSOR = "rows"
PART = 8192  # rows that stand in memory at a time
ROW_ITEM = 4  # bytes of a float32


@dataclass(frozen=True, eq=False)
class StoredCorpus:
    """The moments or rows of a corpus, and the seconds of the pass that made them."""

    vectors: Moments | Float32[np.ndarray, "n D"]
    seconds: float


def _partials(path: Path) -> tuple[Path, Path]:
    """The files of the last two states of an interrupted pass.

    Two, since a kill may come when only some of a pass's files have their next state.
    """
    first, second = (path.with_name(f".{path.name}.{number}.partial") for number in (0, 1))
    return first, second


@dataclass
class MomentsWriter:
    """Moments that grow by some rows at a time, on their way into a file."""

    path: Path
    moments: Moments | None = None
    paid: float = 0.0  # seconds, by the pass that was interrupted

    def kept(self) -> dict[int, StoredCorpus]:
        """The moments that an interrupted pass kept, by their number of rows."""
        found = map(read_corpus, _partials(self.path))
        return {one.vectors.count: one for one in found if one and isinstance(one.vectors, Moments)}

    def go_on(self, count: int) -> None:
        """Resume from the kept moments of `count` rows."""
        found = self.kept()[count]
        if isinstance(found.vectors, Moments):
            self.moments, self.paid = found.vectors, found.seconds

    def keep(self, seconds: float) -> None:
        """Keep the moments so far, for a pass that goes on after an interruption."""
        older, newer = _partials(self.path)
        if newer.exists():
            newer.replace(older)
        self._write(newer, seconds)

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Merge rows in."""
        self._merge(Moments.of(rows))

    def add_stored(self, block: StoredCorpus) -> None:
        """Merge in the moments of a block of the corpus."""
        self._merge(Moments.of(block.vectors))
        self.paid += block.seconds

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        self._write(self.path, seconds)
        for partial in _partials(self.path):
            partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def _merge(self, moments: Moments) -> None:
        self.moments = moments if self.moments is None else self.moments.merge(moments)

    def _write(self, path: Path, seconds: float) -> None:
        if self.moments is not None:
            tensors = {"mean": self.moments.mean, "scatter": self.moments.scatter}
            about = {"count": str(self.moments.count), "seconds": repr(self.paid + seconds)}
            write_tensors(path, tensors, about)


@dataclass
class RowsWriter:
    """Rows, on their way into a file that does not exist before `finish`.

    They are appended to a file without a name until `keep`, then to one that outlives the process,
    beside which a state says how many of its rows are whole, and their sha256.
    """

    path: Path
    added: int = 0
    width: int = 0
    paid: float = 0.0  # seconds, by the pass that was interrupted
    file: Any = None
    sha256: Any = field(default_factory=hashlib.sha256)

    def kept(self) -> dict[int, TensorFile]:
        """The states that an interrupted pass kept, by their number of rows."""
        found = map(TensorFile.parse, _partials(self.path))
        return {int(one.metadata["rows"]): one for one in found if one and self._verified(one)}

    def go_on(self, count: int) -> None:
        """Resume behind the first `count` rows, which were kept."""
        state = self.kept()[count]
        about = state.metadata
        self.file = state.path.with_name(about["file"]).open("r+b")
        self.added, self.width, self.paid = count, int(about["width"]), float(about["seconds"])
        self.sha256 = _sha256_of_start(self.file, count * self.width * ROW_ITEM)

    def keep(self, seconds: float) -> None:
        """Keep the rows so far, for a pass that goes on after an interruption."""
        if self.file is None:
            return
        if not isinstance(self.file.name, str):
            self.file = self._named(self.file)
        self.file.flush()
        older, newer = _partials(self.path)
        if newer.exists():
            newer.replace(older)
        about = {"rows": self.added, "width": self.width, "sha256": self.sha256.hexdigest()}
        about |= {"file": Path(self.file.name).name, "seconds": repr(self.paid + seconds)}
        write_tensors(newer, {}, {name: str(value) for name, value in about.items()})

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Append rows."""
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 - see close
            self.width = rows.shape[1]
        content = np.ascontiguousarray(rows).data
        with naming(self.path):
            self.file.write(content)
        self.sha256.update(content)
        self.added += len(rows)

    def add_stored(self, block: StoredCorpus) -> None:
        """Append the rows of a block of the corpus."""
        for part in parts(np.asarray(block.vectors)):
            self.add(part)
        self.paid += block.seconds

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        if self.file is not None:
            with naming(self.path):
                self.file.flush()
            shape = (self.added, self.width)
            rows = {TENSOR: np.memmap(self.file, np.float32, "r", shape=shape)}
            write_tensors(self.path, rows, {"seconds": repr(self.paid + seconds)})
        self.close()
        for partial in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.partial"):
            partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file of rows; what was kept of them stays."""
        if self.file is not None:
            self.file.close()

    def _named(self, file: Any) -> Any:
        """The rows in a file of a name of its own, since another process may write equal ones."""
        name = self.path.with_name(f".{self.path.name}.{uuid4().hex}.partial")
        with naming(self.path):
            new = name.open("w+b")
            file.seek(0)
            shutil.copyfileobj(file, new)
        file.close()
        return new

    def _verified(self, state: TensorFile) -> bool:
        """Whether the rows of a state are still there as they were written."""
        about = state.metadata
        try:
            with state.path.with_name(about["file"]).open("rb") as file:
                size = int(about["rows"]) * int(about["width"]) * ROW_ITEM
                return _sha256_of_start(file, size).hexdigest() == about["sha256"]
        except (OSError, LookupError):
            return False


def _sha256_of_start(file: Any, size: int) -> Any:
    """The sha256 of the first `size` bytes of a file, which is left positioned behind them."""
    sha256, left = hashlib.sha256(), size
    while left and (part := file.read(min(left, 2**20))):
        sha256.update(part)
        left -= len(part)
    file.seek(size)
    return sha256


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
        if hasattr(os, "posix_fallocate"):  # a full disk would end the process at some later row
            with naming(folder):
                size = math.prod(shape) * np.dtype(dtype).itemsize
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.memmap(file, dtype, "w+", shape=shape)
