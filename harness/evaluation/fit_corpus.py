"""Passes over fit corpora: sentences are encoded for fits alone, and are not kept.

A pass (`FitCorpusPass`) encodes a sample of a corpus (`FitCorpusSample`) once, for all
poolings and post-processors that are fitted on it. It stores moments or rows: a file for
each pooling. The sample is divided into blocks. A block is encoded by one process, and
again from its beginning after a kill. The files of all blocks are merged in their order,
so any number of workers gives the same bits. Each file is complete or absent.
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
from harness.core.provenance import code_of
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
    read_fit_corpus,
    write_fit_corpus,
)
from harness.evaluation.select import PlannedCell
from harness.tasks.loader import TARGETS, FitCorpus
from harness.transforms.affine import Moments
from harness.transforms.pooling import POOLINGS, Native

SHARDS_A_BLOCK = 4  # at least; a shard has SHARD sentences
MOST_BLOCKS = (
    256  # of a pass, since each block reads the corpus up to its own sentences
)
DIGEST_DIGITS = 16  # of a digest, in the name of a file


def needs_pass(method: Method, fit_corpus: FitCorpus) -> bool:
    """Whether sentences are encoded for the fit alone: from a corpus, or with dropout."""
    return fit_corpus.streams or needs_dropout(method)


def needs_dropout(method: Method) -> bool:
    """Whether a post-processor of the method is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


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

        Of a task they are all sentences. Of another corpus they are the largest share
        that a post-processor of the method asks for, and SHARD sentences at least.
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
        """The digest of the sample; if all sentences are fitted on, the corpus's own digest."""
        if self.seed is None:
            return self.corpus_digest
        draw = f"{self.size} of {self.corpus_size}, drawn by seed {self.seed}"
        return text_digest([self.corpus_digest, draw])

    @property
    def blocks(self) -> list[range]:
        """The positions of each block's sentences in the sample; they depend on its size alone."""
        shards_a_block = math.ceil(self.size / SHARD / MOST_BLOCKS)
        block_size = SHARD * max(SHARDS_A_BLOCK, shards_a_block)
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
        errors: The errors of methods whose pooling or moments failed so far, or of all
            if the sentences changed. `vectors` raises them; the other methods go on
            without them.
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
        """The moments or rows that a method is fitted on.

        Raises the error of its pooling or moments, and DataError for an empty corpus.
        """
        stored_vectors = self.stored.get(self.file(method))
        if method in self.errors:
            raise self.errors[method]
        if stored_vectors is None:
            # This raises if the encoder lacks what the pooling reads.
            pooled_rows(method.pooling, self.encoder.probe)
            raise DataError(
                f"{self.sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        share = self.sample.size / self.sample.corpus_size
        return replace(stored_vectors, share=share)

    @cached_property
    def stored(self) -> Mapping[Path, FitCorpusVectors]:
        """The content of the files. If any is missing, the pass is made at the first call."""
        content = {file: read_fit_corpus(file) for file in self.methods}
        missing_files = [file for file, vectors in content.items() if vectors is None]
        if missing_files:
            self.progress.phase(self._phase(), self.sample.size)
            for block in self.sample.blocks:
                self.encode_block(block, missing_files)
            self.merge_blocks(missing_files)
            for file in missing_files:
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

        Files of the block that are stored already stay as they are. Nothing is stored for
        a method whose pooling the encoder lacks, or whose pooling or moments fail.
        """
        block_vectors = self._block_vectors_to_make(block, files)
        if not block_vectors:
            self.progress.step(len(block))
            return
        encoder, batches = self._batches(block)
        clock = self.encoder.clock
        start = clock()
        for batch in batches:
            encoding = encoded(encoder, batch, self.encoder.probe)
            block_vectors = self._with_batch(block_vectors, encoding)
            self.progress.step(len(batch))
        seconds = clock() - start
        for vectors in block_vectors:
            if not vectors.is_empty:
                write_fit_corpus(vectors.file, vectors.joined(), seconds)

    def _block_vectors_to_make(
        self, block: range, files: Iterable[Path]
    ) -> list[_BlockVectors]:
        """The vectors of a block, still empty, of the files whose block is not stored."""
        block_vectors = []
        for file in files:
            method = self.methods[file]
            block_file = _block_file(file, block)
            is_stored = read_fit_corpus(block_file) is not None
            if not is_stored and _has_pooling(method.pooling, self.encoder.probe):
                block_vectors.append(_BlockVectors(method, block_file))
        return block_vectors

    def _with_batch(
        self, block_vectors: Sequence[_BlockVectors], encoding: Encoding
    ) -> list[_BlockVectors]:
        """The vectors of a block with one more batch.

        A method whose pooling or moments fail is left out, and its error is kept.
        """
        grown_vectors = []
        for vectors in block_vectors:
            try:
                vectors.add(encoding)
            except BaseException as error:
                # A pooling of a plug-in may raise anything.
                if not is_interruption(error):
                    self.errors[vectors.method] = error
                    continue
                raise
            grown_vectors.append(vectors)
        return grown_vectors

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
        # The dropout of a sentence depends on all earlier draws. So the draws of earlier
        # blocks are repeated, in batches of the same size.
        batch_size = dropout_batch(encoder.loaded(), encoder.probe)
        dropping_encoder = with_dropout(encoder.loaded(), sample.dropout_seed)
        earlier_sentences = islice(sentences, block.start)
        for batch in _in_batches(earlier_sentences, batch_size):
            dropping_encoder.pass_over(batch)
        return dropping_encoder, _in_batches(sentences, batch_size)

    # Blocks are merged

    def merge_blocks(self, files: Iterable[Path]) -> None:
        """Make each of these files of its blocks, in their order, and remove the blocks.

        If the sentences have changed since their digest was computed, no file is made:
        the blocks are removed, and the error is kept for all methods.
        """
        files = list(files)
        if not files:
            return
        try:
            self.fit_corpus.require_unchanged()
        except DataError as error:
            self.errors.update(dict.fromkeys(self.methods.values(), error))
            for file in files:
                self._remove_blocks(file)
            return
        for file in files:
            contents = [
                read_fit_corpus(block_file) for block_file in self._block_files(file)
            ]
            blocks = [content for content in contents if content is not None]
            if not blocks or len(blocks) < len(contents):
                # The corpus is empty, the method failed, or another process has merged
                # the blocks.
                continue
            vectors: list[Any] = [block.vectors for block in blocks]
            merged: Moments | Float[np.ndarray, "n D"]
            if needs_moments_alone(self.methods[file]):
                merged = Moments.merged(vectors)
            else:
                merged = join_rows(vectors, file.parent)
            write_fit_corpus(file, merged, sum(block.seconds for block in blocks))
            self._remove_blocks(file)

    def _block_files(self, file: Path) -> list[Path]:
        """The files of the blocks that a file is made of, in their order."""
        return [_block_file(file, block) for block in self.sample.blocks]

    def _remove_blocks(self, file: Path) -> None:
        """Remove the blocks that a file is made of."""
        for block_file in self._block_files(file):
            block_file.unlink(missing_ok=True)


class _BlockVectors:
    """The vectors of a block that a method is fitted on, which grow batch by batch.

    They are rows, or the moments of rows; `file` is where they will be stored.
    """

    def __init__(self, method: Method, file: Path) -> None:
        self.method = method
        self.file = file
        self.rows: list[Float32[np.ndarray, "m D"]] = []
        self.moments: Moments | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no batch was added yet."""
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
    """Whether an encoding has what the pooling reads.

    The pooling is tried on it. If that fails, its cells fail with this error when their
    vectors are read.
    """
    try:
        pooled_rows(pooling, encoding)
    except BaseException as error:
        # A pooling of a plug-in may raise anything.
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
