"""A table of methods for a paper: mean and spread, the best in bold, published rows below.

Columns are tasks, or the columns of published tables; a published number is shown in the
column of its task and score. No statistics are done here: which differences are
significant was tested before (`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Record, Task, is_transductive
from harness.registry import Registry
from harness.report.boards import TIE_MARK
from harness.report.latex import latex_comment, latex_escape
from harness.report.markdown import escape
from harness.report.papers import DAGGER, printed_number
from harness.report.table import (
    HEADING,
    MISSING_NUMBER,
    ShownCell,
    ShownRow,
    ShownTable,
    latex,
    markdown,
    row_of,
    table_of,
)
from harness.results import published
from harness.results.bootstrap import SIGNIFICANCE_LEVEL
from harness.results.claim_tests import AVERAGE
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, Value, column_value
from harness.results.published import PublishedCell, score_path
from harness.results.scorings import TASK_LABELS
from harness.tasks.loader import TARGETS

OTHER_TEXT_MARK = "§"  # of a number on another text form than its column
TEXT_FORM = ".senteval"  # the ending of a task's name


class ColumnScore(NamedTuple):
    """A score of a task, by its path in the task's records."""

    task: Task
    path: ScorePath


ColumnScores = tuple[ColumnScore, ...]  # a column with several is their average
ScoreColumns = Mapping[str, ColumnScores]  # by heading


# Columns


def columns_of_tasks(
    tasks: Sequence[Task], aggregation: str, results: Results
) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns = {}
    for name, task in _tasks_by_name(tasks).items():
        main = metric_of(task).main_score
        path = (*main[:-1], aggregation) if main[-1] in AGGREGATIONS else main
        columns[name] = (_score(task, path, results),)
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
            has a column for each protocol in which it is published, or one under `all`.
            Without any, the columns are those of the tables, averages too.
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
    for name, task in _tasks_by_name(tasks).items():
        main = metric_of(task).main_score
        paths = [
            scores[0].path
            for scores in columns.values()
            if len(scores) == 1
            and _base(scores[0].task) == _base(task)
            and scores[0].path[0] == main[0]
        ]
        for path in paths or [main]:
            aggregation = "" if path == main else f" ({' '.join(path[1:])})"
            chosen[name + aggregation] = (ColumnScore(task, path),)
    return _with_average(chosen)


def scores_of(
    cell: PublishedCell, registry: Registry, results: Results
) -> ColumnScores:
    """The scores that a published number is of; none where it fits no task."""
    if cell.points is None:
        return ()
    path = score_path(cell.metric, cell.aggregation)
    return tuple(_score(registry.tasks[name], path, results) for name in cell.tasks)


def _score(task: Task, path: ScorePath, results: Results) -> ColumnScore:
    """A score of a task; one set of pairs has the same under every aggregation, `all`."""
    if path[-1] in AGGREGATIONS and len(results.subsets(task.name)) == 1:
        path = (*path[:-1], "all")
    return ColumnScore(task, path)


def _with_average(columns: Mapping[str, ColumnScores]) -> dict[str, ColumnScores]:
    """The columns, and the average of their scores where all tasks are scored in one way."""
    scores = dict.fromkeys(score for column in columns.values() for score in column)
    columns_and_average = dict(columns)
    if len({score.path for score in scores}) == 1 and len(scores) > 1:
        columns_and_average[AVERAGE] = tuple(scores)
    return columns_and_average


def _tasks_by_name(tasks: Sequence[Task]) -> dict[str, Task]:
    """Tasks by short names; one in several text forms by its whole names."""
    bases = [_base(task) for task in tasks]
    names = {}
    for task, base in zip(tasks, bases, strict=True):
        is_short = bases.count(base) == 1
        names[TASK_LABELS.get(base, base) if is_short else task.name] = task
    return names


def _base(task: Task) -> str:
    """A task's name without its text form."""
    return task.name.removesuffix(TEXT_FORM)


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
    paper_tables: Sequence[published.Table] = ()

    @cached_property
    def values(self) -> Mapping[tuple[str, str], Value]:
        """Every value, by heading and method."""
        values: dict[tuple[str, str], Value] = {}
        for heading, scores in self.columns.items():
            for method in self.methods:
                values[heading, method] = column_value(self.results, method, scores)
        return values

    @cached_property
    def records(self) -> Results:
        """The records that the values come from."""
        tasks: set[str] = set()
        for scores in self.columns.values():
            tasks.update(score.task.name for score in scores)
        return self.results.select(product(self.methods, tasks))

    @cached_property
    def table(self) -> ShownTable:
        """The methods, below them the published rows, and the caption as its notes."""
        rows = []
        for method in self.methods:
            cells = [self._cell(heading, method) for heading in self.columns]
            mark = f" {DAGGER}" if is_transductive(method) else ""
            rows.append(
                row_of([ShownCell(f"`{method}`", mark=mark), *cells], "measured")
            )
        notes = [*self.caption()]
        for paper_table in self.paper_tables:
            published_rows = [*self._published_rows(paper_table)]
            if published_rows:
                place = f"{paper_table.paper}, {paper_table.table}"
                rows += [ShownRow([ShownCell(place)], HEADING), *published_rows]
        if any(OTHER_TEXT_MARK in cell.text for row in rows for cell in row.cells):
            notes.insert(
                -1,
                f"{OTHER_TEXT_MARK}: on another text form of the task than the column's.",
            )
        plain = table_of(["method", *self.columns], [])
        return ShownTable(columns=plain.columns, rows=rows, notes=notes)

    def markdown(self) -> str:
        """The table and its caption."""
        return f"{markdown(self.table)}\n\n{escape(' '.join(self.table.notes))}"

    def latex(self) -> str:
        """The table in LaTeX; the package that it needs and its records are comments."""
        caption = latex_escape(" ".join(self.table.notes))
        lines = [
            latex_comment(r"Needs \usepackage{booktabs} in the preamble."),
            r"\begin{table}",
            r"\centering",
            latex(self.table),
            rf"\caption{{{caption}}}",
            r"\label{tab:methods}",
            r"\end{table}",
            latex_comment(f"Records: sha256 {self.records.digest()}"),
        ]
        return "\n".join(lines)

    def _cell(self, heading: str, method: str) -> ShownCell:
        """A value: bold if it is the best of its column, marked if it ties with the best."""
        value = self.values[heading, method]
        directions = {
            metric_of(score.task).direction for score in self.columns[heading]
        }
        if directions - {"higher"}:
            # Here the best score is one near the gold's own, so that none is marked.
            return ShownCell(str(value))
        means = [self.values[heading, row_method].mean for row_method in self.methods]
        best = max((mean for mean in means if mean is not None), default=None)
        if value.mean is not None and value.mean == best:
            return ShownCell(str(value), bold=True)
        is_tied = self.p_holm.get(heading, {}).get(method, 0.0) > SIGNIFICANCE_LEVEL
        return ShownCell(str(value), mark=f" {TIE_MARK}" if is_tied else "")

    def _published_rows(self, paper_table: published.Table) -> Iterator[ShownRow]:
        """The rows of a published table that have a number of a column's task and score.

        Of several columns of a task, in other text forms, it is the one of the number's
        own form, or else the first, where the number has a mark.
        """
        numbers: dict[str, dict[str, list[str]]] = {}  # by row and heading
        for cell in paper_table.cells:
            scores = scores_of(cell, self.registry, self.results)
            headings = [
                heading
                for heading, column in self.columns.items()
                if scores and _without_text_form(column) == _without_text_form(scores)
            ]
            if headings:
                same = [name for name in headings if self.columns[name] == scores]
                heading = (same or headings)[0]
                number = printed_number(cell)
                text = number if same else f"{number} {OTHER_TEXT_MARK}"
                of_row = numbers.setdefault(cell.row.id, {})
                of_row.setdefault(heading, []).append(text)
        labels = [row.label for row in paper_table.rows]
        for row in paper_table.rows:
            if row.id in numbers:
                name = row.label if labels.count(row.label) == 1 else row.name
                cells = [
                    " / ".join(numbers[row.id].get(heading, [MISSING_NUMBER]))
                    for heading in self.columns
                ]
                yield row_of([name, *cells], "published")

    # The caption

    def caption(self) -> Iterator[str]:
        """Protocol, seeds, fit corpora, marks and digests, a sentence each."""
        singles = [scores[0] for scores in self.columns.values() if len(scores) == 1]
        scores = [*dict.fromkeys(singles)]
        yield from _protocols_in_words(scores)
        for heading, column in self.columns.items():
            if len(column) > 1 and heading != AVERAGE:
                names = [" ".join((task.name, *path[1:])) for task, path in column]
                yield f"{heading}: the mean of {', '.join(names)}."
        seeds = {value.seeds for value in self.values.values() if value.seeds > 1}
        if seeds:
            counts = " or ".join(map(str, sorted(seeds)))
            yield f"Mean ± standard deviation over {counts} seeds."
        yield from self._fit_corpora_in_words()
        yield from self._tests_in_words()
        yield self._digests_in_words([score.task for score in scores])

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
        untested = [heading for heading in self.columns if heading not in self.p_holm]
        if untested:
            subject = ", ".join(untested) if self.p_holm else "the differences"
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


def _without_text_form(scores: ColumnScores) -> list[tuple[str, ScorePath]]:
    return [(_base(task), path) for task, path in scores]


def _protocols_in_words(scores: Sequence[ColumnScore]) -> Iterator[str]:
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
