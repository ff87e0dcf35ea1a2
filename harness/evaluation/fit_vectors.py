"""The data that post-processors are fitted on: vectors or moments, in memory or in a file.

The matrix of a corpus's vectors may be larger than memory. So it is read from its file
through a memory map. The matrices that a chain of post-processors makes of it are mapped
from scratch files, which the file system removes with the last reference to them.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32, read_only, read_only_view
from harness.core.files import naming
from harness.core.interfaces import Transform
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Method
from harness.evaluation.embeddings import PooledEmbeddings, require_rows
from harness.transforms.affine import Moments

ROWS_TENSOR = "rows"  # the tensor of a file that holds rows and not moments
ROWS_IN_MEMORY = 8192  # of a mapped matrix at a time


@dataclass(frozen=True, eq=False)
class FitCorpusVectors:
    """The data that post-processors are fitted on: vectors, with repetitions, or their moments.

    Attributes:
        vectors: Moments, or rows, which no fit can write into.
        scratch: The folder for scratch files, if the rows are mapped from a file and may
            be larger than memory; None for vectors in memory.
        share: The number of vectors divided by the number of the corpus's sentences.
        seconds: The seconds that it took to make them, once for all cells that share
            them.
    """

    vectors: Moments | Float[np.ndarray, "n D"]
    scratch: Path | None = None
    share: float = 1.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.vectors, Moments):
            object.__setattr__(self, "vectors", read_only_view(self.vectors))

    @classmethod
    def from_embeddings(
        cls, method: Method, pooled: PooledEmbeddings, digest: str, texts: Sequence[str]
    ) -> FitCorpusVectors:
        """The vectors or moments that a method is fitted on, from embeddings of texts.

        Args:
            method: The method.
            pooled: Embeddings of all distinct texts under the method's pooling.
            digest: The digest of the texts. Moments are computed once for each digest.
            texts: The texts, with repetitions.
        """
        if not needs_moments_alone(method):
            return cls(pooled.matrix[pooled.rows(texts)])
        moments, seconds = pooled.moments(digest, texts)
        return cls(moments, seconds=seconds)


def needs_moments_alone(method: Method) -> bool:
    """Whether a mean and a covariance are all that a method's post-processors are fitted on."""
    return all(post.from_moments for post in method.post)


# Files


def read_fit_corpus(path: Path) -> FitCorpusVectors | None:
    """Read moments or rows from a file.

    None if there is no file, if it is damaged, or if it was moved from another place in
    the cache.
    """
    file = TensorFile.parse(path)
    if file is None or file.metadata.get("place") != _place_in_cache(path):
        return None
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors}
    if any(tensor is None for tensor in tensors.values()):
        return None
    if ROWS_TENSOR in tensors:
        vectors = tensors[ROWS_TENSOR]
    else:
        vectors = Moments(count=int(file.metadata["count"]), **tensors)
    seconds = float(file.metadata["seconds"])
    return FitCorpusVectors(vectors, scratch=path.parent, seconds=seconds)


def write_fit_corpus(
    path: Path, vectors: Moments | Float[np.ndarray, "n D"], seconds: float
) -> None:
    """Store moments or rows, and the seconds of the pass that made them."""
    metadata = {"seconds": repr(seconds), "place": _place_in_cache(path)}
    if isinstance(vectors, Moments):
        tensors = {"mean": vectors.mean, "scatter": vectors.scatter}
        write_tensors(path, tensors, {"count": str(vectors.count), **metadata})
    else:
        write_tensors(path, {ROWS_TENSOR: vectors}, metadata)


def _place_in_cache(path: Path) -> str:
    """The end of a file's path: `moments` or `rows`, the encoder's key, and the file's name.

    Together they say what the file holds. The file repeats them, so that one that was
    renamed, or moved to another encoder's folder, is not read.
    """
    return "/".join(path.parts[-3:])


# Maps of matrices, which may be larger than memory


def row_chunks(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows of a matrix, at most ROWS_IN_MEMORY at a time."""
    for start in range(0, len(x), ROWS_IN_MEMORY):
        yield x[start : start + ROWS_IN_MEMORY]


def applied(
    transform: Transform, x: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, which cannot write into `x`; the result is read-only.

    Raises ScoreError unless there are as many rows of real numbers as in `x`.
    """
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, in float64, as a scratch matrix in a folder."""
    width = applied(transform, x[:1]).shape[1]
    mapped = _scratch_matrix((len(x), width), np.dtype(np.float64), folder)
    start = 0
    for chunk in row_chunks(x):
        mapped[start : start + len(chunk)] = applied(transform, chunk)
        start += len(chunk)
    rows: Float[np.ndarray, "n K"] = read_only(mapped)
    return rows


def join_rows(blocks: Sequence[np.ndarray], folder: Path) -> Float32[np.ndarray, "n D"]:
    """The rows of float32 blocks (m, D), in their order, as a scratch matrix in a folder."""
    count = sum(len(block) for block in blocks)
    width = blocks[0].shape[1]
    joined = _scratch_matrix((count, width), np.dtype(np.float32), folder)
    start = 0
    for block in blocks:
        joined[start : start + len(block)] = block
        start += len(block)
    rows: Float32[np.ndarray, "n D"] = read_only(joined)
    return rows


def _scratch_matrix(shape: tuple[int, int], dtype: np.dtype[Any], folder: Path) -> Any:
    """A matrix in a file without a name, which is removed when the matrix is not used any more."""
    with tempfile.TemporaryFile(dir=folder) as file:
        # The file gets its whole size now: a disk that becomes full while rows are
        # written would end the process.
        if hasattr(os, "posix_fallocate"):
            size = math.prod(shape) * dtype.itemsize
            with naming(folder):
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.memmap(file, dtype, "w+", shape=shape)
