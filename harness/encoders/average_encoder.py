"""The base of encoders that average the rows of a table of vectors over a text.

`word_vectors.py` has one for words, `subword_vectors.py` one for the pieces of a
tokenizer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.interfaces import Encoding


@dataclass(frozen=True, eq=False)
class AverageEncoder(ABC):
    """A loaded table of V vectors. It keeps one layer, and has no summary token or pooler.

    A subclass says in `token_rows` which rows of the table a text is the mean of.

    Attributes:
        key: The digest of everything that changes its vectors.
        vectors: The table.
    """

    key: str
    vectors: Float32[np.ndarray, "V D"] = field(repr=False)

    facts: ClassVar[Mapping[str, object]] = {}

    @abstractmethod
    def token_rows(self, texts: Sequence[str]) -> Iterable[tuple[Sequence[int], int]]:
        """For each text the rows of the table, repetitions included, and its number of tokens."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text, taken in float64.

        A text whose tokens have no vector is the zero vector, as in SentEval: it is a
        fact about the table, and its cosine counts as 0.
        """
        mean = np.zeros((len(texts), 1, self.vectors.shape[1]), np.float32)
        tokens = np.zeros((len(texts), 2), np.float32)
        for text_number, (rows, token_count) in enumerate(self.token_rows(texts)):
            tokens[text_number] = token_count, len(rows)
            if rows:
                mean[text_number, 0] = self.vectors[rows].mean(axis=0, dtype=np.float64)
        return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)
