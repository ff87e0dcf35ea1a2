"""The first table of README and page: published rows, each above what was measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.report.markdown import MISSING_NUMBER, escape, table
from harness.report.sentences import metric_in_words
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.published import Row, Table
from harness.results.reproduction import Reproduction
from harness.results.scorings import TASK_LABELS

FEWEST_TASKS = 5  # of the seven, for a row to be shown


@dataclass(frozen=True)
class FirstRow:
    """A published row on the seven tasks, a text for each task.

    Attributes:
        label: The name of the row.
        published: The printed numbers.
        measured: The numbers that were measured here.
        verdict: The verdicts on them, each once.
    """

    label: str
    published: Sequence[str]
    measured: Sequence[str]
    verdict: str


@dataclass(frozen=True)
class FirstTable:
    """Rows of one published table under its own metric; models of the papers' size come first."""

    table: Table
    rows: Sequence[FirstRow]

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings of the seven tasks."""
        return tuple(TASK_LABELS.values())

    @property
    def metric(self) -> str:
        """The metric of the published table in words."""
        return metric_in_words(self.table.metric)

    def markdown(self, tables: str) -> str:
        """A sentence and the table; `tables` is the folder that the pages of tables are in."""
        title = f"[{escape(self.table.title)}]({tables}/{self.table.id}.md)"
        lines = []
        for row in self.rows:
            lines.append([f"**{escape(row.label)}**, published", *row.published])
            lines.append([f"measured here: {row.verdict}", *row.measured])
        rows = table([self.metric, *self.headings], lines)
        return f"{title}, published and measured here:\n\n{rows}"


@dataclass(frozen=True)
class _Candidate:
    """The rows of a published table that were measured on most of the seven tasks."""

    paper_table: Table
    rows: Sequence[Row]  # with the largest encoder first
    size: int  # of the largest encoder, as `_size_rank` has it


def first_table(folder: ResultsFolder) -> FirstTable | None:
    """The published table with most rows that were measured on most of the seven tasks.

    None where no row was. Of tables with as many such rows it is the one with the
    largest model.
    """
    candidates = []
    for paper_table in folder.tables:
        rows = []
        for row in paper_table.rows:
            if len(_measured_cells(row, paper_table, folder)) >= FEWEST_TASKS:
                rows.append(row)
        rows.sort(key=lambda row: _size_rank(row, folder))
        if rows:
            size = _size_rank(rows[0], folder)
            candidates.append(_Candidate(paper_table, rows, size))
    if not candidates:
        return None
    best = min(candidates, key=lambda candidate: (-len(candidate.rows), candidate.size))
    first_rows = [_first_row(row, best.paper_table, folder) for row in best.rows]
    return FirstTable(best.paper_table, first_rows)


def _size_rank(row: Row, folder: ResultsFolder) -> int:
    """The size of a row's encoder as a number; the largest encoders have 0."""
    encoder = base_name(str(row.method).partition(".")[0])
    return list(EncoderSize).index(folder.encoder_sizes[encoder])


def _measured_cells(
    row: Row, paper_table: Table, folder: ResultsFolder
) -> dict[str, Reproduction]:
    """The measured cells of a row under the metric of its table, by the name of the task.

    They are those of the seven tasks on their test splits; a task in another text form
    counts as the task.
    """
    measured_cells = {}
    for reproduction in folder.reproductions(paper_table).values():
        cell = reproduction.cell
        task, _, form_or_split = str(cell.task).partition(".")
        is_in_row = cell.row.id == row.id and cell.metric == paper_table.metric
        is_scored_task = task in TASK_LABELS and form_or_split not in ("dev", "train")
        if is_in_row and is_scored_task and reproduction.scores:
            measured_cells[task] = reproduction
    return measured_cells


def _first_row(row: Row, paper_table: Table, folder: ResultsFolder) -> FirstRow:
    """A row with two decimals, and the verdicts that its numbers have."""
    cells = _measured_cells(row, paper_table, folder)
    published, measured = [], []
    for task in TASK_LABELS:
        cell = cells.get(task)
        if cell is None:
            published.append(MISSING_NUMBER)
            measured.append(MISSING_NUMBER)
        else:
            published.append(_two_decimals(cell.cell.points))
            measured.append(_two_decimals(cell.measured))
    verdicts = dict.fromkeys(str(cell.state) for cell in cells.values())
    return FirstRow(
        label=row.label,
        published=published,
        measured=measured,
        verdict=", ".join(verdicts),
    )


def _two_decimals(points: float | None) -> str:
    return MISSING_NUMBER if points is None else f"{points:.2f}"
