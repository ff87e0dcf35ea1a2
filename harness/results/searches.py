"""Searches and ablations: trainings that differ in one thing each, scored on a development set.

`questions/searches/<name>.toml` says what is tried: a recipe of `harness train` and, a row each,
the options that it is given besides. `harness train search` trains and writes
`records/searches/<name>.json`. A row whose very command has no outcome there was not measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import write_atomically
from harness.core.toml import read_json_table, read_toml
from harness.results.layout import measured_for
from harness.results.published import Table


@dataclass(frozen=True)
class Trial:
    """One training of a search: dev scores in points before it and at their best, at which step.

    `loss` is the mean over its last stretch, `start` and `data` are digests by name.
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

    @classmethod
    def of(cls, training: Mapping[str, Any]) -> Trial:
        """From a checkpoint's training.json. Raises DataError where nothing was scored."""
        if not training["scores"]:
            raise DataError("wanted scores on a development set, found none: give --dev a task")
        step, best = max(training["scores"], key=lambda score: score[1])
        taken = ("seed", "before", "steps", "seconds", "start", "data", "environment")
        fields = {name: training[name] for name in taken}
        return cls(**fields, best=best, step=step, loss=training["curve"][-1][1])


@dataclass(frozen=True)
class SearchRow:
    """One variant: a label for people, options of the recipe, and the published row's id."""

    label: str
    options: str
    published: str = ""


@dataclass(frozen=True)
class Search:
    """One search and its outcome: the trials of each command, one a seed.

    `table` is the id of the published table whose rows it repeats, or empty.
    """

    path: Path
    title: str
    caption: str
    recipe: str
    rows: tuple[SearchRow, ...]
    table: str = ""
    trials: Mapping[str, tuple[Trial, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("title", "caption", "recipe"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name}: wanted a text, found {getattr(self, name)!r}")
        if len({row.options for row in self.rows}) < len(self.rows):
            raise ValueError("two rows have the same options")

    def command(self, row: SearchRow) -> str:
        """The arguments of `harness train`, without seed and folders."""
        return f"{self.recipe} {row.options}".strip()

    def trials_of(self, row: SearchRow) -> tuple[Trial, ...]:
        """The trials of a row's command, one a seed."""
        return self.trials.get(self.command(row), ())

    def published(self, tables: Mapping[str, Table]) -> list[float | None]:
        """The printed score of every row, in points, from the first task of its table."""
        if self.table not in tables:
            raise DataError(f"{self.path.name}: there is no published table {self.table!r}")
        table = tables[self.table]
        column = next(column for column in table.columns if column.task)
        rows = {row.id: row for row in table.rows}
        if lost := [r.published for r in self.rows if r.published and r.published not in rows]:
            raise DataError(f"{self.path.name}: {self.table} has no row {lost[0]!r}")
        return [
            table.score(rows[row.published], column) if row.published else None for row in self.rows
        ]

    def with_trial(self, row: SearchRow, trial: Trial) -> Search:
        """The search with one trial more, in the place of an earlier one of its seed."""
        others = (other for other in self.trials_of(row) if other.seed != trial.seed)
        trials = tuple(sorted((*others, trial), key=lambda each: each.seed))
        return replace(self, trials={**self.trials, self.command(row): trials})

    def write(self) -> None:
        """The trials of its rows, beside it; those of commands that it has no more are left out."""
        commands = [self.command(row) for row in self.rows]
        kept = {c: [asdict(t) for t in self.trials[c]] for c in commands if c in self.trials}
        text = json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False)
        write_atomically(_trials_of(self.path), f"{text}\n".encode())


def read_searches(folder: Path) -> tuple[Search, ...]:
    """Every search of a folder, by file name; none where there is no folder. Raises DataError."""
    return tuple(read_search(path) for path in sorted(folder.glob("*.toml")))


def read_search(path: Path) -> Search:
    """One search with its trials. Raises DataError that names file and key."""
    stored = _trials_of(path)
    trials = read_json_table(Trial, stored) if stored.exists() else {}
    return read_toml(Search, path, path=path, trials=trials)


def _trials_of(search: Path) -> Path:
    return measured_for(search).with_suffix(".json")
