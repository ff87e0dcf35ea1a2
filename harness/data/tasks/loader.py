"""The texts of a cell: the pairs that are scored, and the sentences that are fitted on.

A `TaskLoader` reads each file once for all cells of a run. Tasks and corpora can be
limited to a few rows, to see whether everything runs: a limited task has a name of its
own, such as `sts-b.limit-20`, which no published table holds, so that its scores are
never compared with published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

import numpy as np

from harness.core.digests import TextDigest
from harness.core.errors import DataError, UsageError
from harness.core.metrics import labelled_splits
from harness.core.pairs import Pairs, pairs_digest
from harness.core.types import Corpus, Task
from harness.data.places import Places

# The fit corpora that are sentences of the task itself, each with its description.
TARGETS = {
    "target": "the sentences of all splits of the task",
    "target-splits": "as @target, those of a task of one split three times: as train, dev and test",
    "target-train": "the sentences of the task's training split",
}

# The fit corpus of a method that a program fitted on its own texts; no run has them.
OWN_TEXTS = "own-texts"


@dataclass(frozen=True, eq=False)
class FitCorpus:
    """Sentences to fit on, with their repetitions: of the task itself, or of a corpus.

    Attributes:
        name: The name after the `@` of an id.
        sentences: Returns all of them at each call. A corpus is read from its file each
            time, since it may be larger than memory.
    """

    name: str
    sentences: Callable[[], Iterable[str]]

    @property
    def streams(self) -> bool:
        """Whether it is read from a file at each pass, as a corpus is."""
        return self.name not in TARGETS

    @property
    def digest(self) -> str:
        """The sha256 of the sentences in their order."""
        return self._digest_and_count[0]

    @property
    def count(self) -> int:
        """The number of sentences, repetitions included."""
        return self._digest_and_count[1]

    @cached_property
    def _digest_and_count(self) -> tuple[str, int]:
        """Raises DataError, which names the corpus, for sentences that are no texts."""
        sentences = self.sentences()
        if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
            raise DataError(
                f"@{self.name}: wanted sentences, found {type(sentences).__name__}; return a list "
                "of them, or yield one after the other"
            )
        try:
            digest = TextDigest(sentences)
        except DataError as error:
            raise DataError(f"@{self.name}, {error}") from None
        return digest.hexdigest(), digest.count

    def unchanged(self) -> Iterator[str]:
        """The sentences. Raises DataError behind them if they are not those of the digest."""
        digest = TextDigest()
        for sentence in self.sentences():
            digest.add(sentence)
            yield sentence
        if digest.hexdigest() != self.digest:
            raise DataError(
                f"@{self.name}: wanted the same sentences at each reading, found others: sha256 "
                f"{self.digest[:12]}, then {digest.hexdigest()[:12]}; keep them in a file, and "
                "run again"
            )


@dataclass(frozen=True, eq=False)
class CellTexts:
    """The texts of a cell.

    Attributes:
        pairs: The pairs that are scored.
        labelled: The pairs of each split that the task's metric learns from; empty for
            most metrics.
        digests: The digests that a record holds: `data`, and `labels` where there are
            labelled pairs.
        sentences: The distinct sentences to be encoded. The sentences of a corpus are
            not among them: they are encoded as they are read.
        fit_corpus: The sentences that the post-processors are fitted on, if any.
    """

    pairs: Pairs
    labelled: tuple[Pairs, ...]
    digests: Mapping[str, str]
    sentences: frozenset[str]
    fit_corpus: FitCorpus | None = None


def splits_read(task: Task, fit_on: str) -> tuple[str, ...]:
    """The splits of a task that are fitted on, in the order in which they are read.

    `target` and `target-splits` read every split once. Only a task of one split is read
    three times by `target-splits`, as if it were the train, dev and test split. BERT-flow's
    released code reads STS12 to STS16 in this way (`Sts_12_16_Processor` in
    `siamese_utils.py`, with `use_full_for_training=1`).
    """
    if fit_on == "target-train":
        return (str(task.train),)
    if fit_on == "target-splits" and len(task.splits) == 1:
        return task.splits * 3
    return task.splits


def distinct_sentences(texts: Iterable[CellTexts]) -> frozenset[str]:
    """The distinct sentences of several cells, which often share their texts."""
    distinct_texts = set(texts)
    return frozenset().union(*(texts.sentences for texts in distinct_texts))


@dataclass
class TaskLoader:
    """Reads the files of tasks and corpora, once for all cells of a run.

    What was read is kept in the last three attributes.

    Attributes:
        places: Where the files are.
        corpora: The corpora of the registry, by name.
        splits: The splits of tasks, by what loads them and their name.
        fit_corpora: The corpora that were asked for, by name.
        cell_texts: The texts of cells, by task and fit corpus.
    """

    places: Places
    corpora: Mapping[str, Corpus]
    splits: dict[tuple[Callable[[Path, str], Pairs], str], Pairs] = field(
        default_factory=dict
    )
    fit_corpora: dict[str, FitCorpus] = field(default_factory=dict)
    cell_texts: dict[tuple[Task, str | None], CellTexts] = field(default_factory=dict)

    def texts(self, task: Task, fit_on: str | None = None) -> CellTexts:
        """The texts of the cells of a task, under methods that are fitted on `fit_on`.

        Raises AssetMissing for data that are not here, DataError for damaged ones.
        """
        if (task, fit_on) not in self.cell_texts:
            if fit_on is None:
                texts = self._scored_texts(task)
            else:
                texts = self._with_fit_corpus(task, fit_on)
            self.cell_texts[task, fit_on] = texts
        return self.cell_texts[task, fit_on]

    def _scored_texts(self, task: Task) -> CellTexts:
        """The texts of a task's cells under a method that is not fitted."""
        scored = [self._split(task, split) for split in task.scored]
        # A single split is used as it is, since tasks with the same split share it.
        pairs = scored[0] if len(scored) == 1 else Pairs.concatenate(*scored)
        labelled = tuple(self._split(task, split) for split in labelled_splits(task))
        digests = {"data": pairs_digest(pairs)}
        if labelled:
            digests["labels"] = "+".join(pairs_digest(split) for split in labelled)
        sentences = set(pairs.sentences)
        for split in labelled:
            sentences.update(split.sentences)
        return CellTexts(
            pairs=pairs,
            labelled=labelled,
            digests=digests,
            sentences=frozenset(sentences),
        )

    def _with_fit_corpus(self, task: Task, fit_on: str) -> CellTexts:
        """The texts with a fit corpus; the sentences of the task are encoded, too."""
        scored = self.texts(task)
        if fit_on in TARGETS:
            sentences: list[str] = []
            for split in splits_read(task, fit_on):
                sentences += self._split(task, split).sentences
            return replace(
                scored,
                fit_corpus=FitCorpus(fit_on, lambda: sentences),
                sentences=scored.sentences.union(sentences),
            )
        if fit_on not in self.corpora:
            raise UsageError(
                f"@{fit_on}: wanted a fit corpus of the registry, found none of that name; "
                "harness list components shows them"
            )
        corpus = self.corpora[fit_on]
        data_dir = self.places.require_data(corpus.asset)
        name = corpus.name  # of a limited one it is another
        if name not in self.fit_corpora:  # one object, whose digest is computed once
            sentences_of_file = partial(corpus.sentences, data_dir)
            self.fit_corpora[name] = FitCorpus(name, sentences_of_file)
        return replace(scored, fit_corpus=self.fit_corpora[name])

    def _split(self, task: Task, split: str) -> Pairs:
        """A split of a task, checked; it is read at the first time."""
        data_dir = self.places.require_data(task.asset)
        if (task.load, split) not in self.splits:
            self.splits[task.load, split] = task.load(data_dir, split)
        return task.checked(self.splits[task.load, split], split)


# Tasks and corpora limited to a few rows


def limited(task: Task, limit: int) -> Task:
    """The task with at most `limit` rows a split, named `sts-b.limit-20`."""
    return replace(
        task, name=f"{task.name}.limit-{limit}", load=_SpacedRows(task.load, limit)
    )


def first_rows(task: Task, count: int) -> Task:
    """The task with the first `count` rows of each split, named `sts-b.first-500`."""
    return replace(
        task, name=f"{task.name}.first-{count}", load=_FirstRows(task.load, count)
    )


def limited_corpus(corpus: Corpus, limit: int) -> Corpus:
    """The corpus with at most `limit` sentences, named `nli.limit-20`."""

    def first_sentences(data_dir: Path) -> Iterable[str]:
        return islice(corpus.sentences(data_dir), limit)

    return replace(
        corpus,
        name=f"{corpus.name}.limit-{limit}",
        sentences=first_sentences,
        count=limit if corpus.count is None else min(limit, corpus.count),
        published=False,
    )


def _rows_of(pairs: Pairs, rows: Sequence[int]) -> Pairs:
    """The pairs, or labelled sentences, of these rows."""
    return Pairs(
        a=tuple(pairs.a[row] for row in rows),
        b=tuple(pairs.b[row] for row in rows) if pairs.b else (),
        gold=pairs.gold[list(rows)],
        group=tuple(pairs.group[row] for row in rows),
    )


@dataclass(frozen=True)
class _SpacedRows:
    """Loads at most `limit` rows of a split, evenly spaced, since files may be sorted."""

    load: Callable[[Path, str], Pairs]
    limit: int

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        pairs = self.load(data_dir, split)
        count = min(self.limit, len(pairs))
        rows = np.linspace(0, len(pairs) - 1, count).round().astype(int)
        return _rows_of(pairs, rows.tolist())


@dataclass(frozen=True)
class _FirstRows:
    """Loads the first `count` rows of a split, as a script does that is tried on a part."""

    load: Callable[[Path, str], Pairs]
    count: int

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        pairs = self.load(data_dir, split)
        return _rows_of(pairs, range(min(self.count, len(pairs))))
