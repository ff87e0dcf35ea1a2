"""The texts of a cell, read once for all cells; tasks and corpora limited to a few rows.

A limited task is for trying whether everything runs. It is another task, whose name no published
table can hold, so no score of it is ever compared with a published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.files import TextDigest, pairs_digest
from harness.core.metrics import labelled_splits
from harness.core.types import Corpus, Pairs, Task


@dataclass(frozen=True)
class _Rows:
    """Loads so many rows of each split, evenly spread over it, since files are sorted."""

    load: Callable[[Path, str], Pairs]
    limit: int

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        pairs = self.load(data_dir, split)
        rows = np.linspace(0, len(pairs) - 1, min(self.limit, len(pairs))).round().astype(int)

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
    return replace(task, name=f"{task.name}.limit-{limit}", load=_Rows(task.load, limit))


def limited_corpus(corpus: Corpus, limit: int) -> Corpus:
    """A corpus of so many sentences, named `nli.limit-20`, that is no published one."""
    return replace(
        corpus,
        name=f"{corpus.name}.limit-{limit}",
        sentences=_First(corpus.sentences, limit),
        count=limit if corpus.count is None else min(limit, corpus.count),
        published=False,
    )


# What `@` may name besides a corpus: the sentences of the task itself.
TARGETS = {
    "target": "the sentences of all splits of the task",
    "target-splits": "as @target, those of a task of one split three times: as train, dev and test",
    "target-train": "the sentences of the task's training split",
}

# Behind the `@` of a method that a program has fitted on texts of its own: no run has these.
OWN_TEXTS = "own-texts"


@dataclass(frozen=True, eq=False)
class FitText:
    """Sentences to fit on, with their repetitions: a task's own, or those of a corpus.

    `sentences` gives all of them at each call; a corpus may be larger than memory and is read anew.
    """

    name: str
    sentences: Callable[[], Iterable[str]]

    @property
    def streams(self) -> bool:
        return self.name not in TARGETS

    @property
    def digest(self) -> str:
        return self._digested.hexdigest()

    @property
    def count(self) -> int:
        return self._digested.count

    @cached_property
    def _digested(self) -> TextDigest:
        return TextDigest(self.sentences())


@dataclass(frozen=True, eq=False)
class CellInputs:
    """The texts of a cell.

    `pairs` are scored; `labelled` are those of the splits that the task's metric learns from,
    mostly none. `digests` are those of a record: `data`, and `labels` where there are any.
    `sentences` are the distinct ones to be encoded; a corpus streams past and is not among them.
    """

    pairs: Pairs
    labelled: tuple[Pairs, ...]
    digests: Mapping[str, str]
    sentences: frozenset[str]
    fit: FitText | None = None


def splits_read(task: Task, fit_on: str) -> tuple[str, ...]:
    """The splits of a task that are fitted on, in the order in which they are read.

    `target` reads every split once. So does `target-splits`, but it reads a task of one split as
    its train, dev and test split alike, three times: what BERT-flow's released code does with STS12
    to STS16 (`Sts_12_16_Processor` in `siamese_utils.py`, with `use_full_for_training=1`).
    """
    if fit_on == "target-train":
        return (str(task.train),)
    return task.splits * 3 if fit_on == "target-splits" and len(task.splits) == 1 else task.splits


def distinct_sentences(inputs: Iterable[CellInputs]) -> frozenset[str]:
    """The sentences that several cells need encoded; many of these have the same texts."""
    return frozenset().union(*(texts.sentences for texts in set(inputs)))


@dataclass
class TaskLoader:
    """Reads the files of tasks and corpora, once for all cells of a run."""

    places: Places
    corpora: Mapping[str, Corpus]
    splits: dict[tuple[Callable[[Path, str], Pairs], str], Pairs] = field(default_factory=dict)
    streams: dict[str, FitText] = field(default_factory=dict)
    cells: dict[tuple[Task, str | None], CellInputs] = field(default_factory=dict)

    def inputs(self, task: Task, fit_on: str | None = None) -> CellInputs:
        if (task, fit_on) not in self.cells:
            inputs = self._scored(task) if fit_on is None else self._fitted(task, fit_on)
            self.cells[task, fit_on] = inputs
        return self.cells[task, fit_on]

    def _scored(self, task: Task) -> CellInputs:
        first, *rest = (self._split(task, split) for split in task.scored)
        pairs = first.concatenate(*rest) if rest else first
        labelled = tuple(self._split(task, split) for split in labelled_splits(task))
        digests = {"data": pairs_digest(pairs)}
        if labelled:
            digests["labels"] = "+".join(map(pairs_digest, labelled))
        distinct = frozenset().union(*(p.sentences for p in (pairs, *labelled)))
        return CellInputs(pairs, labelled, digests, distinct)

    def _fitted(self, task: Task, fit_on: str) -> CellInputs:
        scored = self.inputs(task)
        if fit_on not in TARGETS:
            if fit_on not in self.corpora:
                raise UsageError(
                    f"@{fit_on}: wanted a fit corpus of the registry, found none of that name; "
                    "harness list components shows them"
                )
            return replace(scored, fit=self._stream(self.corpora[fit_on]))
        texts = sum((self._split(task, s).sentences for s in splits_read(task, fit_on)), ())
        fit = FitText(fit_on, lambda: texts)
        return replace(scored, fit=fit, sentences=scored.sentences.union(texts))

    def _stream(self, corpus: Corpus) -> FitText:
        data_dir = self.places.require_data(corpus.asset)
        if corpus.name not in self.streams:
            self.streams[corpus.name] = FitText(corpus.name, partial(corpus.sentences, data_dir))
        return self.streams[corpus.name]

    def _split(self, task: Task, split: str) -> Pairs:
        data_dir = self.places.require_data(task.asset)
        if (task.load, split) not in self.splits:
            self.splits[task.load, split] = task.load(data_dir, split)
        return task.checked(self.splits[task.load, split], split)
