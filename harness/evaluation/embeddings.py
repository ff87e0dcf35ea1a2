"""The distinct sentences of a run under one pooling: the matrix that its cells share."""

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
from harness.encoders.cache.encodings import PARTS, SENTENCE, EncoderCache, open_labelled
from harness.encoders.kernels.choose import multiplications
from harness.plugins import require_folders
from harness.transforms.affine import Moments


@dataclass
class PooledEmbeddings:
    """A matrix over distinct sentences, `row` of each, and the moments that were taken of them.

    All cells of a pooling share them: the matrix is read-only from then on.
    """

    row: Mapping[str, int]
    matrix: Float32[np.ndarray, "N D"]
    clock: Clock
    taken: dict[str, tuple[Moments, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = MappingProxyType(self.row)
        read_only(self.matrix)

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
# Multiplications that are done at a time: two ordinary cores take about two seconds for them. So
# an interruption loses no more than that of each kind of work.
WORK = 1e11
GPU_WORK = 1e13  # on a GPU, which small batches would leave idle; an estimate, not measured
PROBE = "one sentence"
LETTERS = 5  # of a token and the space behind it, about


def with_dropout(encoder: Encoder, seed: int) -> Any:
    """The encoder with dropout drawn from this seed on: equal calls in order are equal.

    Its `pass_over` draws what encoding some texts would draw. Raises UsageError for an encoder that
    has no dropout.
    """
    if not hasattr(encoder, "with_dropout"):
        raise UsageError("wanted an encoder with dropout, found one that has none to leave on")
    return encoder.with_dropout(seed)


@dataclass
class CachedEncoder:
    """An encoder that is loaded only if a sentence is missing, and the cache that it fills.

    Below `folder`, moments and rows of corpora lie beside the encodings. `revision` is that of the
    hub snapshot that the weights came from.
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
        cls, config: EncoderConfig, places: Places, clock: Clock, identity: Identity | None = None
    ) -> CachedEncoder:
        """The encoder of a configuration. Raises AssetMissing where its files are not here.

        `identity` is given where the run has read the files before: then they must still have it
        if they are loaded.
        """
        path = places.encoder(config)
        identity = identity or places.identify(config, path)
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

        Raises DataError for one that has another key than the folder of its cache. It is not kept,
        so that whoever asks again is refused again.
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
        return encoded(self.loaded(), [PROBE])

    def ensure(self, texts: Sequence[str], progress: Progress) -> None:
        """Encode and store the distinct texts that are not cached yet, a shard at a time.

        Similar lengths go together, since a batch costs what its longest sentence costs. A shard
        takes about two seconds, and is written while the next one is encoded; two stand in memory
        and no more.
        """
        missing = sorted(self.cache.missing(texts), key=len)
        written: Future[None] | None = None
        with ThreadPoolExecutor(1, "cache") as writer:  # leaving it waits for what is being written
            for batch in self.portions(missing):
                encoder = self.loaded()
                began = self.clock()
                encoding = encoded(encoder, batch)
                seconds = self.clock() - began
                require_folders(plugins_of(self.config).values())
                if written is not None:
                    written.result()  # raises what went wrong in writing
                written = writer.submit(self.cache.add, batch, encoding, seconds, encoder.facts)
                progress.step(len(batch))
            if written is not None:
                written.result()

    def portions(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Texts in their order, so many at a time as take about two seconds, SHARD at most.

        A rule of layers and lengths, never of a measured time: a run that goes on after a kill
        forms the same batches, and so the same bits, as one that was left alone.
        """
        longest = (self.identity.max_length or math.inf) * LETTERS
        batch: list[str] = []
        left = most = math.inf
        for text in texts:
            if not math.isfinite(most):  # once, and not for no texts
                left = most = letters_at_once(self.loaded(), self.probe)
            letters = min(len(text), longest) + LETTERS
            if batch and (letters > left or len(batch) == SHARD):
                yield batch
                batch, left = [], most
            batch.append(text)
            left -= letters
        if batch:
            yield batch

    def pooled(self, pooling: Pooling, texts: Sequence[str]) -> PooledEmbeddings:
        """One pooling of cached texts; reads only the layers that it needs."""
        depth = self.cache.depth
        layers = pooling.hidden_states(depth)
        encoding = self.cache.read(texts, layers, () if layers else PARTS)
        row = {text: number for number, text in enumerate(texts)}
        return PooledEmbeddings(row, pooled_rows(pooling, encoding), self.clock)


def letters_at_once(encoder: Encoder, probe: Encoding) -> float:
    """Letters whose encoding takes about two seconds; `probe` is the encoding of one sentence."""
    work = WORK if encoder.facts.get("device", "cpu") == "cpu" else GPU_WORK
    return LETTERS * work / _token_cost(encoder, probe)


def dropout_batch(encoder: Encoder, probe: Encoding) -> int:
    """Sentences that are encoded with dropout at a time: SHARD, or fewer by a large encoder.

    A power of two, so that a block of a pass holds whole batches; the same on every device, since
    it is part of the draws. The plain forward pass takes twice WORK in about four seconds.
    """
    sentences = 2 * LETTERS * WORK / _token_cost(encoder, probe) / SENTENCE
    return min(SHARD, 2 ** max(0, math.floor(math.log2(sentences))))


def _token_cost(encoder: Encoder, probe: Encoding) -> int:
    """Multiplications that a token takes, roughly; an encoder states it if its layers do not."""
    stated: int | None = getattr(encoder, "multiplications", None)
    return stated or multiplications(probe.depth, probe.mean.shape[2])
