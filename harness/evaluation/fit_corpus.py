"""What cells are fitted on: moments, rows of a view, or rows in a file; made once for all of them.

A chain is fitted on one set of rows: of its parts' shares the largest, and with dropout if one part
asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np

from harness.core.digests import TextDigest, text_digest
from harness.core.errors import DataError
from harness.core.types import Method, Pooling, Progress, Task
from harness.evaluation.embeddings import SHARD, CachedEncoder, Encode, PooledEmbeddings, Streamed
from harness.evaluation.evaluate import FitOn
from harness.tasks.loader import TARGETS, Library


@runtime_checkable
class ToFit(Protocol):
    """A cell: a method on a task, and a seed."""

    @property
    def method(self) -> Method: ...
    @property
    def task(self) -> Task: ...
    @property
    def seed(self) -> int: ...


def from_moments(method: Method) -> bool:
    """Whether a mean and a covariance are all that its chain needs."""
    return all(post.from_moments for post in method.post)


def with_dropout(method: Method) -> bool:
    """Whether its chain is fitted on encodings with dropout."""
    return any(post.dropout for post in method.post)


def share(method: Method) -> float:
    """How much of a corpus its chain looks at."""
    shares = (post.share for post in method.post if not post.from_moments)
    return max(shares, default=1.0)


def needs_streamed_embeddings(method: Method) -> bool:
    """Whether it is fitted on rows that no view holds."""
    streams = method.fit_on is not None and method.fit_on not in TARGETS
    return with_dropout(method) or (streams and not from_moments(method))


@dataclass(frozen=True)
class Source:
    """The sentences behind rows and how they are encoded; all cells of the same source share them.

    `seed` draws `taken` of the `count` sentences, and `dropout` is the seed of the encoder's
    dropout; None where nothing is drawn.
    """

    corpus: str
    text: str
    count: int
    taken: int
    seed: int | None = None
    dropout: int | None = None

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
class Fitting:
    """Finds or makes what the cells of one encoder are fitted on."""

    library: Library
    bench: CachedEncoder
    progress: Progress
    cells: Sequence[ToFit]
    read: dict[str, tuple[str, int]] = field(default_factory=dict)
    sources: dict[ToFit, Source] = field(default_factory=dict)

    def digest(self, cell: ToFit) -> str | None:
        """Of the sentences that a cell is fitted on, which nothing is encoded for but moments."""
        name = cell.method.fit_on
        if name is None:
            return None
        if name in TARGETS:
            return self.library.target_digest(cell.task, name)
        if from_moments(cell.method):
            return self._moments(name, cell.method.pooling).digest
        return self._source(cell).digest

    def prepare(self, cell: ToFit) -> None:
        """Make the rows that a cell is fitted on, if they are in a file."""
        if needs_streamed_embeddings(cell.method):
            self._rows(cell)

    def fit_on(self, cell: ToFit, view: PooledEmbeddings) -> FitOn:
        """What a cell's chain is fitted on."""
        method, name = cell.method, cell.method.fit_on
        if name is None:
            return FitOn()
        if needs_streamed_embeddings(method):
            return self._rows(cell)
        if name not in TARGETS:
            found = self._moments(name, method.pooling)
            return FitOn(found.moments, seconds=found.seconds)
        texts = self.library.target(cell.task, name)
        if not from_moments(method):
            return FitOn(rows=view.rows(texts))
        moments, seconds = view.moments(self.library.target_digest(cell.task, name), texts)
        return FitOn(moments, seconds=seconds)

    def _moments(self, name: str, pooling: Pooling) -> Streamed:
        """Moments of a corpus, from one pass for all that this run wants of it as it is scored."""
        corpus = self.library.corpora[name]
        data_dir = self.library.places.require_data(corpus.asset)
        of_it = [cell for cell in self.cells if cell.method.fit_on == name]
        wanted = {cell.method.pooling for cell in of_it if from_moments(cell.method)}
        keep: dict[Pooling, Path] = {}
        for source in {
            self._source(cell) for cell in of_it if needs_streamed_embeddings(cell.method)
        }:
            if source.seed is source.dropout is None:
                keep |= self._files(source)
        poolings = sorted(wanted, key=str)
        found = self.bench.stream(corpus, data_dir, poolings, self.progress, keep)
        if pooling.name not in found:
            self._refuse(name, pooling)
        return found[pooling.name]

    def _rows(self, cell: ToFit) -> FitOn:
        """Rows in a file, from one pass for all poolings that this run wants of their source."""
        source, pooling = self._source(cell), cell.method.pooling
        of = f"fitting on {source.corpus}"
        seeds = f", seed {cell.seed}" if {source.seed, source.dropout} != {None} else ""
        found = self.bench.rows(
            self._files(source),
            lambda: source.drawn(self._texts(cell)),
            lambda: self._encode(source),
            self.progress,
            (of + seeds, source.taken),
        )
        if pooling not in found:
            self._refuse(source.corpus, pooling)
        return FitOn(
            vectors=found[pooling].matrix,
            share=source.taken / source.count,
            scratch=self.bench.rows_folder,
            seconds=found[pooling].seconds,
        )

    def _source(self, cell: ToFit) -> Source:
        if cell not in self.sources:
            self.sources[cell] = self._new_source(cell)
        return self.sources[cell]

    def _new_source(self, cell: ToFit) -> Source:
        name = str(cell.method.fit_on)
        dropout = cell.seed if with_dropout(cell.method) else None
        if name in TARGETS:
            texts = self.library.target(cell.task, name)
            text = self.library.target_digest(cell.task, name)
            return Source(name, text, len(texts), len(texts), dropout=dropout)
        text, every = self._text_of(name)
        taken = min(every, max(SHARD, math.ceil(share(cell.method) * every)))
        return Source(name, text, every, taken, cell.seed if taken < every else None, dropout)

    def _text_of(self, name: str) -> tuple[str, int]:
        """Digest and number of a corpus's sentences."""
        if name not in self.read:
            digest = TextDigest.of(self._corpus(name))
            self.read[name] = digest.hexdigest(), digest.count
        return self.read[name]

    def _texts(self, cell: ToFit) -> Iterable[str]:
        """Every sentence that the cell's corpus holds."""
        name = str(cell.method.fit_on)
        return self.library.target(cell.task, name) if name in TARGETS else self._corpus(name)

    def _corpus(self, name: str) -> Iterable[str]:
        corpus = self.library.corpora[name]
        return corpus.sentences(self.library.places.require_data(corpus.asset))

    def _files(self, source: Source) -> dict[Pooling, Path]:
        """Where the rows of a source lie under each pooling that this run wants of it."""
        near = [
            c
            for c in self.cells
            if needs_streamed_embeddings(c.method) and c.method.fit_on == source.corpus
        ]
        wanted = {cell.method.pooling for cell in near if self._source(cell) == source}
        return {p: source.file(self.bench.rows_folder, p) for p in sorted(wanted, key=str)}

    def _encode(self, source: Source) -> Encode:
        if source.dropout is None:
            return self.bench.encode
        return self.bench.dropping(source.dropout)

    def _refuse(self, corpus: str, pooling: Pooling) -> NoReturn:
        """Say why there is nothing to fit on."""
        pooling(self.bench.encode(["one sentence"]))  # raises, and says what the encoder lacks
        raise DataError(f"{corpus}: wanted sentences to fit on, found none; get it again")
