"""Fits of post-processors: the vectors that they are fitted on, and the fitted maps.

Vectors of a task's own sentences are read from the cache. Other sentences are encoded for
the fit alone. A pass encodes a sample of a corpus (`FitCorpusSample`) once, for all
poolings and post-processors that are fitted on it. It stores moments or rows: a file for
each pooling. The sample is divided into blocks. A block is encoded by one process, and
again from its beginning after a kill. The files of all blocks are merged in their order,
so any number of workers gives the same bits. Each file is complete or absent. Rows are
read through a memory map, which several processes share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from harness.core.arrays import Float, read_only_view
from harness.core.digests import digest_of, identity_text, text_digest
from harness.core.errors import DataError, ScoreError, UsageError, is_interruption
from harness.core.interfaces import Identity, Pooling, PostProcessor, Transform
from harness.core.provenance import code_of
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Method, Progress
from harness.data.tasks.loader import FitCorpus
from harness.evaluation.embeddings import (
    SHARD,
    CachedEncoder,
    PooledEmbeddings,
    applied,
    dropout_batch,
    encoded,
    pooled_rows,
)
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import POOLINGS, Native, statistics_of

SHARDS_A_BLOCK = 4  # at least; a shard has SHARD sentences
# Blocks of a pass, since each of them reads the corpus up to its own sentences.
MOST_BLOCKS = 256
DIGEST_DIGITS = 16  # of a digest, in the name of a file
ROWS_TENSOR = "rows"  # the tensor of a file that holds rows and not moments

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


def vectors_of(
    method: Method, pooled: PooledEmbeddings, sentences: tuple[str, ...]
) -> tuple[Vectors, float]:
    """What a method is fitted on of pooled sentences, and the seconds that it took.

    Args:
        method: The method.
        pooled: The vectors of the sentences.
        sentences: The sentences that are fitted on, with repetitions.
    """
    if needs_moments_alone(method):
        return pooled.moments(sentences)
    return pooled.matrix[pooled.rows(sentences)], 0.0


# Which sentences


@dataclass(frozen=True)
class FitCorpusSample:
    """The sentences of a corpus that are fitted on, and how they are encoded.

    Cells whose samples are equal share the files of a pass.

    Attributes:
        fit_corpus: The corpus.
        size: How many of its sentences are fitted on.
        seed: Draws the sentences that are fitted on; None if all of them are.
        dropout_seed: Draws the encoder's dropout; None without dropout.
    """

    fit_corpus: FitCorpus
    size: int
    seed: int | None = None
    dropout_seed: int | None = None

    @classmethod
    def of(cls, method: Method, seed: int, fit_corpus: FitCorpus) -> FitCorpusSample:
        """The sentences that a method is fitted on with a seed.

        Of a task they are all sentences. Of another corpus they are the largest share
        that a post-processor of the method asks for, and SHARD sentences at least.
        """
        size = fit_corpus.count
        if fit_corpus.streams:
            share = max(post.share for post in method.post)
            size = min(size, max(SHARD, math.ceil(share * size)))
        return cls(
            fit_corpus,
            size,
            seed=seed if size < fit_corpus.count else None,
            dropout_seed=seed if needs_dropout(method) else None,
        )

    @property
    def share(self) -> float:
        """The number of sentences that are fitted on, divided by those of the corpus."""
        return self.size / self.fit_corpus.count if self.size else 1.0

    @property
    def digest(self) -> str:
        """The digest of the sample; if all sentences are fitted on, the corpus's own digest."""
        corpus = self.fit_corpus
        if self.seed is None:
            return corpus.digest
        draw = f"{self.size} of {corpus.count}, drawn by seed {self.seed}"
        return text_digest([corpus.digest, draw])

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
        starts = range(0, self.size, block_size)
        return [range(start, min(start + block_size, self.size)) for start in starts]

    def sentences(self, block: range) -> Iterator[str]:
        """The sentences of a block, in the order of the corpus.

        For the last block the corpus is read to its end. Raises DataError there if it is
        not what it was when its digest was computed, since what other sentences gave must
        not be stored under this digest.
        """
        is_last = block.stop == self.size
        corpus = self.fit_corpus
        sentences = corpus.unchanged() if is_last else iter(corpus.sentences())
        if self.seed is not None:
            # The generator of the fit has the seed alone. With a second number, the draws
            # here differ from the draws of the fit.
            rng = np.random.default_rng([self.seed, 1])
            is_drawn = np.zeros(corpus.count, bool)
            is_drawn[rng.permutation(corpus.count)[: self.size]] = True
            sentences = compress(sentences, is_drawn)
        return islice(sentences, block.start, None if is_last else block.stop)

    def file(self, cache: Path, key: str, method: Method) -> Path:
        """The file of the moments or rows that a method is fitted on.

        `key` is the key of the encoder that makes them. The file may not exist yet.
        """
        kind = "moments" if needs_moments_alone(method) else "rows"
        words = [self.fit_corpus.name, self.digest[:DIGEST_DIGITS]]
        if self.dropout_seed is not None:
            words.append(f"dropout-{self.dropout_seed}")
        if self.seed is not None:
            words.append(f"{self.size}-drawn")
        words.append(_pooling_name(method.pooling))
        return cache / kind / key / f"{'.'.join(words)}.safetensors"

    # A pass of an encoder

    def vectors(
        self, method: Method, encoder: CachedEncoder, progress: Progress
    ) -> tuple[Vectors, float]:
        """The moments or rows that a method is fitted on, and the seconds that they took.

        The pass is made where their file is missing or damaged. Raises DataError for an
        empty corpus.
        """
        file = self.file(encoder.folder, encoder.identity.key, method)
        stored = read_vectors(file)
        if stored is None:
            file.unlink(missing_ok=True)
            # This raises if the encoder lacks what the pooling reads.
            pooled_rows(method.pooling, encoder.probe_for(method.pooling))
            progress.phase(f"fitting on {self.fit_corpus.name}", self.size)
            try:
                for block in self.blocks:
                    self.encode(block, {file: method}, encoder)
                    progress.step(len(block))
            except DataError:  # the other blocks may be of other sentences, too
                for block in self.blocks:
                    _block_file(file, block).unlink(missing_ok=True)
                raise
            self.merge([file])
            stored = read_vectors(file)
        if stored is None:
            raise DataError(
                f"{self.fit_corpus.name}: wanted sentences to fit on, found none; get it again"
            )
        return stored

    def encode(
        self, block: range, methods: Mapping[Path, Method], encoder: CachedEncoder
    ) -> None:
        """Encode a block once, and store its vectors for each method that lacks them.

        Args:
            block: The positions of its sentences in the sample.
            methods: The methods, each by the file that it is fitted from. One whose
                pooling reads what the encoder does not have is left out: its cells fail
                with the error.
            encoder: The encoder.
        """
        vectors_by_file: dict[Path, list[Vectors]] = {}
        for file, method in methods.items():
            is_stored = read_vectors(_block_file(file, block)) is not None
            if not is_stored and _can_pool(encoder, method.pooling):
                vectors_by_file[file] = []
        if not vectors_by_file:
            return
        start = perf_counter()
        texts = self.sentences(block)
        read = (statistics_of(methods[file].pooling) for file in vectors_by_file)
        model: Any = encoder.asked_for(frozenset().union(*read))
        batches: Iterable[Sequence[str]] = encoder.portions(texts)
        if self.dropout_seed is not None:
            size = dropout_batch(model, encoder.probe)
            batches = iter(lambda: list(islice(texts, size)), [])
            model = with_dropout(model, self.dropout_seed)
        for batch in batches:
            encoding = encoded(model, batch)
            for file, earlier_vectors in vectors_by_file.items():
                method = methods[file]
                vectors: Vectors = pooled_rows(method.pooling, encoding)
                if needs_moments_alone(method):
                    vectors = Moments.of(vectors)
                    if earlier_vectors:
                        vectors = earlier_vectors.pop().merge(vectors)
                earlier_vectors.append(vectors)
        seconds = perf_counter() - start
        for file, all_vectors in vectors_by_file.items():
            if all_vectors:
                write_vectors(_block_file(file, block), joined(all_vectors), seconds)

    def merge(self, files: Iterable[Path]) -> None:
        """Make each file of the files of its blocks, in their order, and remove these.

        A file stays missing if one of its blocks does: it was not encoded, or another
        process has merged and removed it.
        """
        for file in files:
            parts = [_block_file(file, block) for block in self.blocks]
            stored = [read_vectors(part) for part in parts]
            whole = [vectors for vectors in stored if vectors is not None]
            if not parts or len(whole) < len(parts):
                continue
            seconds = sum(seconds for _, seconds in whole)
            write_vectors(file, joined([vectors for vectors, _ in whole]), seconds)
            for part in parts:
                part.unlink(missing_ok=True)


def _pooling_name(pooling: Pooling) -> str:
    """The words for a pooling in the name of a file.

    For a pooling of a plug-in they end with a digest of its settings and code.
    """
    if pooling in POOLINGS or type(pooling) is Native:
        return pooling.name
    digest = digest_of({"pooling": identity_text(pooling), **code_of(pooling)})
    return f"{pooling.name}.{digest[:DIGEST_DIGITS]}"


def _can_pool(encoder: CachedEncoder, pooling: Pooling) -> bool:
    """Whether a pooling works on the encoding of the probe; one of a plug-in may raise anything."""
    try:
        pooled_rows(pooling, encoder.probe_for(pooling))
    except BaseException as error:
        if not is_interruption(error):
            return False
        raise
    return True


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


def joined(parts: Sequence[Vectors]) -> Vectors:
    """Moments merged, or rows one part after the other."""
    if isinstance(parts[0], Moments):
        return Moments.merged(parts)
    return np.concatenate(parts)


# Files of moments or rows


def _block_file(file: Path, block: range) -> Path:
    """The file of a block until all blocks are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


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


# Fits


def fit(
    posts: Sequence[PostProcessor],
    vectors: Moments | Float[np.ndarray, "n D"],
    rng: np.random.Generator,
    share: float = 1.0,
    progress: Progress | None = None,
) -> tuple[Transform, ...]:
    """Fit post-processors in their order, each on the output of the ones before.

    From moments, a chain of affine maps is fitted without the vectors, since a map gives
    the moments of the mapped vectors.

    Args:
        posts: The post-processors.
        vectors: The rows to fit on, with repetitions, or their moments.
        rng: The only source of randomness.
        share: The number of vectors divided by the number of the corpus's sentences. A
            post-processor that takes a share of a corpus is told it.
        progress: Counts the steps of post-processors that report them.
    """
    x: Any = vectors
    if posts and not isinstance(x, Moments):
        x = read_only_view(x)
    transforms: list[Transform] = []
    for post in posts:
        is_whole = post.from_moments or share == 1
        options: Any = {} if is_whole else {"share": share}
        if getattr(post, "reports_progress", False):
            options["progress"] = progress
        transform: Any = post.fit(x, rng, **options)
        if not callable(transform):
            raise ScoreError(
                f"+{post.name}: wanted a map of rows from fit, found "
                f"{type(transform).__name__}; return the fitted map"
            )
        if isinstance(x, Moments) and not isinstance(transform, Affine):
            raise UsageError(
                f"+{post.name}: wanted an Affine of a fit from moments, found "
                f"{type(transform).__name__}; return one, or set from_moments = False"
            )
        transforms.append(transform)
        if len(transforms) < len(posts):
            x = x.after(transform) if isinstance(x, Moments) else applied(transform, x)
    return tuple(transforms)


@dataclass(frozen=True, eq=False)
class FittedTransforms:
    """The maps of a cell as they were fitted.

    Attributes:
        identity: The identity of the cell's encoder.
        transforms: The maps, in order.
        fitted_on: The sha256 of the sentences that they were fitted on; None without
            any.
        seconds: The seconds that the fit took.
    """

    identity: Identity
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None
    seconds: float = 0.0


@dataclass
class CellProgress(Progress):
    """The progress of the fit of a cell, as a note on the phase of the run.

    Attributes:
        progress: The progress of the run.
        cell: The cell, in words.
    """

    progress: Progress
    cell: str
    name: str = ""
    steps: int | None = None
    done: int = 0

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase of the fit."""
        self.name, self.steps, self.done = name, steps, 0

    def step(self, steps: int) -> None:
        """Count steps that were done."""
        self.done += steps
        total = "" if self.steps is None else f" of {self.steps:,}"
        self.progress.note(f"{self.cell}: {self.name} {self.done:,}{total}")


def fitted_transforms(
    method: Method,
    seed: int,
    fit_corpus: FitCorpus | None,
    encoder: CachedEncoder,
    pooled: PooledEmbeddings | None = None,
    progress: Progress | None = None,
) -> FittedTransforms:
    """Fit the post-processors of a method with a seed.

    `pooled` has the sentences of the task; without it they are encoded or read from the
    cache, if the fit needs them.
    """
    if fit_corpus is None:
        return FittedTransforms(encoder.identity)
    progress = progress or Progress()
    sample = FitCorpusSample.of(method, seed, fit_corpus)
    if needs_pass(method, fit_corpus):
        vectors, seconds = sample.vectors(method, encoder, progress)
    else:
        sentences = tuple(fit_corpus.sentences())
        if pooled is None:
            statistics = statistics_of(method.pooling)
            missing = encoder.cache.missing(sorted(set(sentences)), statistics)
            progress.phase(
                f"{encoder.config.name}: encoding tokens", encoder.tokens(missing)
            )
            for count in encoder.encode(missing, statistics):
                progress.step(count)
            pooled = encoder.pooled(method.pooling, sorted(set(sentences)))
        vectors, seconds = vectors_of(method, pooled, sentences)
    start = perf_counter()
    rng = np.random.default_rng(seed)
    transforms = fit(method.post, vectors, rng, sample.share, progress)
    seconds += perf_counter() - start
    return FittedTransforms(encoder.identity, transforms, sample.digest, seconds)
