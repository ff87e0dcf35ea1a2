"""SICK relatedness (SemEval-2014 task 1). Gold is from 1 to 5; `dev` is SICK's trial set.

Two tasks have this name: the papers, SentEval and SimCSE score the 4,927 test pairs,
which is `sick-r` here; mteb's `SICK-R` scores all 9,927 pairs of the three splits,
which is `sick-r.all` here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.core.pairs import Pairs
from harness.core.types import LeaderboardColumn, Task
from harness.data.tasks.readers import (
    FOLDERS,
    PublishedSet,
    Text,
    number,
    read_scored_pairs,
)
from harness.data.tasks.sts import REGRESSION_NOTE

SCALE = (1.0, 5.0)
HEADER = (
    "pair_ID",
    "sentence_A",
    "sentence_B",
    "relatedness_score",
    "entailment_judgment",
)

FILES = {
    "train": ("SICK/SICK_train.txt",),
    "dev": ("SICK/SICK_trial.txt",),
    "test": ("SICK/SICK_test_annotated.txt",),
}


def parse_sick(path: Path) -> Pairs:
    """A header, then number, two sentences, relatedness, entailment judgement."""
    return read_scored_pairs(
        path,
        "sick-r",
        columns=(1, 2, 3),
        gold=partial(number, scale=SCALE),
        counts=(5,),
        header=HEADER,
    )


def sick(name: str, text: Text, *scored: str, note: str = "") -> Task:
    """SICK relatedness, scored on these splits together."""
    return Task(
        name=name,
        load=PublishedSet(
            family="sick-r",
            asset=f"sick-{text}",
            text=text,
            parse=parse_sick,
            files=FILES,
            folders=FOLDERS[text],
        ),
        splits=tuple(FILES),
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


ALL_PAIRS_NOTE = (
    "all 9,927 pairs, as mteb scores them; the papers score the 4,927 of `sick-r`"
)

TASKS = (
    sick("sick-r", "raw", "test"),
    sick("sick-r.dev", "raw", "dev"),
    sick("sick-r.train", "raw", "train"),
    replace(
        sick("sick-r.all", "raw", "train", "dev", "test", note=ALL_PAIRS_NOTE),
        columns=(LeaderboardColumn("other", "SICK-R, 9,927"),),
        aliases=("SICK-R",),
    ),
    replace(
        sick("sick-r.regression", "raw", "test", note=REGRESSION_NOTE),
        metric="regression",
    ),
    sick("sick-r.senteval", "senteval", "test"),
    sick("sick-r.senteval.dev", "senteval", "dev"),
    sick("sick-r.senteval.train", "senteval", "train"),
    sick(
        "sick-r.senteval.all", "senteval", "train", "dev", "test", note=ALL_PAIRS_NOTE
    ),
)
