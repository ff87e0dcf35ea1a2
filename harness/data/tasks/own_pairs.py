"""A file of one's own pairs as a task: `-t pairs.tsv` scores it without a plug-in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.core.pairs import Pairs
from harness.core.types import Task
from harness.data.tasks.readers import CORRECT_ADVICE, advising, fields, lines, pairs_of

SUFFIX = ".tsv"


@dataclass(frozen=True)
class OwnPairs:
    """Reads lines of two sentences and a score, with tabs between; a heading may come first.

    Attributes:
        file: The file, by its absolute path.
    """

    file: Path

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - it is one file
        rows = []
        with advising(CORRECT_ADVICE):
            for place, line in lines(self.file):
                a, b, score = fields(place, line, 3)
                try:
                    rows.append((a, b, float(score)))
                except ValueError:
                    if rows or not place.endswith(":1"):
                        raise DataError(
                            f"{place}: wanted two sentences and a score, found {score!r:.40}"
                        ) from None
        return pairs_of(rows, self.file.stem)


def task_of_file(file: Path) -> Task:
    """The task of a file of pairs, whose name is the file's. Raises UsageError."""
    name = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")
    if file.suffix != SUFFIX or not name:
        raise UsageError(
            f"-t {file}: wanted a file such as pairs{SUFFIX}: in each line two sentences and a "
            "score, with tabs between"
        )
    return Task(
        name=name,
        load=OwnPairs(file.absolute()),
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset="embedded",  # it needs no data folder
        text="raw",
        note="pairs of one's own",
    )
