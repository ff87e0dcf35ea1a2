"""Question-answer entailment: does the sentence answer the question? GLUE's QNLI (v2), dev.

The score is the ROC-AUC of the cosine of question and sentence, entailment = 1 (BERT-flow,
Table 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError
from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import (
    AGAIN,
    ScoredPair,
    body,
    checked,
    fields,
    known_split,
    locate,
    pairs_of,
)

HEADER = ("index", "question", "sentence", "label")
GOLD = {"entailment": 1.0, "not_entailment": 0.0}
PAIRS = 5463
SHA256 = "b7fd88520d8e37962cf28654f37c2a2b3f657db06496f60e2ff221db6210aa44"


@dataclass(frozen=True)
class Qnli:
    """Loads the dev split; the labels of test are not public."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        known_split(split, ("dev",))
        path = locate(data_dir, "qnli", "glue/QNLI/dev.tsv", "QNLI/dev.tsv")
        return checked(parse_qnli(path), path, PAIRS, SHA256)


def parse_qnli(path: Path) -> Pairs:
    """A header, then number, question, sentence, label."""

    def row(place: str, line: str) -> ScoredPair:
        _, question, sentence, label = fields(place, line, 4)
        if label not in GOLD:
            raise DataError(f"{place}: wanted {' or '.join(GOLD)}, found {label!r}; {AGAIN}")
        return question, sentence, GOLD[label]

    return pairs_of((row(place, line) for place, line in body(path, HEADER)), "qnli")


TASKS = (
    Task(
        name="qnli",
        load=Qnli(),
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
