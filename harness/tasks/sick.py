"""SICK relatedness (SemEval-2014 task 1). Gold runs from 1 to 5; `dev` is SICK's trial set.

Two tasks bear the name in the field: the papers, SentEval and SimCSE score the 4,927 test pairs,
mteb all 9,927 pairs of the three splits. They are `sick-r` and `sick-r.all`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.scores import LeaderboardColumn
from harness.core.types import Pairs, Task
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
)

SCALE = (1.0, 5.0)
HEADER = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")

# Of each split: its file and its pairs.
SPLITS = {
    "train": ("SICK_train.txt", 4500),
    "dev": ("SICK_trial.txt", 500),
    "test": ("SICK_test_annotated.txt", 4927),
}

# `rows_digest` of the rows of each.
SHA256: dict[Text, dict[str, str]] = {
    "raw": {
        "train": "ef91cdd152cacd282961967edf8989ef6a1bd35269030534e906f4c29dab3099",
        "dev": "cc4a4888e1498e8ed9377c3d7e96e566fec9a61c2a24370365502b37676e6c27",
        "test": "d1874631855865d3773d52c671fe6147adeaf1e7b57071e4e3af05c59c8908b2",
    },
    "senteval": {
        "train": "e643b0a2a0e40835566e943c87c5e0b7db1e5ad1286a1d8e8bbed5704aa843d8",
        "dev": "3d022b188ec75933324e3fbbb55082f2b8e95de0ea9919ba016821af3a64c3d8",
        "test": "37371c77d2b7071d0a2b78f0509ba8e0c4730ba9da87eafde99656d075fcbd74",
    },
}


@dataclass(frozen=True)
class Sick:
    """Loads one split of SICK."""

    text: Text = "raw"

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        name, rows = SPLITS[known_split(split, SPLITS)]
        path = locate_text(data_dir, self.text, "sick", f"SICK/{name}")
        return checked(parse_sick(path), path, rows, SHA256[self.text][split])


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
    ),
    replace(sick("sick-r.regression", "raw", "test", note=BY_REGRESSION), metric="regression"),
    sick("sick-r.senteval", "senteval", "test"),
    sick("sick-r.senteval.dev", "senteval", "dev"),
    sick("sick-r.senteval.train", "senteval", "train"),
    sick("sick-r.senteval.all", "senteval", "train", "dev", "test", note=EVERY),
)
