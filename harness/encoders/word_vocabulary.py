"""A vocabulary with word counts, and maps of its vectors that are fitted before any sentence.

Word counts come from a corpus, as those of English Wikipedia that Arora et al. (2017) published. A
map gives another vocabulary; a chain of them is part of an encoder's identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from harness.core.arrays import Float32, Int64
from harness.core.errors import DataError, UsageError
from harness.core.interfaces import PostProcessor
from harness.transforms.affine import Moments


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words with their vectors and their counts in a corpus.

    Attributes:
        rows: The row of each word.
        vectors: (V, D); a row that no word has is never read.
        counts: (V,) how often the corpus holds the word; 0 where it does not count it.
        total: The sum over all words that the corpus counts, so that p(w) = counts / total.
    """

    rows: Mapping[str, int]
    vectors: Float32[np.ndarray, "V D"]
    counts: Int64[np.ndarray, " V"]
    total: int

    @classmethod
    def of(
        cls,
        rows: Mapping[str, int],
        vectors: Float32[np.ndarray, "V D"],
        counted: Mapping[str, int],
    ) -> Vocabulary:
        """The vectors of words beside the counts of a corpus, which may hold others."""
        counts = np.zeros(len(vectors), np.int64)
        for word, row in rows.items():
            counts[row] = counted.get(word, 0)
        return cls(rows, vectors, counts, sum(counted.values()))


@runtime_checkable
class WordMap(Protocol):
    """A map from a vocabulary to another: a frozen dataclass, whose `repr` tells all settings."""

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        """Map a vocabulary, which does not change."""
        ...


@dataclass(frozen=True)
class Counted:
    """The words that the corpus counts and no others."""

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        kept = vocabulary.counts > 0
        if not kept.any():
            raise DataError(
                "wanted vectors of words that the corpus counts, found none; the counts are of "
                "words in lower case"
            )
        to = np.cumsum(kept) - 1
        rows = {word: int(to[row]) for word, row in vocabulary.rows.items() if kept[row]}
        vectors, counts = vocabulary.vectors[kept], vocabulary.counts[kept]
        return replace(vocabulary, rows=rows, vectors=vectors, counts=counts)


@dataclass(frozen=True)
class Fitted:
    """A post-processor fitted on the vectors of all words, each once or as often as it is counted.

    Args:
        post: A deterministic one that is fitted from moments.
        by_count: Whether a word counts as often as the corpus holds it.

    Raises:
        UsageError: The post-processor draws random numbers, or needs more than moments.
    """

    post: PostProcessor
    by_count: bool = False

    def __post_init__(self) -> None:
        if not (self.post.from_moments and self.post.deterministic):
            raise UsageError(
                f"{self.post.name}: wanted a deterministic post-processor that is fitted from "
                "moments, found another; word vectors are mapped by such alone"
            )

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        """The mapped vectors. Raises ScoreError for vectors that cannot be fitted."""
        repeats = vocabulary.counts if self.by_count else None
        moments = Moments.of(vocabulary.vectors, repeats)
        fitted = self.post.fit(moments, np.random.default_rng(0))  # which it never draws from
        return replace(vocabulary, vectors=fitted(vocabulary.vectors).astype(np.float32))


def read_counts(path: Path) -> dict[str, int]:
    """Counts by word: a line each, the word, a blank, its count. Raises DataError with the line."""
    counts: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            word, _, count = line.rstrip("\n").rpartition(" ")
            if not word or word in counts or not count.isdecimal() or int(count) == 0:
                raise DataError(
                    f"{path}:{number}: wanted a new word, a blank and a count, found {line[:60]!r}"
                )
            counts[word] = int(count)
    if not counts:
        raise DataError(f"{path}: wanted counts of words, found none; fetch it again")
    return counts
