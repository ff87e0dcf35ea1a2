"""A table of methods by tasks for a paper: mean and spread, the best marked, a caption with all.

The numbers are those of records; what is distinguishable was tested before
(`harness.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from harness.core.metrics import metric_of
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


# By heading: the scores of a column, each a task and where its records hold the score.
ScoreColumns = Mapping[str, Sequence[tuple[Task, tuple[str, ...]]]]


def columns_of_tasks(tasks: Sequence[Task], aggregation: str) -> ScoreColumns:
    """A column for the main score of each task, and their average where all are of one kind."""
    paths = {}
    for task in tasks:
        path = metric_of(task).main_score
        paths[task] = (*path[:-1], aggregation) if path[-1] in AGGREGATIONS else path
    columns = {task.name: [(task, path)] for task, path in paths.items()}
    same = len(set(paths.values())) == 1 < len(tasks)
    return {**columns, "Avg.": [*paths.items()]} if same else columns


@dataclass(frozen=True)
class MethodTable:
    """Methods, and columns by heading; `p_holm` is that of each method against a column's best.

    `beside` are published tables whose rows of the same protocol stand below.
    """

    methods: Sequence[str]
    columns: ScoreColumns
    results: Results
    p_holm: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    beside: Sequence[Table] = ()

    @cached_property
    def values(self) -> Mapping[tuple[str, str], Value]:
        """Every value, by heading and method."""
        return {
            (heading, method): column_value(self.results, method, scores)
            for heading, scores in self.columns.items()
            for method in self.methods
        }

    def markdown(self, registry: Registry) -> str:
        """The table and its caption."""
        rows = [
            [label(m), *(self.cell(h, m, escape, "**{}**") for h in self.columns)]
            for m in self.methods
        ]
        rows += [[escape(name), *cells] for name, cells in self._published()]
        caption = " ".join(self.caption(registry))
        return "\n\n".join([table(["method", *self.columns], rows), escape(caption)])

    def latex(self, registry: Registry) -> str:
        """The table in LaTeX, for the package booktabs; the digest of its records is a comment."""
        bold = r"\textbf{{{}}}"
        measured = [
            [latex_escape(label(m)), *(self.cell(h, m, latex_escape, bold) for h in self.columns)]
            for m in self.methods
        ]
        published = [[latex_escape(name), *row] for name, row in self._published()]
        groups = [map(latex_line, rows) for rows in (measured, published) if rows]
        head = ["method", *self.columns]
        caption = latex_escape(" ".join(self.caption(registry)))
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                booktabs(f"l{'r' * len(self.columns)}", head, groups),
                rf"\caption{{{caption}}}",
                r"\end{table}",
                comment(f"Records: sha256 {self.results.digest()}"),
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
        """Rows of published tables that have a number of a column's task and protocol."""
        rows = []
        for published in self.beside:
            for row in published.rows:
                cells: dict[str, str] = {}
                for cell in (c for c in published.cells if c.row == row and c.metric):
                    address = cell.task, score_path(cell.metric, cell.aggregation)
                    cells |= {
                        heading: printed(cell)
                        for heading, [(task, path), *others] in self.columns.items()
                        if not others and address == (task.name, path)
                    }
                if cells:
                    label = f"{row.name} ({published.paper}, {published.table})"
                    rows.append((label, [cells.get(heading, "–") for heading in self.columns]))
        return rows

    def caption(self, registry: Registry) -> list[str]:
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
        counts = {self.values[key].seeds for key in self.values if self.values[key].seeds > 1}
        if counts:
            seeds = " or ".join(map(str, sorted(counts)))
            sentences.append(f"Mean ± standard deviation over {seeds} seeds.")
        for corpus in dict.fromkeys(m.partition("@")[2] for m in self.methods if "@" in m):
            meaning = TARGETS.get(corpus) or registry.corpora[corpus].note
            dagger = f" ({DAGGER})" if is_transductive(f"@{corpus}") else ""
            sentences.append(f"`@{corpus}`: fitted on {meaning}{dagger}.")
        if self.p_holm:
            sentences.append(
                f"Bold: best; {TIED}: not distinguishable from it (paired bootstrap over pairs, "
                f"seed 0, Holm's correction in each column, {LEVEL:.0%})."
            )
        if untested := [heading for heading in self.columns if heading not in self.p_holm]:
            why = "their scores are not resampled, or similarities do not lie beside the records"
            which = ", ".join(untested) if self.p_holm else "the differences"
            sentences.append(f"Not tested: {which}, since {why}.")
        digests = {
            record.digests["data"][:SHOWN]: None
            for task, _ in scored
            for record in self.results.records(self.methods[0], task.name)
        }
        sentences.append(
            f"Data: sha256 {', '.join(digests)}; records: {self.results.digest()[:SHOWN]}."
        )
        return sentences
