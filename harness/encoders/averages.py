"""The base of static encoders: a table of vectors, averaged over the rows of each text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.interfaces import Encoding


@dataclass(frozen=True, eq=False)
class AverageEncoder(ABC):
    """A loaded table of vectors. One kept layer, no summary token, no pooler.

    A subclass looks up the tokens of texts in `look_up`; `unit` scales averages to length 1.
    """

    name: str
    key: str
    vectors: Float32[np.ndarray, "V D"] = field(repr=False)
    unit: bool = field(default=False, kw_only=True)

    facts: ClassVar[Mapping[str, object]] = {}

    @property
    def dimensions(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def depth(self) -> int:
        return 0

    @abstractmethod
    def look_up(self, texts: Sequence[str]) -> Iterable[tuple[Sequence[int], int]]:
        """The rows of the table for each text, repetitions included, and how many tokens it has."""

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Encoding:
        """The mean over the vectors of each text, in float64.

        A text without any is the zero vector, as in SentEval: it is a fact about the table, and its
        cosine counts as 0.
        """
        mean = np.zeros((len(texts), 1, self.dimensions), np.float32)
        tokens = np.zeros((len(texts), 2), np.float32)
        for number, (rows, count) in enumerate(self.look_up(texts)):
            tokens[number] = count, len(rows)
            if rows:
                vector = self.vectors[rows].mean(axis=0, dtype=np.float64)
                mean[number, 0] = vector / (np.linalg.norm(vector) + 1e-32) if self.unit else vector
        if progress is not None:
            progress(len(texts))
        return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)
