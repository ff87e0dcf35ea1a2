"""An encoder with its cache, and the matrix of pooled sentences that cells share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from harness.assets.places import Places, revision_of
from harness.core.arrays import Float, Float32, Int, read_only
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.interfaces import Encoder, EncoderConfig, Encoding, Identity, Pooling
from harness.core.provenance import plugins_of, with_code
from harness.core.types import Clock, Progress
from harness.encoders.cache.encodings import (
    SENTENCE_CHARACTERS,
    SENTENCE_VECTORS,
    EncoderCache,
)
from harness.encoders.cache.labels import open_labelled
from harness.encoders.kernels.choose import multiplications
from harness.plugins import require_digested_code
from harness.transforms.affine import Moments


@dataclass
class PooledEmbeddings:
    """Distinct sentences under one pooling, which all cells of that pooling share.

    Attributes:
        row: The row of each sentence in the matrix.
        matrix: One row a sentence, read-only.
        clock: Tells seconds.
        computed_moments: Those of texts that were asked for, by name, each with its
            seconds.
    """

    row: Mapping[str, int]
    matrix: Float32[np.ndarray, "N D"]
    clock: Clock
    computed_moments: dict[str, tuple[Moments, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = MappingProxyType(self.row)
        read_only(self.matrix)

    def rows(self, texts: Sequence[str]) -> Int[np.ndarray, " n"]:
        """The rows of texts in the matrix."""
        return np.array([self.row[text] for text in texts], dtype=np.int64)

    def moments(self, name: str, texts: Sequence[str]) -> tuple[Moments, float]:
        """Moments over texts with their repetitions, and the seconds that they took once."""
        if name not in self.computed_moments:
            start = self.clock()
            rows, repeats = np.unique(self.rows(texts), return_counts=True)
            moments = Moments.of(self.matrix[rows], repeats)
            self.computed_moments[name] = moments, self.clock() - start
        return self.computed_moments[name]


def encoded(encoder: Any, texts: Sequence[str]) -> Encoding:
    """An encoder's encoding of texts, which it cannot put into another order.

    Raises ScoreError for another number of rows than texts.
    """
    texts = tuple(texts)
    encoding: Encoding = encoder.encode(texts)
    if len(encoding) != len(texts):
        raise ScoreError(
            f"the encoder: wanted {len(texts)} rows for {len(texts)} texts, found {len(encoding)}"
        )
    return encoding


def pooled_rows(pooling: Pooling, encoding: Encoding) -> Float[np.ndarray, "N D"]:
    """One row a sentence under a pooling. Raises ScoreError for anything else."""
    rows = pooling(encoding)
    require_rows(f"pooling .{pooling.name}", rows, len(encoding))
    return rows


def require_rows(what: str, rows: Any, count: int) -> None:
    """Raise ScoreError unless these are so many rows of real numbers."""
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "fiub":
        kind = rows.dtype if isinstance(rows, np.ndarray) else type(rows).__name__
        raise ScoreError(f"{what}: wanted a matrix of real numbers, found {kind}")
    if rows.ndim != 2 or len(rows) != count:
        raise ScoreError(
            f"{what}: wanted a matrix of {count} rows, one a sentence, found shape {rows.shape}"
        )


SHARD = 2048  # sentences that are encoded at a time, at most
# Multiplications that are done at a time: two ordinary cores take about two seconds for
# them. So an interruption loses no more than two seconds of encoding.
CPU_MULTIPLICATIONS = 1e11
GPU_MULTIPLICATIONS = 1e13  # a GPU idles in small batches; an estimate, not measured
PROBE_TEXT = "one sentence"
CHARACTERS_PER_TOKEN = 5  # about, with the space behind it


def with_dropout(encoder: Encoder, seed: int) -> Any:
    """The encoder with dropout drawn from this seed on: equal calls in order are equal.

    Its `pass_over` draws what encoding some texts would draw. Raises UsageError for an
    encoder that has no dropout.
    """
    if not hasattr(encoder, "with_dropout"):
        raise UsageError(
            "wanted an encoder with dropout, found one that has none to leave on"
        )
    return encoder.with_dropout(seed)


@dataclass
class CachedEncoder:
    """An encoder that is loaded only if a sentence is missing, and the cache that it fills.

    Attributes:
        config: Its configuration.
        identity: The digests of its files.
        cache: The encodings of its sentences.
        load: Reads its files.
        clock: Tells seconds.
        folder: Holds the encodings, and the moments and rows of corpora.
        revision: That of the hub snapshot that the weights came from; None for other
            files.
        encoder: The encoder itself, once it is loaded.
    """

    config: EncoderConfig
    identity: Identity
    cache: EncoderCache
    load: Callable[[], Encoder]
    clock: Clock
    folder: Path
    revision: str | None = None
    encoder: Encoder | None = None

    @classmethod
    def open(
        cls,
        config: EncoderConfig,
        places: Places,
        clock: Clock,
        identity: Identity | None = None,
    ) -> CachedEncoder:
        """The encoder of a configuration. Raises AssetMissing where its files are not here.

        `identity` is given where the run has read the files before: files with another
        one are refused when they are loaded.
        """
        path = places.encoder(config)
        if identity is None:
            identity = places.identify(config, path)
        return cls(
            config=config,
            identity=identity,
            cache=open_labelled(places.cache, config.name, identity),
            load=lambda: config.load(path, places.cache),
            clock=clock,
            folder=places.cache,
            revision=revision_of(path),
        )

    def loaded(self) -> Encoder:
        """The encoder itself, past its cache.

        Raises DataError for one that has another key than the folder of its cache. It
        is not kept, so that whoever asks again is refused again.
        """
        if self.encoder is None:
            encoder = self.load()
            key = with_code(encoder.key, self.config)
            if key != self.identity.key:
                raise DataError(
                    f"{self.config.name}: its files changed during the run: wanted the key "
                    f"{self.identity.key[:12]}, found {key[:12]}; run again"
                )
            self.encoder = encoder
        return self.encoder

    @cached_property
    def probe(self) -> Encoding:
        """The encoding of one sentence, which tells the encoder's layers, width and parts."""
        return encoded(self.loaded(), [PROBE_TEXT])

    def ensure(self, texts: Sequence[str], progress: Progress) -> None:
        """Encode and store the distinct texts that are not cached yet, a shard at a time.

        Similar lengths go together, since a batch costs what its longest sentence
        costs. A shard takes about two seconds, and is written while the next one is
        encoded; memory holds two shards and no more.
        """
        missing = sorted(self.cache.missing(texts), key=len)
        written: Future[None] | None = None
        with ThreadPoolExecutor(
            1, "cache"
        ) as writer:  # leaving it waits for what is being written
            for batch in self.portions(missing):
                encoder = self.loaded()
                began = self.clock()
                encoding = encoded(encoder, batch)
                seconds = self.clock() - began
                require_digested_code(plugins_of(self.config).values())
                if written is not None:
                    written.result()  # raises what went wrong in writing
                written = writer.submit(
                    self.cache.add, batch, encoding, seconds, encoder.facts
                )
                progress.step(len(batch))
            if written is not None:
                written.result()

    def portions(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Texts in their order, so many at a time as take about two seconds, SHARD at most.

        A rule of layers and lengths, never of a measured time: a run that goes on after
        a kill forms the same batches, and so the same bits, as one that was left alone.
        """
        limit = (
            math.inf
        )  # of characters in a batch; the encoder is loaded for it, if need be
        longest = (self.identity.max_length or math.inf) * CHARACTERS_PER_TOKEN
        batch: list[str] = []
        characters = 0.0
        for text in texts:
            if math.isinf(limit):
                limit = characters_at_once(self.loaded(), self.probe)
            length = min(len(text), longest) + CHARACTERS_PER_TOKEN
            if batch and (characters + length > limit or len(batch) == SHARD):
                yield batch
                batch, characters = [], 0.0
            batch.append(text)
            characters += length
        if batch:
            yield batch

    def pooled(self, pooling: Pooling, texts: Sequence[str]) -> PooledEmbeddings:
        """One pooling of cached texts; reads only the layers that it needs."""
        layers = pooling.hidden_states(self.cache.depth)
        # A pooling without layers reads the summary token or the pooler.
        encoding = self.cache.read(texts, layers, () if layers else SENTENCE_VECTORS)
        row = {text: number for number, text in enumerate(texts)}
        return PooledEmbeddings(row, pooled_rows(pooling, encoding), self.clock)


def characters_at_once(encoder: Encoder, probe: Encoding) -> float:
    """Characters that are encoded in about two seconds; `probe` is one sentence's encoding."""
    on_cpu = encoder.facts.get("device", "cpu") == "cpu"
    multiplications = CPU_MULTIPLICATIONS if on_cpu else GPU_MULTIPLICATIONS
    return (
        CHARACTERS_PER_TOKEN * multiplications / _token_multiplications(encoder, probe)
    )


def dropout_batch(encoder: Encoder, probe: Encoding) -> int:
    """Sentences that are encoded with dropout at a time: SHARD, or fewer by a large encoder.

    A power of two, so that a block of a pass holds whole batches; the same on every
    device, since it is part of the draws. The plain forward pass takes about four
    seconds for them.
    """
    tokens = 2 * CPU_MULTIPLICATIONS / _token_multiplications(encoder, probe)
    sentences = CHARACTERS_PER_TOKEN * tokens / SENTENCE_CHARACTERS
    return min(SHARD, 2 ** max(0, math.floor(math.log2(sentences))))


def _token_multiplications(encoder: Encoder, probe: Encoding) -> int:
    """Multiplications that a token takes, roughly; an encoder states it if its layers do not."""
    stated: int | None = getattr(encoder, "multiplications", None)
    return stated or multiplications(probe.depth, probe.mean.shape[2])
