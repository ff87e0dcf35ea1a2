"""A table of methods by tasks for a paper: mean and spread, the best in bold, and a caption.

The columns are built first: from tasks, or from published tables under their protocols.
A `MethodTable` then shows the scores of records in them, in Markdown or LaTeX, with the
published rows of the same protocol below. It does no statistics; which differences are
significant was tested before (`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Record, Task, is_transductive
from harness.registry import Registry
from harness.report.latex import latex_comment, latex_escape, latex_line, latex_table
from harness.report.leaderboard import method_label
from harness.report.markdown import MISSING_NUMBER, escape, table
from harness.report.sheets import DAGGER, printed_number
from harness.results.bootstrap import SIGNIFICANCE_LEVEL
from harness.results.claim_tests import AVERAGE
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, Value, column_value
from harness.results.published import PublishedCell, Row, Table, score_path
from harness.tasks.loader import TARGETS

TIE_MARK = "≈"
NO_VALUE = Value(None, state=MISSING_NUMBER)  # of a column that fits no task

# The scores of a column, each a task and the path of the score in its records. A column
# with several is their average; a published column that fits no task here has none.
ColumnScores = tuple[tuple[Task, ScorePath], ...]
ScoreColumns = Mapping[str, ColumnScores]  # by heading


# Columns of tasks


def columns_of_tasks(tasks: Sequence[Task], aggregation: str) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns: dict[str, ColumnScores] = {}
    for task in tasks:
        columns[task.name] = ((task, _main_path(task, aggregation)),)
    return _with_average(columns)


def _main_path(task: Task, aggregation: str) -> ScorePath:
    """The path of a task's main score, under an aggregation if its metric has several."""
    path = metric_of(task).main_score
    return (*path[:-1], aggregation) if path[-1] in AGGREGATIONS else path


def _with_average(columns: Mapping[str, ColumnScores]) -> dict[str, ColumnScores]:
    """The columns, and the average of their scores where all tasks are scored in one way."""
    scores: dict[tuple[Task, ScorePath], None] = {}  # each once
    for column_scores in columns.values():
        scores |= dict.fromkeys(column_scores)
    tasks = {task for task, _ in scores}
    paths = {path for _, path in scores}
    columns_and_average = dict(columns)
    if len(paths) == 1 and len(tasks) > 1:
        columns_and_average[AVERAGE] = tuple(scores)
    return columns_and_average


# Columns of published tables


@dataclass(frozen=True)
class _ColumnKey:
    """What makes two published columns one column of the table.

    Attributes:
        scores: Their scores.
        label: The label of a column whose table has several numbers of these scores in
            one row, such as those of different trainings; else empty.
    """

    scores: ColumnScores
    label: str = ""

    @property
    def is_average(self) -> bool:
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
    # The label of each column that is an average, the first one where tables differ.
    average_labels: dict[_ColumnKey, str] = {}
    for paper_table in paper_tables:
        repeated_labels = _repeated_labels(paper_table)
        for cell in _scored_cells([paper_table]):
            scores = _scores_of(cell, registry)
            if not scores or not _are_wanted(scores, tasks):
                continue
            label = cell.column.label
            key = _ColumnKey(scores, label if label in repeated_labels else "")
            average_labels.setdefault(key, label if key.is_average else "")
    single_keys = [key for key in average_labels if not key.is_average]
    published_tasks = {key.scores[0][0] for key in single_keys}
    for task in tasks:
        if task not in published_tasks:
            scores = ((task, _main_path(task, "all")),)
            average_labels[_ColumnKey(scores)] = ""
    columns = _with_headings(average_labels)
    if not any(key.is_average for key in average_labels):
        columns = _with_average(columns)
    if not tasks:
        for cell in _scored_cells(paper_tables):
            if not cell.tasks:
                columns[cell.column.label] = ()
    return columns


def _scored_cells(paper_tables: Iterable[Table]) -> Iterator[PublishedCell]:
    """The cells with a number in points."""
    for paper_table in paper_tables:
        for cell in paper_table.cells:
            if cell.points is not None:
                yield cell


def _scores_of(cell: PublishedCell, registry: Registry) -> ColumnScores:
    """The scores that a published number is of; none where it fits no task."""
    path = score_path(cell.metric, cell.aggregation)
    return tuple((registry.tasks[task], path) for task in cell.tasks)


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
    repeated: set[str] = set()
    for labels in labels_by_protocol.values():
        if len(labels) > 1:
            repeated.update(labels)
    return repeated


def _with_headings(average_labels: Mapping[_ColumnKey, str]) -> dict[str, ColumnScores]:
    """Columns by heading, averages last; a heading that two of them have is numbered."""
    single_keys = [key for key in average_labels if not key.is_average]
    average_keys = [key for key in average_labels if key.is_average]
    columns_of_task = Counter(key.scores[0][0] for key in single_keys)
    headings: list[str] = []
    columns: dict[str, ColumnScores] = {}
    for key in [*single_keys, *average_keys]:
        if key.is_average:
            heading = average_labels[key]
        else:
            is_only_column = columns_of_task[key.scores[0][0]] == 1
            heading = _heading_of_single(key, is_only_column=is_only_column)
        headings.append(heading)
        number = headings.count(heading)
        columns[heading if number == 1 else f"{heading} #{number}"] = key.scores
    return columns


def _heading_of_single(key: _ColumnKey, *, is_only_column: bool) -> str:
    """The name of the task; where it has several columns, also what tells this one apart."""
    task, path = key.scores[0]
    if key.label:
        return f"{task.name} ({key.label})"
    main_path = _main_path(task, "all")
    differences = [
        word
        for word, main_word in zip(path, main_path, strict=False)
        if word != main_word
    ]
    if is_only_column or not differences:
        return task.name
    return f"{task.name} ({' '.join(differences)})"


# The table

# What a published number and a column have in common if they are of one protocol: task
# names and paths of scores, or the heading of a column that fits no task.
ProtocolKey = frozenset[tuple[str, ScorePath]] | str


@dataclass(frozen=True)
class _PublishedRow:
    """A published row in the table: its name, and a text for each column."""

    name: str
    cells: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class MethodTable:
    """Methods, and columns by heading.

    Attributes:
        methods: The ids of the methods, from top to bottom.
        columns: The scores of each column, by its heading.
        results: The records that scores are taken from.
        registry: Tasks and fit corpora by name.
        p_holm: The p of each method against the best of a column, by heading and
            method.
        paper_tables: Published tables whose rows of the same protocol follow the methods.
    """

    methods: Sequence[str]
    columns: ScoreColumns
    results: Results
    registry: Registry
    p_holm: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    paper_tables: Sequence[Table] = ()

    @cached_property
    def values(self) -> Mapping[tuple[str, str], Value]:
        """Every value, by heading and method."""
        values: dict[tuple[str, str], Value] = {}
        for heading, scores in self.columns.items():
            for method in self.methods:
                value = NO_VALUE
                if scores:
                    value = column_value(self.results, method, scores)
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
            rows.append([method_label(method), *cells])
        for row in self._published_rows():
            rows.append([escape(row.name), *row.cells])
        caption = escape(" ".join(self.caption()))
        return f"{table(['method', *self.columns], rows)}\n\n{caption}"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; the digest of its records is a comment."""
        bold = r"\textbf{{{}}}"
        measured_lines = []
        for method in self.methods:
            cells = [
                self.cell(heading, method, latex_escape, bold)
                for heading in self.columns
            ]
            measured_lines.append(
                latex_line([latex_escape(method_label(method)), *cells])
            )
        groups = [measured_lines]
        published_lines = [
            latex_line([latex_escape(row.name), *row.cells])
            for row in self._published_rows()
        ]
        if published_lines:
            groups.append(published_lines)
        alignment = "l" + "r" * len(self.columns)
        caption = latex_escape(" ".join(self.caption()))
        lines = [
            r"\begin{table}",
            r"\centering",
            latex_table(alignment, ["method", *self.columns], groups),
            rf"\caption{{{caption}}}",
            r"\end{table}",
            latex_comment(f"Records: sha256 {self.records.digest()}"),
        ]
        return "\n".join(lines)

    def cell(
        self,
        heading: str,
        method: str,
        escape_text: Callable[[str], str],
        bold_format: str,
    ) -> str:
        """A value: bold if it is the best of its column, marked if it ties with the best.

        Args:
            heading: The heading of the column.
            method: The id of the method.
            escape_text: Makes Markdown or LaTeX of plain text.
            bold_format: A format string that makes its argument bold.
        """
        value = self.values[heading, method]
        scores = self.columns[heading]
        if not all(metric_of(task).direction == "higher" for task, _ in scores):
            return escape_text(str(value))
        means = [self.values[heading, other].mean for other in self.methods]
        best = max((mean for mean in means if mean is not None), default=None)
        if value.mean is not None and value.mean == best:
            return bold_format.format(escape_text(str(value)))
        p_of_method = self.p_holm.get(heading, {})
        is_tied = p_of_method.get(method, 0.0) > SIGNIFICANCE_LEVEL
        return escape_text(f"{value} {TIE_MARK}" if is_tied else str(value))

    # Published rows

    def _published_rows(self) -> Iterator[_PublishedRow]:
        """The published rows that have a number of a column's tasks and protocol."""
        for paper_table in self.paper_tables:
            for row in paper_table.rows:
                numbers = self._published_numbers(paper_table, row)
                if numbers:
                    cells = [
                        " / ".join(numbers.get(heading, [MISSING_NUMBER]))
                        for heading in self.columns
                    ]
                    place = f"{paper_table.paper}, {paper_table.table}"
                    yield _PublishedRow(f"{row.name} ({place})", cells)

    def _published_numbers(
        self, paper_table: Table, row: Row
    ) -> Mapping[str, list[str]]:
        """The printed numbers of a row that fit a column, by its heading."""
        numbers: dict[str, list[str]] = {}
        for cell in _scored_cells([paper_table]):
            if cell.row != row:
                continue
            heading = self._heading_of(cell)
            if heading is not None:
                numbers.setdefault(heading, []).append(printed_number(cell))
        return numbers

    def _heading_of(self, cell: PublishedCell) -> str | None:
        """The heading of the column that a published number fits; None where it fits none.

        Of several columns of its protocol it is the one with the label of the number's
        column, or else the first.
        """
        scores = _scores_of(cell, self.registry)
        protocol = self._protocol_key(cell.column.label, scores)
        headings = self._headings_by_protocol.get(protocol, [])
        for heading in headings:
            if heading.endswith(f" ({cell.column.label})"):
                return heading
        return headings[0] if headings else None

    @cached_property
    def _headings_by_protocol(self) -> Mapping[ProtocolKey, list[str]]:
        """The headings of the columns of each protocol."""
        headings: dict[ProtocolKey, list[str]] = {}
        for heading, scores in self.columns.items():
            protocol = self._protocol_key(heading, scores)
            headings.setdefault(protocol, []).append(heading)
        return headings

    def _protocol_key(self, heading: str, scores: ColumnScores) -> ProtocolKey:
        """What a column has in common with the published numbers of its protocol.

        A task whose pairs are one set has the same score under every aggregation, so it
        is written as `all`. A column that fits no task is found by its heading.
        """
        if not scores:
            return heading
        paths = set()
        for task, path in scores:
            if self._is_single_set(task, path):
                path = (*path[:-1], "all")
            paths.add((task.name, path))
        return frozenset(paths)

    def _is_single_set(self, task: Task, path: ScorePath) -> bool:
        """Whether the records of a task have a correlation of one set of pairs.

        The first record tells; without a record it is not known, and False.
        """
        if path[-1] not in AGGREGATIONS:
            return False
        for method in self.methods:
            for record in self.results.records(method, task.name):
                return len(record.scores[path[0]]["groups"]) == 1
        return False

    # The caption

    def caption(self) -> list[str]:
        """Protocol, seeds, fit corpora, marks and digests, a sentence each."""
        single_scores: dict[tuple[Task, ScorePath], None] = {}  # each once
        for scores in self.columns.values():
            if len(scores) == 1:
                single_scores[scores[0]] = None
        return [
            *_protocols_in_words(list(single_scores)),
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
        """A sentence for each fit corpus, marked where it is transductive."""
        is_transductive_by_corpus: dict[str, bool] = {}
        for method in self.methods:
            _, at_sign, corpus = method.partition("@")
            if at_sign:
                is_transductive_by_corpus[corpus] = is_transductive(method)
        for corpus, transductive in is_transductive_by_corpus.items():
            meaning = TARGETS.get(corpus, "a corpus that no loaded plug-in defines")
            if corpus in self.registry.corpora:
                meaning = self.registry.corpora[corpus].note
            mark = f" ({DAGGER})" if transductive else ""
            yield f"`@{corpus}`: fitted on {meaning}{mark}."

    def _tests_in_words(self) -> Iterator[str]:
        """What bold and the mark of ties mean, and which columns were not tested."""
        if self.p_holm:
            yield (
                f"Bold: best; {TIE_MARK}: not distinguishable from it (paired bootstrap over pairs "
                f"and seeds, Holm's correction in each column, {SIGNIFICANCE_LEVEL:.0%})."
            )
        untested_columns = [
            heading
            for heading, scores in self.columns.items()
            if scores and heading not in self.p_holm
        ]
        if untested_columns:
            subject = "the differences"
            if self.p_holm:
                subject = ", ".join(untested_columns)
            yield (
                f"Not tested: {subject}, since their scores are not resampled, or their "
                "similarities are not stored with the records."
            )

    def _digests_in_words(self, tasks: Iterable[Task]) -> str:
        """The digests of the data that the first method was measured on, and of the records."""
        records: list[Record] = []
        for task in tasks:
            records += self.results.records(self.methods[0], task.name)
        data_digests: dict[str, None] = {}  # each once
        for record in records:
            if "data" in record.digests:
                data_digests[record.digests["data"][:DIGEST_DIGITS_SHOWN]] = None
        digest_of_records = self.records.digest()[:DIGEST_DIGITS_SHOWN]
        return f"Data: sha256 {', '.join(data_digests)}; records: {digest_of_records}."


def _protocols_in_words(scores: Sequence[tuple[Task, ScorePath]]) -> Iterator[str]:
    """A sentence for each kind of score: its name, and its tasks with text form and split."""
    tasks_by_path: dict[ScorePath, list[Task]] = {}
    for task, path in scores:
        tasks_by_path.setdefault(path, []).append(task)
    for path, tasks in tasks_by_path.items():
        names_by_protocol: dict[str, list[str]] = {}
        for task in tasks:
            protocol = f"{task.text} text, {'+'.join(task.scored)} split"
            names_by_protocol.setdefault(protocol, []).append(task.name)
        tasks_in_words = [
            f"{', '.join(names)} ({protocol})"
            for protocol, names in names_by_protocol.items()
        ]
        aggregation = f" (`{path[1]}`)" if len(path) > 1 else ""
        metric = path[0].capitalize()
        yield f"{metric}{aggregation} ×100 on {'; '.join(tasks_in_words)}."


def _averages_in_words(columns: ScoreColumns) -> Iterator[str]:
    """A sentence for each published average: the scores that it is the mean of."""
    for heading, scores in columns.items():
        if len(scores) > 1 and heading != AVERAGE:
            names = [" ".join((task.name, *path[1:])) for task, path in scores]
            yield f"{heading}: the mean of {', '.join(names)}."
