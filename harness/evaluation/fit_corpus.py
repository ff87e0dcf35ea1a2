"""Passes over fit corpora: sentences are encoded for a fit alone, in blocks that merge.

A pass encodes a sample of a corpus once, for all poolings and post-processors that are
fitted on it (`FitCorpusSample`, `FitCorpusPass`). The sample is divided into blocks. A
block is encoded by one process, and after a kill it is encoded again as a whole. The
files of all blocks are merged in their order, so any number of workers gives the same
bits. Each file is complete or absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32
from harness.core.errors import DataError, is_interruption
from harness.core.identity import identity_digest
from harness.core.interfaces import Encoding, Pooling
from harness.core.provenance import code_of, plugins_of
from harness.core.texts import text_digest
from harness.core.types import Method, Progress
from harness.evaluation.embeddings import (
    SHARD,
    CachedEncoder,
    dropout_batch,
    encoded,
    pooled_rows,
    with_dropout,
)
from harness.evaluation.fit_vectors import (
    FitCorpusVectors,
    join_rows,
    needs_moments_alone,
    read_count_and_seconds,
    read_fit_corpus,
    write_fit_corpus,
)
from harness.evaluation.select import PlannedCell
from harness.plugins import require_digested_code
from harness.tasks.loader import TARGETS, FitCorpus
from harness.transforms.affine import Moments
from harness.transforms.pooling import POOLINGS, Native

SHARDS_A_BLOCK = 4  # at least
MOST_BLOCKS = 256  # of a pass: each reads the corpus up to its own sentences
DIGEST_DIGITS = 16  # in the name of a file


def needs_pass(method: Method, fit_corpus: FitCorpus) -> bool:
    """Whether sentences are encoded for the fit alone: from a corpus, or with dropout."""
    return fit_corpus.streams or needs_dropout(method)


def needs_dropout(method: Method) -> bool:
    """Whether a post-processor of the method is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


# Which sentences


@dataclass(frozen=True, kw_only=True)
class FitCorpusSample:
    """The sentences that are fitted on, all of a corpus or some, and how they are encoded.

    Cells whose samples are equal share the files of a pass.

    Attributes:
        corpus: The name of the fit corpus.
        corpus_digest: The sha256 of all of its sentences.
        corpus_size: How many sentences it has.
        size: How many of them are fitted on.
        seed: Draws the sentences that are fitted on; None where all are.
        dropout_seed: Draws the encoder's dropout; None without dropout.
    """

    corpus: str
    corpus_digest: str
    corpus_size: int
    size: int
    seed: int | None = None
    dropout_seed: int | None = None

    @classmethod
    def for_cell(cls, cell: PlannedCell, fit_corpus: FitCorpus) -> FitCorpusSample:
        """The sentences that a cell is fitted on."""
        return cls.for_method(
            cell.method,
            cell.seed,
            corpus=fit_corpus.name,
            corpus_digest=fit_corpus.digest,
            corpus_size=fit_corpus.count,
        )

    @classmethod
    def for_method(
        cls,
        method: Method,
        seed: int,
        *,
        corpus: str,
        corpus_digest: str,
        corpus_size: int,
    ) -> FitCorpusSample:
        """The sentences that a method is fitted on with a seed.

        They are all sentences of a task, and of another corpus the largest share that a
        post-processor of the method asks for, at least SHARD.
        """
        if corpus in TARGETS:
            size = corpus_size
        else:
            share = max(post.share for post in method.post)
            size = min(corpus_size, max(SHARD, math.ceil(share * corpus_size)))
        return cls(
            corpus=corpus,
            corpus_digest=corpus_digest,
            corpus_size=corpus_size,
            size=size,
            seed=seed if size < corpus_size else None,
            dropout_seed=seed if needs_dropout(method) else None,
        )

    @property
    def digest(self) -> str:
        """The digest of the sample, which is the corpus's own if all of it is fitted on."""
        if self.seed is None:
            return self.corpus_digest
        draw = f"{self.size} of {self.corpus_size}, drawn by seed {self.seed}"
        return text_digest([self.corpus_digest, draw])

    @property
    def blocks(self) -> list[range]:
        """The positions of the sentences of each block, which depend on the sample's size alone."""
        shards = math.ceil(self.size / SHARD / MOST_BLOCKS)
        block_size = SHARD * max(SHARDS_A_BLOCK, shards)
        positions = range(self.size)
        return [
            positions[start : start + block_size]
            for start in range(0, self.size, block_size)
        ]

    def drawn(self, sentences: Iterable[str]) -> Iterable[str]:
        """The sentences of the sample among all of the corpus, in their order."""
        if self.seed is None:
            return sentences
        # With the second number, the draws differ from the draws of the fit, whose
        # generator has the seed alone.
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

    def dropout_rate(self, cache: Path, key: str) -> float | None:
        """Sentences a second of an encoder's earlier passes with dropout; None if it made none."""
        sentences = 0
        seconds = 0.0
        pattern = f"*/{key}/*{self.corpus}.{'?' * DIGEST_DIGITS}.dropout-*"
        for path in cache.glob(pattern):
            stored = read_count_and_seconds(path)
            if stored is not None:
                sentences += stored[0]
                seconds += stored[1]
        if seconds == 0:
            return None
        return sentences / seconds


def _pooling_name(pooling: Pooling) -> str:
    """A pooling in the name of a file; one of a plug-in with a digest of its settings and code."""
    if pooling in POOLINGS or type(pooling) is Native:
        return pooling.name
    code = list(code_of(pooling).values())
    return f"{pooling.name}.{identity_digest((pooling, code))[:DIGEST_DIGITS]}"


# One pass


def fit_corpus_passes(
    encoder: CachedEncoder,
    fit_corpora: Mapping[PlannedCell, FitCorpus | None],
    progress: Progress,
) -> dict[PlannedCell, FitCorpusPass]:
    """The pass of each cell that needs one; cells with equal samples share it."""
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


@dataclass(eq=False)
class FitCorpusPass:
    """A pass of an encoder over a sample, for all methods that are fitted on it.

    Attributes:
        encoder: The encoder.
        sample: Which sentences it reads.
        fit_corpus: The corpus that it reads them from.
        progress: Counts the sentences.
        methods: The methods, each by the file that it is fitted from.
        errors: The errors of methods whose pooling or moments failed. They fail no
            other method; `vectors` raises them.
    """

    encoder: CachedEncoder
    sample: FitCorpusSample
    fit_corpus: FitCorpus
    progress: Progress
    methods: dict[Path, Method] = field(default_factory=dict)
    errors: dict[Method, BaseException] = field(default_factory=dict)

    def file(self, method: Method) -> Path:
        """The file that a method is fitted from."""
        return self.sample.file(self.encoder.folder, self.encoder.identity.key, method)

    @property
    def missing_files(self) -> list[Path]:
        """The files that do not exist yet."""
        return [file for file in self.methods if not file.exists()]

    def vectors(self, method: Method) -> FitCorpusVectors:
        """What a method is fitted on. Raises an error that says why there is nothing."""
        stored = self.stored.get(self.file(method))
        if method in self.errors:
            raise self.errors[method]
        if stored is None:
            # An encoder that lacks what the pooling reads is refused here, by name.
            pooled_rows(method.pooling, self.encoder.probe)
            raise DataError(
                f"{self.sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return replace(stored, share=self.sample.size / self.sample.corpus_size)

    @cached_property
    def stored(self) -> Mapping[Path, FitCorpusVectors]:
        """The content of the files. Sentences are encoded for files that are missing."""
        content = {file: read_fit_corpus(file) for file in self.methods}
        missing = [file for file, vectors in content.items() if vectors is None]
        if missing:
            self.progress.phase(self._phase(), self.sample.size)
            for block in self.sample.blocks:
                self.encode_block(block, missing)
            self.merge_blocks(missing)
            for file in missing:
                content[file] = read_fit_corpus(file)
        return {
            file: vectors for file, vectors in content.items() if vectors is not None
        }

    def _phase(self) -> str:
        """The name of this pass in a bar of progress."""
        sample = self.sample
        seed = sample.dropout_seed if sample.seed is None else sample.seed
        if seed is None:
            return f"fitting on {sample.corpus}"
        return f"fitting on {sample.corpus}, seed {seed}"

    # A block is encoded

    def encode_block(self, block: range, files: Iterable[Path]) -> None:
        """Encode a block once, and store its vectors for each of these files.

        What is stored already stays. Nothing is stored for a method whose pooling the
        encoder lacks, or whose pooling or moments fail.
        """
        unstored = self._block_vectors_to_make(block, files)
        if not unstored:
            self.progress.step(len(block))
            return
        encoder, batches = self._batches(block)
        clock = self.encoder.clock
        start = clock()
        for batch in batches:
            encoding = encoded(encoder, batch)
            unstored = [vectors for vectors in unstored if self._add(encoding, vectors)]
            self.progress.step(len(batch))
        seconds = clock() - start
        methods = [vectors.method for vectors in unstored]
        require_digested_code(plugins_of(self.encoder.config, *methods).values())
        for vectors in unstored:
            if not vectors.is_empty:
                write_fit_corpus(vectors.file, vectors.joined(), seconds)

    def _block_vectors_to_make(
        self, block: range, files: Iterable[Path]
    ) -> list[_BlockVectors]:
        """The vectors of a block, still empty, for the files whose part is not stored."""
        unstored = []
        for file in files:
            method = self.methods[file]
            block_file = _block_file(file, block)
            is_stored = read_fit_corpus(block_file) is not None
            if not is_stored and _has_pooling(method.pooling, self.encoder.probe):
                unstored.append(_BlockVectors(method, block_file))
        return unstored

    def _add(self, encoding: Encoding, vectors: _BlockVectors) -> bool:
        """Add a batch to the vectors of a method. False, and its error is kept, if that fails."""
        try:
            vectors.add(encoding)
        except BaseException as error:
            if not is_interruption(error):
                self.errors[vectors.method] = error
                return False
            raise
        return True

    def _batches(self, block: range) -> tuple[Any, Iterator[Sequence[str]]]:
        """The encoder for a block, and the block's sentences in batches."""
        sample, encoder = self.sample, self.encoder
        is_last = block.stop >= sample.size
        # The last block reads to the end of the corpus, which raises there if it changed.
        stop = None if is_last else block.stop
        sentences = islice(sample.drawn(self.fit_corpus.sentences()), stop)
        if sample.dropout_seed is None:
            sentences_of_block = islice(sentences, block.start, None)
            return encoder.loaded(), encoder.portions(sentences_of_block)
        # The dropout of a sentence depends on all that was drawn before. So earlier
        # blocks are drawn again, in batches of the same size.
        batch_size = dropout_batch(encoder.loaded(), encoder.probe)
        dropping_encoder = with_dropout(encoder.loaded(), sample.dropout_seed)
        earlier_sentences = islice(sentences, block.start)
        for batch in _in_batches(earlier_sentences, batch_size):
            dropping_encoder.pass_over(batch)
        return dropping_encoder, _in_batches(sentences, batch_size)

    # Blocks are merged

    def merge_blocks(self, files: Iterable[Path]) -> None:
        """Make each of these files of its blocks, in their order, and remove the blocks."""
        for file in files:
            block_files = [_block_file(file, block) for block in self.sample.blocks]
            stored = [read_fit_corpus(block_file) for block_file in block_files]
            blocks = [block for block in stored if block is not None]
            if not blocks or len(blocks) < len(block_files):
                continue  # no method was fitted, or another process has merged the blocks
            vectors: list[Any] = [block.vectors for block in blocks]
            merged: Moments | Float[np.ndarray, "n D"]
            if needs_moments_alone(self.methods[file]):
                merged = Moments.merged(vectors)
            else:
                merged = join_rows(vectors, file.parent)
            write_fit_corpus(file, merged, sum(block.seconds for block in blocks))
            for block_file in block_files:
                block_file.unlink(missing_ok=True)


class _BlockVectors:
    """The vectors of a block that a method is fitted on, which grow batch by batch.

    They are rows, or the moments of all of them; `file` is where they will be stored.
    """

    def __init__(self, method: Method, file: Path) -> None:
        self.method = method
        self.file = file
        self.rows: list[Float32[np.ndarray, "m D"]] = []
        self.moments: Moments | None = None

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.moments is None

    def add(self, encoding: Encoding) -> None:
        """Add the vectors of one more batch."""
        rows = pooled_rows(self.method.pooling, encoding)
        if not needs_moments_alone(self.method):
            self.rows.append(rows)
        elif self.moments is None:
            self.moments = Moments.of(rows)
        else:
            self.moments = self.moments.merge(Moments.of(rows))

    def joined(self) -> Moments | Float[np.ndarray, "n D"]:
        """The vectors of all batches."""
        if self.moments is None:
            return np.concatenate(self.rows)
        return self.moments


def _block_file(file: Path, block: range) -> Path:
    """The file of a block until all blocks are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


def _has_pooling(pooling: Pooling, encoding: Encoding) -> bool:
    """Whether an encoding has what the pooling reads. A cell without it fails with a reason."""
    try:
        pooled_rows(pooling, encoding)
    except BaseException as error:
        if not is_interruption(error):
            return False
        raise
    return True


def _in_batches(texts: Iterator[str], size: int) -> Iterator[Sequence[str]]:
    """The texts, `size` at a time; the last batch may be smaller."""
    batch = list(islice(texts, size))
    while batch:
        yield batch
        batch = list(islice(texts, size))
