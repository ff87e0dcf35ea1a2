"""A table of methods by tasks for a paper: mean and spread, the best marked, a caption with all.

The numbers are those of records; what is distinguishable was tested before
(`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.core.metrics import metric_of
from harness.core.scores import ScorePath
from harness.core.types import AGGREGATIONS, Task, is_transductive
from harness.registry import Registry
from harness.report.leaderboard import label
from harness.report.markdown import escape, table
from harness.report.paper_tables import DAGGER, booktabs, comment, latex_escape, latex_line, printed
from harness.results.comparisons import LEVEL
from harness.results.index import SHOWN, Results, Value, column_value
from harness.results.published import Table, score_path
from harness.tasks.loader import TARGETS

TIED = "≈"
NO_TASK = Value(None, state="–")


# The scores of a column, each a task and where its records hold the score; several are averaged.
# A published column that fits no task here has none.
Scores = tuple[tuple[Task, ScorePath], ...]
ScoreColumns = Mapping[str, Scores]  # by heading

AVERAGE = "Avg."


def columns_of_tasks(tasks: Sequence[Task], aggregation: str) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    columns = {task.name: ((task, _main_path(task, aggregation)),) for task in tasks}
    return _with_average(columns)


def columns_of_published(
    published: Sequence[Table], registry: Registry, tasks: Sequence[Task] = ()
) -> ScoreColumns:
    """The columns of published tables, each in the protocol of their rows; of these tasks, if any.

    A task whose rows have several protocols has a column for each. Tasks of which the tables have
    no number follow under `all`. Without `tasks`, there are columns of every metric, and those that
    fit no task here come last.
    """
    every = [c for table in published for c in table.cells if c.points is not None]
    labels: dict[Scores, str] = {}
    for cell in (cell for cell in every if cell.tasks):
        path = score_path(cell.metric, cell.aggregation)
        scores = tuple((registry.tasks[task], path) for task in cell.tasks)
        wanted = {task: metric_of(task).main_score[0] for task in tasks}
        if not tasks or all(wanted.get(task) == path[0] for task, path in scores):
            labels.setdefault(scores, cell.column.label if len(scores) > 1 else "")
    have = {scores[0][0] for scores in labels if len(scores) == 1}
    labels.update({((task, _main_path(task, "all")),): "" for task in tasks if task not in have})
    single = Counter(scores[0][0] for scores in labels if len(scores) == 1)
    columns: dict[str, Scores] = {}
    for scores, average in sorted(labels.items(), key=lambda item: len(item[0]) > 1):
        heading = average or _heading(*scores[0], alone=single[scores[0][0]] == 1)
        same = sum(name.partition(" #")[0] == heading for name in columns)
        columns[f"{heading} #{same + 1}" if same else heading] = scores
    if not any(labels.values()):
        columns = {**_with_average(columns)}
    lacking = [] if tasks else [cell.column.label for cell in every if not cell.tasks]
    return {**columns, **dict.fromkeys(lacking, ())}


def _main_path(task: Task, aggregation: str) -> ScorePath:
    path = metric_of(task).main_score
    return (*path[:-1], aggregation) if path[-1] in AGGREGATIONS else path


def _with_average(columns: Mapping[str, Scores]) -> ScoreColumns:
    scores = tuple(score for [score] in columns.values())
    same = len({path for _, path in scores}) == 1 < len({task for task, _ in scores})
    return {**columns, AVERAGE: scores} if same else columns


def _heading(task: Task, path: ScorePath, alone: bool) -> str:
    """The name of the task; with the protocol where the task has several columns."""
    main = _main_path(task, "all")
    peculiar = [word for word, usual in zip(path, main, strict=False) if word != usual]
    return task.name if alone or not peculiar else f"{task.name} ({' '.join(peculiar)})"


@dataclass(frozen=True)
class MethodTable:
    """Methods, and columns by heading; `p_holm` is that of each method against a column's best.

    `beside` are published tables whose rows of the same protocol stand below.
    """

    methods: Sequence[str]
    columns: ScoreColumns
    results: Results
    registry: Registry
    p_holm: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    beside: Sequence[Table] = ()

    @cached_property
    def values(self) -> Mapping[tuple[str, str], Value]:
        """Every value, by heading and method."""
        return {
            (heading, method): column_value(self.results, method, scores) if scores else NO_TASK
            for heading, scores in self.columns.items()
            for method in self.methods
        }

    @cached_property
    def records(self) -> Results:
        """The records that the values come from."""
        scores = [score for column in self.columns.values() for score in column]
        return self.results.select(
            (method, task.name) for task, _ in scores for method in self.methods
        )

    def markdown(self) -> str:
        """The table and its caption."""
        rows = [
            [label(m), *(self.cell(h, m, escape, "**{}**") for h in self.columns)]
            for m in self.methods
        ]
        rows += [[escape(name), *cells] for name, cells in self._published()]
        caption = " ".join(self.caption())
        return "\n\n".join([table(["method", *self.columns], rows), escape(caption)])

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; the digest of its records is a comment."""
        bold = r"\textbf{{{}}}"
        measured = [
            [latex_escape(label(m)), *(self.cell(h, m, latex_escape, bold) for h in self.columns)]
            for m in self.methods
        ]
        published = [[latex_escape(name), *row] for name, row in self._published()]
        groups = [map(latex_line, rows) for rows in (measured, published) if rows]
        head = ["method", *self.columns]
        caption = latex_escape(" ".join(self.caption()))
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                booktabs(f"l{'r' * len(self.columns)}", head, groups),
                rf"\caption{{{caption}}}",
                r"\end{table}",
                comment(f"Records: sha256 {self.records.digest()}"),
            ]
        )

    def cell(self, heading: str, method: str, escaped: Callable[[str], str], bold: str) -> str:
        """A value: bold if it is the best of its column, marked if it ties with the best."""
        value, column = self.values[heading, method], self.columns[heading]
        means = [self.values[heading, other].mean for other in self.methods]
        ranked = all(metric_of(task).direction == "higher" for task, _ in column)
        if (
            ranked
            and value.mean is not None
            and value.mean == max(m for m in means if m is not None)
        ):
            return bold.format(escaped(str(value)))
        tied = ranked and self.p_holm.get(heading, {}).get(method, 0.0) > LEVEL
        return escaped(f"{value} {TIED}" if tied else str(value))

    def _published(self) -> list[tuple[str, list[str]]]:
        """Rows of published tables that have a number of a column's tasks and protocol."""
        headings = {self._address(name, scores): name for name, scores in self.columns.items()}
        rows = []
        for published in self.beside:
            for row in published.rows:
                cells: dict[str, str] = {}
                for cell in (c for c in published.cells if c.row == row and c.points is not None):
                    path = score_path(cell.metric, cell.aggregation)
                    scores = [(self.registry.tasks[task], path) for task in cell.tasks]
                    address = self._address(cell.column.label, scores)
                    if address in headings:
                        cells[headings[address]] = printed(cell)
                if cells:
                    label = f"{row.name} ({published.paper}, {published.table})"
                    rows.append((label, [cells.get(heading, "–") for heading in self.columns]))
        return rows

    def _address(self, heading: str, scores: Iterable[tuple[Task, ScorePath]]) -> frozenset[Any]:
        """The scores of a column, by which a published number of the same protocol is found.

        The pairs of a task of one set have the same score under every aggregation. A column that
        fits no task is found by its heading.
        """
        return frozenset(
            (task.name, (*path[:-1], "all") if self._is_single_set(task, path) else path)
            for task, path in scores
        ) or frozenset([heading])

    def _is_single_set(self, task: Task, path: ScorePath) -> bool:
        """Whether the records of a task have a correlation of one set of pairs."""
        if path[-1] not in AGGREGATIONS:
            return False
        by_cell = self.results.by_cell
        records = [r for method in self.methods for r in by_cell.get((method, task.name), ())]
        groups = [record.scores[path[0]]["groups"] for record in records[:1]]
        return any(len(names) == 1 for names in groups)

    def caption(self) -> list[str]:
        """Protocol, seeds, fit corpora, marks and digests, a sentence each."""
        scored = [column[0] for column in self.columns.values() if len(column) == 1]
        sentences = []
        for path in dict.fromkeys(path for _, path in scored):
            names: dict[str, list[str]] = {}
            for task in (task for task, other in scored if other == path):
                protocol = f"{task.text} text, {'+'.join(task.scored)} split"
                names.setdefault(protocol, []).append(task.name)
            described = (f"{', '.join(tasks)} ({protocol})" for protocol, tasks in names.items())
            score = path[0].capitalize() + (f" (`{path[1]}`)" if len(path) > 1 else "")
            sentences.append(f"{score} ×100 on {'; '.join(described)}.")
        for heading, scores in self.columns.items():
            if len(scores) > 1 and heading != AVERAGE:
                mean_of = ", ".join(" ".join((task.name, *path[1:])) for task, path in scores)
                sentences.append(f"{heading}: the mean of {mean_of}.")
        counts = {self.values[key].seeds for key in self.values if self.values[key].seeds > 1}
        if counts:
            seeds = " or ".join(map(str, sorted(counts)))
            sentences.append(f"Mean ± standard deviation over {seeds} seeds.")
        for corpus in dict.fromkeys(m.partition("@")[2] for m in self.methods if "@" in m):
            meaning = TARGETS.get(corpus) or self.registry.corpora[corpus].note
            dagger = f" ({DAGGER})" if is_transductive(f"@{corpus}") else ""
            sentences.append(f"`@{corpus}`: fitted on {meaning}{dagger}.")
        if self.p_holm:
            sentences.append(
                f"Bold: best; {TIED}: not distinguishable from it (paired bootstrap over pairs "
                f"and seeds, Holm's correction in each column, {LEVEL:.0%})."
            )
        every = (heading for heading, scores in self.columns.items() if scores)
        if untested := [heading for heading in every if heading not in self.p_holm]:
            why = "their scores are not resampled, or similarities do not lie beside the records"
            which = ", ".join(untested) if self.p_holm else "the differences"
            sentences.append(f"Not tested: {which}, since {why}.")
        digests = {
            record.digests["data"][:SHOWN]: None
            for task, _ in scored
            for record in self.results.records(self.methods[0], task.name)
        }
        sentences.append(
            f"Data: sha256 {', '.join(digests)}; records: {self.records.digest()[:SHOWN]}."
        )
        return sentences
