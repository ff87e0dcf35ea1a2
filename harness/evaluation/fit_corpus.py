"""What post-processors are fitted on: a task's vectors, or moments or rows of a corpus in a file.

A corpus is encoded in blocks, in one pass for all poolings and post-processors. A block is encoded
by one process, and resumed after a kill as a whole; the files of all blocks are merged in their
order, so that any number of workers gives the same bits. Each file is sealed, complete or absent.
Rows are a float32 matrix (n, D), read through a memory map: they may be larger than memory.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.errors import DataError, UsageError
from harness.core.files import naming, text_digest
from harness.core.interfaces import Encoder, Encoding, Pooling, Transform
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Method, Progress
from harness.evaluation.embeddings import (
    SHARD,
    CachedEncoder,
    PooledEmbeddings,
    dropout_batch,
    with_dropout,
)
from harness.results.records import PlannedCell
from harness.tasks.loader import FitText
from harness.transforms.affine import Moments

SHARDS_A_BLOCK = 4  # at least
MOST_BLOCKS = 256  # of a pass: each reads the corpus up to its own sentences
DIGITS = 16  # of a digest, in the name of a file
TENSOR = "rows"
PART = 8192  # rows that stand in memory at a time


@dataclass(frozen=True, eq=False)
class FitData:
    """Data for fitting post-processors: vectors, with repetitions, or their moments.

    Vectors may be mapped from a file and larger than memory: then `scratch` is a folder for what a
    chain makes of them on its way, and `share` says how much of a corpus they are. `seconds` were
    paid for them, once for all cells that share them.
    """

    vectors: Moments | Float[np.ndarray, "n D"]
    scratch: Path | None = None
    share: float = 1.0
    seconds: float = 0.0


def from_moments(method: Method) -> bool:
    """Whether a mean and a covariance are all that its chain needs."""
    return all(post.from_moments for post in method.post)


def needs_dropout(method: Method) -> bool:
    """Whether its chain is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


def sentences_read(method: Method, count: int) -> int:
    """How many of a corpus's sentences its chain is fitted on: the largest share of its parts."""
    share = max((post.share for post in method.post if not post.from_moments), default=1.0)
    return min(count, max(SHARD, math.ceil(share * count)))


def file_name(corpus: str, digest: str, dropout: int | None, pooling: Pooling) -> str:
    """The name of a file of moments or rows; `digest` is of what is fitted on."""
    noisy = "" if dropout is None else f".dropout-{dropout}"
    return f"{corpus}.{digest[:DIGITS]}{noisy}.{pooling.name}.safetensors"


@dataclass(frozen=True)
class CorpusSample:
    """Sentences of a fit, and how they are encoded; cells of equal samples share their files.

    `seed` draws `taken` of the `count` sentences, and `dropout` is the seed of the encoder's
    dropout; None where nothing is drawn.
    """

    corpus: str
    text: str
    count: int
    taken: int
    seed: int | None = None
    dropout: int | None = None

    @classmethod
    def of(cls, text: FitText, method: Method, seed: int) -> CorpusSample:
        """The sentences that a method reads with a seed: a whole task, or a share of a corpus."""
        taken = sentences_read(method, text.count) if text.streams else text.count
        drawn = seed if taken < text.count else None
        dropout = seed if needs_dropout(method) else None
        return cls(text.name, text.digest, text.count, taken, drawn, dropout)

    @property
    def digest(self) -> str:
        """Of what is fitted on: of the whole text, or of it and what was drawn."""
        if self.seed is None:
            return self.text
        return text_digest([self.text, f"{self.taken} of {self.count}, drawn by seed {self.seed}"])

    @property
    def blocks(self) -> list[range]:
        """The parts of a pass that workers make beside each other: a rule of the sample alone."""
        size = SHARD * max(SHARDS_A_BLOCK, math.ceil(self.taken / SHARD / MOST_BLOCKS))
        return [range(self.taken)[start : start + size] for start in range(0, self.taken, size)]

    def drawn(self, texts: Iterable[str]) -> Iterable[str]:
        """Those of the corpus's sentences that are taken, in their order."""
        if self.seed is None:
            return texts
        chosen = np.zeros(self.count, bool)
        # Another stream than that of the fit, which starts from the bare seed.
        chosen[np.random.default_rng([self.seed, 1]).permutation(self.count)[: self.taken]] = True
        return compress(texts, chosen)


@dataclass
class FitCorpora:
    """The fit data of one encoder's cells; `texts` holds the cells that have a fit."""

    encoder: CachedEncoder
    progress: Progress
    texts: dict[PlannedCell, FitText] = field(default_factory=dict)
    stored: dict[CorpusSample, dict[Path, StoredCorpus]] = field(default_factory=dict)

    def digest(self, cell: PlannedCell) -> str | None:
        """The digest of the sentences that a cell is fitted on; None for a cell without a fit."""
        return self._sample(cell).digest if cell in self.texts else None

    def passes(
        self, cells: Iterable[PlannedCell]
    ) -> Iterator[tuple[tuple[PlannedCell, ...], CorpusSample]]:
        """Cells by the pass that makes their files, where one is missing; what it reads."""
        cells_by_sample: dict[CorpusSample, list[PlannedCell]] = {}
        for cell in filter(self._in_file, cells):
            cells_by_sample.setdefault(self._sample(cell), []).append(cell)
        for sample, cells_of in cells_by_sample.items():
            if not all(self._file(cell).exists() for cell in cells_of):
                yield tuple(cells_of), sample

    def prepare(self, cell: PlannedCell, block: range | None = None) -> None:
        """Make what a cell is fitted on, if it is in a file, or the files of a block of it."""
        if not self._in_file(cell):
            return
        if block is None:
            self._stored(cell)
        else:
            missing = [file for file in self._methods(cell) if not file.exists()]
            self._encode(cell, missing, block)

    def data(self, cell: PlannedCell, pooled: PooledEmbeddings) -> FitData | None:
        """The fit data of a cell's chain; None for a cell without a fit."""
        if cell not in self.texts:
            return None
        if self._in_file(cell):
            stored, sample = self._stored(cell), self._sample(cell)
            share = sample.taken / sample.count
            return FitData(stored.vectors, self.encoder.rows_folder, share, stored.seconds)
        text = self.texts[cell]
        sentences = tuple(text.sentences())
        if not from_moments(cell.method):
            return FitData(pooled.matrix[pooled.rows(sentences)])
        moments, seconds = pooled.moments(text.digest, sentences)
        return FitData(moments, seconds=seconds)

    def _in_file(self, cell: PlannedCell) -> bool:
        """Whether its sentences are encoded for the fit alone: a corpus, or with dropout."""
        return cell in self.texts and (self.texts[cell].streams or needs_dropout(cell.method))

    def _sample(self, cell: PlannedCell) -> CorpusSample:
        return CorpusSample.of(self.texts[cell], cell.method, cell.seed)

    def _file(self, cell: PlannedCell) -> Path:
        """Where its moments or rows lie."""
        moments, sample = from_moments(cell.method), self._sample(cell)
        folder = self.encoder.moments_folder if moments else self.encoder.rows_folder
        return folder / file_name(sample.corpus, sample.digest, sample.dropout, cell.method.pooling)

    def _methods(self, cell: PlannedCell) -> dict[Path, Method]:
        """The files of a cell's sample that this run needs, each with a method fitted on it."""
        sample = self._sample(cell)
        peers = [peer for peer, text in self.texts.items() if text.name == sample.corpus]
        users = [peer for peer in peers if self._in_file(peer) and self._sample(peer) == sample]
        methods = {self._file(user): user.method for user in users}
        return {file: methods[file] for file in sorted(methods)}

    def _stored(self, cell: PlannedCell) -> StoredCorpus:
        """Moments or rows in a file. Raises an error that says why there are none."""
        file, sample = self._file(cell), self._sample(cell)
        if sample not in self.stored:
            self.stored[sample] = self._make(cell)
        if file not in self.stored[sample]:
            # Raises where the encoder lacks what the pooling reads, and says what that is.
            cell.method.pooling(self.encoder.probe)
            raise DataError(
                f"{sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return self.stored[sample][file]

    def _make(self, cell: PlannedCell) -> dict[Path, StoredCorpus]:
        """All files of a cell's sample that this run needs; missing blocks are encoded."""
        sample, methods = self._sample(cell), self._methods(cell)
        stored = {file: read_corpus(file) for file in methods}
        missing = [file for file in methods if stored[file] is None]
        if missing:
            drawn = sample.seed is not None or sample.dropout is not None
            seed = f", seed {cell.seed}" if drawn else ""
            self.progress.phase(f"fitting on {sample.corpus}{seed}", sample.taken)
            for block in sample.blocks:
                self._encode(cell, missing, block)
        for file in missing:
            if len(sample.blocks) > 1:
                _merge_blocks(file, sample.blocks, _writer(file, methods[file]))
            stored[file] = read_corpus(file)
        return {file: corpus for file, corpus in stored.items() if corpus is not None}

    def _encode(self, cell: PlannedCell, files: Iterable[Path], block: range) -> None:
        """Encode a block of a cell's sample into files, in one pass, unless the block is there."""
        sample, methods = self._sample(cell), self._methods(cell)
        writers = []
        for file in files:
            target = file if len(sample.blocks) == 1 else _block_file(file, block)
            if target == file or read_corpus(target) is None:
                writers.append((methods[file].pooling, _writer(target, methods[file])))
        if not writers:
            self.progress.step(len(block))
            return
        # The last block reads on, since a corpus that has changed says so at its end.
        stop = block.stop if block.stop < sample.taken else None
        texts = islice(sample.drawn(self.texts[cell].sentences()), stop)
        _encode_block(self.encoder, texts, block.start, writers, sample.dropout, self.progress)


def _encode_block(
    encoder: CachedEncoder,
    texts: Iterable[str],
    start: int,
    writers: Sequence[tuple[Pooling, MomentsWriter | RowsWriter]],
    dropout: int | None,
    progress: Progress,
) -> None:
    """Encode the texts from `start` on, and give the rows of each pooling to its writer.

    A pooling that the encoder lacks is passed over, and its file is not made.
    """
    usable = [(pooling, writer) for pooling, writer in writers if _has(pooling, encoder.probe)]
    if not usable:
        return
    source, batches = _batches(encoder, iter(texts), start, dropout)
    began = encoder.clock()
    try:
        for batch in batches:
            encoding = source.encode(batch)
            for pooling, writer in usable:
                writer.add(pooling(encoding))
            progress.step(len(batch))
        seconds = encoder.clock() - began
        for _, writer in usable:
            writer.finish(seconds)
    finally:
        for _, writer in usable:
            writer.close()


def _has(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether the encoder has what the pooling reads; a cell that wants it anyway is told why."""
    try:
        pooling(encoding)
    except UsageError:
        return False
    return True


def _batches(
    encoder: CachedEncoder, texts: Iterator[str], start: int, dropout: int | None
) -> tuple[Encoder, Iterator[Sequence[str]]]:
    """What encodes a block, and its batches."""
    if dropout is None:
        return encoder.loaded(), encoder.portions(islice(texts, start, None))
    # The order and sizes of the batches are part of the draws, those of blocks before included.
    size = dropout_batch(encoder.loaded(), encoder.probe)
    source = with_dropout(encoder.loaded(), dropout)
    for batch in _batched(islice(texts, start), size):
        source.pass_over(batch)
    return source, _batched(texts, size)


def _batched(texts: Iterator[str], size: int) -> Iterator[Sequence[str]]:
    while batch := list(islice(texts, size)):
        yield batch


def _block_file(file: Path, block: range) -> Path:
    """Where a block lies until all of them are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


def _merge_blocks(file: Path, blocks: Iterable[range], writer: MomentsWriter | RowsWriter) -> None:
    """Make a file of its blocks, in their order, and remove them."""
    files, seconds = [_block_file(file, block) for block in blocks], 0.0
    try:
        for block_file in files:
            if (stored := read_corpus(block_file)) is None:
                return  # the encoder lacks the pooling, or another process has merged them
            writer.add(stored.vectors)
            seconds += stored.seconds
        writer.finish(seconds)
    finally:
        writer.close()
    for block_file in files:
        block_file.unlink(missing_ok=True)


# Files


@dataclass(frozen=True, eq=False)
class StoredCorpus:
    """The moments or rows of a corpus, and the seconds of the pass that made them."""

    vectors: Moments | Float32[np.ndarray, "n D"]
    seconds: float


def read_corpus(path: Path) -> StoredCorpus | None:
    """Stored moments or rows; None if there are none, or they were damaged."""
    file = TensorFile.parse(path)
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors} if file else {}
    if file is None or any(tensor is None for tensor in tensors.values()):
        return None
    seconds = float(file.metadata["seconds"])
    if TENSOR in tensors:
        return StoredCorpus(tensors[TENSOR], seconds)
    return StoredCorpus(Moments(int(file.metadata["count"]), **tensors), seconds)


def _writer(file: Path, method: Method) -> MomentsWriter | RowsWriter:
    """The writer of a file that a method is fitted on, or of a block of it."""
    return MomentsWriter(file) if from_moments(method) else RowsWriter(file)


@dataclass
class MomentsWriter:
    """Moments that grow by some rows at a time, on their way into a file."""

    path: Path
    moments: Moments | None = None

    def add(self, rows: Moments | Float32[np.ndarray, "m D"]) -> None:
        """Merge rows in, or the moments of some."""
        moments = Moments.of(rows)
        self.moments = moments if self.moments is None else self.moments.merge(moments)

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        if self.moments is not None:
            tensors = {"mean": self.moments.mean, "scatter": self.moments.scatter}
            about = {"count": str(self.moments.count), "seconds": repr(seconds)}
            write_tensors(self.path, tensors, about)

    def close(self) -> None:
        """Do nothing: no file is held open."""


@dataclass
class RowsWriter:
    """Rows on their way into a file, in a scratch file without a name until `finish`."""

    path: Path
    added: int = 0
    width: int = 0
    scratch: Any = None

    def add(self, rows: Any) -> None:
        """Append rows."""
        if self.scratch is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.scratch = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 - see close
            self.width = rows.shape[1]
        for part in parts(rows):
            with naming(self.path):
                self.scratch.write(np.ascontiguousarray(part).data)
        self.added += len(rows)

    def finish(self, seconds: float) -> None:
        """Write the file; without a row there is none."""
        if self.scratch is not None:
            with naming(self.path):
                self.scratch.flush()
            shape = (self.added, self.width)
            rows = {TENSOR: np.memmap(self.scratch, np.float32, "r", shape=shape)}
            write_tensors(self.path, rows, {"seconds": repr(seconds)})
        self.close()

    def close(self) -> None:
        """Remove the scratch file."""
        if self.scratch is not None:
            self.scratch.close()


def parts(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows, so many at a time as stand in memory."""
    for start in range(0, len(x), PART):
        yield x[start : start + PART]


def moments_of(x: Float[np.ndarray, "n D"]) -> Moments:
    """The moments of rows on disk."""
    return Moments.merged(Moments.of(part) for part in parts(x))


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """Rows behind a map, in float64, in a scratch file that goes when the matrix does."""
    shape = (len(x), transform(x[:1]).shape[1])
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # a full disk would end the process at some later row
            with naming(folder):
                size = math.prod(shape) * np.dtype(np.float64).itemsize
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        mapped = np.memmap(file, np.float64, "w+", shape=shape)
    start = 0
    for part in parts(x):
        mapped[start : start + len(part)] = transform(part)
        start += len(part)
    return mapped
