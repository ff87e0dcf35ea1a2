"""What the page of a published table says, in any format: its lines, legends and footnotes.

`make_sheet` compares a published table with the records and returns a `Sheet`.
`paper_tables` prints sheets in Markdown and LaTeX, and the page of results in HTML.

A sheet has the published numbers of each row, and the measured ones below with their
verdicts. The footnotes are numbered while the lines are made, in the order in which
these refer to them: so the functions that make lines are given the `Footnotes`, and add
to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.markdown import tolerances
from harness.report.sentences import (
    fit_corpus_in_words,
    metric_in_words,
    notes_on_origin,
    training_data_in_words,
)
from harness.results.published import (
    EVIDENCE,
    Column,
    PublishedCell,
    Row,
    Table,
    reasons,
)
from harness.results.reproduction import Reproduction, compose_method
from harness.results.verdict import CellState

MOST_COLUMNS = 10  # of a table; one with more is split into a table for each metric
MOST_DECIMALS = 4  # shown of a printed number
LEAST_DECIMALS = 2  # shown of a measured number

DAGGER = "†"  # the mark of a transductive row
MEASURED_MARK = "↳"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
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
EVIDENCE_HEADING = "ev."
EVIDENCE_MARKS: Mapping[str, str] = {
    "confirmed": "●",
    "code": "◉",
    "paper": "○",
    "inferred": "△",
}

LineKind = Literal["heading", "published", "measured", "spread"]
Reproductions = Mapping[str, Reproduction]  # by the id of the published cell


# The parts of a sheet


@dataclass(frozen=True)
class Number:
    """A number as text; a measured number has a verdict."""

    text: str
    verdict: CellState | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table.

    Attributes:
        kind: What it holds: the heading of a group of rows, published numbers,
            measured numbers, or their spread over seeds.
        label: The name of the row; `measured` for a measured line.
        row: The id of the published row; empty for a heading.
        evidence: The mark that says how the protocol of the row is known.
        numbers: One for each column.
        notes: The marks of footnotes after the label.
    """

    kind: LineKind
    label: str
    row: str = ""
    evidence: str = ""
    numbers: Sequence[Number] = ()
    notes: str = ""

    def verdicts(self) -> Mapping[CellState, int]:
        """How many numbers have each verdict."""
        return Counter(number.verdict for number in self.numbers if number.verdict)

    def cells(self) -> list[str]:
        """The cells as plain text; the mark of a verdict that all numbers share is in the label."""
        if self.kind == "heading":
            return [self.label]
        label = self.label
        if self.kind != "published":
            label = f"{MEASURED_MARK}{NO_BREAK_SPACE}{label}"
        verdicts = list(self.verdicts())
        is_shared = len(verdicts) == 1
        if is_shared:
            label += f"{NO_BREAK_SPACE}{VERDICT_MARKS[verdicts[0]]}"
        cells = [label + self.notes, self.evidence]
        for number in self.numbers:
            text = number.text
            if number.verdict and not is_shared:
                text += f"{NO_BREAK_SPACE}{VERDICT_MARKS[number.verdict]}"
            cells.append(text)
        return cells


@dataclass(frozen=True)
class Block:
    """One of the tables that a published table is split into, if it is too wide.

    Attributes:
        caption: The metric of its columns; empty where the table is not split.
        head: The headings of all columns.
        columns: The ids of the columns that hold numbers.
        lines: Its lines, from top to bottom.
    """

    caption: str
    head: Sequence[str]
    columns: Sequence[str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Sheet:
    """What the page of a published table says, in any format.

    Attributes:
        blocks: Its tables.
        verdicts: What the marks of verdicts mean.
        legend: What the marks of evidence and of transductive rows mean.
        notes: The footnotes, then the notes on the whole table and on columns.
        rows: What each row holds, a sentence each.
        rules: How verdicts are found; empty where nothing was measured.
    """

    blocks: Sequence[Block]
    verdicts: Sequence[str]
    legend: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[str]
    rules: Sequence[str]


class Footnotes:
    """The footnotes of a table, numbered in the order in which its lines refer to them."""

    def __init__(self) -> None:
        self.mark_by_text: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """The mark of a footnote, which is added if it is new; no text has no mark."""
        if not text:
            return ""
        if text not in self.mark_by_text:
            number = len(self.mark_by_text) + 1
            self.mark_by_text[text] = str(number).translate(RAISED_DIGITS)
        return self.mark_by_text[text]


def make_sheet(
    paper_table: Table, reproductions: Reproductions, registry: Registry
) -> Sheet:
    """The table as every format prints it.

    Args:
        paper_table: The published table.
        reproductions: Its cells, with what was measured for each.
        registry: Where methods are found by their ids.
    """
    footnotes = Footnotes()
    # The lines number the footnotes, so they are made before the footnotes are listed.
    blocks = _blocks(paper_table, reproductions, footnotes)
    numbered_notes = [f"{mark} {text}" for text, mark in footnotes.mark_by_text.items()]
    descriptions = [
        _description(row, paper_table, reproductions, registry, footnotes)
        for row in paper_table.rows
    ]
    is_measured = any(reproduction.scores for reproduction in reproductions.values())
    return Sheet(
        blocks=blocks,
        verdicts=_legend_of_verdicts(reproductions),
        legend=_legend_of_rows(paper_table, reproductions),
        notes=numbered_notes + _notes_of_table(paper_table),
        rows=descriptions,
        rules=[tolerances()] if is_measured else [],
    )


# The lines of a table


def _blocks(
    paper_table: Table, reproductions: Reproductions, footnotes: Footnotes
) -> list[Block]:
    """The table; one that is too wide as a table for each metric."""
    if len(paper_table.columns) <= MOST_COLUMNS:
        headings = [_heading(paper_table, column) for column in paper_table.columns]
        lines = _lines(paper_table, paper_table.columns, reproductions, footnotes)
        return [_block("", headings, paper_table.columns, lines)]
    columns_by_metric: dict[str, list[Column]] = {}
    for column in paper_table.columns:
        metric = metric_in_words(column.metric or paper_table.metric)
        columns_by_metric.setdefault(metric, []).append(column)
    blocks = []
    for metric, columns in columns_by_metric.items():
        headings = [column.label for column in columns]
        lines = _lines(paper_table, columns, reproductions, footnotes)
        blocks.append(_block(metric, headings, columns, lines))
    return blocks


def _heading(paper_table: Table, column: Column) -> str:
    """A column's label, with its metric unless the table has the same or the label says it."""
    if column.metric is None or column.metric == paper_table.metric:
        return column.label
    name = column.metric.replace("_", " ")
    return column.label if name in column.label else f"{column.label} ({name})"


def _block(
    caption: str,
    headings: Sequence[str],
    columns: Sequence[Column],
    lines: Sequence[Line],
) -> Block:
    """A table: before the columns with numbers are the row's label and its evidence."""
    return Block(
        caption=caption,
        head=["row", EVIDENCE_HEADING, *headings],
        columns=[column.id for column in columns],
        lines=lines,
    )


def _lines(
    paper_table: Table,
    columns: Sequence[Column],
    reproductions: Reproductions,
    footnotes: Footnotes,
) -> list[Line]:
    """The lines of all rows in some columns, each group of rows below its heading."""
    lines: list[Line] = []
    group_above = None
    for row in paper_table.rows:
        row_reproductions = [
            reproductions.get(f"{paper_table.id}/{row.id}/{column.id}")
            for column in columns
        ]
        if not any(row_reproductions):
            continue
        if row.group and row.group != group_above:
            lines.append(Line(kind="heading", label=row.group))
        group_above = row.group
        lines += _lines_of_row(row, row_reproductions, footnotes)
    return lines


# The functions of a row are given a `Reproduction` for each column; it is None where the
# row has no number in the column.


def _lines_of_row(
    row: Row, reproductions: Sequence[Reproduction | None], footnotes: Footnotes
) -> Iterator[Line]:
    """The published numbers; if any was measured, the measured ones and their spread."""
    yield _published_line(row, reproductions, footnotes)
    published = [
        reproduction for reproduction in reproductions if reproduction is not None
    ]
    if any(reproduction.scores for reproduction in published):
        yield _measured_line(row, reproductions, footnotes)
    if any(reproduction.verdict.k for reproduction in published):
        yield Line(
            kind="spread",
            label=f"sd{NO_BREAK_SPACE}(seeds)",
            row=row.id,
            numbers=[Number(_spread(reproduction)) for reproduction in reproductions],
        )


def _published_line(
    row: Row, reproductions: Sequence[Reproduction | None], footnotes: Footnotes
) -> Line:
    """The published numbers of a row, with the footnotes on the row and on its numbers."""
    label = row.label
    if row.transductive:
        label += DAGGER
    notes_on_row = [_reason(row), row.note]
    evidence_mark = ""
    for reproduction in reproductions:
        if reproduction is not None:
            notes_on_row += notes_on_origin(reproduction)
            evidence = reproduction.cell.evidence
            if evidence and not evidence_mark:
                evidence_mark = EVIDENCE_MARKS[evidence]
    distinct_notes = dict.fromkeys(note for note in notes_on_row if note)
    marks = [footnotes.mark(note) for note in distinct_notes]
    numbers = []
    for reproduction in reproductions:
        text = ""
        if reproduction is not None:
            note_on_number = row.notes.get(reproduction.cell.column.id, "")
            text = printed_number(reproduction.cell) + footnotes.mark(note_on_number)
        numbers.append(Number(text))
    return Line(
        kind="published",
        label=label,
        row=row.id,
        evidence=evidence_mark,
        numbers=numbers,
        notes=NO_BREAK_SPACE.join(marks),
    )


def _measured_line(
    row: Row, reproductions: Sequence[Reproduction | None], footnotes: Footnotes
) -> Line:
    """The measured numbers of a row, with a footnote on words that have no vector."""
    coverage_by_column: dict[str, float] = {}
    for reproduction in reproductions:
        if reproduction is not None and reproduction.coverage is not None:
            label = reproduction.cell.column.label
            coverage_by_column[label] = reproduction.coverage
    note = coverage_note(coverage_by_column)
    return Line(
        kind="measured",
        label="measured",
        row=row.id,
        numbers=[_measured_number(reproduction) for reproduction in reproductions],
        notes=footnotes.mark(f"{note}.") if note else "",
    )


def printed_number(cell: PublishedCell) -> str:
    """The published digits, in points; a long fraction is rounded to four decimals."""
    digits = cell.in_points or cell.value
    if _decimals(digits) > MOST_DECIMALS:
        return f"{float(digits):.{MOST_DECIMALS}f}"
    return digits


def _measured_number(reproduction: Reproduction | None) -> Number:
    """The mean over seeds with its verdict, or why there is none.

    It has as many decimals as the published number, but at least two and at most four.
    """
    if reproduction is None:
        return Number("")
    if reproduction.measured is None:
        return Number(str(reproduction.state))
    published_decimals = _decimals(reproduction.cell.in_points or "")
    decimals = min(max(published_decimals, LEAST_DECIMALS), MOST_DECIMALS)
    return Number(f"{reproduction.measured:.{decimals}f}", reproduction.state)


def _decimals(digits: str) -> int:
    """How many digits are after the decimal point."""
    return len(digits.partition(".")[2])


def _spread(reproduction: Reproduction | None) -> str:
    """The standard deviation of a cell and its number of seeds; empty without seeds."""
    if reproduction is None or reproduction.verdict.k is None:
        return ""
    seeds, deviation = reproduction.verdict.k, reproduction.verdict.sd
    if deviation is None:
        return f"({seeds})"
    return f"{deviation:.2f}{NO_BREAK_SPACE}({seeds})"


# Legends and notes


def _legend_of_verdicts(reproductions: Reproductions) -> list[str]:
    """What the marks of the verdicts in a table mean."""
    states = {reproduction.state for reproduction in reproductions.values()}
    marks = [
        f"{mark} {state}" for state, mark in VERDICT_MARKS.items() if state in states
    ]
    if not marks:
        return []
    measured = f"{MEASURED_MARK} measured here, with its verdict"
    return [
        f"{measured} (or before the numbers, if all have the same): {', '.join(marks)}."
    ]


def _legend_of_rows(paper_table: Table, reproductions: Reproductions) -> list[str]:
    """What the marks of evidence and of transductive rows in a table mean."""
    legend = []
    kinds = {reproduction.cell.evidence for reproduction in reproductions.values()}
    marks = [
        f"{EVIDENCE_MARKS[kind]} {kind}, {meaning}"
        for kind, meaning in EVIDENCE.items()
        if kind in kinds
    ]
    if marks:
        subject = f"{EVIDENCE_HEADING} (evidence) is how the protocol of a row is known"
        legend.append(f"{subject}: {'; '.join(marks)}.")
    if any(row.transductive for row in paper_table.rows):
        legend.append(
            f"{DAGGER} fitted on the sentences that are scored, no labels seen."
        )
    return legend


def _notes_of_table(paper_table: Table) -> list[str]:
    """The notes on the whole table, then the notes on columns; columns may share one."""
    labels_by_note: dict[str, list[str]] = {}
    for column in paper_table.columns:
        note = "; ".join(filter(None, [_reason(column), column.note]))
        if note:
            labels_by_note.setdefault(note, []).append(column.label)
    notes_on_columns = [
        f"{', '.join(labels)}: {note}" for note, labels in labels_by_note.items()
    ]
    return [*paper_table.notes, *notes_on_columns]


def _reason(row_or_column: Row | Column) -> str:
    """Why no method or no task reproduces a row or column; empty where one does."""
    if not row_or_column.why_not:
        return ""
    return reasons()[row_or_column.why_not].explanation


# The descriptions of rows


def _description(
    row: Row,
    paper_table: Table,
    reproductions: Reproductions,
    registry: Registry,
    footnotes: Footnotes,
) -> str:
    """A row's method, what it was trained and fitted on, and why it was not run."""
    method = compose_method(row.method, registry)
    facts = []
    if row.method:
        facts.append(f"`{row.method}`")
    if not row.model_free:
        facts.append(f"trained on {training_data_in_words(row, method)}")
    fit_corpus = fit_corpus_in_words(row, method)
    if fit_corpus:
        facts.append(f"fitted on {fit_corpus}")
    row_reproductions = [
        reproduction
        for reproduction in reproductions.values()
        if reproduction.cell.row.id == row.id
    ]
    if not any(reproduction.scores for reproduction in row_reproductions):
        mark = footnotes.mark_by_text.get(_reason(row), "")
        facts.append(_states_in_words(row, row_reproductions) + mark)
    labels = [table_row.label for table_row in paper_table.rows]
    is_label_unique = labels.count(row.label) == 1
    name = row.label if is_label_unique else row.name
    return f"{name} (`{row.id}`): {'; '.join(filter(None, facts))}."


def _states_in_words(row: Row, reproductions: Sequence[Reproduction]) -> str:
    """Why the cells of a row have no score, each state once.

    A cell that cannot be reproduced because of its column says nothing about the row.
    """
    states: dict[str, None] = {}  # each once
    for reproduction in reproductions:
        is_because_of_column = bool(reproduction.cell.why_not and not row.why_not)
        if not is_because_of_column:
            states[str(reproduction.state)] = None
    return ", ".join(states)
