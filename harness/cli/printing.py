"""What a run prints: each score with its published numbers, and a table of all.

The printer keeps the records of the run. A published number is looked up by the method
and the task that reproduce it. If the encoder of a record has the same weights and
tokenizer as a registered encoder, the record is also compared with the published numbers
of the registered one (`results.same_files`).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import cached_property
from textwrap import shorten

from harness.cli.options import say, terminal_width
from harness.core.terminal import text_table, wrapped
from harness.core.types import Record
from harness.evaluation.run import Outcome
from harness.registry import Registry
from harness.report.coverage import percentage
from harness.report.papers import printed_number
from harness.results.index import Results, Value, main_path, main_score, value
from harness.results.published import PublishedCell, Table, score_path
from harness.results.records import Cell
from harness.results.reproduction import (
    MEASURED_AS,
    Reproduction,
    low_coverage,
    reproduce,
)
from harness.results.same_files import add_registered_ids, as_registered
from harness.results.store import Store
from harness.results.verdict import CellState

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")
WIDTH_OF_LOGS = 150  # of the line of a method that no terminal shows
NUMBERS_SHOWN = 3  # published numbers in the line of a score; the table has all


@dataclass(frozen=True)
class OutcomeRow:
    """A row of the table of all scores; empty texts where no number is published."""

    method: str
    task: str
    metric: str
    measured: str
    published: str = ""
    verdict: str = ""
    published_cell: str = ""


OUTCOME_HEADER = tuple(column.name.replace("_", " ") for column in fields(OutcomeRow))


@dataclass(kw_only=True)
class Printer:
    """Prints outcomes as they come, with the published numbers of their methods and tasks.

    Attributes:
        store: The records of the run.
        registry: The methods and tasks.
        tables: The published tables.
        as_json: Whether a program reads the lines.
        quiet: Whether only the table is printed.
        cells_left: The number of cells that are still to come of each method. With it a
            method gets one line, after its last cell; without it each cell gets a line.
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
        """Print a cell when it is done. A cell without a record prints nothing here."""
        record = outcome.record
        if record is not None:
            self.records.setdefault((record.method, record.task), []).append(record)
        if self.cells_left is not None:
            self._count_down(outcome.cell.method, self.cells_left)
        if record is None:
            return
        if self.as_json:
            facts = {name: getattr(record, name) for name in JSON_FIELDS}
            say(json.dumps(facts))
        elif not self.quiet and self.cells_left is None:
            self._say_cell(outcome.cell, record)

    def _say_cell(self, cell: Cell, record: Record) -> None:
        """Print a cell's score, what is published for it, and the file of its record."""
        numbers = [score_in_words(record), *self._published_in_words(record)]
        path = self.store.path(cell)
        if not path.exists():
            path = self.store.committed_path(cell.method)
        say(f"{cell}: {'; '.join(numbers)} -> {path}")

    def _count_down(self, method: str, cells_left: Counter[str]) -> None:
        """Count a cell of a method; after its last one, print the line of the method."""
        cells_left[method] -= 1
        if cells_left[method] > 0 or self.quiet:
            return
        line = self._method_line(method)
        if not line:
            return
        width = terminal_width()
        if width is None:
            line = wrapped(line, WIDTH_OF_LOGS)
        else:
            line = shorten(line, width, placeholder=" …")
        say(line)

    def _method_line(self, method: str) -> str:
        """The mean over seeds of a method's main score on each task; empty without a score."""
        scores = []
        for (measured_method, task), records in self.records.items():
            if measured_method == method:
                scores.append(f"{task} {_mean_main_score(records)}")
        return f"{method}: {', '.join(scores)}" if scores else ""

    def _published_in_words(self, record: Record) -> list[str]:
        """The published numbers of a record's cell in words.

        Those of the record's main score come first. A number of another score says which.
        """
        methods = [record.method]
        registered_record = as_registered(record, self.registry)
        if registered_record is not None:
            methods.append(registered_record.method)
        cells: list[PublishedCell] = []
        for method in methods:
            cells += self._published_by_cell.get((method, record.task), ())
        numbers = self._reproductions(cells)
        numbers.sort(key=lambda number: _other_score(record, number) != "")
        phrases = []
        for number in numbers[:NUMBERS_SHOWN]:
            other_score = _other_score(record, number)
            published = printed_number(number.cell)
            phrases.append(
                f"{other_score}published {published}, {number.state} ({number.cell.id})"
            )
        hidden_count = len(numbers) - NUMBERS_SHOWN
        if hidden_count > 0:
            phrases.append(f"{hidden_count} more below")
        return phrases

    def table(self) -> str:
        """All scores of the run in a table.

        A score has a row for each number that is published for it, or one row without.
        Without any published number the table has no columns for them.
        """
        reproductions = self._reproductions(self._published_cells)
        rows = [self._published_row(reproduction) for reproduction in reproductions]
        cells_with_number = {(row.method, row.task) for row in rows}
        for (method, task), records in self.records.items():
            if (method, task) not in cells_with_number:
                metric, _ = main_score(records[0].scores)
                score = f"{_mean_main_score(records)}{_remarks(records)}"
                rows.append(OutcomeRow(method, task, metric, score))
        rows.sort(key=lambda row: (row.method, row.task))
        column_count = len(OUTCOME_HEADER)
        if not reproductions:
            column_count = OUTCOME_HEADER.index("published")
        texts = [astuple(row)[:column_count] for row in rows]
        return text_table(texts, OUTCOME_HEADER[:column_count], terminal_width())

    def _published_row(self, reproduction: Reproduction) -> OutcomeRow:
        """The row of a published number."""
        cell = reproduction.cell
        method = self._measured_method(cell)
        records: list[Record] = []
        for task in cell.tasks:
            records += self.records.get((method, task), [])
        score = "–"
        if reproduction.measured is not None:
            score = f"{reproduction.measured:.2f}{_remarks(records)}"
        return OutcomeRow(
            method=method,
            task=cell.task if cell.task else f"average of {len(cell.tasks)}",
            metric=_metric(cell),
            measured=score,
            published=printed_number(cell),
            verdict=str(reproduction.state),
            published_cell=cell.id,
        )

    def same_encoders(self) -> list[str]:
        """A line for each encoder that has the files of a registered, published encoder."""
        lines = {}
        for reproduction in self._reproductions(self._published_cells):
            method = self._measured_method(reproduction.cell)
            if method == reproduction.cell.method:
                continue
            encoder = _encoder_of(method)
            registered = _encoder_of(str(reproduction.cell.method))
            lines[encoder] = (
                f"{encoder} has the weights and tokenizer of {registered}: what is published for "
                f"{registered} is shown"
            )
        return list(lines.values())

    # Records against published numbers

    def _measured_method(self, cell: PublishedCell) -> str:
        """The method that was measured for a published number.

        It differs from the published method where the run's encoder has another name
        and the same files.
        """
        records = self._results().by_cell.get((str(cell.method), cell.tasks[0]), ())
        if not records:
            return str(cell.method)
        return str(records[0].facts.get(MEASURED_AS, cell.method))

    def _results(self) -> Results:
        """The records so far, also under the ids of registered encoders with the same files."""
        return add_registered_ids(Results(self.records), self.registry)

    def _reproductions(self, cells: Iterable[PublishedCell]) -> list[Reproduction]:
        """The published numbers that have records on all of their tasks, with verdicts."""
        results = self._results()
        reproductions = []
        for cell in cells:
            method = str(cell.method)
            if all((method, task) in results.by_cell for task in cell.tasks):
                reproductions.append(reproduce(cell, results, self.registry))
        return reproductions

    @cached_property
    def _published_by_cell(
        self,
    ) -> Mapping[tuple[str | None, str], list[PublishedCell]]:
        """The published numbers of each method and task; an average is under all of its tasks."""
        by_cell = defaultdict(list)
        for cell in self._published_cells:
            for task in cell.tasks:
                by_cell[cell.method, task].append(cell)
        return by_cell

    @cached_property
    def _published_cells(self) -> list[PublishedCell]:
        """The published numbers that a method reproduces."""
        cells: list[PublishedCell] = []
        for table in self.tables:
            for cell in table.cells:
                if cell.method and cell.tasks and cell.points is not None:
                    cells.append(cell)
        return cells


def score_in_words(record: Record) -> str:
    """A record's main score, as a run prints it, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        reason = record.facts.get("undefined")
        if not reason:
            return CellState.UNDEFINED
        return f"{CellState.UNDEFINED}: {reason}"
    name = "Spearman" if metric == "spearman" else metric
    return f"{name} {score:.2f}{_remarks([record])}"


def _mean_main_score(records: Sequence[Record]) -> Value:
    """Mean and spread of the main score over the seeds of a cell."""
    return value([main_score(record.scores)[1] for record in records])


def _other_score(record: Record, reproduction: Reproduction) -> str:
    """The measured score of a published number; empty if it is the record's main score."""
    cell = reproduction.cell
    path = score_path(cell.metric, cell.aggregation)
    if not cell.average_of and path == main_path(record.scores):
        return ""
    average = ""
    if cell.average_of:
        average = f"average of {len(cell.tasks)}, "
    score = "–"
    if reproduction.measured is not None:
        score = f"{reproduction.measured:.2f}"
    return f"{average}{_metric(cell)} {score}, "


def _metric(cell: PublishedCell) -> str:
    """Metric and aggregation of a published number, as far as it states them."""
    return " ".join(word for word in (cell.metric, cell.aggregation) if word)


def _remarks(records: Sequence[Record]) -> str:
    """The words in brackets after a score: why it is undefined, or how few tokens are known."""
    remarks: dict[str, None] = {}  # each once, in order
    for record in records:
        if "undefined" in record.facts:
            remarks[str(record.facts["undefined"])] = None
    known_share = low_coverage(records)
    if known_share is not None:
        remarks[f"{percentage(known_share)} of tokens known"] = None
    return f" ({', '.join(remarks)})" if remarks else ""


def _encoder_of(method: str) -> str:
    """The encoder in a method's id, without a maximum length."""
    return re.split("[.:]", method)[0]
