"""Natural language inference as training data: triplets, labelled pairs, and shuffled batches.

Triplets are CSV with a header (SimCSE's `nli_for_simcse.csv`), labelled pairs tab-separated lines
without quoting: an extract of SNLI, or AllNLI.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

import numpy as np

from harness.core.arrays import Int64
from harness.core.errors import DataError, UsageError
from harness.tasks.corpora import ALL_NLI, ALL_NLI_HEADER
from harness.tasks.readers import AGAIN, body, fields, lines, opened

Columns = tuple[tuple[str, ...], ...]  # of equal length; row n of all columns is one example

TRIPLETS = ("sent0", "sent1", "hard_neg")
LABELS = ("contradiction", "entailment", "neutral")  # in sentence-transformers' order
NUMBERED = {"1": "neutral", "2": "contradiction", "3": "entailment"}


@dataclass(frozen=True)
class Labelled:
    """Labelled pairs: premises, hypotheses, and labels as indices into LABELS."""

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[int, ...]

    @property
    def columns(self) -> Columns:
        """Premises and hypotheses."""
        return self.premises, self.hypotheses

    def of_kind(self, kind: str) -> Columns:
        """Premises and hypotheses of one label, or of `all`. Raises UsageError for another."""
        if kind not in (*LABELS, "all"):
            raise UsageError(f"--pairs {kind}: wanted one of {', '.join(LABELS)}, all")
        rows = [
            (premise, hypothesis)
            for premise, hypothesis, label in zip(*self.columns, self.labels, strict=True)
            if kind in ("all", LABELS[label])
        ]
        if not rows:
            raise DataError(f"wanted labelled pairs of {kind}, found none")
        return tuple(zip(*rows, strict=True))

    def triplets(self) -> Columns:
        """Premise, entailment and contradiction: the n-th of each kind that a premise has.

        Where a premise has more of one kind, the surplus is left out. Raises DataError for none.
        """
        hypotheses: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in zip(*self.columns, self.labels, strict=True):
            of_premise = hypotheses.setdefault(premise, {name: [] for name in LABELS})
            of_premise[LABELS[label]].append(hypothesis)
        rows = [
            (premise, positive, negative)
            for premise, by in hypotheses.items()
            for positive, negative in zip(by["entailment"], by["contradiction"], strict=False)
        ]
        if not rows:
            raise DataError("wanted a premise with an entailment and a contradiction, found none")
        return tuple(zip(*rows, strict=True))


def read_triplets(path: Path) -> Columns:
    """The two or three columns of a CSV file: sentence, positive, hard negative.

    Quoting follows RFC 4180; the file may be packed (.gz, .xz). Raises DataError with the line.
    """
    examples: list[tuple[str, ...]] = []
    with (
        opened(path) as raw,
        io.TextIOWrapper(cast(IO[bytes], raw), encoding="utf-8-sig", newline="") as text,
    ):
        rows = csv.reader(text, strict=True)
        try:
            header = tuple(next(rows, ()))
            if header not in (TRIPLETS, TRIPLETS[:2]):
                raise DataError(
                    f"{path}:1: wanted the header {','.join(TRIPLETS)} or its first two, found "
                    f"{','.join(header)!r}"
                )
            for row in rows:
                if len(row) != len(header) or not all(cell.strip() for cell in row):
                    raise DataError(
                        f"{path}:{rows.line_num}: wanted {len(header)} sentences, found {row!r}"
                    )
                examples.append(tuple(row))
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}:{rows.line_num}: wanted CSV in UTF-8, found {error}") from None
    if not examples:
        raise DataError(f"{path}: wanted rows behind the header, found none")
    return tuple(zip(*examples, strict=True))


def sample(columns: Columns, count: int, seed: int) -> Columns:
    """So many examples at random, in their order. Raises DataError where there are fewer."""
    if len(columns[0]) < count:
        raise DataError(f"--sample {count}: wanted so many examples, found {len(columns[0])}")
    drawn = np.random.default_rng((seed, 6, count)).permutation(len(columns[0]))[:count]
    return tuple(tuple(column[row] for row in np.sort(drawn)) for column in columns)


def read_labelled(path: Path, held_out: bool = False) -> Labelled:
    """Labelled pairs: AllNLI's train splits, or lines of label, label, premise, hypothesis.

    `held_out` adds SNLI's dev and test splits to AllNLI's. Raises DataError with the line.
    """
    _, first = next(lines(path), ("", ""))
    whole = first.split("\t") == list(ALL_NLI_HEADER)
    if held_out and not whole:
        raise UsageError(f"--held-out: wanted AllNLI, which tells splits apart, found {path.name}")
    rows = _all_nli(path, held_out) if whole else _numbered(path)
    columns = tuple(zip(*rows, strict=True))
    if not columns:
        raise DataError(f"{path}: wanted labelled pairs, found none")
    return Labelled(*columns)


def _numbered(path: Path) -> Iterator[tuple[str, str, int]]:
    for place, line in lines(path):
        label, _, premise, hypothesis = fields(place, line, 4)
        if label not in NUMBERED:
            raise DataError(f"{place}: wanted a label from 1 to 3, found {label!r}; {AGAIN}")
        yield premise, hypothesis, LABELS.index(NUMBERED[label])


def _all_nli(path: Path, held_out: bool) -> Iterator[tuple[str, str, int]]:
    """AllNLI's train splits, which sentence-transformers trains on; BERT-flow on all of SNLI."""
    for place, line in body(path, ALL_NLI_HEADER):
        split, dataset, _, premise, hypothesis, label = fields(place, line, 6)
        if (dataset.lower().replace("multi", "m"), split) in ALL_NLI and (
            held_out or split == "train"
        ):
            if label not in LABELS:
                raise DataError(f"{place}: wanted one of {', '.join(LABELS)}, found {label!r}")
            yield premise, hypothesis, LABELS.index(label)


@dataclass(frozen=True)
class Batches:
    """The batches of a training: examples shuffled in each epoch, its last batch the remainder.

    A remainder of one example is dropped, since it has no in-batch negative.
    """

    count: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.count < 2 or self.size < 2:
            raise UsageError(
                f"wanted two examples or more, and two or more a batch, found {self.count} "
                f"examples in batches of {self.size}"
            )

    @property
    def steps(self) -> int:
        """The number of batches in an epoch."""
        return self.count // self.size + (self.count % self.size > 1)

    def __call__(self, step: int) -> Int64[np.ndarray, " B"]:
        """The numbers of the examples in a step's batch."""
        epoch, place = divmod(step, self.steps)
        return _order(self.count, self.seed, epoch)[place * self.size : (place + 1) * self.size]


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Int64[np.ndarray, " N"]:
    return np.random.default_rng((seed, epoch)).permutation(count)
