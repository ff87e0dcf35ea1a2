"""What cells are fitted on: moments, embeddings, or rows in a file; made once for all of them.

A chain is fitted on one set of rows: of its post-processors' shares the largest, and with dropout
if one of them asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.core.digests import text_digest
from harness.core.errors import DataError
from harness.core.types import Method, Pooling, Progress
from harness.evaluation.corpus_moments import CorpusMoments, MomentsWriter, read_moments
from harness.evaluation.corpus_rows import Rows, read_rows, rows_writer
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.evaluation.evaluate import FitData
from harness.evaluation.pooled import PooledEmbeddings
from harness.results.planned import PlannedCell
from harness.tasks.loader import FitText

Stored = TypeVar("Stored")
Files = Mapping[Pooling, Path]


def from_moments(method: Method) -> bool:
    """Whether a mean and a covariance are all that its chain needs."""
    return all(post.from_moments for post in method.post)


def needs_dropout(method: Method) -> bool:
    """Whether its chain is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


def needs_streamed_embeddings(method: Method, text: FitText) -> bool:
    """Whether its chain is fitted on rows of their own, in a file."""
    return needs_dropout(method) or (text.streams and not from_moments(method))


@dataclass(frozen=True)
class CorpusSample:
    """Sentences that rows are made of, and how they are encoded; cells of equal samples share them.

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
        taken = text.count
        if text.streams:
            share = max((p.share for p in method.post if not p.from_moments), default=1.0)
            taken = min(taken, max(SHARD, math.ceil(share * text.count)))
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

    def drawn(self, texts: Iterable[str]) -> Iterable[str]:
        """Those of the corpus's sentences that are taken, in their order."""
        if self.seed is None:
            return texts
        chosen = np.zeros(self.count, bool)
        # Another stream than that of the fit, which starts from the bare seed.
        chosen[np.random.default_rng([self.seed, 1]).permutation(self.count)[: self.taken]] = True
        return compress(texts, chosen)

    def file(self, folder: Path, pooling: Pooling) -> Path:
        """Where its rows lie under a pooling."""
        noisy = "" if self.dropout is None else f".dropout-{self.dropout}"
        return folder / f"{self.corpus}.{self.digest[:16]}{noisy}.{pooling.name}.safetensors"


@dataclass
class FitCorpora:
    """What the cells of one encoder are fitted on; `texts` has those that are fitted."""

    encoder: CachedEncoder
    progress: Progress
    texts: dict[PlannedCell, FitText] = field(default_factory=dict)
    moments: dict[str, Mapping[Pooling, CorpusMoments]] = field(default_factory=dict)
    rows: dict[CorpusSample, Mapping[Pooling, Rows]] = field(default_factory=dict)

    def digest(self, cell: PlannedCell) -> str | None:
        """The digest of the sentences that a cell is fitted on; None for a cell without a fit.

        That of a corpus comes with its moments, which are made here, so that it is read once.
        """
        text = self.texts.get(cell)
        if text is None:
            return None
        if needs_streamed_embeddings(cell.method, text):
            return self._sample(cell).digest
        return self._moments(cell, text).digest if text.streams else text.digest

    def prepare(self, cell: PlannedCell) -> None:
        """Make the rows that a cell is fitted on, if they are in a file."""
        text = self.texts.get(cell)
        if text is not None and needs_streamed_embeddings(cell.method, text):
            self._rows(cell)

    def data(self, cell: PlannedCell, pooled: PooledEmbeddings) -> FitData | None:
        """What a cell's chain is fitted on; None for a cell without a fit."""
        text = self.texts.get(cell)
        if text is None:
            return None
        if needs_streamed_embeddings(cell.method, text):
            rows, sample = self._rows(cell), self._sample(cell)
            share = sample.taken / sample.count
            return FitData(rows.matrix, self.encoder.rows_folder, share, rows.seconds)
        if text.streams:
            corpus = self._moments(cell, text)
            return FitData(corpus.moments, seconds=corpus.seconds)
        own = tuple(text.sentences())
        if not from_moments(cell.method):
            return FitData(pooled.matrix[pooled.rows(own)])
        moments, seconds = pooled.moments(text.digest, own)
        return FitData(moments, seconds=seconds)

    def _moments(self, cell: PlannedCell, text: FitText) -> CorpusMoments:
        """Moments of a corpus, from one pass for all that this run needs of it as it is scored."""
        if text.name not in self.moments:
            cells = [other for other, its_text in self.texts.items() if its_text is text]
            poolings = {other.method.pooling for other in cells if from_moments(other.method)}
            folder = self.encoder.moments_folder
            files = {p: folder / f"{text.name}.{p.name}.safetensors" for p in poolings}
            in_files = [c for c in cells if needs_streamed_embeddings(c.method, text)]
            samples = {sample for other in in_files if (sample := self._sample(other)).whole}

            def encode(missing: Files) -> None:
                moments = [(pooling, MomentsWriter(file)) for pooling, file in missing.items()]
                files = (item for sample in samples for item in self._files(sample).items())
                rows = [
                    (pooling, rows_writer(file)) for pooling, file in files if not file.exists()
                ]
                self.progress.phase(f"fitting on {text.name}", None)
                self.encoder.stream(text.sentences(), [*moments, *rows], self.progress)

            self.moments[text.name] = _stored(files, read_moments, encode)
        return self._under(cell, self.moments[text.name])

    def _rows(self, cell: PlannedCell) -> Rows:
        """Rows in a file, from one pass for all poolings that this run needs of their sample."""
        sample, text = self._sample(cell), self.texts[cell]
        if sample not in self.rows:
            seed = "" if sample.whole else f", seed {cell.seed}"

            def encode(missing: Files) -> None:
                self.progress.phase(f"fitting on {sample.corpus}{seed}", sample.taken)
                texts = sample.drawn(text.sentences())
                writers = [(pooling, rows_writer(file)) for pooling, file in missing.items()]
                self.encoder.stream(texts, writers, self.progress, sample.dropout)

            self.rows[sample] = _stored(self._files(sample), read_rows, encode)
        return self._under(cell, self.rows[sample])

    def _sample(self, cell: PlannedCell) -> CorpusSample:
        return CorpusSample.of(self.texts[cell], cell.method, cell.seed)

    def _files(self, sample: CorpusSample) -> Files:
        """Where the rows of a sample lie under each pooling that this run needs of it."""
        poolings = {
            cell.method.pooling
            for cell, text in self.texts.items()
            if text.name == sample.corpus
            and needs_streamed_embeddings(cell.method, text)
            and self._sample(cell) == sample
        }
        folder = self.encoder.rows_folder
        return {p: sample.file(folder, p) for p in sorted(poolings, key=str)}

    def _under(self, cell: PlannedCell, stored: Mapping[Pooling, Stored]) -> Stored:
        """What was made under the cell's pooling. Raises an error that says why there is none."""
        if cell.method.pooling not in stored:
            # Raises where the encoder lacks what the pooling reads, and says what that is.
            cell.method.pooling(self.encoder.loaded().encode(["one sentence"]))
            corpus = self.texts[cell].name
            raise DataError(f"{corpus}: wanted sentences to fit on, found none; get it again")
        return stored[cell.method.pooling]


def _stored(
    files: Files, read: Callable[[Path], Stored | None], encode: Callable[[Files], None]
) -> dict[Pooling, Stored]:
    """What files hold; what they lack is encoded first."""
    stored = {pooling: read(file) for pooling, file in sorted(files.items(), key=str)}
    if missing := {pooling: files[pooling] for pooling, made in stored.items() if made is None}:
        encode(missing)
        stored |= {pooling: read(file) for pooling, file in missing.items()}
    return {pooling: made for pooling, made in stored.items() if made is not None}
