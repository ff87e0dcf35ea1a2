"""SentEval's transfer tasks: labelled sentences, or pairs (MRPC), that a classifier tells apart.

Movie reviews (MR, SST-2), product reviews (CR), subjectivity (SUBJ), opinion polarity of phrases
(MPQA), types of questions (TREC), paraphrase (MRPC). The score is the accuracy of a logistic
regression, by `harness.core.metrics.classification`; without a test split it is that of
cross-validation.

The text is SentEval's: tokens between single blanks; all but TREC and MRPC are lower-cased. Rows
stand in SentEval's order, shortest sentence first and lowest class first among equals, since the
folds follow from the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.errors import DataError
from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import (
    AGAIN,
    FOLDERS,
    body,
    checked,
    fields,
    known_split,
    lines,
    locate,
    published_rows,
)

# One file a class: class 0, then class 1. SentEval takes the objective sentences for class 1.
FILES = {
    "mr": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "cr": ("CR/custrev.neg", "CR/custrev.pos"),
    "subj": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "mpqa": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
# One file a split.
SST_2 = {split: f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")}
TREC = {"train": "TREC/train_5500.label", "test": "TREC/TREC_10.label"}
MRPC = {split: f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")}

CLASSES = ("0", "1")
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
HEADER = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")

# Tokens of one or two sentences, and their class.
Row = tuple[tuple[list[str], ...], int]


@dataclass(frozen=True)
class OneSplit:
    """Loads a set whose classes lie in files of their own; its only split is `all`."""

    name: str

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        known_split(split, ("all",))
        negative, positive = (found(data_dir, self.name, f) for f in FILES[self.name])
        # SentEval reads class 1 first.
        rows = [*parse_class(positive, 1), *parse_class(negative, 0)]
        return in_order(rows, self.name, split, positive)


@dataclass(frozen=True)
class Sst2:
    """Loads a split of SST-2; its train split holds phrases too."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        path = found(data_dir, "sst-2", SST_2[known_split(split, SST_2)])
        return in_order(parse_sst(path), "sst-2", split, path)


@dataclass(frozen=True)
class Trec:
    """Loads a split of TREC under its six coarse classes."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        path = found(data_dir, "trec", TREC[known_split(split, TREC)])
        return in_order(parse_trec(path), "trec", split, path)


@dataclass(frozen=True)
class Mrpc:
    """Loads a split of MRPC."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        path = found(data_dir, "mrpc", MRPC[known_split(split, MRPC)])
        return in_order(parse_mrpc(path), "mrpc", split, path)


def found(data_dir: Path, asset: str, name: str) -> Path:
    """The file in the project's layout or in SentEval's. Raises AssetMissing."""
    return locate(
        data_dir, asset, *(folder + name for folder in ("transfer/", *FOLDERS["senteval"]))
    )


def parse_class(path: Path, label: int) -> Iterator[Row]:
    """A sentence a line, all of one class."""
    return (((line.split(),), label) for _, line in lines(path))


def parse_sst(path: Path) -> Iterator[Row]:
    """A sentence and 0 or 1, separated by a tab."""
    for place, line in lines(path):
        sentence, label = fields(place, line, 2)
        yield (sentence.split(),), class_of(place, label, CLASSES)


def parse_trec(path: Path) -> Iterator[Row]:
    """`COARSE:fine question`, in Latin-1."""
    for place, line in lines(path, "latin-1"):
        label, colon, rest = line.partition(":")
        _, blank, question = rest.partition(" ")
        if not colon or not blank:
            raise DataError(f"{place}: wanted COARSE:fine question, found {line!r}; {AGAIN}")
        yield (question.split(),), class_of(place, label, QUESTIONS)


def parse_mrpc(path: Path) -> Iterator[Row]:
    """A header, then 0 or 1, two numbers, two sentences."""
    for place, line in body(path, HEADER):
        label, _, _, a, b = fields(place, line, 5)
        yield (a.split(), b.split()), class_of(place, label, CLASSES)


def class_of(place: str, label: str, classes: Sequence[str]) -> int:
    """The number of a class. Raises DataError for one that is not known."""
    if label not in classes:
        raise DataError(f"{place}: wanted {' or '.join(classes)}, found {label!r}; {AGAIN}")
    return classes.index(label)


def in_order(rows: Iterable[Row], name: str, split: str, path: Path) -> Pairs:
    """The rows in SentEval's order, checked: by the lengths in tokens, then by class."""
    ordered = sorted(rows, key=lambda row: (*map(len, row[0]), row[1]))
    a, *b = zip(*(map(" ".join, texts) for texts, _ in ordered), strict=True)
    gold = np.array([label for _, label in ordered], dtype=np.float64)
    pairs = Pairs(a, b[0] if b else (), gold, (name,) * len(ordered))
    published = published_rows(name)[split]
    return checked(pairs, path, published.pairs, published.sha256["senteval"])


def transfer(
    name: str,
    load: Callable[[Path, str], Pairs],
    heading: str,
    cite: str,
    splits: tuple[str, ...] = ("all",),
    note: str = "",
    licence: str = "none stated by its authors; for research",
) -> Task:
    """A transfer task, scored on its last split."""
    return Task(
        name=name,
        load=load,
        splits=splits,
        scored=splits[-1:],
        metric="classification",
        asset=name,
        text="senteval",
        train="train" if "train" in splits else None,
        on_request=True,
        cite=cite,
        licence=licence,
        note=note,
        columns=(LeaderboardColumn("transfer", heading),),
    )


CROSS = "accuracy of nested ten-fold cross-validation; one classifier seed, SentEval's 1111"
HELD = "the penalty is chosen by ten folds of train; one classifier seed, SentEval's 1111"
DEV = "dev chooses the penalty; train holds phrases too; one classifier seed, SentEval's 1111"

MSR = "Microsoft Research; for research"

TASKS = (
    transfer("mr", OneSplit("mr"), "MR", "pang2005mr", note=CROSS),
    transfer("cr", OneSplit("cr"), "CR", "hu2004cr", note=CROSS),
    transfer("subj", OneSplit("subj"), "SUBJ", "pang2004subj", note=CROSS),
    transfer("mpqa", OneSplit("mpqa"), "MPQA", "wiebe2005mpqa", note=CROSS),
    transfer("sst-2", Sst2(), "SST-2", "socher2013sst", tuple(SST_2), DEV),
    transfer("trec", Trec(), "TREC", "li2002trec", tuple(TREC), HELD),
    transfer("mrpc", Mrpc(), "MRPC", "dolan2005mrpc", tuple(MRPC), HELD, MSR),
)
