"""Published tables beside what was measured for them: their pages, and what marks mean.

Below the published numbers of a row are the measured ones with their verdicts, and their
spread over seeds. `paper_sheet` makes the tables with legends and footnotes, which the
page of Markdown and the page of results print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.digests import digest_of, digest_of_repr
from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.render import Page
from harness.report.sentences import (
    fit_corpus_in_words,
    metric_in_words,
    notes_on_origin,
    training_data_in_words,
)
from harness.report.table import (
    HEADING,
    NO_BREAK_SPACE,
    ShownCell,
    ShownColumn,
    ShownRow,
    ShownTable,
)
from harness.results import published
from harness.results.folder import ResultsFolder
from harness.results.published import EVIDENCE, PublishedCell, reasons
from harness.results.reproduction import Reproduction, compose_method
from harness.results.verdict import CellState

CONTENTS_FILE = "CONTENTS.txt"
MOST_COLUMNS = 10  # of a table; one with more is split into a table for each metric
MOST_DECIMALS = 4  # shown of a printed number
LEAST_DECIMALS = 2  # shown of a measured number

DAGGER = "†"  # the mark of a transductive row
RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
VERDICT_MARKS: Mapping[CellState, str] = {
    CellState.EXACT: "=",
    CellState.MATCH: "≃",
    CellState.CLOSE: "∼",
    CellState.CONSISTENT: "±",
    CellState.DIFFERS: "≠",
    CellState.INCONCLUSIVE: "?",
    CellState.TOO_FEW_SEEDS: "…",
}
EVIDENCE_MARKS: Mapping[str, str] = {
    "confirmed": "●",
    "code": "◉",
    "paper": "○",
    "inferred": "△",
}

Reproductions = Mapping[str, Reproduction]  # by the id of the published cell


@dataclass(frozen=True)
class Sheet:
    """A published table as pages show it.

    Attributes:
        tables: Its numbers; in a table for each metric if it is wide.
        legend: What the marks in it mean.
        notes: The footnotes, then the notes on the whole table and on columns.
        rows: What each row holds, a sentence each.
    """

    tables: Sequence[ShownTable]
    legend: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[str]


@dataclass
class Footnotes:
    """The footnotes of a table, numbered in the order in which its rows refer to them."""

    mark_by_text: dict[str, str] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        """The mark of a footnote, which is added if it is new; no text has no mark."""
        if not text:
            return ""
        number = str(len(self.mark_by_text) + 1)
        return self.mark_by_text.setdefault(text, number.translate(RAISED_DIGITS))


def paper_page(table: published.Table, folder: ResultsFolder) -> Page:
    """The page of a published table."""
    sheet = paper_sheet(table, folder.reproductions(table), folder.registry)
    values = {"paper_table": table, "sheet": sheet, "title": table.title}
    return Page("paper.md", values, folder.records_of_table(table))


def paper_sheet(
    table: published.Table, reproductions: Reproductions, registry: Registry
) -> Sheet:
    """A published table with what was measured for it.

    Args:
        table: The published table.
        reproductions: Its cells, with what was measured for each.
        registry: Where methods are found by their ids.
    """
    footnotes = Footnotes()
    columns_by_title = {"": table.columns}
    if len(table.columns) > MOST_COLUMNS:
        columns_by_title = _columns_by_metric(table)
    tables = []
    for title, columns in columns_by_title.items():
        headings = [ShownColumn("row", is_text=True), ShownColumn("ev.", is_text=True)]
        for column in columns:
            label = column.label if title else _heading(table, column)
            headings.append(ShownColumn(label, key=column.id))
        rows = [*_rows(table, columns, reproductions, footnotes)]
        tables.append(
            ShownTable(columns=headings, rows=rows, title=title, key=table.id)
        )
    numbered = [f"{mark} {text}" for text, mark in footnotes.mark_by_text.items()]
    return Sheet(
        tables=tables,
        legend=_legend(table, reproductions),
        notes=[*numbered, *table.notes, *_notes_on_columns(table)],
        rows=[
            _description(row, table, reproductions, registry, footnotes)
            for row in table.rows
        ],
    )


def _columns_by_metric(
    table: published.Table,
) -> dict[str, tuple[published.Column, ...]]:
    """The columns of each metric in words."""
    columns: dict[str, tuple[published.Column, ...]] = {}
    for column in table.columns:
        metric = metric_in_words(column.metric or table.metric)
        columns[metric] = (*columns.get(metric, ()), column)
    return columns


def _heading(table: published.Table, column: published.Column) -> str:
    """A column's label, with its metric unless the table has the same or the label says it."""
    name = (column.metric or table.metric).replace("_", " ")
    if column.metric in (None, table.metric) or name in column.label:
        return column.label
    return f"{column.label} ({name})"


# Rows. The functions of a row have a `Reproduction` for each column; None where the row
# has no number in the column.


def _rows(
    table: published.Table,
    columns: Sequence[published.Column],
    reproductions: Reproductions,
    footnotes: Footnotes,
) -> Iterator[ShownRow]:
    """All rows in some columns, each group of rows below its heading."""
    group_above = None
    for row in table.rows:
        numbers = [
            reproductions.get(f"{table.id}/{row.id}/{column.id}") for column in columns
        ]
        shown = [number for number in numbers if number is not None]
        if not shown:
            continue
        if row.group and row.group != group_above:
            yield ShownRow([ShownCell(row.group)], HEADING)
        group_above = row.group
        yield _published_row(row, numbers, footnotes)
        if any(number.scores for number in shown):
            yield _measured_row(row, numbers, footnotes)
        if any(number.verdict.k for number in shown):
            spreads = [ShownCell(_spread(number)) for number in numbers]
            label = ShownCell(f"↳{NO_BREAK_SPACE}sd{NO_BREAK_SPACE}(seeds)")
            yield ShownRow([label, ShownCell(""), *spreads], "spread")


def _published_row(
    row: published.Row, numbers: Sequence[Reproduction | None], footnotes: Footnotes
) -> ShownRow:
    """The published numbers of a row, with the footnotes on the row and on its numbers."""
    notes = [_reason(row), row.note]
    evidence = ""
    for number in numbers:
        if number is not None:
            notes += notes_on_origin(number)
            evidence = evidence or EVIDENCE_MARKS.get(number.cell.evidence or "", "")
    marks = [footnotes.mark(note) for note in dict.fromkeys(notes) if note]
    label = f"{row.label}{DAGGER}" if row.transductive else row.label
    cells = [ShownCell(label, mark=NO_BREAK_SPACE.join(marks)), ShownCell(evidence)]
    for number in numbers:
        if number is None:
            cells.append(ShownCell(""))
        else:
            note = row.notes.get(number.cell.column.id, "")
            cells.append(
                ShownCell(printed_number(number.cell), mark=footnotes.mark(note))
            )
    return ShownRow(cells, "published", key=row.id)


def _measured_row(
    row: published.Row, numbers: Sequence[Reproduction | None], footnotes: Footnotes
) -> ShownRow:
    """The measured numbers of a row; a verdict that all of them have is in the label."""
    coverage: dict[str, float] = {}
    states = {}
    for number in numbers:
        if number is not None and number.coverage is not None:
            coverage[number.cell.column.label] = number.coverage
        if number is not None and number.measured is not None:
            states[number.state] = VERDICT_MARKS[number.state]
    shared_mark = next(iter(states.values())) if len(states) == 1 else ""
    label = f"↳{NO_BREAK_SPACE}measured"
    if shared_mark:
        label += f"{NO_BREAK_SPACE}{shared_mark}"
    note = coverage_note(coverage)
    cells = [
        ShownCell(label, mark=footnotes.mark(f"{note}." if note else "")),
        ShownCell(""),
    ]
    for number in numbers:
        if number is None or number.measured is None:
            cells.append(ShownCell("" if number is None else str(number.state)))
            continue
        mark = "" if shared_mark else f"{NO_BREAK_SPACE}{states[number.state]}"
        text = f"{number.measured:.{_decimals_shown(number.cell)}f}"
        cells.append(ShownCell(text, mark=mark, state=str(number.state)))
    return ShownRow(cells, "measured", key=row.id)


def printed_number(cell: PublishedCell) -> str:
    """The published digits, in points; a long fraction is rounded to four decimals."""
    digits = cell.in_points or cell.value
    if _decimals(digits) > MOST_DECIMALS:
        return f"{float(digits):.{MOST_DECIMALS}f}"
    return digits


def _decimals_shown(cell: PublishedCell) -> int:
    """The decimals of a measured number: as many as are published, from two to four."""
    return min(max(_decimals(cell.in_points or ""), LEAST_DECIMALS), MOST_DECIMALS)


def _decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _spread(number: Reproduction | None) -> str:
    """The standard deviation of a cell and its number of seeds; empty without seeds."""
    if number is None or number.verdict.k is None:
        return ""
    seeds, deviation = number.verdict.k, number.verdict.sd
    if deviation is None:
        return f"({seeds})"
    return f"{deviation:.2f}{NO_BREAK_SPACE}({seeds})"


# Legends, notes and descriptions


def _legend(table: published.Table, reproductions: Reproductions) -> list[str]:
    """What the marks of verdicts, of evidence and of transductive rows in a table mean."""
    legend = []
    states = {number.state for number in reproductions.values()}
    marks = [
        f"{mark} {state}" for state, mark in VERDICT_MARKS.items() if state in states
    ]
    if marks:
        legend.append(
            "↳ measured here, with its verdict (beside the row's name if all its numbers have "
            f"the same): {', '.join(marks)}."
        )
    kinds = {number.cell.evidence for number in reproductions.values()}
    marks = [
        f"{EVIDENCE_MARKS[kind]} {kind}, {meaning}"
        for kind, meaning in EVIDENCE.items()
        if kind in kinds
    ]
    if marks:
        legend.append(f"ev. (evidence): the row's protocol is {'; '.join(marks)}.")
    if any(row.transductive for row in table.rows):
        legend.append(
            f"{DAGGER} fitted on the sentences that are scored, no labels seen."
        )
    return legend


def _notes_on_columns(table: published.Table) -> list[str]:
    """The notes on columns; columns may share one."""
    labels_by_note: dict[str, list[str]] = {}
    for column in table.columns:
        note = "; ".join(filter(None, [_reason(column), column.note]))
        if note:
            labels_by_note.setdefault(note, []).append(column.label)
    return [f"{', '.join(labels)}: {note}" for note, labels in labels_by_note.items()]


def _reason(row_or_column: published.Row | published.Column) -> str:
    """Why no method or no task reproduces a row or column; empty where one does."""
    why_not = row_or_column.why_not
    return reasons()[why_not].explanation if why_not else ""


def _description(
    row: published.Row,
    table: published.Table,
    reproductions: Reproductions,
    registry: Registry,
    footnotes: Footnotes,
) -> str:
    """A row's method, what it was trained and fitted on, and why it was not run."""
    method = compose_method(row.method, registry)
    facts = [f"`{row.method}`" if row.method else ""]
    if not row.model_free:
        facts.append(f"trained on {training_data_in_words(row, method)}")
    fit_corpus = fit_corpus_in_words(row, method)
    if fit_corpus:
        facts.append(f"fitted on {fit_corpus}")
    numbers = [one for one in reproductions.values() if one.cell.row.id == row.id]
    if not any(number.scores for number in numbers):
        # A number that its column makes irreproducible says nothing about the row.
        states = dict.fromkeys(
            str(number.state)
            for number in numbers
            if row.why_not or not number.cell.why_not
        )
        mark = footnotes.mark_by_text.get(_reason(row), "")
        facts.append(", ".join(states) + mark)
    labels = [table_row.label for table_row in table.rows]
    name = row.label if labels.count(row.label) == 1 else row.name
    return f"{name} (`{row.id}`): {'; '.join(filter(None, facts))}."


# The list of published numbers


def contents(tables: Sequence[published.Table]) -> str:
    """The digest and the count of numbers of each table and of all, so that a loss is noticed."""
    lines = ["# Generated by harness report: sha256, numbers, published table"]
    digests = {table.id: digest_of_repr(table) for table in tables}
    for table in tables:
        lines.append(f"{digests[table.id]}  {len(table.cells):>5}  {table.id}")
    total = sum(len(table.cells) for table in tables)
    lines.append(f"{digest_of(digests)}  {total:>5}  all")
    return "\n".join(lines) + "\n"
