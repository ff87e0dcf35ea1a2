"""SentEval's transfer tasks: labelled sentences, or pairs (MRPC), that a classifier tells apart.

Movie reviews (MR, SST-2), product reviews (CR), subjectivity (SUBJ), opinion polarity
of phrases (MPQA), types of questions (TREC), paraphrase (MRPC). The score is the
accuracy of a logistic regression (`harness.core.metrics.classification`), under
cross-validation where there is no test split.

The text is SentEval's: tokens with single blanks between them, in lower case but for
TREC and MRPC. Rows are in SentEval's order, since the folds depend on it: by the number
of tokens, then by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from harness.core.errors import DataError
from harness.core.pairs import Pairs
from harness.core.types import LeaderboardColumn, Task
from harness.data.tasks.readers import (
    FOLDERS,
    PublishedSet,
    body,
    class_of,
    fields,
    lines,
)

CLASSES = ("0", "1")
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
HEADER = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")


# The class of a sentence, or of a pair, and the tokens of each sentence.
LabelledTokens = tuple[int, *tuple[list[str], ...]]


def parse_classes(positive: Path, negative: Path) -> Iterator[LabelledTokens]:
    """A sentence a line, in a file for each class; SentEval reads class 1 first."""
    for label, path in ((1, positive), (0, negative)):
        for _, line in lines(path):
            yield label, line.split()


def parse_sst(path: Path) -> Iterator[LabelledTokens]:
    """A sentence and 0 or 1, separated by a tab."""
    for place, line in lines(path):
        sentence, label = fields(place, line, 2)
        yield class_of(place, label, CLASSES), sentence.split()


def parse_trec(path: Path) -> Iterator[LabelledTokens]:
    """`COARSE:fine question`, in Latin-1."""
    for place, line in lines(path, "latin-1"):
        label, colon, subtype_and_question = line.partition(":")
        _, blank, question = subtype_and_question.partition(" ")
        if not colon or not blank:
            raise DataError(f"{place}: wanted COARSE:fine question, found {line!r}")
        yield class_of(place, label, QUESTIONS), question.split()


def parse_mrpc(path: Path) -> Iterator[LabelledTokens]:
    """A header, then 0 or 1, two numbers, two sentences."""
    for place, line in body(path, HEADER):
        label, _, _, a, b = fields(place, line, 5)
        yield class_of(place, label, CLASSES), a.split(), b.split()


def read_in_order(
    parse: Callable[..., Iterator[LabelledTokens]], name: str, *paths: Path
) -> Pairs:
    """The rows of files in SentEval's order: by the numbers of tokens, then by class."""
    rows = sorted(parse(*paths), key=lambda row: (*map(len, row[1:]), row[0]))
    texts = [[" ".join(tokens) for tokens in row[1:]] for row in rows]
    return Pairs(
        a=tuple(text[0] for text in texts),
        b=tuple(text[1] for text in texts if len(text) == 2),
        gold=np.array([label for label, *_ in rows], dtype=np.float64),
        group=(name,) * len(rows),
    )


def transfer(
    name: str,
    cite: str,
    note: str,
    parse: Callable[..., Iterator[LabelledTokens]],
    files: Mapping[str, tuple[str, ...]],
    licence: str = "none stated by its authors; for research",
) -> Task:
    """A transfer task, scored on its last split; a set without splits has one, `all`."""
    splits = tuple(files)
    return Task(
        name=name,
        load=PublishedSet(
            family=name,
            asset=name,
            text="senteval",
            parse=partial(read_in_order, parse, name),
            files=files,
            folders=("transfer/", *FOLDERS["senteval"]),
        ),
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


CROSS_VALIDATION_NOTE = (
    "accuracy of nested ten-fold cross-validation; one classifier seed, SentEval's 1111"
)
HELD_OUT_NOTE = (
    "the penalty is chosen by ten folds of train; one classifier seed, SentEval's 1111"
)
DEV_NOTE = "dev chooses the penalty; train holds phrases too; one classifier seed, SentEval's 1111"

MR = {"all": ("MR/rt-polarity.pos", "MR/rt-polarity.neg")}
CR = {"all": ("CR/custrev.pos", "CR/custrev.neg")}
# In SentEval objective sentences are class 1.
SUBJ = {"all": ("SUBJ/subj.objective", "SUBJ/subj.subjective")}
MPQA = {"all": ("MPQA/mpqa.pos", "MPQA/mpqa.neg")}
SST = {split: (f"SST/binary/sentiment-{split}",) for split in ("train", "dev", "test")}
TREC = {"train": ("TREC/train_5500.label",), "test": ("TREC/TREC_10.label",)}
MRPC = {split: (f"MRPC/msr_paraphrase_{split}.txt",) for split in ("train", "test")}

TASKS = (
    transfer("mr", "pang2005mr", CROSS_VALIDATION_NOTE, parse_classes, MR),
    transfer("cr", "hu2004cr", CROSS_VALIDATION_NOTE, parse_classes, CR),
    transfer("subj", "pang2004subj", CROSS_VALIDATION_NOTE, parse_classes, SUBJ),
    transfer("mpqa", "wiebe2005mpqa", CROSS_VALIDATION_NOTE, parse_classes, MPQA),
    transfer("sst-2", "socher2013sst", DEV_NOTE, parse_sst, SST),
    transfer("trec", "li2002trec", HELD_OUT_NOTE, parse_trec, TREC),
    transfer(
        "mrpc",
        "dolan2005mrpc",
        HELD_OUT_NOTE,
        parse_mrpc,
        MRPC,
        licence="Microsoft Research; for research",
    ),
)
