"""A table of methods for a paper: mean and spread, the best in bold, and a caption.

A `MethodTable` shows the scores of records in the columns that `score_columns` makes, in
Markdown or LaTeX, with the published rows of the same protocol below. It does no
statistics; which differences are significant was tested before
(`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Record, Task, is_transductive
from harness.registry import Registry
from harness.report.latex import latex_comment, latex_escape, latex_line, latex_table
from harness.report.leaderboard import method_label
from harness.report.markdown import MISSING_NUMBER, escape, table
from harness.report.score_columns import (
    ColumnScore,
    ColumnScores,
    ScoreColumns,
    scored_cells,
    scores_of_published,
)
from harness.report.sheets import DAGGER, printed_number
from harness.results.bootstrap import SIGNIFICANCE_LEVEL
from harness.results.claim_tests import AVERAGE
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, Value, column_value
from harness.results.published import PublishedCell, Row, Table
from harness.tasks.loader import TARGETS

TIE_MARK = "≈"
NO_VALUE = Value(None, state=MISSING_NUMBER)  # of a column that fits no task

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
        tasks: set[str] = set()
        for scores in self.columns.values():
            tasks.update(score.task.name for score in scores)
        return self.results.select(product(self.methods, tasks))

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
            label = latex_escape(method_label(method))
            cells = [
                self.cell(heading, method, latex_escape, bold)
                for heading in self.columns
            ]
            measured_lines.append(latex_line([label, *cells]))
        published_lines = []
        for row in self._published_rows():
            published_lines.append(latex_line([latex_escape(row.name), *row.cells]))
        groups = [measured_lines]
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
        text = str(value)
        directions = {
            metric_of(score.task).direction for score in self.columns[heading]
        }
        if directions - {"higher"}:
            # Here the best score is one near the gold's own, so that none is marked.
            return escape_text(text)
        means = [self.values[heading, row_method].mean for row_method in self.methods]
        best = max((mean for mean in means if mean is not None), default=None)
        if value.mean is not None and value.mean == best:
            return bold_format.format(escape_text(text))
        p_by_method = self.p_holm.get(heading, {})
        if p_by_method.get(method, 0.0) > SIGNIFICANCE_LEVEL:
            text += f" {TIE_MARK}"
        return escape_text(text)

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
        for cell in scored_cells([paper_table]):
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
        scores = scores_of_published(cell, self.registry)
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
            records = self.results.records(method, task.name)
            if records:
                return len(records[0].scores[path[0]]["groups"]) == 1
        return False

    # The caption

    def caption(self) -> list[str]:
        """Protocol, seeds, fit corpora, marks and digests, a sentence each."""
        single_scores: dict[
            ColumnScore, None
        ] = {}  # of columns of one score, each once
        for scores in self.columns.values():
            if len(scores) == 1:
                single_scores[scores[0]] = None
        return [
            *_protocols_in_words(list(single_scores)),
            *_averages_in_words(self.columns),
            *self._seeds_in_words(),
            *self._fit_corpora_in_words(),
            *self._tests_in_words(),
            self._digests_in_words([score.task for score in single_scores]),
        ]

    def _seeds_in_words(self) -> Iterator[str]:
        """A sentence where values are means over seeds."""
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


def _averages_in_words(columns: ScoreColumns) -> Iterator[str]:
    """A sentence for each published average: the scores that it is the mean of."""
    for heading, scores in columns.items():
        if len(scores) > 1 and heading != AVERAGE:
            names = [" ".join((task.name, *path[1:])) for task, path in scores]
            yield f"{heading}: the mean of {', '.join(names)}."
