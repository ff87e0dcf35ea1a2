"""What pages ask in addition to published numbers, and what was measured for them.

A file of `results/questions` asks: searches for hyper-parameters, traps of protocols. What was
measured is in `results/records`, under the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.core.scores import ScorePath
from harness.core.toml import read_sealed, read_typed
from harness.registry import look_up
from harness.results.index import Results, Value
from harness.results.layout import measured_for
from harness.results.published import PublishedCell, Table


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

    def command(self, row: SearchRow) -> str:
        """The arguments of `harness train`, without seed and folders."""
        return f"{self.recipe} {row.options}".strip()

    def published(self, tables: Mapping[str, Table]) -> list[float | None]:
        """The printed score of every row, in points, from the first task of its table."""
        table = look_up("published table", self.table, tables)
        column = next(column for column in table.columns if column.task)
        rows = {row.id: row for row in table.rows}
        return [
            table.score(look_up(f"row of {table.id}", row.published, rows), column)
            if row.published
            else None
            for row in self.rows
        ]


def read_searches(folder: Path) -> tuple[Search, ...]:
    """Every search of a folder, by file name; none where there is no folder. Raises DataError."""
    return tuple(read_search(path) for path in sorted(folder.glob("*.toml")))


def read_search(path: Path) -> Search:
    """One search with its trials. Raises DataError that names file and key."""
    stored = trials_file(path)
    trials = read_sealed(dict[str, tuple[Trial, ...]], stored) if stored.exists() else {}
    return read_typed(Search, path, path=path, trials=trials)


def trials_file(search: Path) -> Path:
    """Where the trials of a search are kept."""
    return measured_for(search).with_suffix(".json")


@dataclass(frozen=True)
class Rehearsal:
    """The commit that last ran the published cells on stand-ins; `failed` says why some did not.

    A version would not do: it names a release, and what was rehearsed is the code after it. `dirty`
    says that the code was not that of the commit. `numbers` are the published ones of which all
    cells ran; `digest` is of the ids of all cells.
    """

    commit: str
    dirty: bool
    cells: int
    numbers: int
    digest: str
    failed: Mapping[str, str]


@dataclass(frozen=True)
class TrapRow:
    """A cell of a trap: what is special about it, and which score of a method on a task it is."""

    what: str
    method: str
    task: str
    score: ScorePath = ("spearman", "all")


@dataclass(frozen=True)
class Trap:
    """One trap: what papers have confused, the rows that show it, the choices that it is `about`.

    These are named as the fields of a `Protocol` are. `published` are patterns of `TABLE/ROW`, or
    of the method that reproduces a row, at which it applies whatever was measured.
    """

    title: str
    text: str
    rows: tuple[TrapRow, ...]
    about: tuple[str, ...] = ()
    published: tuple[str, ...] = ()

    def applies_to(self, cell: PublishedCell) -> bool:
        """Whether the row of a published number is one of those that the trap is known at."""
        names = (f"{cell.table.id}/{cell.row.id}", cell.method or "")
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.published)

    def values(self, results: Results) -> Iterator[tuple[TrapRow, Value, float | None]]:
        """Every row with its score, and its difference from the first of its task and score.

        Where the trap is about which score is taken, from the first of its task.
        """
        first: dict[tuple[str, ScorePath], Value] = {}
        between_scores = {"aggregation", "metric"} & {*self.about}
        for row in self.rows:
            value = results.value(row.method, row.task, *row.score)
            task, score = row.task.partition(".")[0], () if between_scores else row.score
            base = first.setdefault((task, score), value)
            if value is base or value.mean is None or base.mean is None:
                yield row, value, None
            else:
                yield row, value, value.mean - base.mean
