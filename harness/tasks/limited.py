"""Tasks and corpora cut to a few rows: for a look whether everything runs, never for a number.

A limited task is another task, whose name no published table can hold: no score of it is ever
compared with a published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

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
