"""Question-answer entailment: does the sentence answer the question? GLUE's QNLI (v2), dev.

The score is the ROC-AUC of the cosine of question and sentence, where entailment is the
positive class (BERT-flow, Table 4).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness.core.pairs import Pairs
from harness.core.types import LeaderboardColumn, Task
from harness.data.tasks.readers import PublishedSet, class_of, read_scored_pairs

HEADER = ("index", "question", "sentence", "label")
CLASSES = ("not_entailment", "entailment")
FILES = {"dev": ("QNLI/dev.tsv",)}  # the labels of test are not public


def parse_qnli(path: Path) -> Pairs:
    """A header, then number, question, sentence, label."""
    return read_scored_pairs(
        path,
        "qnli",
        columns=(1, 2, 3),
        gold=partial(class_of, classes=CLASSES),
        counts=(4,),
        header=HEADER,
    )


TASKS = (
    Task(
        name="qnli",
        load=PublishedSet(
            family="qnli",
            asset="qnli",
            text="raw",
            parse=parse_qnli,
            files=FILES,
            folders=("glue/", ""),
        ),
        splits=("dev",),
        scored=("dev",),
        metric="auc",
        asset="qnli",
        text="raw",
        cite="wang2019glue",
        licence="CC BY-SA 4.0",
        columns=(LeaderboardColumn("other", "QNLI (AUC)"),),
        note="@target fits on dev alone; BERT-flow's text says train, validation and test",
    ),
)
