"""SICK relatedness (SemEval-2014 task 1). Gold runs from 1 to 5; `dev` is SICK's trial set.

Two tasks bear the name in the field: the papers, SentEval and SimCSE score the 4,927 test pairs,
mteb all 9,927 pairs of the three splits. They are `sick-r` and `sick-r.all`; mteb's own spelling,
`SICK-R`, means the latter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import (
    ScoredPair,
    Text,
    body,
    checked,
    fields,
    known_split,
    locate_text,
    number,
    pairs_of,
    published_rows,
)

SCALE = (1.0, 5.0)
HEADER = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")

# The file of each split.
SPLITS = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


@dataclass(frozen=True)
class Sick:
    """Loads one split of SICK."""

    text: Text = "raw"

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        path = locate_text(
            data_dir, self.text, "sick", f"SICK/{SPLITS[known_split(split, SPLITS)]}"
        )
        rows = published_rows("sick-r")[split]
        return checked(parse_sick(path), path, rows.pairs, rows.sha256[self.text])


def parse_sick(path: Path) -> Pairs:
    """A header, then number, two sentences, relatedness, entailment judgement."""

    def row(place: str, line: str) -> ScoredPair:
        _, a, b, score, _ = fields(place, line, 5)
        return a, b, number(place, score, SCALE)

    return pairs_of((row(place, line) for place, line in body(path, HEADER)), "sick-r")


def sick(name: str, text: Text, *scored: str, note: str = "") -> Task:
    """SICK relatedness, scored on these splits together."""
    return Task(
        name=name,
        load=Sick(text),
        splits=tuple(SPLITS),
        scored=scored,
        metric="correlation",
        asset=f"sick-{text}",
        text=text,
        train="train",
        graded=SCALE,
        cite="marelli2014sick",
        licence="CC BY-NC-SA 3.0",
        note=note,
    )


EVERY = "all 9,927 pairs, as mteb scores them; the papers score the 4,927 of `sick-r`"

BY_REGRESSION = "predicted by a regressor trained on labels, as SentEval's default; no paper here"

TASKS = (
    sick("sick-r", "raw", "test"),
    sick("sick-r.dev", "raw", "dev"),
    sick("sick-r.train", "raw", "train"),
    replace(
        sick("sick-r.all", "raw", "train", "dev", "test", note=EVERY),
        columns=(LeaderboardColumn("other", "SICK-R, 9,927"),),
        aliases=("SICK-R",),
    ),
    replace(sick("sick-r.regression", "raw", "test", note=BY_REGRESSION), metric="regression"),
    sick("sick-r.senteval", "senteval", "test"),
    sick("sick-r.senteval.dev", "senteval", "dev"),
    sick("sick-r.senteval.train", "senteval", "train"),
    sick("sick-r.senteval.all", "senteval", "train", "dev", "test", note=EVERY),
)
