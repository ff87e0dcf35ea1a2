"""The distinct sentences of a run under one pooling: the matrix that its cells share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.core.arrays import Float32, Int
from harness.core.types import Clock
from harness.transforms.affine import Moments


@dataclass
class PooledEmbeddings:
    """A matrix over distinct sentences, `row` of each, and the moments that were taken of them."""

    row: Mapping[str, int]
    matrix: Float32[np.ndarray, "N D"]
    clock: Clock
    taken: dict[str, tuple[Moments, float]] = field(default_factory=dict)

    def rows(self, texts: Sequence[str]) -> Int[np.ndarray, " n"]:
        """Where the texts stand in the matrix."""
        return np.array([self.row[text] for text in texts], dtype=np.int64)

    def moments(self, name: str, texts: Sequence[str]) -> tuple[Moments, float]:
        """Moments over texts with their repetitions, and the seconds that they took once."""
        if name not in self.taken:
            start = self.clock()
            rows, repeats = np.unique(self.rows(texts), return_counts=True)
            moments = Moments.of(self.matrix[rows], repeats)
            self.taken[name] = moments, self.clock() - start
        return self.taken[name]
