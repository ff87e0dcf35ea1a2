"""The distinct sentences of a run under one pooling: the matrix that its cells share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from harness.assets.places import Places, revision_of
from harness.core.arrays import Float32, Int
from harness.core.errors import UsageError
from harness.core.interfaces import Encoder, EncoderConfig, Encoding, Identity, Pooling
from harness.core.types import Clock, Progress
from harness.encoders.batches import multiplications
from harness.encoders.cache.encodings import (
    PARTS,
    EncoderCache,
    note_passed,
    open_labelled,
    read_label,
)
from harness.evaluation.corpus_files import MomentsWriter, RowsWriter
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


SHARD = 2048  # sentences that are encoded at a time, at most
# Multiplications that are done at a time: two ordinary cores take about two seconds for them. So
# an interruption loses no more than that of each kind of work.
WORK = 1e11
GPU_WORK = 1e13  # on a GPU, which small batches would leave idle; an estimate, not measured
PROBE = "one sentence"
LETTERS = 5  # of a token and the space behind it, about
SENTENCE = 60  # letters of a sentence, about
KEPT_EVERY = 5.0  # seconds of a pass over a corpus, until its state is kept at the latest


class DroppingEncoder(Encoder, Protocol):
    """An encoder whose dropout is on: what it draws depends on the calls before."""

    def pass_over(self, texts: Sequence[str]) -> None:
        """Draw what encoding the texts would draw, and encode nothing."""
        ...


@runtime_checkable
class DropoutEncoder(Protocol):
    """An encoder that can leave its dropout on, as in training."""

    def with_dropout(self, seed: int) -> DroppingEncoder:
        """The encoder with dropout drawn from this seed on: equal calls in order are equal."""
        ...


@runtime_checkable
class KnownCost(Protocol):
    """An encoder that states its cost, because its encodings do not show all of its layers."""

    @property
    def multiplications(self) -> int:
        """Multiplications that a token takes, roughly."""
        ...


def with_dropout(encoder: Encoder, seed: int) -> DroppingEncoder:
    """The encoder with its dropout on. Raises UsageError for one that has none."""
    if not isinstance(encoder, DropoutEncoder):
        raise UsageError("wanted an encoder with dropout, found one that has none to leave on")
    return encoder.with_dropout(seed)


@dataclass
class CachedEncoder:
    """An encoder that is loaded only if a sentence is missing, and the cache that it fills.

    Below `folder`, moments and rows of corpora lie beside the encodings. `revision` is that of the
    hub snapshot that the weights came from.
    """

    identity: Identity
    cache: EncoderCache
    load: Callable[[], Encoder]
    clock: Clock
    folder: Path
    revision: str | None = None
    encoder: Encoder | None = None

    @classmethod
    def open(cls, config: EncoderConfig, places: Places, clock: Clock) -> CachedEncoder:
        """The encoder of a configuration. Raises AssetMissing where its files are not here."""
        path = places.encoder(config)
        identity = config.identify(path)
        return cls(
            identity,
            open_labelled(places.cache, config, path, identity),
            lambda: config.load(path, places.cache),
            clock,
            places.cache,
            revision_of(path),
        )

    @property
    def moments_folder(self) -> Path:
        """Where the moments of corpora lie."""
        return self.folder / "moments" / self.identity.key

    @property
    def rows_folder(self) -> Path:
        """Where the rows of corpora lie."""
        return self.folder / "rows" / self.identity.key

    def loaded(self) -> Encoder:
        """The encoder itself, past its cache."""
        if self.encoder is None:
            self.encoder = self.load()
        return self.encoder

    @cached_property
    def probe(self) -> Encoding:
        """The encoding of one sentence, which tells the encoder's layers, width and parts."""
        return self.loaded().encode([PROBE])

    def require_checked(self) -> None:
        """Load the encoder, once, so that its files are checked against the pins of its name."""
        demands = self.identity.demands
        if demands and demands not in read_label(self.cache.folder).passed:
            self.loaded()
            note_passed(self.cache.folder, demands)

    def ensure(self, texts: Sequence[str], progress: Progress) -> None:
        """Encode and store the distinct texts that are not cached yet, a shard at a time.

        Similar lengths go together, since a batch costs what its longest sentence costs. A shard
        takes about two seconds, and is written while the next one is encoded; two stand in memory
        and no more.
        """
        self.require_checked()
        missing = sorted(self.cache.missing(texts), key=len)
        written: Future[None] | None = None
        with ThreadPoolExecutor(1, "cache") as writer:  # leaving it waits for what is being written
            for batch in self._portions(missing):
                encoder = self.loaded()
                began = self.clock()
                encoding = encoder.encode(batch)
                seconds = self.clock() - began
                if written is not None:
                    written.result()  # raises what went wrong in writing
                written = writer.submit(self.cache.add, batch, encoding, seconds, encoder.facts)
                progress.step(len(batch))
            if written is not None:
                written.result()

    def _portions(self, texts: Iterable[str]) -> Iterator[list[str]]:
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
        return PooledEmbeddings(row, pooling(encoding), self.clock)

    def stream(
        self,
        texts: Iterable[str],
        writers: Sequence[tuple[Pooling, MomentsWriter | RowsWriter]],
        progress: Progress,
        dropout: int | None = None,
        start: int = 0,
    ) -> None:
        """Encode texts in one pass, and give the rows of each pooling to its writers.

        The state of the files is kept every few seconds. A pooling that the encoder lacks is passed
        over, and its file is not made. `dropout` is the seed of the encoder's dropout, if it is to
        be on. The first `start` texts are those of blocks before.
        """
        usable = [(pooling, writer) for pooling, writer in writers if _has(pooling, self.probe)]
        if not usable:
            return
        done = _go_on([writer for _, writer in usable])
        progress.skip(done)
        encoder, batches = self._pass(iter(texts), start + done, dropout)
        began = kept = last = self.clock()
        try:
            for batch in batches:
                encoding = encoder.encode(batch)
                for pooling, writer in usable:
                    writer.add(pooling(encoding))
                progress.step(len(batch))
                now = self.clock()
                if now - kept + (now - last) > KEPT_EVERY:  # another batch would be too much
                    kept = now
                    for _, writer in usable:
                        writer.keep(kept - began)
                last = now
            seconds = self.clock() - began
            for _, writer in usable:
                writer.finish(seconds)
        finally:
            for _, writer in usable:
                writer.close()

    def _pass(
        self, texts: Iterator[str], done: int, dropout: int | None
    ) -> tuple[Encoder, Iterator[list[str]]]:
        """The encoder of a pass and its batches behind the texts that are done."""
        if dropout is None:
            return self.loaded(), self._portions(islice(texts, done, None))
        # The order and sizes of the batches are part of the draws.
        size = dropout_batch(self.loaded(), self.probe)
        encoder = with_dropout(self.loaded(), dropout)
        for batch in _batches(islice(texts, done), size):
            encoder.pass_over(batch)
        return encoder, _batches(texts, size)


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
    """Multiplications that a token takes, roughly."""
    if isinstance(encoder, KnownCost):
        return encoder.multiplications
    return multiplications(probe.depth, probe.mean.shape[2])


def _go_on(writers: Sequence[MomentsWriter | RowsWriter]) -> int:
    """Resume all writers at the last state that all of them kept; the sentences it covers."""
    counts = [set(writer.kept()) for writer in writers]
    if not (common := set.intersection(*counts) if counts else set()):
        return 0
    for writer in writers:
        writer.go_on(max(common))
    return max(common)


def _has(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether the encoder has what the pooling reads; a cell that wants it anyway is told why."""
    try:
        pooling(encoding)
    except UsageError:
        return False
    return True


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch
