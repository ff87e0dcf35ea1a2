"""Averages of word vectors: GloVe, fastText, word2vec, and any other table of words.

A `StaticConfig` names a file of vectors (`vector_files.py`) and the rule that splits a
text into words (`word_tokenizer.py`). A `CountedConfig` also names word counts and maps,
since SIF and Zipfian whitening change the vectors of words by how often a corpus holds
them. A map takes a `Vocabulary` and returns a new one. One that weights a word scales its
vector, so that the mean over the tokens of a text is the weighted mean, divided by the
number of known words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float32, Int64
from harness.core.digests import NOT_IN_IDENTITY, digest_of, identity_text, sha256_of
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import require_no_pointer
from harness.core.interfaces import Encoding, Identity, PostProcessor
from harness.data.tasks.readers import CORRECT_ADVICE, advising, lines
from harness.encoders.checkpoint import require_weights
from harness.encoders.config import BaseConfig
from harness.encoders.vector_files import ARRAY_SUFFIXES, read_vectors, write_vectors
from harness.encoders.weights import converted_once
from harness.encoders.word_tokenizer import PLAIN_TOKENISER, Tokeniser
from harness.transforms.affine import Moments

# Part of the key of every encoding: change it with any change that moves a vector.
ENCODING_VERSION = (
    "1: mean over known words in float64; no known word is the zero vector"
)
MAPS_VERSION = "1: maps of float32 vectors, fitted in float64, kept in float32"
# Settings of tokenisers and maps that are in keys even at their default, since keys are
# older than the rule that leaves defaults out.
SETTINGS_IN_KEYS = ("strip", "stop_words", "a", "by_count", "k", "centred")


@dataclass(frozen=True)
class StaticConfig(BaseConfig):
    """An average of word vectors: its name, the vector file, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        tokeniser: The rule that splits a text and looks up its words.
        file: The file's name in the data folder or package; None where a path that is
            given by hand is the file itself.
        weights_sha256: The digest that the file must have, if given.
        package: A folder in an installed package that carries the file; its code is
            never imported.
        trained_on: The texts that the vectors were trained on.
        cite: The BibTeX key of their paper.
        licence: Their licence.

    Examples:
        >>> from harness import StaticConfig
        >>> str(StaticConfig("glove", file="vectors/glove.6B.300d.txt").source)
        'vectors/glove.6B.300d.txt'
    """

    tokeniser: Tokeniser = PLAIN_TOKENISER
    file: str | None = None
    weights_sha256: str | None = None
    package: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)

    def identify(self, path: Path) -> Identity:
        """The key and digests; `path` is the vector file, or the folder that holds it."""
        file = self.vector_file(path)
        weights_digest = sha256_of(file)
        require_weights(self.name, file, self.weights_sha256, weights_digest)
        key = digest_of(
            {
                "version": ENCODING_VERSION,
                "tokeniser": identity_text(self.tokeniser, SETTINGS_IN_KEYS),
                "weights": weights_digest,
            }
        )
        return Identity(key, digests={"weights": weights_digest})

    def load(self, path: Path, cache: Path) -> StaticEncoder:
        """The encoder, ready. A text file is parsed once; `cache` keeps it as safetensors."""
        key = self.identify(path).key
        file = self.vector_file(path)
        arrays = file
        if file.suffix not in ARRAY_SUFFIXES:
            arrays = converted_once(
                cache, file, lambda new: write_vectors(new, *read_vectors(file))
            )
        words, vectors = read_vectors(arrays)
        row_by_word: dict[str, int] = {}
        for row, word in enumerate(
            words
        ):  # the first of a repeated word is more frequent
            row_by_word.setdefault(word, row)
        return StaticEncoder(key, vectors, self.tokeniser, row_by_word)

    def vector_file(self, path: Path) -> Path:
        """The vector file: `path` itself where it is a file, else the named file in that folder."""
        file = path
        if self.file is not None and not path.is_file():
            file = path / self.file
        if file.is_dir():
            raise UsageError(
                f"{self.name}: {file} is a folder; name the vector file in it"
            )
        return require_file(file, self.name, "vectors")


def require_file(path: Path, name: str, content: str) -> Path:
    """The path of an encoder's file.

    `name` is the encoder's and `content` what the file holds, for the message. Raises
    AssetMissing where there is no such file, DataError for a git-lfs pointer to it.
    """
    if not path.is_file():
        raise AssetMissing(
            f"{name}: no {content} at {path}; fetch them, or put them there"
        )
    require_no_pointer(path)
    return path


@dataclass(frozen=True, eq=False)
class StaticEncoder:
    """Loaded vectors of words. It keeps one layer, and has no summary token or pooler.

    Attributes:
        key: The digest of everything that changes its vectors.
        vectors: The table of V vectors.
        tokeniser: The rule that splits a text and looks up its words.
        row_by_word: The row of each word.
    """

    key: str
    vectors: Float32[np.ndarray, "V D"] = field(repr=False)
    tokeniser: Tokeniser
    row_by_word: Mapping[str, int] = field(repr=False)

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text, taken in float64.

        A text whose words have no vector is the zero vector, as in SentEval: it is a
        fact about the table, and its cosine counts as 0.
        """
        mean = np.zeros((len(texts), 1, self.vectors.shape[1]), np.float32)
        tokens = np.zeros((len(texts), 2), np.float32)
        for number, text in enumerate(texts):
            rows, word_count = self.tokeniser.token_rows(text, self.row_by_word)
            tokens[number] = word_count, len(rows)
            if rows:
                mean[number, 0] = self.vectors[rows].mean(axis=0, dtype=np.float64)
        return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)


# With word counts


@dataclass(frozen=True)
class CountedConfig(StaticConfig):
    """An average of word vectors that are first mapped with the help of word counts.

    Args:
        counts: The file of word counts, in the folder of the vector file.
        maps: What is done to the vectors of the vocabulary, in this order: frozen
            dataclasses, whose identity is part of the key.
        counts_sha256: The digest that the counts must have, if given.
    """

    counts: str = field(kw_only=True)
    maps: tuple[WordMap, ...] = field(kw_only=True)
    counts_sha256: str | None = field(default=None, kw_only=True)

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
    """

    post: PostProcessor
    by_count: bool = False

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        """The mapped vectors. Raises ScoreError for vectors that cannot be fitted."""
        repeats = vocabulary.counts if self.by_count else None
        moments = Moments.of(vocabulary.vectors, repeats)
        unused_generator = np.random.default_rng(0)  # the post-processor draws nothing
        transform = self.post.fit(moments, unused_generator)
        mapped = transform(vocabulary.vectors).astype(np.float32)
        return replace(vocabulary, vectors=mapped)
