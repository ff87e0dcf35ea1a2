"""An encoder behind its cache: each sentence is encoded once, and cells share the embeddings.

A corpus that is only fitted on streams through, into moments that are kept instead of its vectors,
or, for a fit that needs these, into a file.
"""

from __future__ import annotations

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

SHARD = 2048  # sentences a shard; an interruption loses two at most


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
        """Load the encoder where nobody has checked, for its name, what is cached of its files."""
        demands = self.identity.demands
        if demands and demands not in read_label(self.cache.folder).passed:
            self.loaded()
            note_passed(self.cache.folder, demands)

    def ensure(self, texts: Sequence[str], progress: Progress) -> None:
        """Encode and store the distinct texts that are not cached yet, a shard at a time.

        Similar lengths go together, since a batch costs what its longest sentence costs. A shard is
        written while the next one is encoded; two stand in memory and no more.
        """
        self.require_checked()
        missing = sorted(self.cache.missing(texts), key=len)
        written: Future[None] | None = None
        with ThreadPoolExecutor(1, "cache") as writer:  # leaving it waits for what is being written
            for start in range(0, len(missing), SHARD):
                batch, encoder = missing[start : start + SHARD], self.loaded()
                began = self.clock()
                with measured_energy() as energy:
                    encoding = encoder.encode(batch)
                seconds = self.clock() - began
                if written is not None:
                    written.result()  # raises what went wrong in writing
                cost = seconds, energy.kwh, encoder.facts
                written = writer.submit(self.cache.add, batch, encoding, *cost)
                progress.step(len(batch))
            if written is not None:
                written.result()

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
        encoder = self.loaded() if dropout is None else with_dropout(self.loaded(), dropout)
        start = self.clock()
        usable = None
        for batch in _batches(texts, SHARD):
            encoding = encoder.encode(batch)
            if usable is None:
                usable = [(pooling, file) for pooling, file in writers if _has(pooling, encoding)]
            for pooling, writer in usable:
                writer.add(pooling(encoding))
            progress.step(len(batch))
        seconds = self.clock() - start
        for _, writer in writers:
            writer.finish(seconds)


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
