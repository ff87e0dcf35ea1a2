"""What a run prints: each score as it comes with its published numbers, and a table of all."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import shorten

from harness.cli.options import say, terminal_width
from harness.core.terminal import text_table
from harness.core.types import Record
from harness.evaluation.run import Outcome
from harness.registry import Registry
from harness.report.coverage import percentage
from harness.report.paper_tables import printed_number
from harness.results.index import Results, main_path, main_score, value
from harness.results.published import PublishedCell, Table, score_path
from harness.results.records import Store
from harness.results.reproduction import (
    MEASURED_AS,
    Reproduction,
    low_coverage,
    reproduce,
)
from harness.results.same_files import add_registered_ids, as_registered
from harness.results.verdict import CellState

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")
OUTCOME_HEADER = (
    "method",
    "task",
    "metric",
    "measured",
    "published",
    "verdict",
    "published cell",
)
NUMBERS_SHOWN = 3  # published ones in the line of a score; the table has all


@dataclass(kw_only=True)
class Printer:
    """Prints outcomes as they come, with the published numbers of their methods and tasks.

    Attributes:
        store: The records of the run.
        registry: The methods and tasks.
        tables: The published tables.
        as_json: Whether a program reads the lines.
        quiet: Whether only the table is printed.
        cells_left: The number of cells that are to come for each method. A method then
            gets one line, once its last cell came; without it each cell gets one.
        records: The records so far, by method and task.
    """

    store: Store
    registry: Registry
    tables: Sequence[Table]
    as_json: bool = False
    quiet: bool = False
    cells_left: Counter[str] | None = None
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)

    def outcome(self, outcome: Outcome) -> None:
        """Print one cell as it comes; of one without a record the end tells why."""
        record, cell = outcome.record, outcome.cell
        if record is not None:
            self.records.setdefault((record.method, record.task), []).append(record)
        if self.cells_left is not None:
            self._count(outcome, self.cells_left)
        if record is None:
            return
        if self.as_json:
            say(json.dumps({name: getattr(record, name) for name in JSON_FIELDS}))
        elif not self.quiet and self.cells_left is None:
            numbers = "; ".join(
                [score_in_words(record), *self._published_in_words(record)]
            )
            path = self.store.path(cell)
            if not path.exists():
                path = self.store.committed_path(cell.method)
            say(f"{cell}: {numbers} -> {path}")

    def _published_in_words(self, record: Record) -> list[str]:
        """The published numbers of a record's cell in words, first those of its main score."""
        methods = [record.method]
        registered = as_registered(record, self.registry)
        if registered is not None:
            methods.append(registered.method)
        cells: list[PublishedCell] = []
        for method in methods:
            cells += self._published.get((method, record.task), ())
        judged = self._judged(cells)
        judged.sort(key=lambda number: _other_score(record, number) != "")
        words = []
        for number in judged[:NUMBERS_SHOWN]:
            verdict = f"published {printed_number(number.cell)}, {number.state} ({number.cell.id})"
            words.append(f"{_other_score(record, number)}{verdict}")
        if len(judged) > NUMBERS_SHOWN:
            words.append(f"{len(judged) - NUMBERS_SHOWN} more below")
        return words

    def _count(self, outcome: Outcome, cells_left: Counter[str]) -> None:
        """Count a cell of a method; print the method's line when the last one came."""
        method = outcome.cell.method
        cells_left[method] -= 1
        if cells_left[method] == 0 and not self.quiet:
            line = self._method_line(method)
            if line:
                say(shorten(line, terminal_width() or len(line), placeholder=" …"))

    def _method_line(self, method: str) -> str:
        """The mean over seeds of a method's main score on each task; empty without a score."""
        scores = []
        for (name, task), records in self.records.items():
            if name == method:
                mean = value([main_score(record.scores)[1] for record in records])
                scores.append(f"{task} {mean}")
        return f"{method}: {', '.join(scores)}" if scores else ""

    def table(self) -> str:
        """Every score of the run: each published number for it on a row, or a row without one."""
        judged = self._judged(self._published_cells)
        rows = [self._published_row(reproduction) for reproduction in judged]
        with_number = {row[:2] for row in rows}
        for (method, task), records in self.records.items():
            if (method, task) not in with_number:
                metric = main_score(records[0].scores)[0]
                mean = value([main_score(record.scores)[1] for record in records])
                rows.append(
                    (method, task, metric, f"{mean}{_remarks(records)}", "", "", "")
                )
        rows.sort(key=lambda row: row[:2])
        if judged:
            return text_table(rows, OUTCOME_HEADER, terminal_width())
        count = OUTCOME_HEADER.index("published")  # the columns that are filled
        return text_table(
            [row[:count] for row in rows], OUTCOME_HEADER[:count], terminal_width()
        )

    def _published_row(self, reproduction: Reproduction) -> tuple[str, ...]:
        cell, score = reproduction.cell, reproduction.measured
        method = self._measured_as(cell)
        records: list[Record] = []
        for task in cell.tasks:
            records += self.records.get((method, task), [])
        return (
            method,
            cell.task or f"average of {len(cell.tasks)}",
            _metric(cell),
            "–" if score is None else f"{score:.2f}{_remarks(records)}",
            printed_number(cell),
            str(reproduction.state),
            cell.id,
        )

    def _measured_as(self, cell: PublishedCell) -> str:
        """The id that a published cell was measured under: of an encoder with the same files."""
        records = self._named().by_cell.get((str(cell.method), cell.tasks[0]), ())
        return str(
            records[0].facts.get(MEASURED_AS, cell.method) if records else cell.method
        )

    def _named(self) -> Results:
        """The records so far, those of a registered encoder's files under its ids, too."""
        return add_registered_ids(Results(self.records), self.registry)

    def same_encoders(self) -> list[str]:
        """A line for each encoder with a registered one's files and published numbers."""
        lines = {}
        for reproduction in self._judged(self._published_cells):
            method = self._measured_as(reproduction.cell)
            if method == reproduction.cell.method:
                continue
            encoder = _encoder_of(method)
            registered = _encoder_of(str(reproduction.cell.method))
            lines[encoder] = (
                f"{encoder} has the weights and tokenizer of {registered}: what is published for "
                f"{registered} is shown"
            )
        return list(lines.values())

    def _judged(self, cells: Iterable[PublishedCell]) -> list[Reproduction]:
        """Those of the published numbers that the records so far answer, averages included."""
        results = self._named()
        answered = [
            cell
            for cell in cells
            if all((str(cell.method), task) in results.by_cell for task in cell.tasks)
        ]
        return [reproduce(cell, results, self.registry) for cell in answered]

    @cached_property
    def _published(self) -> Mapping[tuple[str | None, str], list[PublishedCell]]:
        """Every published score that a method reproduces, by that method and each task."""
        by_cell = defaultdict(list)
        for cell in self._published_cells:
            for task in cell.tasks:
                by_cell[cell.method, task].append(cell)
        return by_cell

    @cached_property
    def _published_cells(self) -> list[PublishedCell]:
        """Every published score that a method reproduces."""
        cells: list[PublishedCell] = []
        for table in self.tables:
            for cell in table.cells:
                if cell.method and cell.tasks and cell.points is not None:
                    cells.append(cell)
        return cells


def _encoder_of(method: str) -> str:
    """The encoder in a method's id, without a maximum length."""
    return re.split("[.:]", method)[0]


def _metric(cell: PublishedCell) -> str:
    return " ".join(filter(None, (cell.metric, cell.aggregation)))


def _other_score(record: Record, reproduction: Reproduction) -> str:
    """The measured score of a published number, unless that is the record's main score."""
    cell = reproduction.cell
    path = score_path(cell.metric, cell.aggregation)
    if not cell.average_of and path == main_path(record.scores):
        return ""
    average = f"average of {len(cell.tasks)}, " if cell.average_of else ""
    score = "–" if reproduction.measured is None else f"{reproduction.measured:.2f}"
    return f"{average}{_metric(cell)} {score}, "


def _remarks(records: Sequence[Record]) -> str:
    """The words in brackets after a score: why it is undefined, or how few tokens are known."""
    remarks = [
        str(record.facts["undefined"])
        for record in records
        if "undefined" in record.facts
    ]
    share = low_coverage(records)
    if share is not None:
        remarks.append(f"{percentage(share)} of tokens known")
    return f" ({', '.join(dict.fromkeys(remarks))})" if remarks else ""


def score_in_words(record: Record) -> str:
    """A record's main score, as a run prints it, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        why = record.facts.get("undefined")
        return f"{CellState.UNDEFINED}: {why}" if why else CellState.UNDEFINED
    name = "Spearman" if metric == "spearman" else metric
    return f"{name} {score:.2f}{_remarks([record])}"
