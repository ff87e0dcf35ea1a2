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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import DataError, UsageError
from harness.core.files import naming, text_digest
from harness.core.interfaces import Encoding, Pooling, Transform
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
from harness.tasks.loader import TARGETS, FitText
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


@dataclass(frozen=True)
class CorpusSample:
    """Sentences of a fit, and how they are encoded; cells of equal samples share their files.

    `text` is the digest of the whole corpus. `seed` draws `taken` of its `count` sentences, and
    `dropout` is the seed of the encoder's dropout; None where nothing is drawn.
    """

    corpus: str
    text: str
    count: int
    taken: int
    seed: int | None = None
    dropout: int | None = None

    @classmethod
    def of(cls, corpus: str, text: str, count: int, method: Method, seed: int) -> CorpusSample:
        """The sentences that a method reads with a seed: a whole task, or a share of a corpus.

        Of a corpus that is the largest share that a post-processor asks for.
        """
        shares = [post.share for post in method.post if not post.from_moments]
        taken = count
        if corpus not in TARGETS:
            taken = min(count, max(SHARD, math.ceil(max(shares, default=1.0) * count)))
        drawn = seed if taken < count else None
        return cls(corpus, text, count, taken, drawn, seed if needs_dropout(method) else None)

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

    def file(self, cache: Path, key: str, method: Method) -> Path:
        """Where the moments or rows lie that an encoder makes of it and a method is fitted on."""
        noisy = "" if self.dropout is None else f".dropout-{self.dropout}"
        folder = cache / ("moments" if from_moments(method) else "rows") / key
        name = f"{self.corpus}.{self.digest[:DIGITS]}{noisy}.{method.pooling.name}.safetensors"
        return folder / name


@dataclass
class FitCorpora:
    """The fit data of one encoder's cells; `texts` holds the cells that have a fit."""

    encoder: CachedEncoder
    progress: Progress
    texts: dict[PlannedCell, FitText] = field(default_factory=dict)
    stored: dict[CorpusSample, Mapping[Path, FitData]] = field(default_factory=dict)

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
        for sample, group in cells_by_sample.items():
            if not all(self._file(cell).exists() for cell in group):
                yield tuple(group), sample

    def prepare(self, cell: PlannedCell, block: range | None = None) -> None:
        """Make what a cell is fitted on, if it is in a file, or the files of a block of it."""
        if self._in_file(cell) and block is None:
            self._read(cell)
        elif self._in_file(cell) and block is not None:
            methods = self._methods(self._sample(cell))
            missing = {file: method for file, method in methods.items() if not file.exists()}
            self._encode(cell, missing, block)

    def data(self, cell: PlannedCell, pooled: PooledEmbeddings) -> FitData | None:
        """The fit data of a cell's chain; None for a cell without a fit."""
        if cell not in self.texts:
            return None
        if self._in_file(cell):
            return self._read(cell)
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
        text = self.texts[cell]
        return CorpusSample.of(text.name, text.digest, text.count, cell.method, cell.seed)

    def _file(self, cell: PlannedCell) -> Path:
        encoder = self.encoder
        return self._sample(cell).file(encoder.folder, encoder.identity.key, cell.method)

    def _methods(self, sample: CorpusSample) -> dict[Path, Method]:
        """The files of a sample that this run needs, in order, each with a method fitted on it."""
        users = [c for c, text in self.texts.items() if text.name == sample.corpus]
        users = [c for c in users if self._in_file(c) and self._sample(c) == sample]
        methods = {self._file(cell): cell.method for cell in users}
        return dict(sorted(methods.items()))

    def _read(self, cell: PlannedCell) -> FitData:
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
        return replace(self.stored[sample][file], share=sample.taken / sample.count)

    def _make(self, cell: PlannedCell) -> Mapping[Path, FitData]:
        """All files of a cell's sample that this run needs; missing blocks are encoded."""
        sample = self._sample(cell)
        methods = self._methods(sample)
        stored = {file: read_corpus(file) for file in methods}
        missing = {file: methods[file] for file, data in stored.items() if data is None}
        if missing:
            drawn = sample.seed is not None or sample.dropout is not None
            seed = f", seed {cell.seed}" if drawn else ""
            self.progress.phase(f"fitting on {sample.corpus}{seed}", sample.taken)
            for block in sample.blocks:
                self._encode(cell, missing, block)
        for file in missing:
            if len(sample.blocks) > 1:
                _merge_blocks(file, sample.blocks)
            stored[file] = read_corpus(file)
        return {file: data for file, data in stored.items() if data is not None}

    def _encode(self, cell: PlannedCell, methods: Mapping[Path, Method], block: range) -> None:
        """Encode a block of a cell's sample into files, in one pass, unless the block is there.

        A pooling that the encoder lacks is passed over, and its file is not made.
        """
        sample, encoder = self._sample(cell), self.encoder
        due: dict[Path, Method] = {}
        for file, method in methods.items():
            target = file if len(sample.blocks) == 1 else _block_file(file, block)
            if target == file or read_corpus(target) is None:
                due[target] = method
        if not due:
            self.progress.step(len(block))
            return
        due = {file: m for file, m in due.items() if _has(m.pooling, encoder.probe)}
        if not due:
            return
        # The last block reads on, since a corpus that has changed says so at its end.
        stop = block.stop if block.stop < sample.taken else None
        texts = islice(sample.drawn(self.texts[cell].sentences()), stop)
        source, batches = _batches(encoder, iter(texts), block.start, sample.dropout)
        parts: dict[Path, list[Any]] = {file: [] for file in due}
        began = encoder.clock()
        for batch in batches:
            encoding = source.encode(batch)
            for file, method in due.items():
                parts[file].append(method.pooling(encoding))
                if from_moments(method):
                    parts[file] = [Moments.merged(map(Moments.of, parts[file]))]
            self.progress.step(len(batch))
        seconds = encoder.clock() - began
        for file, vectors in parts.items():
            if vectors and isinstance(vectors[0], Moments):
                write_corpus(file, vectors[0], seconds)
            elif vectors:
                write_corpus(file, np.concatenate(vectors), seconds)


def _has(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether the encoder has what the pooling reads; a cell that wants it anyway is told why."""
    try:
        pooling(encoding)
    except UsageError:
        return False
    return True


def _batches(
    encoder: CachedEncoder, texts: Iterator[str], start: int, dropout: int | None
) -> tuple[Any, Iterator[Sequence[str]]]:
    """What encodes the texts from `start` on, and its batches."""
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


def _merge_blocks(file: Path, blocks: Iterable[range]) -> None:
    """Make a file of its blocks, in their order, and remove them."""
    block_files = [_block_file(file, block) for block in blocks]
    made = [data for block_file in block_files if (data := read_corpus(block_file)) is not None]
    if len(made) < len(block_files):
        return  # the encoder lacks the pooling, or another process has merged them
    parts: list[Any] = [data.vectors for data in made]
    if isinstance(parts[0], Moments):
        merged: Any = Moments.merged(parts)
    else:
        width = parts[0].shape[1]
        merged = _joined(parts, (sum(map(len, parts)), width), np.dtype(np.float32), file.parent)
    write_corpus(file, merged, sum(data.seconds for data in made))
    for block_file in block_files:
        block_file.unlink(missing_ok=True)


# Files, and matrices larger than memory


def read_corpus(path: Path) -> FitData | None:
    """Stored moments or rows; None if there are none, or they were damaged."""
    file = TensorFile.parse(path)
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors} if file else {}
    if file is None or any(tensor is None for tensor in tensors.values()):
        return None
    vectors = tensors.get(TENSOR)
    if vectors is None:
        vectors = Moments(int(file.metadata["count"]), **tensors)
    return FitData(vectors, path.parent, seconds=float(file.metadata["seconds"]))


def write_corpus(path: Path, vectors: Moments | Float[np.ndarray, "n D"], seconds: float) -> None:
    """Store moments or rows, and the seconds of the pass that made them."""
    about = {"seconds": repr(seconds)}
    if isinstance(vectors, Moments):
        tensors = {"mean": vectors.mean, "scatter": vectors.scatter}
        write_tensors(path, tensors, {"count": str(vectors.count), **about})
    else:
        write_tensors(path, {TENSOR: vectors}, about)


def parts_of(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows, so many at a time as stand in memory."""
    for start in range(0, len(x), PART):
        yield x[start : start + PART]


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """Rows behind a map, in float64, in a scratch file that goes when the matrix does."""
    shape = (len(x), transform(x[:1]).shape[1])
    mapped: Float[np.ndarray, "n K"] = _joined(
        map(transform, parts_of(x)), shape, np.dtype(np.float64), folder
    )
    return mapped


def _joined(parts: Iterable[Any], shape: tuple[int, int], dtype: Any, folder: Path) -> Any:
    """The rows of all parts in a scratch file without a name."""
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # a full disk would end the process at some later row
            with naming(folder):
                os.posix_fallocate(file.fileno(), 0, max(1, math.prod(shape) * dtype.itemsize))
        matrix = np.memmap(file, dtype, "w+", shape=shape)
    start = 0
    for part in parts:
        matrix[start : start + len(part)] = part
        start += len(part)
    return matrix
