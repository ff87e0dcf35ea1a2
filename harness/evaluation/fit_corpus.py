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
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, read_only, read_only_view
from harness.core.errors import DataError, is_interruption
from harness.core.files import digest_of_repr, naming, text_digest
from harness.core.interfaces import Encoding, Pooling, Transform
from harness.core.provenance import plugins_of
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Method, Progress
from harness.evaluation.embeddings import (
    SHARD,
    CachedEncoder,
    PooledEmbeddings,
    dropout_batch,
    encoded,
    pooled_rows,
    require_rows,
    with_dropout,
)
from harness.evaluation.select import PlannedCell
from harness.plugins import require_folders
from harness.tasks.loader import TARGETS, FitText
from harness.transforms.affine import Moments
from harness.transforms.pooling import POOLINGS, Native

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
    paid for them, once for all cells that share them. No fit can write into them.
    """

    vectors: Moments | Float[np.ndarray, "n D"]
    scratch: Path | None = None
    share: float = 1.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.vectors, Moments):
            object.__setattr__(self, "vectors", read_only_view(self.vectors))

    @classmethod
    def of(
        cls, method: Method, pooled: PooledEmbeddings, digest: str, texts: Sequence[str]
    ) -> FitData:
        """What a method is fitted on, of texts that are pooled; `digest` is theirs."""
        if not from_moments(method):
            return cls(pooled.matrix[pooled.rows(texts)])
        moments, seconds = pooled.moments(digest, texts)
        return cls(moments, seconds=seconds)


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
    def of_cell(cls, cell: PlannedCell, text: FitText) -> CorpusSample:
        """The sentences that a cell is fitted on."""
        return cls.of(text.name, text.digest, text.count, cell.method, cell.seed)

    @classmethod
    def of(cls, corpus: str, text: str, count: int, method: Method, seed: int) -> CorpusSample:
        """The sentences that a method reads with a seed: a whole task, or a share of a corpus.

        Of a corpus that is the largest share that a post-processor asks for.
        """
        taken = count
        if corpus not in TARGETS:
            share = max(post.share for post in method.post)
            taken = min(count, max(SHARD, math.ceil(share * count)))
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
        drawn = "" if self.taken == self.count else f".{self.taken}-drawn"
        pooling = method.pooling.name
        if method.pooling not in POOLINGS and type(method.pooling) is not Native:
            code = [plugin.sha256 for plugin in plugins_of(method.pooling).values()]
            pooling += f".{digest_of_repr((method.pooling, code))[:DIGITS]}"
        folder = cache / ("moments" if from_moments(method) else "rows") / key
        name = f"{self.corpus}.{self.digest[:DIGITS]}{noisy}{drawn}.{pooling}.safetensors"
        return folder / name

    def dropout_rate(self, cache: Path, key: str) -> float | None:
        """Sentences a second of an encoder's earlier passes with dropout; None if it made none."""
        made = cache.glob(f"*/{key}/*{self.corpus}.{'?' * DIGITS}.dropout-*")
        files = [file for path in made if (file := TensorFile.parse(path))]
        rows = [file.metadata.get("count") or file.tensors[TENSOR]["shape"][0] for file in files]
        seconds = sum(float(file.metadata["seconds"]) for file in files)
        return sum(map(int, rows)) / seconds if seconds else None


@dataclass(eq=False)
class CorpusPass:
    """A pass of an encoder over a sample, for all methods that are fitted on it, by their files.

    `errors` are those of methods whose pooling or moments failed, which fail no other method.
    """

    encoder: CachedEncoder
    sample: CorpusSample
    text: FitText
    progress: Progress
    methods: dict[Path, Method] = field(default_factory=dict)
    errors: dict[Method, BaseException] = field(default_factory=dict)

    def file(self, method: Method) -> Path:
        """The file of what a method is fitted on."""
        return self.sample.file(self.encoder.folder, self.encoder.identity.key, method)

    @property
    def missing(self) -> list[Path]:
        """The files that are not there."""
        return [file for file in self.methods if not file.exists()]

    def encode(self, block: range, files: Iterable[Path]) -> None:
        """Encode a block into a part of each of these files, unless that part is there.

        A pooling that fails is passed over, and its file is not made: the encoder may lack it.
        """
        encoder, sample = self.encoder, self.sample
        parts = {_block_file(file, block): self.methods[file] for file in files}
        due = {
            part: method
            for part, method in parts.items()
            if read_corpus(part) is None and _has(method.pooling, encoder.probe)
        }
        if not due:
            self.progress.step(len(block))
            return
        # The last block reads on, since a corpus that has changed says so at its end.
        stop = block.stop if block.stop < sample.taken else None
        texts = islice(sample.drawn(self.text.sentences()), stop)
        source, batches = _batches(encoder, iter(texts), block.start, sample.dropout)
        vectors: dict[Path, list[Any]] = {part: [] for part in due}
        began = encoder.clock()
        for batch in batches:
            encoding = encoded(source, batch)
            for part in [*vectors]:
                try:
                    vectors[part] = _joined_batches(due[part], vectors[part], encoding)
                except BaseException as error:
                    if not is_interruption(error):
                        self.errors[due[part]] = error
                        del vectors[part]
                        continue
                    raise
            self.progress.step(len(batch))
        seconds = encoder.clock() - began
        require_folders(plugins_of(encoder.config, *due.values()).values())
        for part, of_batches in vectors.items():
            if of_batches:
                merged = from_moments(due[part])
                write_corpus(part, of_batches[0] if merged else np.concatenate(of_batches), seconds)

    def merge(self, files: Iterable[Path]) -> None:
        """Make files of their blocks, in their order, and remove these."""
        for file in files:
            parts = [_block_file(file, block) for block in self.sample.blocks]
            blocks = [data for part in parts if (data := read_corpus(part)) is not None]
            # Else the encoder lacks the pooling, or another process has merged them.
            if blocks and len(blocks) == len(parts):
                vectors: list[Any] = [data.vectors for data in blocks]
                if from_moments(self.methods[file]):
                    whole: Any = Moments.merged(vectors)
                else:
                    shape = sum(map(len, vectors)), vectors[0].shape[1]
                    whole = _joined(vectors, shape, np.dtype(np.float32), file.parent)
                write_corpus(file, whole, sum(data.seconds for data in blocks))
                for part in parts:
                    part.unlink(missing_ok=True)

    @cached_property
    def stored(self) -> Mapping[Path, FitData]:
        """The content of the files; what is missing is encoded."""
        stored = {file: read_corpus(file) for file in self.methods}
        missing = [file for file, data in stored.items() if data is None]
        if missing:
            sample = self.sample
            seed = sample.dropout if sample.seed is None else sample.seed
            drawn = "" if seed is None else f", seed {seed}"
            self.progress.phase(f"fitting on {sample.corpus}{drawn}", sample.taken)
            for block in sample.blocks:
                self.encode(block, missing)
            self.merge(missing)
            stored |= {file: read_corpus(file) for file in missing}
        return {file: data for file, data in stored.items() if data is not None}

    def data(self, method: Method) -> FitData:
        """What a method is fitted on. Raises an error that says why there is nothing."""
        stored = self.stored.get(self.file(method))
        if method in self.errors:
            raise self.errors[method]
        if stored is None:
            # Raises where the encoder lacks what the pooling reads, and says what that is.
            pooled_rows(method.pooling, self.encoder.probe)
            raise DataError(
                f"{self.sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return replace(stored, share=self.sample.taken / self.sample.count)


def corpus_passes(
    encoder: CachedEncoder, texts: Mapping[PlannedCell, FitText | None], progress: Progress
) -> dict[PlannedCell, CorpusPass]:
    """The pass of each cell whose sentences are encoded for the fit alone.

    They are those of a corpus, and those that are encoded with dropout.
    """
    passes: dict[CorpusSample, CorpusPass] = {}
    pass_by_cell = {}
    for cell, text in texts.items():
        if text is not None and (text.streams or needs_dropout(cell.method)):
            sample = CorpusSample.of_cell(cell, text)
            corpus_pass = passes.setdefault(sample, CorpusPass(encoder, sample, text, progress))
            corpus_pass.methods[corpus_pass.file(cell.method)] = cell.method
            pass_by_cell[cell] = corpus_pass
    return pass_by_cell


def _has(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether the encoder has what the pooling reads; a cell without it fails with a reason."""
    try:
        pooled_rows(pooling, encoding)
    except BaseException as error:
        if not is_interruption(error):
            return False
        raise
    return True


def _joined_batches(method: Method, before: list[Any], encoding: Encoding) -> list[Any]:
    """What a method is fitted on, with one batch more: rows of each, or the moments of all."""
    vectors = [*before, pooled_rows(method.pooling, encoding)]
    return [Moments.merged(map(Moments.of, vectors))] if from_moments(method) else vectors


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


# Files, and matrices larger than memory


def read_corpus(path: Path) -> FitData | None:
    """Stored moments or rows; None if there are none, or they were damaged, or are another's."""
    file = TensorFile.parse(path)
    if file is not None and file.metadata.get("place") != _place(path):
        return None
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors} if file else {}
    if file is None or any(tensor is None for tensor in tensors.values()):
        return None
    vectors = tensors.get(TENSOR)
    if vectors is None:
        vectors = Moments(int(file.metadata["count"]), **tensors)
    return FitData(vectors, path.parent, seconds=float(file.metadata["seconds"]))


def write_corpus(path: Path, vectors: Moments | Float[np.ndarray, "n D"], seconds: float) -> None:
    """Store moments or rows, and the seconds of the pass that made them."""
    about = {"seconds": repr(seconds), "place": _place(path)}
    if isinstance(vectors, Moments):
        tensors = {"mean": vectors.mean, "scatter": vectors.scatter}
        write_tensors(path, tensors, {"count": str(vectors.count), **about})
    else:
        write_tensors(path, {TENSOR: vectors}, about)


def _place(path: Path) -> str:
    """Kind, encoder's key and name of a file, which say all of what it holds."""
    return "/".join(path.parts[-3:])


def parts_of(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows, so many at a time as stand in memory."""
    for start in range(0, len(x), PART):
        yield x[start : start + PART]


def applied(transform: Transform, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n K"]:
    """The rows behind a map, which nobody can write into, as the map cannot into `x`.

    Raises ScoreError unless they are as many rows of real numbers.
    """
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """Rows behind a map, in float64, in a scratch file that goes when the matrix does."""
    shape = (len(x), applied(transform, x[:1]).shape[1])
    parts = (applied(transform, part) for part in parts_of(x))
    mapped: Float[np.ndarray, "n K"] = _joined(parts, shape, np.dtype(np.float64), folder)
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
    return read_only(matrix)
