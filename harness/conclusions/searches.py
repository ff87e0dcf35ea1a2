"""Searches for hyper-parameters: variants of a training, and what each of them gave.

A file of `results/questions` names the variants. The trainings that were run are in the
file of the same name below `results/records`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.toml import read_typed
from harness.results.layout import measured_for


@dataclass(frozen=True)
class Trial:
    """One training of a search.

    Attributes:
        seed: The seed of weights, order and dropout.
        before: The dev score before training, in points.
        best: The best dev score, in points.
        step: The step of the best dev score.
        steps: How many steps there were.
        loss: The mean loss over the last steps, as many as one point of the curve of
            losses averages.
        seconds: How long it took.
        start: The digests of the checkpoint that it started from, by file.
        data: The digests of its data by their names.
        environment: The machine and the versions.
    """

    seed: int
    before: float
    best: float
    step: int
    steps: int
    loss: float
    seconds: float
    start: Mapping[str, str]
    data: Mapping[str, str]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class SearchRow:
    """One variant of a search.

    Attributes:
        label: Its name for people.
        options: Its options of `harness train`.
        published: The id of the published row that it repeats; empty where there is
            none.
    """

    label: str
    options: str
    published: str = ""


@dataclass(frozen=True)
class Search:
    """One search for hyper-parameters, with its trials.

    Attributes:
        path: Its file.
        title: Its name for people.
        caption: What it is about, and what came of it.
        recipe: The recipe of `harness train`, with the options that all rows share.
        rows: The variants.
        table: The id of the published table whose rows it repeats; empty where there is
            none.
        trials: The trials of each command, one a seed.
    """

    path: Path
    title: str
    caption: str
    recipe: str
    rows: tuple[SearchRow, ...]
    table: str = ""
    trials: Mapping[str, tuple[Trial, ...]] = field(default_factory=dict)

    def command(self, row: SearchRow) -> str:
        """The arguments of `harness train`, without seed and folders."""
        return f"{self.recipe} {row.options}".strip()


def read_searches(folder: Path) -> tuple[Search, ...]:
    """Every search of a folder, by file name; none where there is no folder. Raises DataError."""
    return tuple(read_search(path) for path in sorted(folder.glob("*.toml")))


def read_search(path: Path) -> Search:
    """One search with its trials. Raises DataError that names file and key."""
    trials: dict[str, tuple[Trial, ...]] = {}  # of each command, one a seed
    file = trials_file(path)
    if file.exists():
        trials = read_typed(dict[str, tuple[Trial, ...]], file)
    return read_typed(Search, path, path=path, trials=trials)


def trials_file(search: Path) -> Path:
    """The file with the trials of a search."""
    return measured_for(search).with_suffix(".json")
