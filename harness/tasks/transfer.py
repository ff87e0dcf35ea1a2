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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

# The files of each split. Where there are two, the first holds class 1, which SentEval reads first,
# the second class 0; SentEval takes the objective sentences for class 1.
FILES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "mr": {"all": ("MR/rt-polarity.pos", "MR/rt-polarity.neg")},
    "cr": {"all": ("CR/custrev.pos", "CR/custrev.neg")},
    "subj": {"all": ("SUBJ/subj.objective", "SUBJ/subj.subjective")},
    "mpqa": {"all": ("MPQA/mpqa.pos", "MPQA/mpqa.neg")},
    "sst-2": {s: (f"SST/binary/sentiment-{s}",) for s in ("train", "dev", "test")},
    "trec": {"train": ("TREC/train_5500.label",), "test": ("TREC/TREC_10.label",)},
    "mrpc": {s: (f"MRPC/msr_paraphrase_{s}.txt",) for s in ("train", "test")},
}

CLASSES = ("0", "1")
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
HEADER = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")

# Tokens of one or two sentences, and their class.
Row = tuple[tuple[list[str], ...], int]


@dataclass(frozen=True)
class SentEvalSet:
    """Loads a split of a set, in SentEval's order; a set without splits has one, `all`."""

    name: str

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        names = FILES[self.name][known_split(split, FILES[self.name])]
        # The project's layout, then SentEval's.
        folders = ("transfer/", *FOLDERS["senteval"])
        paths = [locate(data_dir, self.name, *(f + name for f in folders)) for name in names]
        rows = PARSERS.get(self.name, parse_classes)(*paths)
        return in_order(rows, self.name, split, paths[0])


def parse_classes(positive: Path, negative: Path) -> Iterator[Row]:
    """A sentence a line, in a file for each class."""
    for label, path in ((1, positive), (0, negative)):
        for _, line in lines(path):
            yield (line.split(),), label


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


PARSERS: Mapping[str, Callable[..., Iterator[Row]]] = {
    "sst-2": parse_sst,
    "trec": parse_trec,
    "mrpc": parse_mrpc,
}


def transfer(
    name: str,
    cite: str,
    note: str,
    licence: str = "none stated by its authors; for research",
) -> Task:
    """A transfer task, scored on its last split."""
    splits = tuple(FILES[name])
    return Task(
        name=name,
        load=SentEvalSet(name),
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
        columns=(LeaderboardColumn("transfer", name.upper()),),
    )


CROSS = "accuracy of nested ten-fold cross-validation; one classifier seed, SentEval's 1111"
HELD = "the penalty is chosen by ten folds of train; one classifier seed, SentEval's 1111"
DEV = "dev chooses the penalty; train holds phrases too; one classifier seed, SentEval's 1111"

TASKS = (
    transfer("mr", "pang2005mr", CROSS),
    transfer("cr", "hu2004cr", CROSS),
    transfer("subj", "pang2004subj", CROSS),
    transfer("mpqa", "wiebe2005mpqa", CROSS),
    transfer("sst-2", "socher2013sst", DEV),
    transfer("trec", "li2002trec", HELD),
    transfer("mrpc", "dolan2005mrpc", HELD, licence="Microsoft Research; for research"),
)
