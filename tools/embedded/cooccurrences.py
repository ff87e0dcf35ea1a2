"""The weighted co-occurrence counts that GloVe is trained on.

As in the released code of Pennington, Socher & Manning 2014: the vocabulary is the most frequent
words, others are removed before distances are measured, a pair at distance d counts 1/d in both
directions, and no window crosses the end of a sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from harness.core.arrays import Float64, Int, Int32
from harness.core.errors import DataError, UsageError
from harness.core.types import Progress
from harness.encoders.word_tokenizer import Tokeniser

PIECE = 2**20  # words whose pairs are sorted at a time: 80 MB of keys for a window of 10
LOWER_CASED = Tokeniser("words", "lower")
REPORTED = 1000  # sentences between two steps of the progress bar


@dataclass(frozen=True)
class Counting:
    """The vocabulary and the window.

    The vocabulary is the `words` most frequent words with at least `least` occurrences, as the
    tokeniser that the vectors will be read with splits sentences. Forms are counted as written, so
    that case rule `fallback` gives a cased vocabulary.
    """

    tokeniser: Tokeniser = LOWER_CASED
    words: int = 15_000
    least: int = 5
    window: int = 10

    def __post_init__(self) -> None:
        if min(self.words, self.least, self.window) < 1:
            raise UsageError(
                "wanted a word, an occurrence and a distance or more, found "
                f"{self.words} words, least {self.least}, window {self.window}"
            )


@dataclass(frozen=True, eq=False)
class Cooccurrences:
    """V words, the most frequent first, and the n entries row <= column of their symmetric matrix.

    `counts` are weighted counts. `tokens` is the length of the corpus, words outside the vocabulary
    included.
    """

    words: tuple[str, ...]
    occurrences: Int[np.ndarray, " V"]
    rows: Int32[np.ndarray, " n"]
    columns: Int32[np.ndarray, " n"]
    counts: Float64[np.ndarray, " n"]
    sentences: int
    tokens: int

    def facts(self) -> dict[str, int]:
        """The size of the counts; `entries` is the number of nonzeros of the symmetric matrix."""
        diagonal = int((self.rows == self.columns).sum())
        return {
            "sentences": self.sentences,
            "tokens": self.tokens,
            "known_tokens": int(self.occurrences.sum()),
            "words": len(self.words),
            "occurrences_of_the_rarest": int(self.occurrences[-1]),
            "entries": 2 * len(self.counts) - diagonal,
        }


def count(sentences: Iterable[str], counting: Counting, progress: Progress) -> Cooccurrences:
    """Count the co-occurrences in one pass over the sentences.

    Memory grows with the tokens and the distinct pairs. Raises DataError where no two words of the
    vocabulary co-occur.
    """
    known, numbers, lengths = _read(sentences, counting.tokeniser, progress)
    words, occurrences = _most_frequent(known, numbers, counting)
    rank = np.full(len(known), -1, np.int32)
    rank[[known[word] for word in words]] = np.arange(len(words))
    ids = rank[numbers]
    sentence = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    pairs = _sum(ids[ids >= 0], sentence[ids >= 0], len(words), counting.window, progress)
    if not pairs.nnz:
        raise DataError(
            f"wanted words that stand together, found {len(lengths)} sentences with {len(numbers)} "
            f"words, {len(words)} of them with {counting.least} occurrences or more"
        )
    rows = np.repeat(np.arange(len(words), dtype=np.int32), np.diff(pairs.indptr))
    columns = pairs.indices.astype(np.int32, copy=False)
    counts = np.where(rows == columns, 2.0, 1.0) * pairs.data  # with itself: both directions
    return Cooccurrences(words, occurrences, rows, columns, counts, len(lengths), len(numbers))


class _EveryWord(dict[str, int]):
    """A vocabulary that contains every word and numbers them in the order of lookup."""

    def __contains__(self, word: object) -> bool:
        return True

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def _read(
    sentences: Iterable[str], tokeniser: Tokeniser, progress: Progress
) -> tuple[dict[str, int], Int32[np.ndarray, " t"], Int32[np.ndarray, " s"]]:
    """The numbers of all words, the corpus as numbers, and sentence lengths."""
    progress.phase("reading", None)
    known, numbers, lengths = _EveryWord(), array("i"), array("i")
    for text in sentences:
        row = tokeniser.look_up(text, known)[0]
        numbers.extend(row)
        lengths.append(len(row))
        if len(lengths) % REPORTED == 0:
            progress.step(REPORTED)
    progress.step(len(lengths) % REPORTED)
    return known, np.array(numbers, np.int32), np.array(lengths, np.int32)


def _most_frequent(
    known: dict[str, int], numbers: Int32[np.ndarray, " t"], counting: Counting
) -> tuple[tuple[str, ...], Int[np.ndarray, " V"]]:
    """The vocabulary by descending frequency, ties alphabetical, and the frequencies."""
    occurrences = np.bincount(numbers, minlength=len(known))
    enough = [word for word, number in known.items() if occurrences[number] >= counting.least]
    enough.sort(key=lambda word: (-occurrences[known[word]], word))
    words = tuple(enough[: counting.words])
    return words, occurrences[[known[word] for word in words]]


def _sum(
    ids: Int32[np.ndarray, " t"],
    sentence: Int32[np.ndarray, " t"],
    size: int,
    window: int,
    progress: Progress,
) -> csr_array:
    """The weighted counts of unordered pairs: the upper triangle of a V x V matrix."""
    progress.phase("counting", len(ids))
    total = csr_array((size, size), dtype=np.float64)
    for start in range(0, len(ids), PIECE):
        stop = min(start + PIECE, len(ids))
        # Sorted by pair, then distance: one order of the sums of 1/d gives one rounding.
        keys = np.concatenate(list(_keys(ids, sentence, size, window, start, stop)))
        keys.sort()
        pairs, distances = np.divmod(keys, window + 1)
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        if len(first):
            sums = np.add.reduceat(1 / distances, first)
            total = total + csr_array((sums, np.divmod(pairs[first], size)), shape=total.shape)
        progress.step(stop - start)
    return total


def _keys(
    ids: Int32[np.ndarray, " t"],
    sentence: Int32[np.ndarray, " t"],
    size: int,
    window: int,
    start: int,
    stop: int,
) -> Iterator[Int[np.ndarray, " n"]]:
    """Pair and distance as one integer, for pairs whose first word is in ids[start:stop]."""
    for distance in range(1, window + 1):
        words, numbers = (x[start : stop + distance] for x in (ids, sentence))
        inside = numbers[:-distance] == numbers[distance:]  # of one sentence
        a, b = words[:-distance][inside].astype(np.int64), words[distance:][inside]
        yield (np.minimum(a, b) * size + np.maximum(a, b)) * (window + 1) + distance
