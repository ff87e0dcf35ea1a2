"""The texts of a cell, read once for all cells; tasks and corpora limited to a few rows.

A limited task is for trying whether everything runs. It is another task, whose name no
published table can hold, so no score of it is ever compared with a published one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from harness.assets.places import Places
from harness.core.errors import OtherData, UsageError
from harness.core.metrics import labelled_splits
from harness.core.texts import TextDigest
from harness.core.types import Corpus, Pairs, Task, pairs_digest


@dataclass(frozen=True)
class _Rows:
    """Loads so many rows of each split, evenly spread over it, since files are sorted."""

    load: Callable[[Path, str], Pairs]
    limit: int

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        try:
            return self._some_of(self.load(data_dir, split))
        except OtherData as other:
            raise OtherData(
                str(other), self._some_of(cast(Pairs, other.pairs))
            ) from None

    def _some_of(self, pairs: Pairs) -> Pairs:
        rows = (
            np.linspace(0, len(pairs) - 1, min(self.limit, len(pairs)))
            .round()
            .astype(int)
        )

        def some(column: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(column[row] for row in rows) if column else ()

        return Pairs(some(pairs.a), some(pairs.b), pairs.gold[rows], some(pairs.group))


@dataclass(frozen=True)
class _First:
    """Streams the first sentences of a corpus."""

    sentences: Callable[[Path], Iterable[str]]
    limit: int

    def __call__(self, data_dir: Path) -> Iterable[str]:
        return islice(self.sentences(data_dir), self.limit)


def limited(task: Task, limit: int) -> Task:
    """A task of so many rows a split, named `sts-b.limit-20`."""
    return replace(
        task, name=f"{task.name}.limit-{limit}", load=_Rows(task.load, limit)
    )


def limited_corpus(corpus: Corpus, limit: int) -> Corpus:
    """A corpus of so many sentences, named `nli.limit-20`, that is no published one."""
    return replace(
        corpus,
        name=f"{corpus.name}.limit-{limit}",
        sentences=_First(corpus.sentences, limit),
        count=limit if corpus.count is None else min(limit, corpus.count),
        published=False,
    )


LOG = logging.getLogger(__name__)

# What `@` may name other than a corpus: the sentences of the task itself.
TARGETS = {
    "target": "the sentences of all splits of the task",
    "target-splits": "as @target, those of a task of one split three times: as train, dev and test",
    "target-train": "the sentences of the task's training split",
}

# Behind the `@` of a method that a program has fitted on texts of its own: no run has
# these.
OWN_TEXTS = "own-texts"


@dataclass(frozen=True, eq=False)
class FitCorpus:
    """Sentences to fit on, with their repetitions: a task's own, or those of a corpus.

    `sentences` gives all of them at each call; a corpus may be larger than memory and
    is read anew.
    """

    name: str
    sentences: Callable[[], Iterable[str]]

    @property
    def streams(self) -> bool:
        """Whether it is read from a file at each pass: a corpus, and no task's own sentences."""
        return self.name not in TARGETS

    @property
    def digest(self) -> str:
        """The sha256 of the sentences in their order."""
        return self._digested.hexdigest()

    @property
    def count(self) -> int:
        """The number of sentences, repetitions included."""
        return self._digested.count

    @cached_property
    def _digested(self) -> TextDigest:
        return TextDigest(self.sentences())


@dataclass(frozen=True, eq=False)
class CellTexts:
    """The texts of a cell.

    Attributes:
        pairs: The pairs that are scored.
        labelled: The pairs of each split that the task's metric learns from, mostly
            none.
        digests: For a record: `data`, and `labels` where there are labelled pairs.
        sentences: The distinct ones to be encoded; those of a corpus are read in a pass
            of their own and are not among them.
        fit_corpus: What the method's post-processors are fitted on; None without any.
    """

    pairs: Pairs
    labelled: tuple[Pairs, ...]
    digests: Mapping[str, str]
    sentences: frozenset[str]
    fit_corpus: FitCorpus | None = None


def splits_read(task: Task, fit_on: str) -> tuple[str, ...]:
    """The splits of a task that are fitted on, in the order in which they are read.

    `target` reads every split once. So does `target-splits`, but it reads a task of one
    split as its train, dev and test split alike, three times: what BERT-flow's released
    code does with STS12 to STS16 (`Sts_12_16_Processor` in `siamese_utils.py`, with
    `use_full_for_training=1`).
    """
    if fit_on == "target-train":
        return (str(task.train),)
    return (
        task.splits * 3
        if fit_on == "target-splits" and len(task.splits) == 1
        else task.splits
    )


def distinct_sentences(texts: Iterable[CellTexts]) -> frozenset[str]:
    """The sentences that several cells need encoded; many of these have the same texts."""
    return frozenset().union(*(cell_texts.sentences for cell_texts in set(texts)))


def load_split(task: Task, data_dir: Path, split: str) -> Pairs:
    """A split of a task; one of other data too, with a line that says so: it gets no verdict."""
    try:
        return task.load(data_dir, split)
    except OtherData as other:
        LOG.warning("harness: %s; scores of it have the state `other data`", other)
        return cast(Pairs, other.pairs)


@dataclass
class TaskLoader:
    """Reads the files of tasks and corpora, once for all cells of a run."""

    places: Places
    corpora: Mapping[str, Corpus]
    splits: dict[tuple[Callable[[Path, str], Pairs], str], Pairs] = field(
        default_factory=dict
    )
    streamed: dict[str, FitCorpus] = field(default_factory=dict)
    cells: dict[tuple[Task, str | None], CellTexts] = field(default_factory=dict)

    def texts(self, task: Task, fit_on: str | None = None) -> CellTexts:
        """The texts of the cells of a task, under methods that are fitted on `fit_on`.

        Raises AssetMissing for data that are not here, DataError for damaged ones.
        """
        if (task, fit_on) not in self.cells:
            if fit_on is None:
                texts = self._scored_texts(task)
            else:
                texts = self._with_fit_corpus(self.texts(task), task, fit_on)
            self.cells[task, fit_on] = texts
        return self.cells[task, fit_on]

    def _scored_texts(self, task: Task) -> CellTexts:
        first, *others = (self._split(task, split) for split in task.scored)
        pairs = first.concatenate(*others) if others else first
        labelled = tuple(self._split(task, split) for split in labelled_splits(task))
        digests = {"data": pairs_digest(pairs)}
        if labelled:
            digests["labels"] = "+".join(map(pairs_digest, labelled))
        distinct = frozenset().union(*(split.sentences for split in (pairs, *labelled)))
        return CellTexts(
            pairs=pairs, labelled=labelled, digests=digests, sentences=distinct
        )

    def _with_fit_corpus(self, scored: CellTexts, task: Task, fit_on: str) -> CellTexts:
        if fit_on not in TARGETS:
            if fit_on not in self.corpora:
                raise UsageError(
                    f"@{fit_on}: wanted a fit corpus of the registry, found none of that name; "
                    "harness list components shows them"
                )
            return replace(scored, fit_corpus=self._stream(self.corpora[fit_on]))
        splits = splits_read(task, fit_on)
        sentences = sum((self._split(task, split).sentences for split in splits), ())
        fit_corpus = FitCorpus(fit_on, lambda: sentences)
        return replace(
            scored, fit_corpus=fit_corpus, sentences=scored.sentences.union(sentences)
        )

    def _stream(self, corpus: Corpus) -> FitCorpus:
        data_dir = self.places.require_data(corpus.asset)
        if corpus.name not in self.streamed:
            sentences = partial(corpus.sentences, data_dir)
            self.streamed[corpus.name] = FitCorpus(corpus.name, sentences)
        return self.streamed[corpus.name]

    def _split(self, task: Task, split: str) -> Pairs:
        data_dir = self.places.require_data(task.asset)
        if (task.load, split) not in self.splits:
            self.splits[task.load, split] = load_split(task, data_dir, split)
        return task.checked(self.splits[task.load, split], split)
