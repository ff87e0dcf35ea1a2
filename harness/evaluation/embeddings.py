"""An encoder with its cache, and the matrix of pooled sentences that cells share.

`CachedEncoder.encode` encodes the sentences that the cache does not have, in portions
whose sizes follow from lengths and layers. `CachedEncoder.pooled` reads cached sentences
under one pooling.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from harness.core.arrays import Float, Int, read_only, read_only_view
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.interfaces import (
    Encoder,
    EncoderConfig,
    Encoding,
    Identity,
    Pooling,
    Transform,
)
from harness.core.provenance import code_of, with_code
from harness.data.places import Places
from harness.data.tasks.loader import CellTexts, distinct_sentences
from harness.encoders.config import are_of_one_text
from harness.encoders.encodings import USUAL_STATISTICS, EncoderCache
from harness.encoders.fingerprints import Fingerprint
from harness.encoders.kernels.choose import multiplications
from harness.encoders.tensorflow_bert import readable_files
from harness.transforms.affine import Moments, OfFirstSentence
from harness.transforms.pooling import statistics_of

SHARD = 2048  # sentences that are encoded at a time, at most
# Multiplications of one portion. Two ordinary cores take about two seconds for them, so
# that an interruption loses no more than two seconds of encoding.
CPU_MULTIPLICATIONS = 1e11
GPU_MULTIPLICATIONS = 1e13  # a GPU idles in small batches; an estimate, not measured
PROBE_TEXT = "one sentence"
# The probe with other texts in its batch.
NEIGHBOURS = (PROBE_TEXT, "another sentence, which is longer", "a third")
CHARACTERS_PER_TOKEN = 5  # about, with the space after a word
SENTENCE_CHARACTERS = 60  # about, of a sentence
SENTENCE_TOKENS = SENTENCE_CHARACTERS // CHARACTERS_PER_TOKEN + 1  # as progress counts


@dataclass
class PooledEmbeddings:
    """Distinct sentences under one pooling, which all cells of that pooling share.

    Attributes:
        row: The row of each sentence in the matrix.
        matrix: One row a sentence, read-only.
        computed_moments: The moments that were computed so far, and the seconds that
            each took, by the texts that they are of.
    """

    row: Mapping[str, int]
    matrix: Float[np.ndarray, "N D"]
    computed_moments: dict[tuple[str, ...], tuple[Moments, float]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        read_only(self.matrix)

    def rows(self, texts: Sequence[str]) -> Int[np.ndarray, " n"]:
        """The rows of texts in the matrix."""
        return np.array([self.row[text] for text in texts], dtype=np.int64)

    def moments(self, texts: tuple[str, ...]) -> tuple[Moments, float]:
        """The moments of texts, repetitions included, and the seconds that they took.

        They are computed once, for all methods that are fitted on these texts.
        """
        if texts not in self.computed_moments:
            start = perf_counter()
            rows, repeats = np.unique(self.rows(texts), return_counts=True)
            moments = Moments.of(self.matrix[rows], repeats)
            self.computed_moments[texts] = moments, perf_counter() - start
        return self.computed_moments[texts]


def encoded(encoder: Any, texts: Sequence[str]) -> Encoding:
    """An encoder's encoding of texts, which are passed on as a tuple that it cannot sort.

    Raises ScoreError for anything but an Encoding with a row for each text.
    """
    encoding = encoder.encode(tuple(texts))
    if not isinstance(encoding, Encoding) or len(encoding) != len(texts):
        found = type(encoding).__name__
        if isinstance(encoding, Encoding):
            found = f"{len(encoding)} rows"
        raise ScoreError(
            f"the encoder: wanted an Encoding with {len(texts)} rows for {len(texts)} texts, "
            f"found {found}"
        )
    return encoding


def asked_for(encoder: Any, statistics: Collection[str]) -> Any:
    """An encoder that gives these statistics of layers, too.

    It is the encoder itself where it gives them anyway, or has no choice of statistics.
    """
    if USUAL_STATISTICS.issuperset(statistics):
        return encoder
    with_statistics = getattr(encoder, "with_statistics", None)
    return with_statistics(frozenset(statistics)) if with_statistics else encoder


def pooled_rows(pooling: Pooling, encoding: Encoding) -> Float[np.ndarray, "N D"]:
    """One row a sentence under a pooling. Raises ScoreError if it gives no such matrix."""
    rows = pooling(encoding)
    require_rows(f"pooling .{pooling.name}", rows, len(encoding))
    return rows


def require_rows(maker: str, rows: Any, count: int) -> None:
    """Raise ScoreError unless `rows` is a matrix of `count` rows of real numbers.

    `maker` names the pooling or map that made them, for the message.
    """
    found = type(rows).__name__
    if isinstance(rows, np.ndarray):
        if rows.dtype.kind in "fiub" and rows.ndim == 2 and len(rows) == count:
            return
        found = f"{rows.dtype} of shape {rows.shape}"
    raise ScoreError(
        f"{maker}: wanted a matrix of real numbers with {count} rows, one a sentence, found {found}"
    )


def applied(
    transform: Transform, x: Float[np.ndarray, "n D"], *, of_pairs: bool = False
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, which cannot write into `x`; the result is read-only.

    Args:
        transform: The map.
        x: The rows.
        of_pairs: Whether the rows are the first sentences of pairs.

    Raises:
        ScoreError: There are not as many rows of real numbers as in `x`.
        UsageError: The map is of the first sentences of pairs alone, and these are not.
    """
    if isinstance(transform, OfFirstSentence) and not of_pairs:
        raise UsageError(
            "wanted a map of any sentence, found one of the first sentence of each pair, which "
            "only scores of pairs have; take the post-processor without -first"
        )
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


@dataclass
class CachedEncoder:
    """An encoder that is loaded only if a sentence is missing, and the cache that it fills.

    Attributes:
        config: Its configuration.
        path: Its files.
        identity: The digests of its files.
        folder: The cache folder, which holds the encodings, and the moments and rows of
            corpora.
        cache: The encodings of its sentences.
    """

    config: EncoderConfig
    path: Path
    identity: Identity
    folder: Path
    cache: EncoderCache

    @classmethod
    def open(
        cls, config: EncoderConfig, places: Places, identity: Identity | None = None
    ) -> CachedEncoder:
        """Open the encoder of a configuration. Raises AssetMissing if its files are not here.

        `identity` is given if the run has read the files already. Then it is not computed
        again here, and files with another identity are refused when they are loaded.
        """
        path = readable_files(config, places)
        if identity is None:
            identity = places.identify(config, path)
        cache = EncoderCache.open(places.cache, identity)
        return cls(config, path, identity, places.cache, cache)

    @cached_property
    def loaded(self) -> Encoder:
        """The encoder itself. Raises DataError if its key is not the key of its cache."""
        encoder = self.config.load(self.path, self.folder)
        key = with_code(encoder.key, self.config)
        if key != self.identity.key:
            raise DataError(
                f"{self.config.name}: its files changed during the run: wanted the key "
                f"{self.identity.key[:12]}, found {key[:12]}; run again"
            )
        return encoder

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of its checkpoint; empty for an encoder that is no checkpoint."""
        read = getattr(self.config, "fingerprint", None)
        if read is None:
            return {}
        fingerprint: Fingerprint = read(self.path, self.identity.digests, self.folder)
        return fingerprint

    @cached_property
    def probe(self) -> Encoding:
        """The encoding of one sentence, which tells the encoder's layers, width and parts.

        Raises ScoreError if code of a plug-in or a program makes it, and gives the
        sentence another vector among other texts.
        """
        probe = encoded(self.loaded, [PROBE_TEXT])
        if code_of(self.config):
            among_others = encoded(self.loaded, NEIGHBOURS)
            for name, array in probe.arrays.items():
                if not are_of_one_text(among_others.arrays[name][0], array[0]):
                    raise ScoreError(
                        f"the encoder gives {PROBE_TEXT!r} another {name} in another batch: "
                        "switch off dropout, and what is computed over a batch"
                    )
        return probe

    def asked_for(self, statistics: Collection[str]) -> Encoder:
        """The encoder itself, which gives these statistics, too, if it has them."""
        return asked_for(self.loaded, statistics)

    def probe_for(self, pooling: Pooling) -> Encoding:
        """The encoding of one sentence, with what a pooling reads."""
        statistics = statistics_of(pooling)
        if USUAL_STATISTICS.issuperset(statistics):
            return self.probe
        return encoded(self.asked_for(statistics), [PROBE_TEXT])

    def encode(
        self, texts: Iterable[str], statistics: Collection[str] = ()
    ) -> Iterator[int]:
        """Encode and store the distinct texts that are not cached yet, a portion at a time.

        Texts of similar length are encoded together, since each text of a batch costs as
        much as the longest. `statistics` are what poolings read of layers. Yields the
        tokens of each portion when it is stored, as `tokens` counts them.
        """
        missing = self.cache.missing(texts, statistics)
        if not missing:
            return
        # A text that is encoded again loses none of the statistics that it has.
        statistics = {*statistics, *self.cache.statistics_of(missing)}
        encoder = self.asked_for(statistics)
        for portion in self.portions(sorted(missing, key=len)):
            start = perf_counter()
            encoding = encoded(encoder, portion)
            seconds = perf_counter() - start
            self.cache.add(
                portion,
                encoding,
                seconds,
                self.loaded.facts,
                USUAL_STATISTICS | statistics,
            )
            yield self.tokens(portion)

    def tokens(self, texts: Iterable[str]) -> int:
        """The tokens of texts, roughly, without a tokenizer: the measure of progress.

        A text counts up to the length that it is cut to, and one token more.
        """
        longest = self.identity.max_length or math.inf
        counts = (min(longest, len(text) // CHARACTERS_PER_TOKEN) + 1 for text in texts)
        return int(sum(counts))

    def portions(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """The texts in their order, in portions that take about two seconds, SHARD texts at most.

        The size of a portion follows from layers and lengths, never from a measured
        time: a run that goes on after a kill encodes the same portions as one that was
        not killed, and so gives the same bits.
        """
        most_characters: float | None = None  # in a portion
        longest = (self.identity.max_length or math.inf) * CHARACTERS_PER_TOKEN
        portion: list[str] = []
        characters = 0.0
        for text in texts:
            if most_characters is None:  # the encoder is loaded only if there is a text
                is_on_cpu = self.loaded.facts.get("device", "cpu") == "cpu"
                at_once = CPU_MULTIPLICATIONS if is_on_cpu else GPU_MULTIPLICATIONS
                per_token = _token_multiplications(self.loaded, self.probe)
                most_characters = CHARACTERS_PER_TOKEN * at_once / per_token
            # A text counts up to the length that it is cut to, and one token more.
            length = min(len(text), longest) + CHARACTERS_PER_TOKEN
            is_full = len(portion) == SHARD or characters + length > most_characters
            if portion and is_full:
                yield portion
                portion, characters = [], 0.0
            portion.append(text)
            characters += length
        if portion:
            yield portion

    def pooled(self, pooling: Pooling, texts: Sequence[str]) -> PooledEmbeddings:
        """Texts under a pooling, of which those that are missing are encoded first.

        Only the layers that the pooling needs are read.
        """
        statistics = statistics_of(pooling)
        # Another process may have encoded them.
        if self.cache.missing(texts, statistics):
            self.cache = EncoderCache.open(self.folder, self.identity)
            for _ in self.encode(texts, statistics):
                pass
        layers = pooling.hidden_states(self.cache.depth)
        encoding = self.cache.read(texts, layers, statistics)
        row = {text: number for number, text in enumerate(texts)}
        return PooledEmbeddings(row, pooled_rows(pooling, encoding))


def missing_sentences(
    cache: EncoderCache, cells: Iterable[tuple[Pooling, CellTexts]]
) -> tuple[list[str], frozenset[str]]:
    """The distinct sentences of cells that are not cached as their poolings read them.

    Args:
        cache: The cache of the encoder.
        cells: The pooling and the texts of each cell.

    Returns:
        The sentences, and the statistics that the poolings read. One pass gives each
        sentence all of them.
    """
    texts_by_statistics: dict[frozenset[str], list[CellTexts]] = {}
    for pooling, texts in cells:
        statistics = frozenset(statistics_of(pooling))
        texts_by_statistics.setdefault(statistics, []).append(texts)
    missing: set[str] = set()
    for statistics, texts_of_cells in texts_by_statistics.items():
        missing.update(cache.missing(distinct_sentences(texts_of_cells), statistics))
    return sorted(missing), frozenset().union(*texts_by_statistics)


# Sizes of portions


def dropout_batch(encoder: Encoder, probe: Encoding) -> int:
    """Sentences that are encoded with dropout at a time: SHARD, or fewer for a large encoder.

    It is the same on every device, since the dropout of a sentence depends on its batch.
    Without dropout, the encoder would take about four seconds for a batch.
    """
    tokens = 2 * CPU_MULTIPLICATIONS / _token_multiplications(encoder, probe)
    sentences = CHARACTERS_PER_TOKEN * tokens / SENTENCE_CHARACTERS
    return min(SHARD, 2 ** max(0, math.floor(math.log2(sentences))))


def _token_multiplications(encoder: Encoder, probe: Encoding) -> int:
    """Multiplications for a token, roughly: as the encoder states, or by its depth and width."""
    stated_count: int | None = getattr(encoder, "multiplications", None)
    depth, width = probe.depth, probe.mean.shape[2]
    return stated_count or multiplications(depth, width)
