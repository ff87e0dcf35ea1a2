"""Records, published tables and questions, read from their files without the harness."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import Rounded

Fields = Mapping[str, Any]  # of a file, or of a table in one
ScorePath = tuple[
    str, ...
]  # where a record holds a score: a metric, then how it is aggregated

SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
# What the identity of a method holds if another seed gives another score.
SEEDED = ("Flow(", "FamilyConfig(")


@dataclass(frozen=True)
class Scores:
    """The scores of a method on a task, or its means over several tasks, by seed."""

    by_seed: Mapping[int, float | None]
    seeded: bool = False

    @cached_property
    def known(self) -> Sequence[float]:
        return [score for score in self.by_seed.values() if score is not None]

    @cached_property
    def mean(self) -> float | None:
        """Over the seeds; None if there is none, or one of them is undefined."""
        whole = self.known and len(self.known) == len(self.by_seed)
        return fmean(self.known) if whole else None

    @cached_property
    def numbers(self) -> Sequence[Rounded]:
        """As a page prints them: the mean, and the standard deviation over seeds."""
        if self.mean is None:
            return []
        spread = [Rounded(stdev(self.known))] if len(self.known) > 1 else []
        return [Rounded(self.mean), *spread]

    @property
    def spread(self) -> tuple[float, int]:
        """The standard deviation and the number of seeds."""
        return stdev(self.known) if len(self.known) > 1 else 0.0, len(self.by_seed)


def mean_over_tasks(tasks: Sequence[Scores]) -> Scores:
    """The mean over tasks of each seed that all of them have, if all are defined."""
    if len(tasks) == 1:
        return tasks[0]
    seeds = set.intersection(*({*scores.by_seed} for scores in tasks))
    means = {}
    for seed in seeds:
        values = [s for one in tasks if (s := one.by_seed[seed]) is not None]
        if len(values) < len(tasks):
            return Scores({})
        means[seed] = fmean(values)
    return Scores(means, any(scores.seeded for scores in tasks))


class Results:
    """A results folder: its records by method and task, its published tables by id,
    and the differences that are stored for claims."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = read_records(folder)
        files = sorted((folder / "papers").glob("*.toml"))
        self.published = {p.stem: {"id": p.stem, **content(p)} for p in files}
        self.differences = content(folder / "records" / "differences.json")
        self._scores: dict[tuple[str, str, ScorePath], Scores] = {}

    @cached_property
    def methods(self) -> Sequence[str]:
        return [*dict.fromkeys(method for method, _ in self.records)]

    @cached_property
    def score_paths(self) -> Sequence[tuple[str, ScorePath]]:
        """Each task with each path to a score in its records, but those of single subsets."""
        found: dict[tuple[str, ScorePath], None] = {}
        for (_, task), records in self.records.items():
            for metric, score in records[0]["scores"].items():
                ways = [*score] if isinstance(score, dict) else []
                paths = [(metric, way) for way in ways if way != "groups"]
                found |= dict.fromkeys((task, path) for path in paths or [(metric,)])
        return [*found]

    def scores(self, method: str, task: str, path: Iterable[str]) -> Scores:
        """The scores of a cell; none of one that was not measured."""
        cell = method, task, tuple(path)
        if cell not in self._scores:
            records = self.records.get((method, task), ())
            written = "".join(record["identity"] for record in records)
            self._scores[cell] = Scores(
                {record["seed"]: score_at(record, cell[2]) for record in records},
                seeded=len(records) > 1 or any(word in written for word in SEEDED),
            )
        return self._scores[cell]


def content(path: Path) -> Any:
    """What a file of TOML or JSON holds."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def read_records(folder: Path) -> Mapping[tuple[str, str], Sequence[Fields]]:
    """The records of each method and task, one a seed: lines that begin with their schema."""
    cells: dict[tuple[str, str], dict[int, Fields]] = {}
    for path in sorted((folder / "records").glob("*/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"schema"'):
                record = json.loads(line)
                cell = cells.setdefault((record["method"], record["task"]), {})
                cell[record["seed"]] = record  # a merge may leave one twice
    return {
        cell: [by_seed[seed] for seed in sorted(by_seed)]
        for cell, by_seed in cells.items()
    }


def score_at(record: Fields, path: Iterable[str]) -> float | None:
    """The score of a record at a path, if there is one."""
    found: Any = record["scores"]
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int | float) else None
