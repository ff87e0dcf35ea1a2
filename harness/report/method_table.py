"""A table of methods for a paper: mean and spread, the best in bold, published rows below.

Columns are tasks, or the columns of published tables; a published number is shown in the
column of its task and score. No statistics are done here: which methods tie with the
best was tested before (`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Record, Task, is_transductive
from harness.data.tasks.loader import TARGETS
from harness.registry import Registry
from harness.report.boards import TIE_MARK
from harness.report.papers import DAGGER, printed_number
from harness.report.table import (
    HEADING,
    MISSING_NUMBER,
    ShownCell,
    ShownRow,
    ShownTable,
    row_of,
    table_of,
)
from harness.results import published
from harness.results.claims import AVERAGE
from harness.results.differences import SIGNIFICANCE_LEVEL
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, Value, column_value
from harness.results.published import PublishedCell, score_path
from harness.results.scorings import TASK_LABELS

OTHER_TEXT_MARK = "§"  # of a number on another text form than its column

# The scores of a column: task and path. A column with several is their average.
ColumnScores = tuple[tuple[Task, ScorePath], ...]
ScoreColumns = Mapping[str, ColumnScores]  # by heading


# Columns


def columns_of_tasks(
    tasks: Sequence[Task], aggregation: str, results: Results
) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns: dict[str, ColumnScores] = {}
    for task in tasks:
        main = metric_of(task).main_score
        path = (*main[:-1], aggregation) if main[-1] in AGGREGATIONS else main
        _add_column(columns, task, path, results)
    return _with_average(columns)


def columns_of_published(
    tables: Sequence[published.Table],
    registry: Registry,
    results: Results,
    tasks: Sequence[Task] = (),
) -> ScoreColumns:
    """Columns in the protocol of published tables.

    Args:
        tables: The published tables.
        registry: Where their tasks are found.
        results: The records, by which a task with a single set of pairs is known.
        tasks: The tasks that are wanted, in their order, each by its main metric; a task
            has a column for each aggregation under which it is published, or one under
            `all`. Without any, the columns are those of the tables, averages too.
    """
    columns: dict[str, ColumnScores] = {}
    for table in tables:
        for cell in table.cells:
            scores = scores_of(cell, registry, results)
            if scores:
                columns.setdefault(_heading(scores), scores)
    if not tasks:
        return columns
    chosen: dict[str, ColumnScores] = {}
    for task in tasks:
        main = metric_of(task).main_score
        paths = dict.fromkeys(
            path
            for (other, path), *more in columns.values()
            if _base(other) == _base(task) and path[0] == main[0] and not more
        )
        for path in paths or [main]:
            _add_column(chosen, task, path, results)
    return _with_average(chosen)


def _add_column(
    columns: dict[str, ColumnScores], task: Task, path: ScorePath, results: Results
) -> None:
    """Add a column, under the task's whole name where its heading is taken."""
    scores = (_score(task, path, results),)
    heading = _heading(scores)
    columns[task.name if heading in columns else heading] = scores


def scores_of(
    cell: PublishedCell, registry: Registry, results: Results
) -> ColumnScores:
    """The scores that a published number is of; none where it fits no task."""
    if cell.points is None:
        return ()
    path = score_path(cell.metric, cell.aggregation)
    return tuple(_score(registry.tasks[name], path, results) for name in cell.tasks)


def _score(task: Task, path: ScorePath, results: Results) -> tuple[Task, ScorePath]:
    """A score of a task; one set of pairs has the same under every aggregation, `all`."""
    if path[-1] in AGGREGATIONS and len(results.subsets(task.name)) == 1:
        path = (*path[:-1], "all")
    return task, path


def _with_average(columns: Mapping[str, ColumnScores]) -> ScoreColumns:
    """The columns, and the average of their scores where all tasks are scored in one way."""
    scores = tuple(dict.fromkeys(score for [score] in columns.values()))
    if len({path for _, path in scores}) == 1 and len(scores) > 1:
        return {**columns, AVERAGE: scores}
    return columns


def _base(task: Task) -> str:
    """A task's name without its text form."""
    return task.name.removesuffix(".senteval")


def _heading(scores: ColumnScores) -> str:
    """The task, or the tasks of an average; and what its score is if not the main one."""
    task, path = scores[0]
    name = TASK_LABELS.get(_base(task), _base(task))
    if len(scores) > 1:
        name = f"{AVERAGE} of {len(scores)}"
    words = zip(path, metric_of(task).main_score, strict=False)
    differences = [word for word, main_word in words if word != main_word]
    return f"{name} ({' '.join(differences)})" if differences else name


# The table


def method_table(
    methods: Sequence[str],
    columns: ScoreColumns,
    folder: ResultsFolder,
    paper_tables: Sequence[published.Table] = (),
    ties: Mapping[str, Collection[str]] | None = None,
) -> ShownTable:
    """Methods by columns, then rows of published tables; the notes are the caption.

    Args:
        methods: The ids of the methods, from top to bottom.
        columns: The scores of each column, by its heading.
        folder: The results that scores are taken from.
        paper_tables: Published tables whose rows of the same protocol follow the methods.
        ties: The methods that are not distinguishable from the best of each column that
            was tested, by its heading.
    """
    ties = ties or {}
    values: dict[str, list[Value]] = {}  # by heading, in the order of the methods
    for heading, scores in columns.items():
        values[heading] = [
            column_value(folder.records, method, scores) for method in methods
        ]
    rows = []
    for place, method in enumerate(methods):
        mark = f" {DAGGER}" if is_transductive(method) else ""
        cells = [ShownCell(f"`{method}`", mark=mark)]
        for heading, scores in columns.items():
            value = values[heading][place]
            # Where the best score is one near the gold's own, none is marked.
            is_ranked = all(metric_of(task).direction == "higher" for task, _ in scores)
            is_best = is_ranked and value.mean == _best(values[heading])
            is_tied = is_ranked and method in ties.get(heading, ())
            tie_mark = f" {TIE_MARK}" if is_tied and not is_best else ""
            cells.append(ShownCell(str(value), bold=is_best, mark=tie_mark))
        rows.append(ShownRow(cells, "measured"))
    for table in paper_tables:
        published_rows = [*_published_rows(table, columns, folder)]
        if published_rows:
            place_of_table = ShownCell(f"{table.paper}, {table.table}")
            rows += [ShownRow([place_of_table], HEADING), *published_rows]
    seeds = {value.seeds for of_column in values.values() for value in of_column}
    notes = [*_protocols_in_words(columns)]
    if max(seeds) > 1:
        counts = " or ".join(str(count) for count in sorted(seeds) if count > 1)
        notes.append(f"Mean ± standard deviation over {counts} seeds.")
    notes += _fit_corpora_in_words(methods, folder.registry)
    notes += _tests_in_words(columns, ties)
    if any(OTHER_TEXT_MARK in cell.text for row in rows for cell in row.cells):
        notes.append(f"{OTHER_TEXT_MARK}: on another text form than the column's.")
    notes.append(_digests_in_words(methods, columns, folder.records))
    head = table_of(["method", *columns], [])
    return ShownTable(columns=head.columns, rows=rows, notes=notes)


def _best(values: Sequence[Value]) -> float:
    """The best mean of a column; infinite where there is none, which no value equals."""
    means = [value.mean for value in values if value.mean is not None]
    return max(means, default=float("inf"))


def _published_rows(
    table: published.Table, columns: ScoreColumns, folder: ResultsFolder
) -> Iterator[ShownRow]:
    """The rows of a published table that have a number of a column's tasks and score.

    A number on another text form of the task than the column's has a mark.
    """
    numbers: dict[str, dict[str, list[str]]] = {}  # by row and heading
    for cell in table.cells:
        scores = scores_of(cell, folder.registry, folder.records)
        own = [(_base(task), path) for task, path in scores]
        for heading, column in columns.items():
            if scores and own == [(_base(task), path) for task, path in column]:
                mark = "" if scores == column else f" {OTHER_TEXT_MARK}"
                of_row = numbers.setdefault(cell.row.id, {})
                of_row.setdefault(heading, []).append(f"{printed_number(cell)}{mark}")
    labels = [row.label for row in table.rows]
    for row in table.rows:
        if row.id in numbers:
            name = row.label if labels.count(row.label) == 1 else row.name
            texts = [
                " / ".join(numbers[row.id].get(heading, [MISSING_NUMBER]))
                for heading in columns
            ]
            yield row_of([name, *texts], "published")


# The caption


def _protocols_in_words(columns: ScoreColumns) -> Iterator[str]:
    """The score, text form and split of tasks, and the tasks of averages, a sentence each."""
    names_by_protocol: dict[tuple[str, str], list[str]] = {}
    for heading, scores in columns.items():
        if len(scores) > 1 and heading != AVERAGE:
            names = [" ".join((task.name, *path[1:])) for task, path in scores]
            yield f"{heading}: the mean of {', '.join(names)}."
        if len(scores) == 1:
            [(task, path)] = scores
            aggregation = f" (`{path[1]}`)" if len(path) > 1 else ""
            score = f"{path[0].capitalize()}{aggregation} ×100"
            protocol = f"{task.text} text, {'+'.join(task.scored)} split"
            names_by_protocol.setdefault((score, protocol), []).append(task.name)
    for (score, protocol), names in names_by_protocol.items():
        yield f"{score} on {', '.join(names)} ({protocol})."


def _fit_corpora_in_words(methods: Sequence[str], registry: Registry) -> Iterator[str]:
    """A sentence for each fit corpus, marked where it is transductive."""
    corpora: dict[str, bool] = {}
    for method in methods:
        _, at_sign, corpus = method.partition("@")
        if at_sign:
            corpora[corpus] = is_transductive(method)
    for corpus, transductive in corpora.items():
        meaning = TARGETS.get(corpus, "a corpus that no loaded plug-in defines")
        if corpus in registry.corpora:
            meaning = registry.corpora[corpus].note
        mark = f" ({DAGGER})" if transductive else ""
        yield f"`@{corpus}`: fitted on {meaning}{mark}."


def _tests_in_words(
    columns: ScoreColumns, ties: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """What bold and the mark of ties mean, and which columns were not tested."""
    if ties:
        yield (
            f"Bold: best; {TIE_MARK}: not distinguishable from it (paired bootstrap over pairs "
            f"and seeds, Holm's correction in each column, {SIGNIFICANCE_LEVEL:.0%})."
        )
    untested = [heading for heading in columns if heading not in ties]
    if untested:
        subject = ", ".join(untested) if ties else "the differences"
        yield (
            f"Not tested: {subject}, since their scores are not resampled, or their "
            "similarities are not stored with the records."
        )


def _digests_in_words(
    methods: Sequence[str], columns: ScoreColumns, results: Results
) -> str:
    """The digests of the data that the first method was measured on, and of the records."""
    tasks = dict.fromkeys(
        task.name for scores in columns.values() for task, _ in scores
    )
    records: list[Record] = []
    for task in tasks:
        records += results.records(methods[0], task)
    data = dict.fromkeys(
        record.digests["data"][:DIGEST_DIGITS_SHOWN]
        for record in records
        if "data" in record.digests
    )
    digest = results.select(product(methods, tasks)).digest()[:DIGEST_DIGITS_SHOWN]
    return f"Data: sha256 {', '.join(data)}; records: {digest}."
