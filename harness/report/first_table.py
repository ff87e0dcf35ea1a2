"""The table that README and page begin with: rows of a published table, ours beneath each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.report.markdown import escape, table
from harness.report.sentences import metric
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.published import Row, Table
from harness.results.reproduction import Reproduction
from harness.results.scorings import TASK_LABELS

FEWEST_TASKS = 5  # of the seven, for a row to be shown
HOLE = "–"  # where a row has no number, or nothing was measured


@dataclass(frozen=True)
class FirstRow:
    """A published row on the seven tasks: the printed numbers, ours, and what ours are called."""

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
        """Those of the seven tasks."""
        return tuple(TASK_LABELS.values())

    @property
    def metric(self) -> str:
        """Its metric in words."""
        return metric(self.table.metric)

    def markdown(self, tables: str) -> str:
        """A sentence and the table; `tables` is the folder that the pages of tables are in."""
        title = f"[{escape(self.table.title)}]({tables}/{self.table.id}.md)"
        lines = []
        for row in self.rows:
            lines.append([f"**{escape(row.label)}**, published", *row.published])
            lines.append([f"measured here: {row.verdict}", *row.measured])
        rows = table([self.metric, *self.headings], lines)
        return f"{title}, published and measured here:\n\n{rows}"


def first_table(folder: ResultsFolder) -> FirstTable | None:
    """The published table with most rows that were measured on most of the seven tasks.

    None where no row was. Of tables with as many such rows it is the one with the
    largest model.
    """
    candidates = []
    for published in folder.tables:
        rows = [
            row
            for row in published.rows
            if len(_measured(row, published, folder)) >= FEWEST_TASKS
        ]
        if rows:
            rows.sort(key=lambda row: _order(row, folder))
            candidates.append((-len(rows), _order(rows[0], folder), published, rows))
    if not candidates:
        return None
    *_, published, rows = min(candidates, key=lambda candidate: candidate[:2])
    return FirstTable(published, [_first_row(row, published, folder) for row in rows])


def _order(row: Row, folder: ResultsFolder) -> int:
    """The place of the size of a row's encoder."""
    encoder = base_name(str(row.method).partition(".")[0])
    return [*EncoderSize].index(folder.encoder_sizes[encoder])


def _measured(
    row: Row, published: Table, folder: ResultsFolder
) -> dict[str, Reproduction]:
    """The measured numbers of a row under the metric of its table, by the name of the task."""
    cells = {}
    for reproduction in folder.reproductions(published).values():
        cell = reproduction.cell
        base, _, split = str(cell.task).partition(".")
        is_in_row = cell.row.id == row.id and cell.metric == published.metric
        if (
            is_in_row
            and reproduction.scores
            and base in TASK_LABELS
            and split not in ("dev", "train")
        ):
            cells[base] = reproduction
    return cells


def _first_row(row: Row, published: Table, folder: ResultsFolder) -> FirstRow:
    """A row as it is shown: two decimals, and the verdicts that its numbers have."""
    cells = _measured(row, published, folder)
    printed, measured = [], []
    for base in TASK_LABELS:
        points = cells[base].cell.points if base in cells else None
        score = cells[base].measured if base in cells else None
        printed.append(HOLE if points is None else f"{points:.2f}")
        measured.append(HOLE if score is None else f"{score:.2f}")
    verdicts = dict.fromkeys(str(cell.state) for cell in cells.values())
    return FirstRow(row.label, printed, measured, ", ".join(verdicts))
