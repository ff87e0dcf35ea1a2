"""Word vectors that are mapped with the help of word counts before they are averaged.

SIF and Zipfian whitening change the vectors of words by how often a corpus holds them. A
`CountedConfig` names the counts and the maps; a map takes a `Vocabulary` and returns
a new one. A map that weights a word scales its vector, so that the mean over the tokens of
a text is the weighted mean, divided by the number of known words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.core.arrays import Float32, Int64
from harness.core.digests import digest_of, identity_text, sha256_of
from harness.core.errors import DataError, UsageError
from harness.core.interfaces import Identity, PostProcessor, Source, VectorFile
from harness.data.tasks.readers import CORRECT_ADVICE, advising, lines
from harness.encoders.checkpoint import require_weights
from harness.encoders.word_vectors import (
    SETTINGS_IN_KEYS,
    StaticConfig,
    StaticEncoder,
    require_file,
)
from harness.transforms.affine import Moments

# Part of the key of every encoding: change it with any change that moves a vector.
MAPS_VERSION = "1: maps of float32 vectors, fitted in float64, kept in float32"


@dataclass(frozen=True)
class CountedConfig(StaticConfig):
    """An average of word vectors that are first mapped with the help of word counts.

    Args:
        counts: The file of word counts, in the folder of the vector file.
        maps: What is done to the vectors of the vocabulary, in this order: frozen
            dataclasses, whose identity is part of the key.
        counts_sha256: The digest that the counts must have, if given.

    Raises:
        UsageError: The vectors are no file of the data folder.
    """

    counts: str = field(kw_only=True)
    maps: tuple[WordMap, ...] = field(kw_only=True)
    counts_sha256: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.file is None or self.repo or self.package:
            raise UsageError(
                f"{self.name}: wanted vectors in a file of the data folder, since the word counts "
                "are next to it, found another source; name the file"
            )

    @property
    def source(self) -> Source:
        """The vectors and the counts in the data folder."""
        return VectorFile(
            file=str(self.file), sha256=self.weights_sha256, companion=self.counts
        )

    def identify(self, path: Path) -> Identity:
        """The key and digests, with the counts and the settings of the maps."""
        unmapped = super().identify(path)
        counts_file = self._counts_file(path)
        counts_digest = sha256_of(counts_file)
        require_weights(self.name, counts_file, self.counts_sha256, counts_digest)
        key = digest_of(
            {
                "version": MAPS_VERSION,
                "plain": unmapped.key,
                "maps": identity_text(self.maps, SETTINGS_IN_KEYS),
                "counts": counts_digest,
            }
        )
        return Identity(key, digests={**unmapped.digests, "counts": counts_digest})

    def load(self, path: Path, cache: Path) -> StaticEncoder:
        """The encoder, ready: the vectors are read, then mapped."""
        unmapped = super().load(path, cache)
        counts = read_counts(self._counts_file(path))
        vocabulary = Vocabulary.with_counts(
            unmapped.row_by_word, unmapped.vectors, counts
        )
        for word_map in self.maps:
            vocabulary = word_map(vocabulary)
        return replace(
            unmapped, row_by_word=vocabulary.rows, vectors=vocabulary.vectors
        )

    def _counts_file(self, path: Path) -> Path:
        """The file of counts, in the folder of the vector file."""
        counts_file = self.vector_file(path).parent / Path(self.counts).name
        return require_file(counts_file, self.name, "word counts")


def read_counts(path: Path) -> dict[str, int]:
    """The count of each word, from a file with a word, a blank and its count on every line.

    Raises DataError, which names the line.
    """
    counts: dict[str, int] = {}
    with advising(CORRECT_ADVICE):
        for line_name, line in lines(path):
            word, _, count = line.rpartition(" ")
            is_word = word != "" and word == word.strip() and word not in counts
            if not is_word or not count.isdecimal():
                raise DataError(
                    f"{line_name}: wanted a new word, a blank and a count, found {line[:60]!r}"
                )
            counts[word] = int(count)
    return counts


# Maps of a vocabulary


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The vectors of V words, and how often a corpus holds each.

    Attributes:
        rows: The row of each word.
        vectors: The vectors, a row a word.
        counts: The count of each word in the corpus; 0 where the corpus lacks it.
        total: The sum of the counts of all words of the corpus, so that p(w) = counts /
            total.
    """

    rows: Mapping[str, int]
    vectors: Float32[np.ndarray, "V D"]
    counts: Int64[np.ndarray, " V"]
    total: int

    @classmethod
    def with_counts(
        cls,
        rows: Mapping[str, int],
        vectors: Float32[np.ndarray, "V D"],
        corpus: Mapping[str, int],
    ) -> Vocabulary:
        """The vectors of words, and the counts of a corpus, which may hold other words.

        Raises DataError where the corpus counts no word that has a vector.
        """
        counts = np.zeros(len(vectors), np.int64)
        for word, row in rows.items():
            counts[row] = corpus.get(word, 0)
        if not counts.any():
            raise DataError(
                "wanted vectors of words that the corpus counts, found none; the counts are of "
                "words in lower case"
            )
        return cls(rows, vectors, counts, total=sum(corpus.values()))


WordMap = Callable[[Vocabulary], Vocabulary]


@dataclass(frozen=True)
class Counted:
    """A map to the words that the corpus counts: the others lose their vectors."""

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        is_counted = vocabulary.counts > 0
        row_after_removal = np.cumsum(is_counted) - 1
        rows = {}
        for word, row in vocabulary.rows.items():
            if is_counted[row]:
                rows[word] = int(row_after_removal[row])
        return replace(
            vocabulary,
            rows=rows,
            vectors=vocabulary.vectors[is_counted],
            counts=vocabulary.counts[is_counted],
        )


@dataclass(frozen=True)
class Fitted:
    """A map by a post-processor that is fitted on the vectors of all words.

    Args:
        post: The post-processor: one that draws no random numbers and is fitted from
            moments.
        by_count: Whether each word is repeated as often as it is counted; by default
            each is taken once.

    Raises:
        UsageError: The post-processor is another kind.
    """

    post: PostProcessor
    by_count: bool = False

    def __post_init__(self) -> None:
        if not (self.post.from_moments and self.post.deterministic):
            raise UsageError(
                f"{self.post.name}: word vectors are mapped by a deterministic post-processor that "
                "is fitted from moments"
            )

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        """The mapped vectors. Raises ScoreError for vectors that cannot be fitted."""
        repeats = vocabulary.counts if self.by_count else None
        moments = Moments.of(vocabulary.vectors, repeats)
        unused_generator = np.random.default_rng(0)  # the post-processor draws nothing
        transform = self.post.fit(moments, unused_generator)
        mapped = transform(vocabulary.vectors).astype(np.float32)
        return replace(vocabulary, vectors=mapped)
