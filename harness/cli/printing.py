"""What a run prints: each score as it comes with its published numbers, and a table of all."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from textwrap import shorten

from harness.cli.options import say, terminal_width
from harness.core.terminal import text_table
from harness.core.types import Record
from harness.evaluation.run import Outcome
from harness.registry import Registry
from harness.report.coverage import percentage
from harness.report.paper_tables import printed
from harness.results.index import Results, main_path, main_score, value
from harness.results.published import PublishedCell, Table, score_path
from harness.results.records import Store
from harness.results.reproduction import MEASURED_AS, Reproduction, low_coverage, reproduce
from harness.results.same_files import as_registered, with_registered
from harness.results.verdict import CellState

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")
OUTCOME_HEADER = ("method", "task", "metric", "measured", "published", "verdict", "published cell")
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
        cells_left: The number of cells that are to come for each method. A method then gets one
            line, once its last cell came; without it each cell gets one.
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
            path = self.store.path(cell)
            place = path if path.exists() else self.store.committed_path(cell.method)
            say(f"{cell}: {'; '.join([shown_score(record), *self._numbers(record)])} -> {place}")

    def _numbers(self, record: Record) -> list[str]:
        """The published numbers of a record's cell in words, first those of its main score."""
        same_files = as_registered(record, self.registry)
        names = [record.method] if same_files is None else [record.method, same_files.method]
        cells = [self._published.get((name, record.task), ()) for name in names]
        judged = self._judged(chain.from_iterable(cells))
        judged.sort(key=lambda r: _other_score(record, r) != "")
        numbers = [
            f"{_other_score(record, number)}published {printed(number.cell)}, {number.state} "
            f"({number.cell.id})"
            for number in judged[:NUMBERS_SHOWN]
        ]
        if len(judged) > NUMBERS_SHOWN:
            numbers.append(f"{len(judged) - NUMBERS_SHOWN} more below")
        return numbers

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
                shown = value([main_score(record.scores)[1] for record in records])
                scores.append(f"{task} {shown}")
        return f"{method}: {', '.join(scores)}" if scores else ""

    def table(self) -> str:
        """Every score of the run: each published number for it on a row, or a row without one."""
        published = {cell.id: cell for cells in self._published.values() for cell in cells}
        judged = self._judged(published.values())
        with_number = {(self._measured_as(r.cell), r.cell.task) for r in judged}
        rows = [self._published_row(reproduction) for reproduction in judged]
        for name, records in self.records.items():
            if name not in with_number:
                scores = [main_score(record.scores) for record in records]
                score = value([score for _, score in scores])
                rows.append((*name, scores[0][0], f"{score}{_remarks(records)}", "", "", ""))
        rows.sort(key=lambda row: row[:2])
        columns = len(OUTCOME_HEADER) if judged else OUTCOME_HEADER.index("published")
        shown = [row[:columns] for row in rows]
        return text_table(shown, OUTCOME_HEADER[:columns], terminal_width())

    def _published_row(self, reproduction: Reproduction) -> tuple[str, ...]:
        cell, score = reproduction.cell, reproduction.measured
        method = self._measured_as(cell)
        records = [r for task in cell.tasks for r in self.records.get((method, task), [])]
        task = cell.task or f"average of {len(cell.tasks)}"
        metric = _metric(cell)
        measured = "–" if score is None else f"{score:.2f}{_remarks(records)}"
        state = str(reproduction.state)
        return method, task, metric, measured, printed(cell), state, cell.id

    def _measured_as(self, cell: PublishedCell) -> str:
        """The id that a published cell was measured under: of an encoder with the same files."""
        records = self._named().by_cell.get((str(cell.method), cell.tasks[0]), ())
        return str(records[0].facts.get(MEASURED_AS, cell.method) if records else cell.method)

    def _named(self) -> Results:
        """The records so far, those of a registered encoder's files under its ids, too."""
        return with_registered(Results(self.records), self.registry)

    def same_encoders(self) -> list[str]:
        """A line for each encoder with a registered one's files and published numbers."""
        published = {cell.id: cell for cells in self._published.values() for cell in cells}
        lines = {}
        for cell in (reproduction.cell for reproduction in self._judged(published.values())):
            given, registered = self._measured_as(cell), str(cell.method)
            if given != registered:
                given, registered = (re.split("[.:]", name)[0] for name in (given, registered))
                lines[given] = (
                    f"{given} has the weights and tokenizer of {registered}: what is published for "
                    f"{registered} is shown"
                )
        return [*lines.values()]

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
        for cell in (cell for published in self.tables for cell in published.cells):
            for task in cell.tasks if cell.method and cell.points is not None else ():
                by_cell[cell.method, task].append(cell)
        return by_cell


def _metric(cell: PublishedCell) -> str:
    return " ".join(filter(None, (cell.metric, cell.aggregation)))


def _other_score(record: Record, reproduction: Reproduction) -> str:
    """The measured score of a published number, unless that is the record's main score."""
    cell, score = reproduction.cell, reproduction.measured
    if not cell.average_of and score_path(cell.metric, cell.aggregation) == main_path(
        record.scores
    ):
        return ""
    average = f"average of {len(cell.tasks)}, " if cell.average_of else ""
    return f"{average}{_metric(cell)} {'–' if score is None else f'{score:.2f}'}, "


def _remarks(records: Sequence[Record]) -> str:
    """The words in brackets after a score: why it is undefined, or how few tokens are known."""
    remarks = [str(record.facts["undefined"]) for record in records if "undefined" in record.facts]
    share = low_coverage(records)
    if share is not None:
        remarks.append(f"{percentage(share)} of tokens known")
    return f" ({', '.join(dict.fromkeys(remarks))})" if remarks else ""


def shown_score(record: Record) -> str:
    """A record's main score, as a run prints it, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        why = record.facts.get("undefined")
        return f"{CellState.UNDEFINED}: {why}" if why else CellState.UNDEFINED
    name = "Spearman" if metric == "spearman" else metric
    return f"{name} {score:.2f}{_remarks([record])}"
