"""Pairs of sentences with a score. Say here what the task measures and what is odd about it.

harness run --plugin FILE -m bert-mini.mean -t mine
harness list plugins --plugin FILE
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import Asset, Pairs, Task, UsageError

# Read a file here: one beside this module, or one below the data folder that `load` is
# given.
ROWS = {
    "test": (
        ("A man is eating.", "Someone eats.", 4.2),
        ("A dog runs.", "It rains.", 0.2),
        ("A cat sleeps.", "A cat is asleep.", 4.8),
    )
}


@dataclass(frozen=True)
class Mine:
    """Loads one split."""

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - its rows are here
        if split not in ROWS:
            raise UsageError(f"mine: wanted one of {', '.join(ROWS)}, found {split}")
        rows = ROWS[split]
        a, b = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
        return Pairs(a, b, np.array([row[2] for row in rows]), ("mine",) * len(rows))


# Where the files lie: paths below the data folder, or none for what lies beside this
# module.
ASSETS = (
    Asset("mine", "three pairs", (), "their author", "CC BY 4.0", "comes with FILE"),
)
TASKS = (
    Task(
        name="mine",
        load=Mine(),
        splits=tuple(ROWS),  # what @target fits on
        scored=("test",),
        metric="correlation",
        asset="mine",
        text="raw",
        graded=(0.0, 5.0),
        licence="CC BY 4.0",
    ),
)
