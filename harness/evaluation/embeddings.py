"""An encoder behind its cache: each sentence is encoded once, and cells share the embeddings.

`CachedEncoder` encodes what is missing; a `PooledEmbeddings` is one pooling of its encodings, a
matrix over distinct sentences that every task and every post-processor reads. A corpus that is
only fitted on streams through, into moments that are kept instead of its vectors, or, for a fit
that needs these, into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from harness.core.arrays import Float32, Int
from harness.core.digests import TextDigest
from harness.core.energy import measured_energy
from harness.core.errors import UsageError
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Clock, Corpus, Encoder, Encoding, Pooling, Progress
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.corpus_rows import Rows, read_rows, writing
from harness.transforms.affine import Moments

SHARD = 2048  # sentences a shard; an interruption loses two at most

Encode = Callable[[Sequence[str]], Encoding]


@runtime_checkable
class Dropping(Protocol):
    """An encoder that can leave its dropout on, as in training."""

    def with_dropout(self, seed: int) -> Encoder:
        """The same, its dropout drawn from this seed on: equal calls in equal order are equal."""
        ...


class Streamed(NamedTuple):
    """Moments of a corpus, the seconds of the pass that made them, the digest of its text."""

    moments: Moments
    seconds: float
    digest: str


@dataclass
class PooledEmbeddings:
    """The distinct sentences of a run under one pooling, and the moments fitted from them."""

    row: Mapping[str, int]
    matrix: Float32[np.ndarray, "N D"]
    clock: Clock
    fitted: dict[str, tuple[Moments, float]] = field(default_factory=dict)
    found: dict[tuple[str, ...], Int[np.ndarray, " n"]] = field(default_factory=dict)

    def rows(self, texts: Sequence[str]) -> Int[np.ndarray, " n"]:
        """Where the texts stand in the matrix."""
        texts = tuple(texts)
        if texts not in self.found:
            self.found[texts] = np.array([self.row[text] for text in texts], dtype=np.int64)
        return self.found[texts]

    def moments(self, name: str, texts: Sequence[str]) -> tuple[Moments, float]:
        """Moments over texts with their repetitions, and the seconds that they took once."""
        if name not in self.fitted:
            start = self.clock()
            rows, repeats = np.unique(self.rows(texts), return_counts=True)
            moments = Moments.of(self.matrix[rows], repeats)
            self.fitted[name] = moments, self.clock() - start
        return self.fitted[name]


@dataclass
class CachedEncoder:
    """An encoder that is loaded only if a sentence is missing, and the cache that it fills."""

    key: str
    cache: EncoderCache
    load: Callable[[], Encoder]
    clock: Clock
    moments_folder: Path
    rows_folder: Path
    revision: str | None = None  # of the hub snapshot that the weights came from
    encoder: Encoder | None = None
    whole: set[Path] = field(default_factory=set)  # files of rows whose digest was checked

    def encode(self, texts: Sequence[str]) -> Encoding:
        """Straight through the encoder, past the cache."""
        return self._loaded().encode(texts)

    def dropping(self, seed: int) -> Encode:
        """The same with the encoder's dropout on."""
        return dropping(self._loaded(), seed).encode

    def _loaded(self) -> Encoder:
        if self.encoder is None:
            self.encoder = self.load()
        return self.encoder

    def ensure(self, texts: Sequence[str], progress: Progress) -> None:
        """Encode and store the distinct texts that are not cached yet, a shard at a time.

        Similar lengths go together, since a batch costs what its longest sentence costs. A shard is
        written while the next one is encoded; two stand in memory and no more.
        """
        missing = sorted(self.cache.missing(texts), key=len)
        written: Future[None] | None = None
        with ThreadPoolExecutor(1, "cache") as writer:  # leaving it waits for what is being written
            for start in range(0, len(missing), SHARD):
                batch, encoder = missing[start : start + SHARD], self._loaded()
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

    def view(self, pooling: Pooling, texts: Sequence[str]) -> PooledEmbeddings:
        """One pooling of cached texts; reads only the layers that it needs."""
        depth = self.cache.depth
        layers = pooling.hidden_states(depth)
        parts = () if layers else ("cls", "pooler")
        encoding = self.cache.read(texts, layers or (depth,), parts)
        return PooledEmbeddings(
            {text: i for i, text in enumerate(texts)}, pooling(encoding), self.clock
        )

    def stream(
        self,
        corpus: Corpus,
        data_dir: Path,
        poolings: Sequence[Pooling],
        progress: Progress,
        keep: Mapping[Pooling, Path] | None = None,
    ) -> dict[str, Streamed]:
        """Moments of a whole corpus under each pooling that this encoder has.

        Read from disk where an earlier run left them, else from one pass over the corpus, which
        also writes the rows of the poolings to `keep`.
        """
        folder = self.moments_folder
        paths = {p.name: folder / f"{corpus.name}.{p.name}.safetensors" for p in poolings}
        stored = {name: read_moments(path) for name, path in paths.items()}
        sums = {p: Sums() for p in poolings if stored[p.name] is None}
        if sums:
            progress.phase(f"fitting on {corpus.name}", None)
            with writing(
                {p: file for p, file in (keep or {}).items() if not file.exists()}
            ) as kept:
                texts = corpus.sentences(data_dir)
                seconds, digest = self._pass(texts, self.encode, (sums, kept), progress)
                for writer in kept.values():
                    writer.finish({"seconds": repr(seconds)})
            for pooling, added in sums.items():
                if added.moments is not None:
                    found = Streamed(added.moments, seconds, digest)
                    write_moments(paths[pooling.name], found)
                    stored[pooling.name] = found
        return {name: found for name, found in stored.items() if found is not None}

    def rows(
        self,
        files: Mapping[Pooling, Path],
        texts: Callable[[], Iterable[str]],
        encode: Callable[[], Encode],
        progress: Progress,
        phase: tuple[str, int],
    ) -> dict[Pooling, Rows]:
        """One row a text under each pooling that this encoder has, from files or from one pass.

        `phase` says what is under way and of how many texts.
        """
        found = {p: self._read(file) for p, file in files.items()}
        if missing := {p: files[p] for p, rows in found.items() if rows is None}:
            progress.phase(*phase)
            with writing(missing) as writers:
                seconds, _ = self._pass(texts(), encode(), (writers,), progress)
                for writer in writers.values():
                    writer.finish({"seconds": repr(seconds)})
            found |= {p: self._read(file) for p, file in missing.items()}
        return {p: rows for p, rows in found.items() if rows is not None}

    def _read(self, file: Path) -> Rows | None:
        rows = read_rows(file, check=file not in self.whole)
        if rows is not None:
            self.whole.add(file)
        return rows

    def _pass(
        self,
        texts: Iterable[str],
        encode: Encode,
        sinks: Iterable[Mapping[Pooling, Sink]],
        progress: Progress,
    ) -> tuple[float, str]:
        """Pour the rows of each pooling into its sinks; the seconds, and the text's digest.

        A pooling that the encoder lacks is passed over.
        """
        start, digest = self.clock(), TextDigest()
        every = [(pooling, sink) for by_pooling in sinks for pooling, sink in by_pooling.items()]
        usable: set[Pooling] | None = None
        for batch in _batches(texts, SHARD):
            for text in batch:
                digest.add(text)
            encoding = encode(batch)
            if usable is None:
                usable = {pooling for pooling, _ in every if _has(pooling, encoding)}
            rows = {pooling: pooling(encoding) for pooling in usable}
            for pooling, sink in every:
                if pooling in rows:
                    sink.add(rows[pooling])
            progress.step(len(batch))
        return self.clock() - start, digest.hexdigest()


@runtime_checkable
class Sink(Protocol):
    """What takes the rows of a pass, a batch at a time."""

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Take these."""


@dataclass
class Sums:
    """Moments that grow by a batch at a time."""

    moments: Moments | None = None

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Merge these in."""
        part = Moments.of(rows)
        self.moments = part if self.moments is None else self.moments.merge(part)


def dropping(encoder: Encoder, seed: int) -> Encoder:
    """The encoder with its dropout on. Raises UsageError for one that has none."""
    if not isinstance(encoder, Dropping):
        raise UsageError("wanted an encoder with dropout, found one that has none to leave on")
    return encoder.with_dropout(seed)


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


def write_moments(path: Path, found: Streamed) -> None:
    """Store moments, sealed."""
    moments = found.moments
    tensors = {"mean": moments.mean, "scatter": moments.scatter}
    about = {"count": str(moments.count), "seconds": repr(found.seconds), "text": found.digest}
    write_tensors(path, tensors, about)


def read_moments(path: Path) -> Streamed | None:
    """Stored moments; None if there are none, or they were damaged (then they are made again)."""
    file = TensorFile.parse(path)
    tensors = [file.read(name) for name in ("mean", "scatter")] if file else [None]
    if file is None or any(tensor is None for tensor in tensors):
        return None
    about = file.metadata
    return Streamed(Moments(int(about["count"]), *tensors), float(about["seconds"]), about["text"])
