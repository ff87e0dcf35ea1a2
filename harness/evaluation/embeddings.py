"""An encoder behind its cache: each sentence is encoded once, and cells share the embeddings.

A corpus that is only fitted on streams through, into moments that are kept instead of its vectors,
or, for a fit that needs these, into a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from harness.assets.places import Places, revision_of
from harness.core.energy import measured_energy
from harness.core.errors import UsageError
from harness.core.interfaces import Encoder, EncoderConfig, Encoding, Identity, Pooling
from harness.core.types import Clock, Progress
from harness.encoders.cache.encodings import PARTS, EncoderCache
from harness.encoders.cache.labels import note_passed, open_labelled, read_label
from harness.evaluation.corpus_files import MomentsWriter, RowsWriter
from harness.evaluation.pooled import PooledEmbeddings

SHARD = 2048  # sentences that are encoded at a time, at most
FEW = 64  # of an encoder of which nothing is cached: they tell its layers
# Multiplications that are done at a time: two ordinary cores take about two seconds for them. So
# an interruption loses no more than that of each kind of work.
WORK = 1e11
LETTERS = 5  # of a token and the space behind it, about
KEPT_EVERY = 4.0  # seconds of a pass over a corpus, until its moments so far are kept


@runtime_checkable
class DropoutEncoder(Protocol):
    """An encoder that can leave its dropout on, as in training."""

    def with_dropout(self, seed: int) -> Encoder:
        """The encoder with dropout drawn from this seed on: equal calls in order are equal."""
        ...


def with_dropout(encoder: Encoder, seed: int) -> Encoder:
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
        at_once = self._letters_at_once()
        written: Future[None] | None = None
        done = 0
        with ThreadPoolExecutor(1, "cache") as writer:  # leaving it waits for what is being written
            while done < len(missing):
                rest = islice(missing, done, done + (min(FEW, SHARD) if at_once is None else SHARD))
                batch, encoder = next(self._portions(rest, at_once)), self.loaded()
                began = self.clock()
                with measured_energy() as energy:
                    encoding = encoder.encode(batch)
                seconds = self.clock() - began
                at_once = at_once or letters_at_once(encoding.depth, encoding.mean.shape[2])
                if written is not None:
                    written.result()  # raises what went wrong in writing
                cost = seconds, energy.kwh, encoder.facts
                written = writer.submit(self.cache.add, batch, encoding, *cost)
                done += len(batch)
                progress.step(len(batch))
            if written is not None:
                written.result()

    def _letters_at_once(self) -> float | None:
        """The letters of a shard, by the encoder's size; None while nothing of it is cached."""
        cache = self.cache
        return letters_at_once(cache.depth, cache.dimensions) if cache.shards else None

    def _portions(self, texts: Iterable[str], at_once: float | None) -> Iterator[list[str]]:
        """Texts in their order, so many at a time as take about two seconds, SHARD at most.

        A rule of layers and lengths, never of a measured time: a run that goes on after a kill
        forms the same batches, and so the same bits, as one that was left alone.
        """
        longest = (self.identity.max_length or math.inf) * LETTERS
        batch: list[str] = []
        left = most = at_once or math.inf
        for text in texts:
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
    ) -> None:
        """Encode texts in one pass, and give the rows of each pooling to its writers.

        A pooling that the encoder lacks is passed over, and its file is not made. `dropout` is the
        seed of the encoder's dropout, if it is to be on.
        """
        if dropout is not None:
            encoder, done = with_dropout(self.loaded(), dropout), 0
            batches = _batches(texts, SHARD)  # their order and sizes are part of the draws
        else:
            encoder, done = self.loaded(), _go_on([writer for _, writer in writers])
            batches = self._portions(islice(texts, done, None), self._letters_at_once())
        progress.skip(done)
        try:
            self._write(batches, encoder, writers, progress, dropout is None)
        finally:
            for _, writer in writers:
                writer.close()

    def _write(
        self,
        batches: Iterable[Sequence[str]],
        encoder: Encoder,
        writers: Sequence[tuple[Pooling, MomentsWriter | RowsWriter]],
        progress: Progress,
        keeps: bool,
    ) -> None:
        """Encode batches into files, whose state is kept every few seconds if that is wanted."""
        start = kept = self.clock()
        usable = None
        for batch in batches:
            encoding = encoder.encode(batch)
            if usable is None:
                usable = [(pooling, file) for pooling, file in writers if _has(pooling, encoding)]
            for pooling, writer in usable:
                writer.add(pooling(encoding))
            progress.step(len(batch))
            if keeps and self.clock() - kept > KEPT_EVERY:
                kept = self.clock()
                for _, writer in usable:
                    writer.keep(kept - start)
        seconds = self.clock() - start
        for _, writer in writers:
            writer.finish(seconds)


def letters_at_once(depth: int, width: int) -> float:
    """Letters that WORK is enough for: a layer multiplies a token by 12 matrices (width, width)."""
    return LETTERS * WORK / (12 * depth * width**2 + width)


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
