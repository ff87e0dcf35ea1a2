"""Searches and ablations: trainings that differ in one thing each, scored on a development set.

`questions/searches/<name>.toml` says what is tried: a recipe of `harness train` and, a row each,
the options that it is given besides. `harness train search` trains and writes
`records/searches/<name>.json`. A row whose very command has no outcome there is `not measured`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NoReturn

from harness.core.errors import DataError
from harness.core.files import write_atomically
from harness.report.markdown import table
from harness.results.claims import points
from harness.results.layout import measured_for
from harness.results.published import Table

FOLDER = "searches"
KEYS = {"title", "caption", "recipe", "row"}
HEAD = ("", "options", "before", "best", "at step", "last loss", "seeds")
PUBLISHED = "published"


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
    def of(cls, told: Mapping[str, Any]) -> Trial:
        """From a checkpoint's training.json; DataError where nothing was scored."""
        if not told["scores"]:
            raise DataError("wanted scores on a development set, found none: give --dev a task")
        step, best = max(told["scores"], key=lambda score: score[1])
        same = ("seed", "before", "steps", "seconds", "start", "data", "environment")
        made = {name: told[name] for name in same}
        return cls(**made, best=best, step=step, loss=told["curve"][-1][1])


@dataclass(frozen=True)
class Row:
    """What is tried: a label for people, options of the recipe, and the published row's id."""

    label: str
    options: str
    published: str = ""


@dataclass(frozen=True)
class Search:
    """One search and what came of it: the trials of each command, a seed each.

    `table` is the id of the published table of which it is the like, or empty.
    """

    path: Path
    title: str
    caption: str
    recipe: str
    rows: tuple[Row, ...]
    trials: Mapping[str, tuple[Trial, ...]]
    table: str = ""

    def command(self, row: Row) -> str:
        """What follows `harness train`, without seed and folders."""
        return f"{self.recipe} {row.options}".strip()

    def parts(self, tables: Mapping[str, Table]) -> list[str]:
        """As it stands in a page, beside what is published in the tables."""
        made = f"Each row is `harness train {self.recipe}` with its options; `before` and `best` "
        made += "are Spearman in points on the development set that the recipe names."
        printed = self._published(tables)
        head = (*HEAD, PUBLISHED) if self.table else HEAD
        lines = [
            [*self._line(row, self.trials.get(self.command(row), ())), *shown]
            for row, shown in zip(self.rows, printed, strict=True)
        ]
        return [f"### {self.title}", f"{self.caption}\n\n{made}", table(head, lines)]

    def _published(self, tables: Mapping[str, Table]) -> list[list[str]]:
        """The printed number of every row, if there is a table."""
        if not self.table:
            return [[] for _ in self.rows]
        if self.table not in tables:
            _refuse(self.path, f"there is no published table {self.table!r}")
        published = tables[self.table]
        column = next(column for column in published.columns if column.task)
        rows = {row.id: row for row in published.rows}
        if lost := [r.published for r in self.rows if r.published and r.published not in rows]:
            _refuse(self.path, f"{self.table} has no row {lost[0]!r}")
        found = (rows.get(row.published) for row in self.rows)
        return [[f"{points(published, row, column):.1f}" if row else ""] for row in found]

    def _line(self, row: Row, trials: Sequence[Trial]) -> list[str]:
        options = f"`{row.options}`" if row.options else ""
        if not trials:
            return [row.label, options, *["not measured"] * 4, ""]
        return [
            row.label,
            options,
            _spread([trial.before for trial in trials]),
            _spread([trial.best for trial in trials]),
            ", ".join(f"{trial.step:,} of {trial.steps:,}" for trial in trials),
            f"{fmean(trial.loss for trial in trials):.3f}",
            str(len(trials)),
        ]

    def with_trial(self, row: Row, trial: Trial) -> Search:
        """The same, and one trial more, in the place of an earlier one of its seed."""
        command = self.command(row)
        others = (t for t in self.trials.get(command, ()) if t.seed != trial.seed)
        every = tuple(sorted((*others, trial), key=lambda one: one.seed))
        trials = {**self.trials, command: every}
        return replace(self, trials=trials)

    def write(self) -> None:
        """The trials of its rows, beside it; those of commands that it has no more are left out."""
        wanted = [self.command(row) for row in self.rows]
        kept = {c: [asdict(t) for t in self.trials[c]] for c in wanted if c in self.trials}
        text = json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False)
        path = measured_for(self.path).with_suffix(".json")
        write_atomically(path, f"{text}\n".encode())


def _spread(values: Sequence[float]) -> str:
    if len(values) == 1 or len(set(values)) == 1:
        return f"{values[0]:.2f}"
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


def read_searches(folder: Path) -> tuple[Search, ...]:
    """Every search of a folder, by file name; none where there is no folder. Raises DataError."""
    return tuple(read_search(path) for path in sorted(folder.glob("*.toml")))


def read_search(path: Path) -> Search:
    """One search. Raises DataError that names file and key."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(path, f"wanted a search, found {error!r}")
    if set(raw) - {"table"} != KEYS:
        _refuse(path, f"wanted the keys {', '.join(sorted(KEYS))}, found {sorted(raw)}")
    texts = {name: raw[name] for name in ("title", "caption", "recipe")}
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            _refuse(path, f"{name}: wanted a text, found {text!r}")
    rows = raw["row"] if isinstance(raw["row"], list) else []
    try:
        made = tuple(Row(**{name: str(value) for name, value in row.items()}) for row in rows)
    except (TypeError, AttributeError):
        made = ()
    if not made:
        _refuse(path, "wanted rows with a label and options each, and maybe a published row's id")
    if len({row.options for row in made}) < len(made):
        _refuse(path, "two rows have the same options")
    trials = _trials(measured_for(path).with_suffix(".json"))
    return Search(path, **texts, rows=made, trials=trials, table=str(raw.get("table", "")))


def _trials(path: Path) -> dict[str, tuple[Trial, ...]]:
    if not path.exists():
        return {}
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {command: tuple(Trial(**one) for one in every) for command, every in raw.items()}
    except (ValueError, TypeError, AttributeError) as error:
        _refuse(path, f"wanted trials, found {error!r}; remove it and search again")


def _refuse(path: Path, fault: str) -> NoReturn:
    raise DataError(f"{FOLDER}/{path.name}: {fault}")
