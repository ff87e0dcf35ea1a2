"""The columns of a table of methods: the score, or the mean of scores, that each shows.

Columns are made of tasks, or of published tables. The columns of published tables have
the protocols of these tables, so that a published row and a measured one can be in one
column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Task
from harness.registry import Registry
from harness.results.claim_tests import AVERAGE
from harness.results.published import PublishedCell, Table, score_path


class ColumnScore(NamedTuple):
    """A score of a task, by its path in the task's records."""

    task: Task
    path: ScorePath


# The scores of a column. A column with several is their average; a published column that
# fits no task here has none.
ColumnScores = tuple[ColumnScore, ...]
ScoreColumns = Mapping[str, ColumnScores]  # by heading


# Columns of tasks


def columns_of_tasks(tasks: Sequence[Task], aggregation: str) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns: dict[str, ColumnScores] = {}
    for task in tasks:
        columns[task.name] = (_main_score(task, aggregation),)
    return _with_average(columns)


def _main_score(task: Task, aggregation: str) -> ColumnScore:
    """A task's main score, under an aggregation if its metric has several."""
    path = metric_of(task).main_score
    if path[-1] in AGGREGATIONS:
        path = (*path[:-1], aggregation)
    return ColumnScore(task, path)


def _with_average(columns: Mapping[str, ColumnScores]) -> dict[str, ColumnScores]:
    """The columns, and the average of their scores where all tasks are scored in one way."""
    distinct_scores: dict[ColumnScore, None] = {}
    for scores in columns.values():
        distinct_scores |= dict.fromkeys(scores)
    tasks = {score.task for score in distinct_scores}
    paths = {score.path for score in distinct_scores}
    columns_and_average = dict(columns)
    if len(paths) == 1 and len(tasks) > 1:
        columns_and_average[AVERAGE] = tuple(distinct_scores)
    return columns_and_average


# Columns of published tables


@dataclass(frozen=True)
class _ColumnKey:
    """What makes two published columns one column of the table.

    Attributes:
        scores: Their scores.
        label: The label of a column whose table has several numbers of these scores in
            one row, such as the numbers of different trainings; empty for any other
            column.
    """

    scores: ColumnScores
    label: str = ""

    @property
    def is_average(self) -> bool:
        """Whether it is the mean of several scores."""
        return len(self.scores) > 1


def columns_of_published(
    paper_tables: Sequence[Table], registry: Registry, tasks: Sequence[Task] = ()
) -> ScoreColumns:
    """The columns of published tables, each in the protocol of their rows.

    A task whose rows have several protocols has a column for each. So have the columns
    of one table in which a row has several numbers of one protocol.

    Args:
        paper_tables: The tables.
        registry: Where their tasks are found.
        tasks: The tasks that are wanted, each by its main metric; those without a
            published number follow under `all`. Without any, there are columns of every
            metric, and those that fit no task here come last.
    """
    single_keys, average_labels = _published_keys(paper_tables, registry, tasks)
    published_tasks = {key.scores[0].task for key in single_keys}
    for task in tasks:
        if task not in published_tasks:
            single_keys.append(_ColumnKey((_main_score(task, "all"),)))
    columns = _with_headings(single_keys, average_labels)
    if not average_labels:
        columns = _with_average(columns)
    if not tasks:
        for cell in scored_cells(paper_tables):
            if not cell.tasks:
                columns[cell.column.label] = ()
    return columns


def _published_keys(
    paper_tables: Sequence[Table], registry: Registry, tasks: Sequence[Task]
) -> tuple[list[_ColumnKey], dict[_ColumnKey, str]]:
    """The columns of published tables, in their order.

    Returns:
        The columns of single scores; and the columns that are averages, each with its
        label in the first table that has it.
    """
    single_keys: dict[_ColumnKey, None] = {}  # each once
    average_labels: dict[_ColumnKey, str] = {}
    for paper_table in paper_tables:
        repeated_labels = _repeated_labels(paper_table)
        for cell in scored_cells([paper_table]):
            scores = scores_of_published(cell, registry)
            if not scores or not _are_wanted(scores, tasks):
                continue
            label = cell.column.label
            key = _ColumnKey(scores, label if label in repeated_labels else "")
            if key.is_average:
                average_labels.setdefault(key, label)
            else:
                single_keys[key] = None
    return list(single_keys), average_labels


def scored_cells(paper_tables: Iterable[Table]) -> Iterator[PublishedCell]:
    """The published cells with a number in points."""
    for paper_table in paper_tables:
        for cell in paper_table.cells:
            if cell.points is not None:
                yield cell


def scores_of_published(cell: PublishedCell, registry: Registry) -> ColumnScores:
    """The scores that a published number is of; none where it fits no task."""
    path = score_path(cell.metric, cell.aggregation)
    return tuple(ColumnScore(registry.tasks[task], path) for task in cell.tasks)


def _are_wanted(scores: ColumnScores, tasks: Sequence[Task]) -> bool:
    """Whether scores are of these tasks, by their main metric; without tasks all are wanted."""
    if not tasks:
        return True
    for task, path in scores:
        is_main_metric = path[0] == metric_of(task).main_score[0]
        if task not in tasks or not is_main_metric:
            return False
    return True


def _repeated_labels(paper_table: Table) -> set[str]:
    """The labels of the columns that have numbers of one protocol in one row."""
    labels_by_protocol: dict[tuple[object, ...], list[str]] = {}
    for cell in paper_table.cells:
        if cell.tasks:
            protocol = (cell.row.id, cell.tasks, cell.metric, cell.aggregation)
            labels_by_protocol.setdefault(protocol, []).append(cell.column.label)
    repeated_labels: set[str] = set()
    for labels in labels_by_protocol.values():
        if len(labels) > 1:
            repeated_labels.update(labels)
    return repeated_labels


def _with_headings(
    single_keys: Sequence[_ColumnKey], average_labels: Mapping[_ColumnKey, str]
) -> dict[str, ColumnScores]:
    """Columns by heading, averages last; a heading that two of them have is numbered."""
    columns_of_task = Counter(key.scores[0].task for key in single_keys)
    heading_of_key: dict[_ColumnKey, str] = {}
    for key in single_keys:
        is_only_column = columns_of_task[key.scores[0].task] == 1
        heading_of_key[key] = _heading_of_single(key, is_only_column=is_only_column)
    heading_of_key |= average_labels

    times_used: Counter[str] = Counter()
    columns: dict[str, ColumnScores] = {}
    for key, heading in heading_of_key.items():
        times_used[heading] += 1
        number = times_used[heading]
        columns[heading if number == 1 else f"{heading} #{number}"] = key.scores
    return columns


def _heading_of_single(key: _ColumnKey, *, is_only_column: bool) -> str:
    """The name of the task; where it has several columns, also what tells this one apart."""
    task, path = key.scores[0]
    if key.label:
        return f"{task.name} ({key.label})"
    main_path = _main_score(task, "all").path
    differences = [
        word
        for word, main_word in zip(path, main_path, strict=False)
        if word != main_word
    ]
    if is_only_column or not differences:
        return task.name
    return f"{task.name} ({' '.join(differences)})"
