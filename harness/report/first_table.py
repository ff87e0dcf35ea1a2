"""The first table of README and page: published rows, each above what was measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.report.markdown import MISSING_NUMBER, escape, table
from harness.report.sentences import metric_in_words
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import encoder_of_method
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
    """Rows of one published table under its own metric, the row of the largest model first."""

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
        cells_by_row = _measured_cells(paper_table, folder)
        rows = []
        for row in paper_table.rows:
            if len(cells_by_row[row.id]) >= FEWEST_TASKS:
                rows.append(row)
        rows.sort(key=lambda row: _size_rank(row, folder))
        if rows:
            size = _size_rank(rows[0], folder)
            candidates.append(_Candidate(paper_table, rows, size))
    if not candidates:
        return None
    best = min(candidates, key=lambda candidate: (-len(candidate.rows), candidate.size))
    cells_by_row = _measured_cells(best.paper_table, folder)
    first_rows = [_first_row(row, cells_by_row[row.id]) for row in best.rows]
    return FirstTable(best.paper_table, first_rows)


def _size_rank(row: Row, folder: ResultsFolder) -> int:
    """The size of a row's encoder as a number; the largest encoders have 0."""
    encoder = base_name(encoder_of_method(str(row.method)))
    return list(EncoderSize).index(folder.encoder_sizes[encoder])


# The measured cells of a row, by the name of the task.
MeasuredCells = Mapping[str, Reproduction]


def _measured_cells(
    paper_table: Table, folder: ResultsFolder
) -> Mapping[str, MeasuredCells]:
    """The measured cells of each row on the seven tasks, by the row's id.

    They are under the metric of the table, on the test splits. A task in another text
    form counts as the task.
    """
    cells_by_row: dict[str, dict[str, Reproduction]] = {}
    for row in paper_table.rows:
        cells_by_row[row.id] = {}
    for reproduction in folder.reproductions(paper_table).values():
        cell = reproduction.cell
        task, _, form_or_split = str(cell.task).partition(".")
        is_scored_task = task in TASK_LABELS and form_or_split not in ("dev", "train")
        is_shown = is_scored_task and cell.metric == paper_table.metric
        if is_shown and reproduction.scores:
            cells_by_row[cell.row.id][task] = reproduction
    return cells_by_row


def _first_row(row: Row, reproductions: MeasuredCells) -> FirstRow:
    """A row with two decimals, and the verdicts that its numbers have."""
    published, measured = [], []
    for task in TASK_LABELS:
        reproduction = reproductions.get(task)
        if reproduction is None:
            published.append(MISSING_NUMBER)
            measured.append(MISSING_NUMBER)
        else:
            published.append(_two_decimals(reproduction.cell.points))
            measured.append(_two_decimals(reproduction.measured))
    verdicts = dict.fromkeys(
        str(reproduction.state) for reproduction in reproductions.values()
    )
    return FirstRow(
        label=row.label,
        published=published,
        measured=measured,
        verdict=", ".join(verdicts),
    )


def _two_decimals(points: float | None) -> str:
    return MISSING_NUMBER if points is None else f"{points:.2f}"
