"""Ways to score the seven STS tasks, and the columns of the leaderboard's other sections.

The papers score STS12-16, STS-B and SICK-R, and print an average of the seven. They
differ in text form, correlation and aggregation: a `Scoring` names the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import LeaderboardColumn, Section, Task
from harness.results.index import Results, Value, average, methods_by_encoder

# In the order of the columns of the papers (SBERT, SimCSE).
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
TASK_LABELS = {task: task.upper() for task in SEVEN}


@dataclass(frozen=True)
class Scoring:
    """A way to score the seven tasks: text form, correlation, aggregation."""

    text: str
    correlation: str
    aggregation: str

    @property
    def id(self) -> str:
        """The scoring as a file name: `senteval-spearman-all`."""
        return f"{self.text}-{self.correlation}-{self.aggregation}"

    @property
    def path(self) -> ScorePath:
        """The path of the score in a record."""
        return self.correlation, self.aggregation

    def task(self, base: str) -> str:
        """The task's name in this text form."""
        return f"{base}.senteval" if self.text == "senteval" else base

    @property
    def tasks_by_label(self) -> Mapping[str, str]:
        """The seven tasks by the headings of their columns."""
        return {label: self.task(task) for task, label in TASK_LABELS.items()}


# The scoring of SBERT and SimCSE: SentEval's files, a year's subsets concatenated.
SIMCSE = Scoring("senteval", "spearman", "all")
# The scoring of BERT-whitening, whose released code reads SentEval's files too. BERT-flow
# has it in all columns but STS-B, which its released code reads from GLUE's files, in raw
# text.
WHITENING = Scoring("senteval", "spearman", "wmean")
COMPARED_SCORINGS = (
    SIMCSE,
    WHITENING,
)  # neighbouring rows of their tables are compared
SCORINGS = (
    *COMPARED_SCORINGS,
    Scoring("raw", "spearman", "all"),
    Scoring("raw", "spearman", "wmean"),
    Scoring("raw", "spearman", "mean"),
    Scoring("raw", "pearson", "all"),
)


def seven_values(results: Results, method: str, scoring: Scoring) -> list[Value]:
    """The seven values of a method, and their average, which is missing if one of them is."""
    values = [
        results.value(method, scoring.task(task), *scoring.path) for task in SEVEN
    ]
    return [*values, average(values)]


def averages(
    results: Results, methods: Sequence[str], scoring: Scoring
) -> dict[str, float]:
    """The averages of the methods that have one, best first."""
    means: dict[str, float] = {}
    for method in methods:
        mean = seven_values(results, method, scoring)[-1].mean
        if mean is not None:
            means[method] = mean
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def complete_encoders(results: Results) -> Mapping[str, Sequence[str]]:
    """The methods of each encoder that has an average under a compared scoring."""
    complete: dict[str, Sequence[str]] = {}
    for encoder, methods in methods_by_encoder(results.methods).items():
        if any(averages(results, methods, scoring) for scoring in COMPARED_SCORINGS):
            complete[encoder] = methods
    return complete


LeaderboardColumns = Sequence[tuple[Task, LeaderboardColumn]]


class MethodRow(NamedTuple):
    """A row of a leaderboard: a method and its values, in the order of the columns."""

    method: str
    values: Sequence[Value]


def best_first(rows: Iterable[MethodRow], column: int) -> list[MethodRow]:
    """Rows by their value in a column; those without a value come last, in their order."""

    def order(row: MethodRow) -> tuple[bool, float]:
        mean = row.values[column].mean
        if mean is None:
            return True, 0.0
        return False, -mean

    return sorted(rows, key=order)


def columns_of_section(section: Section, tasks: Iterable[Task]) -> LeaderboardColumns:
    """The columns of tasks in a section of the leaderboard: main scores first, then others."""
    main_columns: list[tuple[Task, LeaderboardColumn]] = []
    other_columns: list[tuple[Task, LeaderboardColumn]] = []
    for task in tasks:
        for column in task.columns:
            if column.section == section:
                columns = other_columns if column.score else main_columns
                columns.append((task, column))
    return main_columns + other_columns


def rows_of_columns(
    columns: LeaderboardColumns, results: Results, methods: Sequence[str]
) -> list[MethodRow]:
    """Methods with their values in the columns; methods without any value are left out."""
    scores: list[tuple[str, ScorePath]] = []  # the task and path of each column
    for task, column in columns:
        scores.append((task.name, column.score or metric_of(task).main_score))
    rows = []
    for method in methods:
        values = [results.value(method, name, *path) for name, path in scores]
        if any(value.mean is not None for value in values):
            rows.append(MethodRow(method, values))
    return rows
