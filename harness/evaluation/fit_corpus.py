"""What post-processors are fitted on: a task's vectors, or moments or rows of a corpus in a file.

A corpus is encoded in blocks, in one pass for all poolings and post-processors. A block
is encoded by one process, and resumed after a kill as a whole; the files of all blocks
are merged in their order, so that any number of workers gives the same bits. Each file
is sealed, complete or absent. Rows are a float32 matrix (n, D), read through a memory
map: they may be larger than memory.
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

from harness.core.arrays import Float, Float32, read_only, read_only_view
from harness.core.errors import DataError, is_interruption
from harness.core.files import naming
from harness.core.identity import identity_digest
from harness.core.interfaces import Encoding, Pooling, Transform
from harness.core.provenance import code_of, plugins_of
from harness.core.tensors import TensorFile, write_tensors
from harness.core.texts import text_digest
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
from harness.plugins import require_digested_code
from harness.tasks.loader import TARGETS, FitCorpus
from harness.transforms.affine import Moments
from harness.transforms.pooling import POOLINGS, Native

SHARDS_A_BLOCK = 4  # at least
MOST_BLOCKS = 256  # of a pass: each reads the corpus up to its own sentences
DIGEST_DIGITS = 16  # in the name of a file
ROWS_TENSOR = "rows"
ROWS_IN_MEMORY = 8192  # that are mapped at a time


@dataclass(frozen=True, eq=False)
class FitCorpusVectors:
    """What post-processors are fitted on: vectors, with repetitions, or their moments.

    Attributes:
        vectors: Rows, which no fit can write into, or moments. Rows may be mapped from
            a file and larger than memory.
        scratch: For such rows, the folder for what a chain makes of them on its way.
        share: How much of a corpus they are.
        seconds: What they took, once for all cells that share them.
    """

    vectors: Moments | Float[np.ndarray, "n D"]
    scratch: Path | None = None
    share: float = 1.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.vectors, Moments):
            object.__setattr__(self, "vectors", read_only_view(self.vectors))

    @classmethod
    def from_embeddings(
        cls, method: Method, pooled: PooledEmbeddings, digest: str, texts: Sequence[str]
    ) -> FitCorpusVectors:
        """What a method is fitted on, of texts that are pooled; `digest` is that of the texts."""
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


# Which sentences


@dataclass(frozen=True, kw_only=True)
class FitCorpusSample:
    """Sentences of a fit corpus, and how they are encoded; cells of equal samples share files.

    Attributes:
        corpus: The name of the fit corpus.
        text: The sha256 of all of its sentences.
        count: How many it has.
        taken: How many are fitted on.
        seed: Draws those that are taken; None where all are.
        dropout: The seed of the encoder's dropout; None without dropout.
    """

    corpus: str
    text: str
    count: int
    taken: int
    seed: int | None = None
    dropout: int | None = None

    @classmethod
    def for_cell(cls, cell: PlannedCell, fit_corpus: FitCorpus) -> FitCorpusSample:
        """The sentences that a cell is fitted on."""
        return cls.for_method(
            cell.method,
            cell.seed,
            corpus=fit_corpus.name,
            text=fit_corpus.digest,
            count=fit_corpus.count,
        )

    @classmethod
    def for_method(
        cls, method: Method, seed: int, *, corpus: str, text: str, count: int
    ) -> FitCorpusSample:
        """The sentences that a method reads with a seed: a whole task, or a share of a corpus.

        Of a corpus that is the largest share that a post-processor asks for.
        """
        if corpus in TARGETS:
            taken = count
        else:
            share = max(post.share for post in method.post)
            taken = min(count, max(SHARD, math.ceil(share * count)))
        return cls(
            corpus=corpus,
            text=text,
            count=count,
            taken=taken,
            seed=seed if taken < count else None,
            dropout=seed if needs_dropout(method) else None,
        )

    @property
    def digest(self) -> str:
        """Of what is fitted on: of the whole text, or of it and what was drawn."""
        if self.seed is None:
            return self.text
        return text_digest(
            [self.text, f"{self.taken} of {self.count}, drawn by seed {self.seed}"]
        )

    @property
    def blocks(self) -> list[range]:
        """The parts of a pass that workers encode in parallel: a rule of the sample alone."""
        shards = math.ceil(self.taken / SHARD / MOST_BLOCKS)
        size = SHARD * max(SHARDS_A_BLOCK, shards)
        sentences = range(self.taken)
        return [sentences[start : start + size] for start in range(0, self.taken, size)]

    def drawn(self, sentences: Iterable[str]) -> Iterable[str]:
        """Those of the corpus's sentences that are taken, in their order."""
        if self.seed is None:
            return sentences
        # Another stream than that of the fit, which starts from the bare seed.
        rng = np.random.default_rng([self.seed, 1])
        is_taken = np.zeros(self.count, bool)
        is_taken[rng.permutation(self.count)[: self.taken]] = True
        return compress(sentences, is_taken)

    def file(self, cache: Path, key: str, method: Method) -> Path:
        """Where the moments or rows are that an encoder makes of it and a method is fitted on."""
        kind = "moments" if from_moments(method) else "rows"
        parts = [self.corpus, self.digest[:DIGEST_DIGITS]]
        if self.dropout is not None:
            parts.append(f"dropout-{self.dropout}")
        if self.taken < self.count:
            parts.append(f"{self.taken}-drawn")
        parts.append(_pooling_name(method.pooling))
        return cache / kind / key / f"{'.'.join(parts)}.safetensors"

    def dropout_rate(self, cache: Path, key: str) -> float | None:
        """Sentences a second of an encoder's earlier passes with dropout; None if it made none."""
        sentences, seconds = 0, 0.0
        pattern = f"*/{key}/*{self.corpus}.{'?' * DIGEST_DIGITS}.dropout-*"
        for path in cache.glob(pattern):
            file = TensorFile.parse(path)
            if file is not None:
                count = (
                    file.metadata.get("count") or file.tensors[ROWS_TENSOR]["shape"][0]
                )
                sentences += int(count)
                seconds += float(file.metadata["seconds"])
        return sentences / seconds if seconds else None


def _pooling_name(pooling: Pooling) -> str:
    """A pooling in the name of a file; one of a plug-in with a digest of its settings and code."""
    if pooling in POOLINGS or type(pooling) is Native:
        return pooling.name
    code = list(code_of(pooling).values())
    return f"{pooling.name}.{identity_digest((pooling, code))[:DIGEST_DIGITS]}"


# One pass


@dataclass(eq=False)
class FitCorpusPass:
    """A pass of an encoder over a sample, for all methods that are fitted on it.

    Attributes:
        encoder: The encoder.
        sample: Which sentences it reads.
        fit_corpus: What it reads them from.
        progress: Counts the sentences.
        methods: The methods, each by the file that it is fitted from.
        errors: What went wrong for a method whose pooling or moments failed, which fail
            no other.
    """

    encoder: CachedEncoder
    sample: FitCorpusSample
    fit_corpus: FitCorpus
    progress: Progress
    methods: dict[Path, Method] = field(default_factory=dict)
    errors: dict[Method, BaseException] = field(default_factory=dict)

    def file(self, method: Method) -> Path:
        """The file of what a method is fitted on."""
        return self.sample.file(self.encoder.folder, self.encoder.identity.key, method)

    @property
    def missing_files(self) -> list[Path]:
        """The files that do not exist yet."""
        return [file for file in self.methods if not file.exists()]

    def encode_block(self, block: range, files: Iterable[Path]) -> None:
        """Encode a block for each of these files, unless the file of that block exists.

        A pooling that fails is left out, and its file is not made: the encoder may lack
        it.
        """
        collections: dict[Path, _Vectors] = {}
        for file in files:
            block_file, method = _block_file(file, block), self.methods[file]
            is_made = read_fit_corpus(block_file) is not None
            if not is_made and _has_pooling(method.pooling, self.encoder.probe):
                collections[block_file] = _Vectors(method)
        if not collections:
            self.progress.step(len(block))
            return
        encoder, batches = self._batches(block)
        clock = self.encoder.clock
        began = clock()
        for batch in batches:
            encoding = encoded(encoder, batch)
            for block_file in list(collections):
                self._collect(encoding, block_file, collections)
            self.progress.step(len(batch))
        seconds = clock() - began
        methods = [vectors.method for vectors in collections.values()]
        require_digested_code(plugins_of(self.encoder.config, *methods).values())
        for block_file, vectors in collections.items():
            if not vectors.is_empty:
                write_fit_corpus(block_file, vectors.joined(), seconds)

    def _batches(self, block: range) -> tuple[Any, Iterator[Sequence[str]]]:
        """What encodes the sentences of a block, and its batches."""
        sample, encoder = self.sample, self.encoder
        # The last block reads on, since a corpus that has changed says so at its end.
        stop = block.stop if block.stop < sample.taken else None
        sentences = islice(sample.drawn(self.fit_corpus.sentences()), stop)
        if sample.dropout is None:
            return encoder.loaded(), encoder.portions(
                islice(sentences, block.start, None)
            )
        # The order and sizes of the batches are part of the draws, and so are earlier
        # blocks.
        size = dropout_batch(encoder.loaded(), encoder.probe)
        dropping = with_dropout(encoder.loaded(), sample.dropout)
        for batch in _batched(islice(sentences, block.start), size):
            dropping.pass_over(batch)
        return dropping, _batched(sentences, size)

    def _collect(
        self, encoding: Encoding, block_file: Path, collections: dict[Path, _Vectors]
    ) -> None:
        """Add a batch to the vectors of a method; one that fails is left out from then on."""
        vectors = collections[block_file]
        try:
            vectors.add(encoding)
        except BaseException as error:
            if not is_interruption(error):
                self.errors[vectors.method] = error
                del collections[block_file]
                return
            raise

    def merge_blocks(self, files: Iterable[Path]) -> None:
        """Make files of their blocks, in their order, and remove these."""
        for file in files:
            block_files = [_block_file(file, block) for block in self.sample.blocks]
            stored = [read_fit_corpus(block_file) for block_file in block_files]
            blocks = [block for block in stored if block is not None]
            # Else the encoder lacks the pooling, or another process has merged them.
            if blocks and len(blocks) == len(block_files):
                vectors: list[Any] = [block.vectors for block in blocks]
                if from_moments(self.methods[file]):
                    merged = Moments.merged(vectors)
                else:
                    merged = _joined_rows(vectors, file.parent)
                write_fit_corpus(file, merged, sum(block.seconds for block in blocks))
                for block_file in block_files:
                    block_file.unlink(missing_ok=True)

    @cached_property
    def stored(self) -> Mapping[Path, FitCorpusVectors]:
        """The content of the files; what is missing is encoded."""
        content = {file: read_fit_corpus(file) for file in self.methods}
        missing = [file for file, vectors in content.items() if vectors is None]
        if missing:
            self.progress.phase(self._phase(), self.sample.taken)
            for block in self.sample.blocks:
                self.encode_block(block, missing)
            self.merge_blocks(missing)
            content |= {file: read_fit_corpus(file) for file in missing}
        return {
            file: vectors for file, vectors in content.items() if vectors is not None
        }

    def _phase(self) -> str:
        """The words for this pass in a bar of progress."""
        sample = self.sample
        seed = sample.dropout if sample.seed is None else sample.seed
        if seed is None:
            return f"fitting on {sample.corpus}"
        return f"fitting on {sample.corpus}, seed {seed}"

    def vectors(self, method: Method) -> FitCorpusVectors:
        """What a method is fitted on. Raises an error that says why there is nothing."""
        stored = self.stored.get(self.file(method))
        if method in self.errors:
            raise self.errors[method]
        if stored is None:
            # Raises where the encoder lacks what the pooling reads, and says what that
            # is.
            pooled_rows(method.pooling, self.encoder.probe)
            raise DataError(
                f"{self.sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return replace(stored, share=self.sample.taken / self.sample.count)


def fit_corpus_passes(
    encoder: CachedEncoder,
    fit_corpora: Mapping[PlannedCell, FitCorpus | None],
    progress: Progress,
) -> dict[PlannedCell, FitCorpusPass]:
    """The pass of each cell whose sentences are encoded for the fit alone.

    They are the sentences of a corpus, and those that are encoded with dropout.
    """
    pass_of_sample: dict[FitCorpusSample, FitCorpusPass] = {}
    pass_of_cell: dict[PlannedCell, FitCorpusPass] = {}
    for cell, fit_corpus in fit_corpora.items():
        if fit_corpus is None or not needs_pass(cell.method, fit_corpus):
            continue
        sample = FitCorpusSample.for_cell(cell, fit_corpus)
        if sample not in pass_of_sample:
            pass_of_sample[sample] = FitCorpusPass(
                encoder, sample, fit_corpus, progress
            )
        corpus_pass = pass_of_sample[sample]
        corpus_pass.methods[corpus_pass.file(cell.method)] = cell.method
        pass_of_cell[cell] = corpus_pass
    return pass_of_cell


def needs_pass(method: Method, fit_corpus: FitCorpus) -> bool:
    """Whether sentences are encoded for the fit alone, and are not those that are scored."""
    return fit_corpus.streams or needs_dropout(method)


def _has_pooling(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether the encoder has what the pooling reads; a cell without it fails with a reason."""
    try:
        pooled_rows(pooling, encoding)
    except BaseException as error:
        if not is_interruption(error):
            return False
        raise
    return True


class _Vectors:
    """The vectors of a block that a method is fitted on: rows, or the moments of all of them."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.rows: list[Float32[np.ndarray, "n D"]] = []
        self.moments: Moments | None = None

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.moments is None

    def add(self, encoding: Encoding) -> None:
        """Take the vectors of one more batch."""
        rows = pooled_rows(self.method.pooling, encoding)
        if not from_moments(self.method):
            self.rows.append(rows)
        elif self.moments is None:
            self.moments = Moments.of(rows)
        else:
            self.moments = self.moments.merge(Moments.of(rows))

    def joined(self) -> Moments | Float[np.ndarray, "n D"]:
        """Those of all batches."""
        return np.concatenate(self.rows) if self.moments is None else self.moments


def _batched(texts: Iterator[str], size: int) -> Iterator[Sequence[str]]:
    while batch := list(islice(texts, size)):
        yield batch


def _block_file(file: Path, block: range) -> Path:
    """The file of a block until all blocks are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


# Files, and matrices larger than memory


def read_fit_corpus(path: Path) -> FitCorpusVectors | None:
    """Stored moments or rows; None without a file, or if it was damaged or moved from elsewhere."""
    file = TensorFile.parse(path)
    if file is None or file.metadata.get("place") != _place(path):
        return None
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors}
    if any(tensor is None for tensor in tensors.values()):
        return None
    if ROWS_TENSOR in tensors:
        vectors = tensors[ROWS_TENSOR]
    else:
        vectors = Moments(count=int(file.metadata["count"]), **tensors)
    seconds = float(file.metadata["seconds"])
    return FitCorpusVectors(vectors, scratch=path.parent, seconds=seconds)


def write_fit_corpus(
    path: Path, vectors: Moments | Float[np.ndarray, "n D"], seconds: float
) -> None:
    """Store moments or rows, and the seconds of the pass that made them."""
    metadata = {"seconds": repr(seconds), "place": _place(path)}
    if isinstance(vectors, Moments):
        tensors = {"mean": vectors.mean, "scatter": vectors.scatter}
        write_tensors(path, tensors, {"count": str(vectors.count), **metadata})
    else:
        write_tensors(path, {ROWS_TENSOR: vectors}, metadata)


def _place(path: Path) -> str:
    """Kind, encoder's key and name of a file, which say all of what it holds."""
    return "/".join(path.parts[-3:])


def row_chunks(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows, so many at a time as are held in memory."""
    for start in range(0, len(x), ROWS_IN_MEMORY):
        yield x[start : start + ROWS_IN_MEMORY]


def applied(
    transform: Transform, x: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K"]:
    """The mapped rows, which nobody can write into, as the map cannot into `x`.

    Raises ScoreError unless they are as many rows of real numbers.
    """
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


def apply_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """The mapped rows, in float64, in a scratch file that goes when the matrix does."""
    width = applied(transform, x[:1]).shape[1]
    mapped = _scratch_matrix((len(x), width), np.dtype(np.float64), folder)
    start = 0
    for chunk in row_chunks(x):
        mapped[start : start + len(chunk)] = applied(transform, chunk)
        start += len(chunk)
    rows: Float[np.ndarray, "n K"] = read_only(mapped)
    return rows


def _joined_rows(blocks: Sequence[Any], folder: Path) -> Any:
    """The rows of all blocks in a scratch file."""
    count = sum(len(block) for block in blocks)
    joined = _scratch_matrix((count, blocks[0].shape[1]), np.dtype(np.float32), folder)
    start = 0
    for block in blocks:
        joined[start : start + len(block)] = block
        start += len(block)
    return read_only(joined)


def _scratch_matrix(shape: tuple[int, int], dtype: np.dtype[Any], folder: Path) -> Any:
    """A matrix in a file without a name, which goes when the matrix does."""
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(
            os, "posix_fallocate"
        ):  # a full disk would end the process at some later row
            size = math.prod(shape) * dtype.itemsize
            with naming(folder):
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.memmap(file, dtype, "w+", shape=shape)
