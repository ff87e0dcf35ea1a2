"""A table of methods for a paper: mean and spread, the best in bold, published rows below.

Columns are tasks, or the columns of published tables; a published number is shown in the
column of its task and score. No statistics are done here: which methods tie with the
best was tested before (`harness.evaluation.compare`). The caption is the template
`caption.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from harness.conclusions.claims import AVERAGE
from harness.conclusions.folder import Conclusions
from harness.core.metrics import metric_of
from harness.core.types import AGGREGATIONS, Task, is_transductive
from harness.registry import Registry
from harness.report.papers import LEAD_MARKS, lead_legend
from harness.report.table import (
    DAGGER,
    HEADING,
    NO_BREAK_SPACE,
    TIE_MARK,
    ShownCell,
    ShownRow,
    ShownTable,
    method_cell,
    rendered,
    row_of,
    table_of,
)
from harness.results import published
from harness.results.differences import SIGNIFICANCE_LEVEL, BestTests
from harness.results.index import (
    DIGEST_DIGITS_SHOWN,
    MISSING,
    Results,
    TaskScore,
    column_value,
)
from harness.results.origins import sentences_on_copies
from harness.results.published import PublishedNumber, score_path
from harness.results.scorings import TASK_LABELS

NOISE = (
    "best, beyond noise?"  # the heading of the columns in which a published row is best
)
OTHER_TEXT_MARK = "§"  # of a number on another text form than its column
UNTESTED_MARK = "?"  # of a number that was not tested against the best
PACKAGED_MARK = "¶"  # of a row that comes with the harness, among rows of one's own
NOTHING_TESTED = BestTests(tied=frozenset(), untested=frozenset())

# The scores of each column by its heading; the average of several.
ScoreColumns = Mapping[str, tuple[TaskScore, ...]]


# Columns


def columns_of(
    folder: Conclusions,
    tasks: Sequence[Task] = (),
    tables: Sequence[published.Table] = (),
    aggregation: str | None = None,
) -> ScoreColumns:
    """The columns of tasks, with their average where all are scored in one way.

    Args:
        folder: The results, by which a task with a single set of pairs is known.
        tasks: The tasks, in their order, each by its main metric. Without any, the columns
            are those of the tables, averages too.
        tables: Published tables. A task has a column for each aggregation under which
            they print it, or one under `all`.
        aggregation: The aggregation in place of those of the tables.
    """
    results, registry = folder.records, folder.registry
    columns: dict[str, tuple[TaskScore, ...]] = {}  # those of the tables
    for table in tables:
        for number in table.numbers:
            scores = scores_of(number, results)
            if scores:
                columns.setdefault(_heading(scores, registry), scores)
    if not tasks and not aggregation:
        return columns
    wanted: dict[TaskScore, None] = {}  # each once
    for name in [task.name for task in tasks] or tasks_of(columns):
        main = metric_of(registry.tasks[name]).main_score
        paths = [main]
        if aggregation and main[-1] in AGGREGATIONS:
            paths = [(*main[:-1], aggregation)]
        elif not aggregation:
            singles = [scores[0] for scores in columns.values() if len(scores) == 1]
            printed = [path for other, path in singles if _base(other) == _base(name)]
            paths = [path for path in printed if path[0] == main[0]] or [main]
        wanted |= dict.fromkeys(_of_single_set((name, path), results) for path in paths)
    columns = {}
    for task, path in wanted:
        heading = _heading([(task, path)], registry)
        columns[task if heading in columns else heading] = ((task, path),)
    if len({path for _, path in wanted}) == 1 and len(wanted) > 1:
        columns[AVERAGE] = tuple(wanted)
    return columns


def tasks_of(columns: ScoreColumns) -> dict[str, None]:
    """The tasks of the scores in columns, each once, in order."""
    return dict.fromkeys(task for scores in columns.values() for task, _ in scores)


def scores_of(number: PublishedNumber, results: Results) -> tuple[TaskScore, ...]:
    """The scores that a published number is of; none where it fits no task."""
    if number.points is None:
        return ()
    path = score_path(number.metric, number.aggregation)
    return tuple(_of_single_set((task, path), results) for task in number.tasks)


def _of_single_set(score: TaskScore, results: Results) -> TaskScore:
    """A score; a single set of pairs has the same under every aggregation, `all`."""
    task, path = score
    if path[-1] in AGGREGATIONS and len(results.subsets(task)) == 1:
        path = (*path[:-1], "all")
    return task, path


def _base(task: str) -> str:
    """A task's name without its text form."""
    return task.removesuffix(".senteval")


def _heading(scores: Sequence[TaskScore], registry: Registry) -> str:
    """The task, or the tasks of an average; and what its score is if not the main one."""
    task, path = scores[0]
    name = TASK_LABELS.get(_base(task), _base(task))
    if len(scores) > 1:
        name = f"{AVERAGE} of {len(scores)}"
    main = metric_of(registry.tasks[task]).main_score
    differences = [
        word for word, main_word in zip(path, main, strict=False) if word != main_word
    ]
    return f"{name} ({' '.join(differences)})" if differences else name


# The table


def method_table(
    methods: Sequence[str],
    columns: ScoreColumns,
    folder: Conclusions,
    paper_tables: Sequence[published.Table] = (),
    ties: Mapping[str, BestTests] | None = None,
) -> ShownTable:
    """Methods by columns, then rows of published tables; the notes are the caption.

    Args:
        methods: The ids of the methods, from top to bottom.
        columns: The scores of each column, by its heading.
        folder: The results that scores are taken from.
        paper_tables: Published tables whose rows of the same protocol follow the methods.
        ties: The methods that are not distinguishable from the best, and those that were
            not tested, of each column that was, by its heading.
    """
    ties = ties or {}
    shown_cells = [*product(methods, tasks_of(columns))]
    packaged = {
        method: all(
            folder.is_packaged(*cell)
            for cell in shown_cells
            if cell[0] == method and cell in folder.records.by_cell
        )
        for method in methods
    }
    # Rows that come with the harness are told from one's own, where there are both.
    has_both = len({*packaged.values()}) > 1
    cells_of_rows = []
    for method in methods:
        name = method_cell(method)
        if has_both and packaged[method]:
            name = name._replace(mark=f"{name.mark} {PACKAGED_MARK}")
        cells_of_rows.append([name])
    seeds: set[int] = set()
    for heading, scores in columns.items():
        values = [column_value(folder.records, method, scores) for method in methods]
        seeds |= {value.seeds for value in values}
        means = [value.mean for value in values if value.mean is not None]
        tasks = [folder.registry.tasks[task] for task, _ in scores]
        best, tested = None, ties.get(heading, NOTHING_TESTED)
        if means and all(metric_of(task).direction == "higher" for task in tasks):
            best = max(means)
        for method, value, cells in zip(methods, values, cells_of_rows, strict=True):
            is_best = best is not None and value.mean == best
            mark = ""
            if best is not None and not is_best and method in tested.tied:
                mark = f" {TIE_MARK}"
            elif best is not None and not is_best and method in tested.untested:
                mark = f" {UNTESTED_MARK}"
            cells.append(ShownCell(str(value), bold=is_best, mark=mark))
    has_leads = any(
        number.id in folder.leads for table in paper_tables for number in table.numbers
    )
    if has_leads:
        for cells in cells_of_rows:
            cells.append(ShownCell(""))
    rows = [row_of(cells, "measured") for cells in cells_of_rows]
    for table in paper_tables:
        published_rows = [*_published_rows(table, columns, folder, has_leads)]
        if published_rows:
            rows.append(row_of([f"{table.paper}, {table.table}"], HEADING))
            rows += published_rows
    records = folder.records.select(shown_cells)
    caption = rendered(
        "caption.txt",
        averages={
            heading: [" ".join((task, *path[1:])) for task, path in scores]
            for heading, scores in columns.items()
            if len(scores) > 1 and heading != AVERAGE
        },
        protocols=_tasks_by_protocol(columns, folder.registry),
        seeds=sorted(count for count in seeds if count > 1),
        is_transductive=any(map(is_transductive, methods)),
        dagger=DAGGER,
        ties=ties,
        tie_mark=TIE_MARK,
        untested_mark=UNTESTED_MARK,
        has_untested=any(tested.untested for tested in ties.values()),
        packaged_mark=PACKAGED_MARK if has_both else "",
        level=f"{SIGNIFICANCE_LEVEL:.0%}",
        untested=[heading for heading in columns if heading not in ties],
        other_text=OTHER_TEXT_MARK,
        has_other_text=any(
            OTHER_TEXT_MARK in cell.text for row in rows for cell in row.cells
        ),
        records=records.digest[:DIGEST_DIGITS_SHOWN],
        copies=[*sentences_on_copies(methods, records, folder.registry)],
    )
    notes = caption.splitlines()
    head = ["method", *columns]
    if has_leads:
        head.append(NOISE)
        notes.append(lead_legend())
    return table_of(head, rows, notes=notes)


def _published_rows(
    table: published.Table, columns: ScoreColumns, folder: Conclusions, has_leads: bool
) -> Iterator[ShownRow]:
    """The rows of a published table that have a number of a column's tasks and score.

    A number on another text form of the task than the column's has a mark. With leads, the
    last cell has the columns in which the row is the best, with the marks of these.
    """
    numbers: dict[str, dict[str, list[str]]] = {}  # by row and heading
    leads: dict[str, list[str]] = {}  # by row
    for number in table.numbers:
        scores = scores_of(number, folder.records)
        own = [(_base(task), path) for task, path in scores]
        for heading, column in columns.items():
            if scores and own == [(_base(task), path) for task, path in column]:
                mark = "" if scores == column else f" {OTHER_TEXT_MARK}"
                of_row = numbers.setdefault(number.row.id, {})
                of_row.setdefault(heading, []).append(f"{number.shown}{mark}")
                if number.id in folder.leads:
                    kind = folder.leads[number.id].kind
                    of_row_leads = leads.setdefault(number.row.id, [])
                    of_row_leads.append(f"{heading}{NO_BREAK_SPACE}{LEAD_MARKS[kind]}")
    labels = [row.label for row in table.rows]
    for row in table.rows:
        if row.id in numbers:
            name = row.label if labels.count(row.label) == 1 else row.name
            texts = [
                " / ".join(numbers[row.id].get(heading, [MISSING]))
                for heading in columns
            ]
            if has_leads:
                texts.append(", ".join(leads.get(row.id, ())))
            yield row_of([name, *texts], "published")


# What the caption says


def _tasks_by_protocol(
    columns: ScoreColumns, registry: Registry
) -> dict[tuple[str, str], list[str]]:
    """The tasks of single scores, by the score and by their text form and split."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for scores in columns.values():
        if len(scores) == 1:
            [(name, path)] = scores
            task = registry.tasks[name]
            aggregation = f" (`{path[1]}`)" if len(path) > 1 else ""
            score = f"{path[0].capitalize()}{aggregation}"
            protocol = f"{task.text} text, {'+'.join(task.scored)} split"
            tasks.setdefault((score, protocol), []).append(name)
    return tasks
