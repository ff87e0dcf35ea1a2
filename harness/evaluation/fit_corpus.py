"""The vectors that post-processors are fitted on, of sentences that are encoded for the fit alone.

A pass (`FitCorpusPass`) encodes a sample of a corpus (`FitCorpusSample`) once, for all
poolings and post-processors that are fitted on it. It stores moments or rows: a file for
each pooling. The sample is divided into blocks. A block is encoded by one process, and
again from its beginning after a kill. The files of all blocks are merged in their order,
so any number of workers gives the same bits. Each file is complete or absent.

The rows of a corpus may be larger than memory. They are read through a memory map, and so
are the matrices that a chain of post-processors makes of them.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from harness.core.arrays import Float, read_only, read_only_view
from harness.core.digests import text_digest
from harness.core.errors import DataError, UsageError, is_interruption
from harness.core.files import naming
from harness.core.identity import identity_digest
from harness.core.interfaces import Pooling, Transform
from harness.core.provenance import code_of
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Method, Progress
from harness.data.tasks.loader import TARGETS, FitCorpus
from harness.evaluation.embeddings import (
    SHARD,
    CachedEncoder,
    dropout_batch,
    encoded,
    pooled_rows,
    require_rows,
)
from harness.transforms.affine import Moments
from harness.transforms.pooling import POOLINGS, Native

SHARDS_A_BLOCK = 4  # at least; a shard has SHARD sentences
# Blocks of a pass, since each of them reads the corpus up to its own sentences.
MOST_BLOCKS = 256
DIGEST_DIGITS = 16  # of a digest, in the name of a file
ROWS_TENSOR = "rows"  # the tensor of a file that holds rows and not moments
ROWS_IN_MEMORY = 8192  # of a mapped matrix at a time

Vectors = Any  # Moments, or a matrix of rows


def needs_moments_alone(method: Method) -> bool:
    """Whether a mean and a covariance are all that a method's post-processors are fitted on."""
    return all(post.from_moments for post in method.post)


def needs_dropout(method: Method) -> bool:
    """Whether a post-processor of the method is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


def needs_pass(method: Method, fit_corpus: FitCorpus) -> bool:
    """Whether sentences are encoded for the fit alone: from a corpus, or with dropout."""
    return fit_corpus.streams or needs_dropout(method)


# Which sentences


@dataclass(frozen=True, kw_only=True)
class FitCorpusSample:
    """The sentences of a corpus that are fitted on, and how they are encoded.

    Cells whose samples are equal share the files of a pass.

    Attributes:
        corpus: The name of the fit corpus.
        corpus_digest: The sha256 of all of its sentences.
        corpus_size: How many sentences it has.
        size: How many of them are fitted on.
        seed: Draws the sentences that are fitted on; None if all of them are.
        dropout_seed: Draws the encoder's dropout; None without dropout.
    """

    corpus: str
    corpus_digest: str
    corpus_size: int
    size: int
    seed: int | None = None
    dropout_seed: int | None = None

    @classmethod
    def of(cls, method: Method, seed: int, fit_corpus: FitCorpus) -> FitCorpusSample:
        """The sentences that a method is fitted on with a seed.

        Of a task they are all sentences. Of another corpus they are the largest share
        that a post-processor of the method asks for, and SHARD sentences at least.
        """
        size = corpus_size = fit_corpus.count
        if fit_corpus.name not in TARGETS:
            share = max(post.share for post in method.post)
            size = min(corpus_size, max(SHARD, math.ceil(share * corpus_size)))
        return cls(
            corpus=fit_corpus.name,
            corpus_digest=fit_corpus.digest,
            corpus_size=corpus_size,
            size=size,
            seed=seed if size < corpus_size else None,
            dropout_seed=seed if needs_dropout(method) else None,
        )

    @property
    def share(self) -> float:
        """The number of sentences that are fitted on, divided by those of the corpus."""
        return self.size / self.corpus_size if self.corpus_size else 1.0

    @property
    def digest(self) -> str:
        """The digest of the sample; if all sentences are fitted on, the corpus's own digest."""
        if self.seed is None:
            return self.corpus_digest
        draw = f"{self.size} of {self.corpus_size}, drawn by seed {self.seed}"
        return text_digest([self.corpus_digest, draw])

    @property
    def blocks(self) -> list[range]:
        """The positions of each block's sentences in the sample.

        They depend on its size alone. With dropout there is one block, since the dropout
        of a sentence depends on all draws before it.
        """
        shards_a_block = math.ceil(self.size / SHARD / MOST_BLOCKS)
        block_size = SHARD * max(SHARDS_A_BLOCK, shards_a_block)
        if self.dropout_seed is not None:
            block_size = max(1, self.size)
        positions = range(self.size)
        return [
            positions[start : start + block_size]
            for start in range(0, self.size, block_size)
        ]

    def drawn(self, sentences: Iterable[str]) -> Iterable[str]:
        """The sentences of the sample among all `sentences` of the corpus, in their order."""
        if self.seed is None:
            return sentences
        # The generator of the fit has the seed alone. With a second number, the draws here
        # differ from the draws of the fit.
        rng = np.random.default_rng([self.seed, 1])
        is_drawn = np.zeros(self.corpus_size, bool)
        is_drawn[rng.permutation(self.corpus_size)[: self.size]] = True
        return compress(sentences, is_drawn)

    def file(self, cache: Path, key: str, method: Method) -> Path:
        """The file of the moments or rows that a method is fitted on.

        `key` is the key of the encoder that makes them. The file may not exist yet.
        """
        kind = "moments" if needs_moments_alone(method) else "rows"
        words = [self.corpus, self.digest[:DIGEST_DIGITS]]
        if self.dropout_seed is not None:
            words.append(f"dropout-{self.dropout_seed}")
        if self.size < self.corpus_size:
            words.append(f"{self.size}-drawn")
        words.append(_pooling_name(method.pooling))
        return cache / kind / key / f"{'.'.join(words)}.safetensors"


def _pooling_name(pooling: Pooling) -> str:
    """The words for a pooling in the name of a file.

    For a pooling of a plug-in they end with a digest of its settings and code.
    """
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
        fit_corpus: The corpus that it reads them from.
        progress: Counts the sentences.
        methods: The methods, each by the file that it is fitted from.
        error: The error that ended the pass; each of its cells fails with it.
    """

    encoder: CachedEncoder
    sample: FitCorpusSample
    fit_corpus: FitCorpus
    progress: Progress
    methods: dict[Path, Method] = field(default_factory=dict)
    error: BaseException | None = None

    def add(self, method: Method) -> None:
        """Add a method that is fitted on the sample."""
        self.methods[self.file(method)] = method

    def file(self, method: Method) -> Path:
        """The file that a method is fitted from."""
        return self.sample.file(self.encoder.folder, self.encoder.identity.key, method)

    def vectors(self, method: Method) -> tuple[Vectors, float]:
        """The moments or rows that a method is fitted on, and the seconds that they took.

        The pass is made where their file is missing. Raises the error of the pass, and
        DataError for an empty corpus.
        """
        stored = read_vectors(self.file(method))
        if stored is None:
            if self.error is not None:
                raise self.error
            # This raises if the encoder lacks what the pooling reads.
            pooled_rows(method.pooling, self.encoder.probe)
            try:
                self.make()
            except BaseException as error:
                self.error = error
                raise
            stored = read_vectors(self.file(method))
        if stored is None:
            raise DataError(
                f"{self.sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return stored

    def make(self) -> None:
        """Encode the blocks that are not stored yet, and merge them into the missing files."""
        methods = self.missing()
        sentences = self.fit_corpus.sentences
        self.progress.phase(f"fitting on {self.sample.corpus}", self.sample.size)
        for block in self.sample.blocks:
            encode_block(self.encoder, self.sample, sentences, methods, block)
            self.progress.step(len(block))
        self.merge(methods)

    def merge(self, files: Iterable[Path]) -> None:
        """Make each of these files of its blocks, in their order, and remove the blocks."""
        blocks = self.sample.blocks
        block_files = [
            (file, [_block_file(file, block) for block in blocks]) for file in files
        ]
        if not block_files:
            return
        try:
            # What other sentences gave must not be stored under the digest of these.
            self.fit_corpus.require_unchanged()
            for file, parts in block_files:
                _merge(file, parts)
        except DataError:
            for _, parts in block_files:
                _remove(parts)
            raise

    def missing(self) -> dict[Path, Method]:
        """The methods whose files are missing, but those whose pooling the encoder cannot serve."""
        methods = {}
        for file, method in self.methods.items():
            if read_vectors(file) is None and self._can_pool(method.pooling):
                methods[file] = method
        return methods

    def _can_pool(self, pooling: Pooling) -> bool:
        """Whether a pooling works on the probe; if not, its cells fail with its error."""
        try:
            pooled_rows(pooling, self.encoder.probe)
        except BaseException as error:
            # A pooling of a plug-in may raise anything.
            if not is_interruption(error):
                return False
            raise
        return True


def encode_block(
    encoder: CachedEncoder,
    sample: FitCorpusSample,
    sentences: Callable[[], Iterable[str]],
    methods: Mapping[Path, Method],
    block: range,
) -> None:
    """Encode a block of a sample once, and store its vectors for each method.

    Vectors of the block that are stored already stay as they are.

    Args:
        encoder: The encoder.
        sample: The sample.
        sentences: Gives all sentences of the corpus.
        methods: The methods, each by the file that it is fitted from.
        block: The positions of the block's sentences in the sample.
    """
    vectors_by_file: dict[Path, list[Vectors]] = {}
    for file in methods:
        if read_vectors(_block_file(file, block)) is None:
            vectors_by_file[file] = []
    if not vectors_by_file:
        return
    start = perf_counter()
    # The last block reads to the end of the corpus, which raises there if it changed.
    stop = None if block.stop >= sample.size else block.stop
    texts = islice(sample.drawn(sentences()), block.start, stop)
    model: Any = encoder.loaded
    batches: Iterable[Sequence[str]] = encoder.portions(texts)
    if sample.dropout_seed is not None:
        size = dropout_batch(model, encoder.probe)
        batches = iter(lambda: list(islice(texts, size)), [])
        model = with_dropout(model, sample.dropout_seed)
    for batch in batches:
        encoding = encoded(model, batch)
        for file, earlier_vectors in vectors_by_file.items():
            vectors: Vectors = pooled_rows(methods[file].pooling, encoding)
            if needs_moments_alone(methods[file]):
                vectors = Moments.of(vectors)
                if earlier_vectors:
                    vectors = earlier_vectors.pop().merge(vectors)
            earlier_vectors.append(vectors)
    seconds = perf_counter() - start
    for file, all_vectors in vectors_by_file.items():
        if len(all_vectors) == 1:
            write_vectors(_block_file(file, block), all_vectors[0], seconds)
        elif all_vectors:
            rows = np.concatenate(all_vectors)
            write_vectors(_block_file(file, block), rows, seconds)


def with_dropout(encoder: Any, seed: int) -> Any:
    """The encoder with dropout, whose draws start from a seed.

    The same calls in the same order give the same encodings. Raises UsageError for an
    encoder that has no dropout.
    """
    if not hasattr(encoder, "with_dropout"):
        raise UsageError(
            "wanted an encoder with dropout, found one that has none to leave on"
        )
    return encoder.with_dropout(seed)


def _merge(file: Path, parts: Sequence[Path]) -> None:
    """Make a file of the files of its blocks, and remove these."""
    vectors: list[Vectors] = []
    seconds = 0.0
    for part in parts:
        stored = read_vectors(part)
        if stored is None:  # another process has merged and removed the blocks
            return
        vectors.append(stored[0])
        seconds += stored[1]
    if not vectors:  # the corpus is empty
        return
    if isinstance(vectors[0], Moments):
        write_vectors(file, Moments.merged(vectors), seconds)
    else:
        shape = (sum(len(rows) for rows in vectors), vectors[0].shape[1])
        joined = scratch_matrix(shape, np.float32, file.parent)
        np.concatenate(vectors, out=joined)
        write_vectors(file, joined, seconds)
    _remove(parts)


def _remove(parts: Iterable[Path]) -> None:
    """Remove the files of blocks."""
    for part in parts:
        part.unlink(missing_ok=True)


def _block_file(file: Path, block: range) -> Path:
    """The file of a block until all blocks are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


# Files of moments or rows


def read_vectors(path: Path) -> tuple[Vectors, float] | None:
    """The moments or rows in a file, and the seconds that they took.

    None if there is no file, or if it is damaged.
    """
    file = TensorFile.parse(path)
    if file is None:
        return None
    tensors: dict[str, Any] = {name: file.read(name) for name in file.tensors}
    if any(tensor is None for tensor in tensors.values()):
        return None
    vectors = tensors.get(ROWS_TENSOR)
    if vectors is None:
        vectors = Moments(count=int(file.metadata["count"]), **tensors)
    return vectors, float(file.metadata["seconds"])


def write_vectors(path: Path, vectors: Vectors, seconds: float) -> None:
    """Store moments or rows, and the seconds of the pass that made them."""
    metadata = {"seconds": repr(seconds)}
    if isinstance(vectors, Moments):
        tensors = {"mean": vectors.mean, "scatter": vectors.scatter}
        write_tensors(path, tensors, {"count": str(vectors.count), **metadata})
    else:
        write_tensors(path, {ROWS_TENSOR: vectors}, metadata)


# Maps of matrices, which may be larger than memory


def row_chunks(x: Float[np.ndarray, "n D"]) -> Iterator[Float[np.ndarray, "m D"]]:
    """The rows of a matrix, at most ROWS_IN_MEMORY at a time."""
    for start in range(0, len(x), ROWS_IN_MEMORY):
        yield x[start : start + ROWS_IN_MEMORY]


def applied(
    transform: Transform, x: Float[np.ndarray, "n D"]
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, which cannot write into `x`; the result is read-only.

    Raises ScoreError unless there are as many rows of real numbers as in `x`.
    """
    mapped = transform(read_only_view(x))
    require_rows(f"the map {type(transform).__name__}", mapped, len(x))
    return read_only_view(mapped)


def applied_in_chunks(
    transform: Transform, x: Float[np.ndarray, "n D"], folder: Path
) -> Float[np.ndarray, "n K"]:
    """The rows under a map, in float64, as a scratch matrix in a folder."""
    width = applied(transform, x[:1]).shape[1]
    mapped = scratch_matrix((len(x), width), np.float64, folder)
    for start, chunk in enumerate(row_chunks(x)):
        first = start * ROWS_IN_MEMORY
        mapped[first : first + len(chunk)] = applied(transform, chunk)
    rows: Float[np.ndarray, "n K"] = read_only(mapped)
    return rows


def scratch_matrix(shape: tuple[int, int], dtype: Any, folder: Path) -> Any:
    """A matrix in a file without a name, which is removed when the matrix is not used any more."""
    with tempfile.TemporaryFile(dir=folder) as file:
        # The file gets its whole size now: a disk that becomes full while rows are
        # written would end the process.
        if hasattr(os, "posix_fallocate"):
            size = math.prod(shape) * np.dtype(dtype).itemsize
            with naming(folder):
                os.posix_fallocate(file.fileno(), 0, max(1, size))
        return np.memmap(file, dtype, "w+", shape=shape)
