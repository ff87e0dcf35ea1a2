"""Fit data of cells: embeddings, or moments or rows in a file, made once for all that share them.

A chain is fitted on one set of rows: of its post-processors' shares the largest, and with dropout
if one of them asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path

import numpy as np

from harness.core.errors import DataError
from harness.core.files import text_digest
from harness.core.interfaces import Pooling
from harness.core.types import Method, Progress
from harness.evaluation.corpus_files import MomentsWriter, RowsWriter, StoredCorpus, read_corpus
from harness.evaluation.embeddings import SHARD, CachedEncoder, PooledEmbeddings
from harness.evaluation.evaluate import FitData
from harness.results.records import PlannedCell
from harness.tasks.loader import FitText

SHARDS_A_BLOCK = 4  # at least: some seconds of a core's work
DIGITS = 16  # of a digest, in the name of a file
MOST_BLOCKS = 256  # of a pass: each reads the corpus up to its own sentences


def from_moments(method: Method) -> bool:
    """Whether a mean and a covariance are all that its chain needs."""
    return all(post.from_moments for post in method.post)


def needs_dropout(method: Method) -> bool:
    """Whether its chain is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


def sentences_read(method: Method, count: int) -> int:
    """How many of a corpus's sentences its chain is fitted on."""
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
    def whole(self) -> bool:
        """Whether nothing is drawn: every sentence is taken, and encoded as it is scored."""
        return self.seed is None and self.dropout is None

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

    def file(self, folder: Path, pooling: Pooling) -> Path:
        """Where its moments or rows lie under a pooling."""
        return folder / file_name(self.corpus, self.digest, self.dropout, pooling)


@dataclass
class FitCorpora:
    """The fit data of one encoder's cells; `texts` holds the cells that have a fit."""

    encoder: CachedEncoder
    progress: Progress
    texts: dict[PlannedCell, FitText] = field(default_factory=dict)
    stored: dict[CorpusSample, Mapping[Path, StoredCorpus]] = field(default_factory=dict)

    def digest(self, cell: PlannedCell) -> str | None:
        """The digest of the sentences that a cell is fitted on; None for a cell without a fit."""
        return self._sample(cell).digest if cell in self.texts else None

    def passes(
        self, cells: Iterable[PlannedCell]
    ) -> Iterator[tuple[tuple[PlannedCell, ...], CorpusSample]]:
        """Cells by the pass that makes their files, where one is missing; what it reads."""
        found: dict[CorpusSample, list[PlannedCell]] = {}
        for cell in filter(self._in_file, cells):
            found.setdefault(self._sample(cell), []).append(cell)
        for sample, users in found.items():
            if not all(self._file(cell).exists() for cell in users):
                yield tuple(users), sample

    def prepare(self, cell: PlannedCell, block: range | None = None) -> None:
        """Make what a cell is fitted on, if it is in a file, or the files of a block of it."""
        if self._in_file(cell) and block is None:
            self._stored(cell)
        elif self._in_file(cell) and block is not None:
            sample = self._sample(cell)
            missing = [file for file in self._methods(sample) if not file.exists()]
            self._encode(sample, missing, block, cell)

    def data(self, cell: PlannedCell, pooled: PooledEmbeddings) -> FitData | None:
        """The fit data of a cell's chain; None for a cell without a fit."""
        if cell not in self.texts:
            return None
        if self._in_file(cell):
            stored, sample = self._stored(cell), self._sample(cell)
            share = sample.taken / sample.count
            return FitData(stored.vectors, self.encoder.rows_folder, share, stored.seconds)
        text = self.texts[cell]
        own = tuple(text.sentences())
        if not from_moments(cell.method):
            return FitData(pooled.matrix[pooled.rows(own)])
        moments, seconds = pooled.moments(text.digest, own)
        return FitData(moments, seconds=seconds)

    def _in_file(self, cell: PlannedCell) -> bool:
        """Whether its sentences are encoded for the fit alone: a corpus, or with dropout."""
        return cell in self.texts and (self.texts[cell].streams or needs_dropout(cell.method))

    def _stored(self, cell: PlannedCell) -> StoredCorpus:
        """Moments or rows in a file. Raises an error that says why there are none."""
        sample, file = self._sample(cell), self._file(cell)
        if sample not in self.stored:
            self.stored[sample] = self._encoded(sample, cell)
        if file not in self.stored[sample]:
            # Raises where the encoder lacks what the pooling reads, and says what that is.
            cell.method.pooling(self.encoder.probe)
            raise DataError(
                f"{sample.corpus}: wanted sentences to fit on, found none; get it again"
            )
        return self.stored[sample][file]

    def _encoded(self, sample: CorpusSample, first: PlannedCell) -> Mapping[Path, StoredCorpus]:
        """All files that this run needs of a sample; the blocks that are missing are encoded."""
        methods = self._methods(sample)
        stored = {file: read_corpus(file) for file in methods}
        if missing := [file for file, made in stored.items() if made is None]:
            seed = "" if sample.whole else f", seed {first.seed}"
            self.progress.phase(f"fitting on {sample.corpus}{seed}", sample.taken)
            for block in sample.blocks:
                self._encode(sample, missing, block, first)
            for file in missing:
                if len(sample.blocks) > 1:
                    _merge_blocks(file, sample.blocks, _writer(file, methods[file]))
                stored[file] = read_corpus(file)
        return {file: made for file, made in stored.items() if made is not None}

    def _encode(
        self, sample: CorpusSample, files: Iterable[Path], block: range, first: PlannedCell
    ) -> None:
        """Encode a block of a sample into files, in one pass, unless the block is there."""
        methods, writers = self._methods(sample), []
        for file in files:
            target = file if len(sample.blocks) == 1 else _block_file(file, block)
            if target == file or read_corpus(target) is None:
                writers.append((methods[file].pooling, _writer(target, methods[file])))
        if not writers:
            self.progress.skip(len(block))
            return
        # The last block reads on, since a corpus that has changed says so at its end.
        stop = block.stop if block.stop < sample.taken else None
        texts = islice(sample.drawn(self.texts[first].sentences()), stop)
        self.encoder.stream(texts, writers, self.progress, sample.dropout, block.start)

    def _methods(self, sample: CorpusSample) -> dict[Path, Method]:
        """The files that this run needs of a sample, each with a method that is fitted on it."""
        peers = [cell for cell, text in self.texts.items() if text.name == sample.corpus]
        users = [cell for cell in peers if self._in_file(cell) and self._sample(cell) == sample]
        methods = {self._file(cell): cell.method for cell in users}
        return {file: methods[file] for file in sorted(methods)}

    def _sample(self, cell: PlannedCell) -> CorpusSample:
        return CorpusSample.of(self.texts[cell], cell.method, cell.seed)

    def _file(self, cell: PlannedCell) -> Path:
        moments = from_moments(cell.method)
        folder = self.encoder.moments_folder if moments else self.encoder.rows_folder
        return self._sample(cell).file(folder, cell.method.pooling)


def _writer(file: Path, method: Method) -> MomentsWriter | RowsWriter:
    """The writer of a file that a method is fitted on, or of a block of it."""
    return MomentsWriter(file) if from_moments(method) else RowsWriter(file)


def _block_file(file: Path, block: range) -> Path:
    """Where a block lies until all of them are merged."""
    return file.with_name(f".{file.name}.{block.start}.block")


def _merge_blocks(file: Path, blocks: Iterable[range], writer: MomentsWriter | RowsWriter) -> None:
    """Make a file of its blocks, in their order, and remove them."""
    files = [_block_file(file, block) for block in blocks]
    try:
        for each in files:
            if (stored := read_corpus(each)) is None:
                return  # the encoder lacks the pooling, or another process has merged them
            writer.add_stored(stored)
        writer.finish(0.0)
    finally:
        writer.close()
    for each in files:
        each.unlink(missing_ok=True)
