"""Two columns of sentences and a score. A template for a task: copy, rename, change the rest.

Say here what the task measures, how the papers score it, and what is odd about its files.

A copy is registered as soon as its name does not begin with `template_`: `harness list tasks` shows
it and `pytest tests/test_contracts.py -k my-pairs` holds it to the laws of every task. Its files
need an `[[asset]]` in harness/assets/catalogue.toml: where they lie and how to get them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import checked, known_split, locate, number, read_scored_pairs

SCALE = (0.0, 5.0)

# Of each split, its pairs and `harness.core.files.rows_digest` of them: other files are refused.
SPLITS = {"test": (2, "ec50c5fd570a71c3577910c4be479ded62c27677b1b74d9e460ab7214fd83505")}


@dataclass(frozen=True)
class MyPairs:
    """Loads one split."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        rows, sha256 = SPLITS[known_split(split, SPLITS)]
        path = locate(data_dir, "my-pairs", f"my-pairs/{split}.tsv")
        return checked(parse_my_pairs(path), path, rows, sha256)


def parse_my_pairs(path: Path) -> Pairs:
    """Two sentences and a score, separated by tabs."""
    return read_scored_pairs(path, "my-pairs", (0, 1, 2), partial(number, scale=SCALE), counts=(3,))


TASKS = (
    Task(
        name="my-pairs",
        load=MyPairs(),
        splits=tuple(SPLITS),  # what @target fits on
        scored=("test",),
        metric="correlation",
        asset="my-pairs",
        text="raw",
        graded=SCALE,
        cite="cer2017stsb",  # a key of harness/report/references.bib
        licence="CC BY 4.0",
        columns=(LeaderboardColumn("other", "MY-PAIRS"),),  # where the leaderboard shows it
    ),
)
