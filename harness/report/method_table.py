"""A table of methods by tasks for a paper: mean and spread, the best in bold, and a caption.

The numbers are those of records; which differences are significant was tested before
(`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Task, is_transductive
from harness.registry import Registry
from harness.report.latex import latex_comment, latex_escape, latex_line, latex_table
from harness.report.leaderboard import label
from harness.report.markdown import escape, table
from harness.report.paper_tables import DAGGER, printed_number
from harness.results.bootstrap import SIGNIFICANCE_LEVEL
from harness.results.claim_tests import AVERAGE
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, Value, column_value
from harness.results.published import PublishedCell, Row, Table, score_path
from harness.tasks.loader import TARGETS

TIE_MARK = "≈"
NO_VALUE = Value(None, state="–")  # of a column that fits no task

# The scores of a column, each a task and the path of the score in its records; several
# are averaged. A published column that fits no task here has none.
ColumnScores = tuple[tuple[Task, ScorePath], ...]
ScoreColumns = Mapping[str, ColumnScores]  # by heading

# What a published number and a column have in common if they are of one protocol: task
# names and paths of scores, or the heading of a column that fits no task.
Address = frozenset[tuple[str, ScorePath]] | str


# Columns


def columns_of_tasks(tasks: Sequence[Task], aggregation: str) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns: dict[str, ColumnScores] = {}
    for task in tasks:
        columns[task.name] = ((task, _main_path(task, aggregation)),)
    return _with_average(columns)


def columns_of_published(
    published: Sequence[Table], registry: Registry, tasks: Sequence[Task] = ()
) -> ScoreColumns:
    """The columns of published tables, each in the protocol of their rows.

    A task whose rows have several protocols has a column for each, and so have the
    columns of one table in which a row has several numbers of one protocol, as those of
    different trainings.

    Args:
        published: The tables.
        registry: Where their tasks are found.
        tasks: The tasks that are wanted, each by its main metric; those without a
            published number follow under `all`. Without any, there are columns of every
            metric, and those that fit no task here come last.
    """
    names: dict[tuple[ColumnScores, str], str] = {}  # of averages; by scores and label
    for one in published:
        repeated = _repeated_labels(one)
        for cell in _scored_cells([one]):
            scores = _scores_of(cell, registry)
            if scores and _are_wanted(scores, tasks):
                name = cell.column.label
                average = name if len(scores) > 1 else ""
                names.setdefault((scores, name if name in repeated else ""), average)
    published_tasks = {scores[0][0] for scores, _ in names if len(scores) == 1}
    for task in tasks:
        if task not in published_tasks:
            names[((task, _main_path(task, "all")),), ""] = ""
    columns = _with_headings(names)
    if not any(names.values()):
        columns = _with_average(columns)
    if not tasks:
        columns |= {c.column.label: () for c in _scored_cells(published) if not c.tasks}
    return columns


def _scored_cells(published: Iterable[Table]) -> Iterator[PublishedCell]:
    for one in published:
        yield from (cell for cell in one.cells if cell.points is not None)


def _scores_of(cell: PublishedCell, registry: Registry) -> ColumnScores:
    """The scores that a published number is of; none where it fits no task."""
    path = score_path(cell.metric, cell.aggregation)
    return tuple((registry.tasks[task], path) for task in cell.tasks)


def _are_wanted(scores: ColumnScores, tasks: Sequence[Task]) -> bool:
    """Whether scores are of these tasks, by their main metric; without tasks all are wanted."""
    if not tasks:
        return True
    return all(
        task in tasks and path[0] == metric_of(task).main_score[0]
        for task, path in scores
    )


def _repeated_labels(published: Table) -> set[str]:
    """The labels of the columns that have numbers of one protocol in one row."""
    repeated: set[str] = set()
    for row in published.rows:
        labels: dict[object, list[str]] = {}
        for cell in published.cells:
            if cell.row.id == row.id and cell.tasks:
                protocol = (cell.tasks, cell.metric, cell.aggregation)
                labels.setdefault(protocol, []).append(cell.column.label)
        for same in labels.values():
            if len(same) > 1:
                repeated.update(same)
    return repeated


def _with_headings(
    names: Mapping[tuple[ColumnScores, str], str],
) -> dict[str, ColumnScores]:
    """Columns by heading, averages last; a heading that two of them have is numbered."""
    tasks_of_single = [scores[0][0] for scores, _ in names if len(scores) == 1]
    columns_of_task = Counter(tasks_of_single)
    columns: dict[str, ColumnScores] = {}
    for (scores, repeated), average in sorted(
        names.items(), key=lambda item: len(item[0][0]) > 1
    ):
        task, path = scores[0]
        heading = average or _heading(
            task, path, repeated, alone=columns_of_task[task] == 1
        )
        same = sum(name.partition(" #")[0] == heading for name in columns)
        columns[f"{heading} #{same + 1}" if same else heading] = scores
    return columns


def _heading(task: Task, path: ScorePath, repeated: str, *, alone: bool) -> str:
    """The name of the task; what tells its column from the others, where it has several."""
    if repeated:
        return f"{task.name} ({repeated})"
    main_path = _main_path(task, "all")
    different = [
        word for word, usual in zip(path, main_path, strict=False) if word != usual
    ]
    return (
        task.name if alone or not different else f"{task.name} ({' '.join(different)})"
    )


def _main_path(task: Task, aggregation: str) -> ScorePath:
    """The path of a task's main score, under an aggregation if its metric has several."""
    path = metric_of(task).main_score
    return (*path[:-1], aggregation) if path[-1] in AGGREGATIONS else path


def _with_average(columns: Mapping[str, ColumnScores]) -> dict[str, ColumnScores]:
    """The columns, and the average of their scores where all tasks are scored in one way."""
    scores = tuple(
        dict.fromkeys(score for column in columns.values() for score in column)
    )
    tasks = {task for task, _ in scores}
    paths = {path for _, path in scores}
    if len(paths) == 1 and len(tasks) > 1:
        return {**columns, AVERAGE: scores}
    return dict(columns)


# The table


@dataclass(frozen=True, kw_only=True)
class MethodTable:
    """Methods, and columns by heading.

    Attributes:
        p_holm: The p of each method against the best of a column, by heading and
            method.
        published: Published tables whose rows of the same protocol follow the methods.
    """

    methods: Sequence[str]
    columns: ScoreColumns
    results: Results
    registry: Registry
    p_holm: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    published: Sequence[Table] = ()

    @cached_property
    def values(self) -> Mapping[tuple[str, str], Value]:
        """Every value, by heading and method."""
        values: dict[tuple[str, str], Value] = {}
        for heading, scores in self.columns.items():
            for method in self.methods:
                value = (
                    column_value(self.results, method, scores) if scores else NO_VALUE
                )
                values[heading, method] = value
        return values

    @cached_property
    def records(self) -> Results:
        """The records that the values come from."""
        tasks = {task.name for scores in self.columns.values() for task, _ in scores}
        return self.results.select(
            (method, task) for method in self.methods for task in tasks
        )

    def markdown(self) -> str:
        """The table and its caption."""
        rows = []
        for method in self.methods:
            cells = [
                self.cell(heading, method, escape, "**{}**") for heading in self.columns
            ]
            rows.append([label(method), *cells])
        for name, cells in self._published_rows():
            rows.append([escape(name), *cells])
        caption = escape(" ".join(self.caption()))
        return f"{table(['method', *self.columns], rows)}\n\n{caption}"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; the digest of its records is a comment."""
        bold = r"\textbf{{{}}}"
        measured = []
        for method in self.methods:
            cells = [
                self.cell(heading, method, latex_escape, bold)
                for heading in self.columns
            ]
            measured.append(latex_line([latex_escape(label(method)), *cells]))
        published = []
        for name, cells in self._published_rows():
            published.append(latex_line([latex_escape(name), *cells]))
        groups = filter(None, [measured, published])
        sides = "l" + "r" * len(self.columns)
        caption = latex_escape(" ".join(self.caption()))
        lines = [
            r"\begin{table}",
            r"\centering",
            latex_table(sides, ["method", *self.columns], groups),
            rf"\caption{{{caption}}}",
            r"\end{table}",
            latex_comment(f"Records: sha256 {self.records.digest()}"),
        ]
        return "\n".join(lines)

    def cell(
        self, heading: str, method: str, escaped: Callable[[str], str], bold: str
    ) -> str:
        """A value: bold if it is the best of its column, marked if it ties with the best."""
        value = self.values[heading, method]
        scores = self.columns[heading]
        if not all(metric_of(task).direction == "higher" for task, _ in scores):
            return escaped(str(value))
        means = [self.values[heading, other].mean for other in self.methods]
        best = max((mean for mean in means if mean is not None), default=None)
        if value.mean is not None and value.mean == best:
            return bold.format(escaped(str(value)))
        is_tied = self.p_holm.get(heading, {}).get(method, 0.0) > SIGNIFICANCE_LEVEL
        return escaped(f"{value} {TIE_MARK}" if is_tied else str(value))

    # Published rows

    def _published_rows(self) -> Iterator[tuple[str, list[str]]]:
        """Name and cells of each published row with a number of a column's tasks and protocol."""
        for published in self.published:
            for row in published.rows:
                numbers = self._published_numbers(published, row)
                if numbers:
                    name = f"{row.name} ({published.paper}, {published.table})"
                    yield (
                        name,
                        [" / ".join(numbers.get(h, ["–"])) for h in self.columns],
                    )

    def _published_numbers(self, published: Table, row: Row) -> Mapping[str, list[str]]:
        """The printed numbers of a row that fit a column, by its heading."""
        numbers: dict[str, list[str]] = {}
        for cell in _scored_cells([published]):
            heading = self._heading_of(cell) if cell.row == row else None
            if heading is not None:
                numbers.setdefault(heading, []).append(printed_number(cell))
        return numbers

    def _heading_of(self, cell: PublishedCell) -> str | None:
        """The heading of the column that a published number fits; None where it fits none."""
        address = self._address(cell.column.label, _scores_of(cell, self.registry))
        headings = self._headings.get(address, [])
        own = [
            heading
            for heading in headings
            if heading.endswith(f" ({cell.column.label})")
        ]
        return next(iter([*own, *headings]), None)

    @cached_property
    def _headings(self) -> Mapping[Address, list[str]]:
        """The headings of the columns of each protocol."""
        headings: dict[Address, list[str]] = {}
        for heading, scores in self.columns.items():
            headings.setdefault(self._address(heading, scores), []).append(heading)
        return headings

    def _address(self, heading: str, scores: ColumnScores) -> Address:
        """What a column has in common with the published numbers of its protocol.

        The pairs of a task of one set have the same score under every aggregation. A
        column that fits no task is found by its heading.
        """
        addresses = []
        for task, path in scores:
            is_single_set = self._is_single_set(task, path)
            addresses.append(
                (task.name, (*path[:-1], "all") if is_single_set else path)
            )
        return frozenset(addresses) or heading

    def _is_single_set(self, task: Task, path: ScorePath) -> bool:
        """Whether the records of a task have a correlation of one set of pairs."""
        if path[-1] not in AGGREGATIONS:
            return False
        for method in self.methods:
            for record in self.results.records(method, task.name):
                return len(record.scores[path[0]]["groups"]) == 1
        return False

    # The caption

    def caption(self) -> list[str]:
        """Protocol, seeds, fit corpora, marks and digests, a sentence each."""
        single = [scores[0] for scores in self.columns.values() if len(scores) == 1]
        single_scores = list(dict.fromkeys(single))
        return [
            *_protocols_in_words(single_scores),
            *_averages_in_words(self.columns),
            *self._seeds_in_words(),
            *self._fit_corpora_in_words(),
            *self._tests_in_words(),
            self._digests_in_words([task for task, _ in single_scores]),
        ]

    def _seeds_in_words(self) -> Iterator[str]:
        counts = {value.seeds for value in self.values.values() if value.seeds > 1}
        if counts:
            seeds = " or ".join(map(str, sorted(counts)))
            yield f"Mean ± standard deviation over {seeds} seeds."

    def _fit_corpora_in_words(self) -> Iterator[str]:
        fitted = {
            method.partition("@")[2]: method for method in self.methods if "@" in method
        }
        for name, method in fitted.items():
            meaning = TARGETS.get(name, "a corpus that no loaded plug-in defines")
            if name in self.registry.corpora:
                meaning = self.registry.corpora[name].note
            dagger = f" ({DAGGER})" if is_transductive(method) else ""
            yield f"`@{name}`: fitted on {meaning}{dagger}."

    def _tests_in_words(self) -> Iterator[str]:
        """What bold and the mark of ties mean, and which columns were not tested."""
        if self.p_holm:
            yield (
                f"Bold: best; {TIE_MARK}: not distinguishable from it (paired bootstrap over pairs "
                f"and seeds, Holm's correction in each column, {SIGNIFICANCE_LEVEL:.0%})."
            )
        scored = [heading for heading, scores in self.columns.items() if scores]
        untested = [heading for heading in scored if heading not in self.p_holm]
        if untested:
            what = ", ".join(untested) if self.p_holm else "the differences"
            yield (
                f"Not tested: {what}, since their scores are not resampled, or their similarities "
                "are not stored with the records."
            )

    def _digests_in_words(self, tasks: Iterable[Task]) -> str:
        """The digests of the data that the first method was measured on, and of the records."""
        records = [
            r
            for task in tasks
            for r in self.results.records(self.methods[0], task.name)
        ]
        data = [
            record.digests["data"] for record in records if "data" in record.digests
        ]
        shown = ", ".join(
            dict.fromkeys(digest[:DIGEST_DIGITS_SHOWN] for digest in data)
        )
        return f"Data: sha256 {shown}; records: {self.records.digest()[:DIGEST_DIGITS_SHOWN]}."


def _protocols_in_words(scores: Sequence[tuple[Task, ScorePath]]) -> Iterator[str]:
    """A sentence for each kind of score: its name, and its tasks with text form and split."""
    for path in dict.fromkeys(path for _, path in scores):
        tasks: dict[str, list[str]] = {}
        for task, other_path in scores:
            if other_path == path:
                protocol = f"{task.text} text, {'+'.join(task.scored)} split"
                tasks.setdefault(protocol, []).append(task.name)
        described = [
            f"{', '.join(names)} ({protocol})" for protocol, names in tasks.items()
        ]
        aggregation = f" (`{path[1]}`)" if len(path) > 1 else ""
        yield f"{path[0].capitalize()}{aggregation} ×100 on {'; '.join(described)}."


def _averages_in_words(columns: ScoreColumns) -> Iterator[str]:
    """A sentence for each published average: the scores that it is the mean of."""
    for heading, scores in columns.items():
        if len(scores) > 1 and heading != AVERAGE:
            names = [" ".join((task.name, *path[1:])) for task, path in scores]
            yield f"{heading}: the mean of {', '.join(names)}."
