"""Questions of pages in addition to published numbers, and their measurements.

A file of `results/questions` has the questions, here searches for hyper-parameters and
traps of protocols. The measurements are in `results/records`, under the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.toml import read_typed
from harness.core.types import ScorePath
from harness.registry import look_up
from harness.results.index import Results, Value
from harness.results.layout import measured_for
from harness.results.published import PublishedNumber, Table


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
        title: The heading of its section on the page.
        caption: The text below the heading.
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

    def published(self, tables: Mapping[str, Table]) -> list[float | None]:
        """The printed score of every row, in points, from the first task of its table."""
        table = look_up("published table", self.table, tables)
        columns_of_tasks = [column for column in table.columns if column.task]
        column = columns_of_tasks[0]
        published_rows = {row.id: row for row in table.rows}
        scores: list[float | None] = []
        for row in self.rows:
            score = None
            if row.published:
                published = look_up(f"row of {table.id}", row.published, published_rows)
                score = table.score(published, column)
            scores.append(score)
        return scores


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


@dataclass(frozen=True)
class Rehearsal:
    """The last run of all published cells on stand-ins of their weights.

    Attributes:
        commit: The commit of its code. The version does not tell, since it is still the
            version of the last release.
        dirty: Whether the code had changes that were not committed.
        cells: How many cells there are.
        numbers: How many published numbers have cells that all ran.
        digest: The digest of the ids of all cells.
        failed: Why cells did not run, by their ids.
    """

    commit: str
    dirty: bool
    cells: int
    numbers: int
    digest: str
    failed: Mapping[str, str]


@dataclass(frozen=True)
class TrapRow:
    """A measured score that shows a trap.

    Attributes:
        what: What is special about the score, for people.
        method: The method's id.
        task: The task's name.
        score: The path of the score in the record.
    """

    what: str
    method: str
    task: str
    score: ScorePath = ("spearman", "all")


class TrapValue(NamedTuple):
    """A row of a trap with its score, and the difference from the row that it is compared with.

    The difference is in points; None for the row with which the others are compared, and
    where a score is missing.
    """

    row: TrapRow
    value: Value
    difference: float | None


@dataclass(frozen=True)
class Trap:
    """One trap: what papers have confused.

    Attributes:
        title: Its heading.
        text: What is confused, and why.
        rows: Measured scores that show it.
        about: The choices that are confused, as names of fields of `Protocol`.
        published: The published rows that are known to be confused, as patterns of
            `TABLE/ROW` or of method ids.
    """

    title: str
    text: str
    rows: tuple[TrapRow, ...]
    about: tuple[str, ...] = ()
    published: tuple[str, ...] = ()

    def applies_to(self, cell: PublishedNumber) -> bool:
        """Whether a published number is in a row that is known to be confused in this way."""
        method_name = cell.method or ""
        for pattern in self.published:
            if fnmatchcase(cell.row_id, pattern) or fnmatchcase(method_name, pattern):
                return True
        return False

    def values(self, results: Results) -> Iterator[TrapValue]:
        """Every row with its score and its difference from the first row of its task.

        Rows of another score are compared too if the trap is about the aggregation or the
        metric; otherwise only rows of the same score are.
        """
        first_values: dict[tuple[str, ScorePath], Value] = {}
        is_about_scores = "aggregation" in self.about or "metric" in self.about
        for row in self.rows:
            value = results.value(row.method, row.task, *row.score)
            task = row.task.partition(".")[0]
            group = (task, () if is_about_scores else row.score)
            first_value = first_values.setdefault(group, value)
            difference = None
            is_first = value is first_value
            if not is_first and value.mean is not None and first_value.mean is not None:
                difference = value.mean - first_value.mean
            yield TrapValue(row=row, value=value, difference=difference)
