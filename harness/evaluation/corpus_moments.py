"""Moments of a corpus in a file, instead of its vectors: all that an affine map is fitted from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Float32
from harness.core.tensors import TensorFile, write_tensors
from harness.transforms.affine import Moments


class CorpusMoments(NamedTuple):
    """Moments, the seconds of the pass that made them, and the digest of the corpus's text."""

    moments: Moments
    seconds: float
    digest: str


@dataclass
class MomentsWriter:
    """Moments that grow by some rows at a time, on their way into a file."""

    path: Path
    moments: Moments | None = None

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Merge rows in."""
        moments = Moments.of(rows)
        self.moments = moments if self.moments is None else self.moments.merge(moments)

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the file; without a row there is none."""
        if self.moments is not None:
            tensors = {"mean": self.moments.mean, "scatter": self.moments.scatter}
            write_tensors(self.path, tensors, {"count": str(self.moments.count), **metadata})

    def discard(self) -> None:
        """Nothing lies on the disk before `finish`."""


def read_moments(path: Path) -> CorpusMoments | None:
    """Stored moments; None if there are none, or they were damaged (then they are made again)."""
    file = TensorFile.parse(path)
    tensors = [file.read(name) for name in ("mean", "scatter")] if file else [None]
    if file is None or any(tensor is None for tensor in tensors):
        return None
    count, seconds, text = (file.metadata[name] for name in ("count", "seconds", "text"))
    return CorpusMoments(Moments(int(count), *tensors), float(seconds), text)
