"""The papers' tables as pages: the published numbers of each row, and the measured ones below.

`make_sheet` decides what a table says: its lines, legends, footnotes and descriptions of
rows. `paper_page` prints a sheet in Markdown, `paper_latex` in LaTeX.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.digests import digest_of, digest_of_repr
from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.latex import latex_comment, latex_escape, latex_line, latex_table
from harness.report.markdown import Page, escape, table, tolerances
from harness.report.sentences import (
    fit_corpus_in_words,
    metric_in_words,
    notes_on_origin,
    training_data_in_words,
)
from harness.results.index import Results
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

CONTENTS_FILE = "CONTENTS.txt"
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

Reproductions = Mapping[str, Reproduction]  # by the id of the published cell


# What a table says


@dataclass(frozen=True)
class Number:
    """A number as text; a measured one with its verdict."""

    text: str
    verdict: CellState | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table.

    Attributes:
        kind: `heading` (of a group of rows), `published`, `measured` or `spread`.
        label: The name of the row; `measured` for a measured line.
        row: The id of the published row; empty for a heading.
        evidence: The mark that says how the protocol of the row is known.
        numbers: One for each column.
        notes: The marks of footnotes after the label.
    """

    kind: str
    label: str
    row: str = ""
    evidence: str = ""
    numbers: Sequence[Number] = ()
    notes: str = ""

    def verdicts(self) -> Mapping[CellState, int]:
        """How many numbers have each verdict."""
        return Counter(number.verdict for number in self.numbers if number.verdict)

    def texts(self) -> list[str]:
        """The cells as plain text; a verdict that all numbers share is in the label."""
        if self.kind == "heading":
            return [self.label]
        label = self.label
        if self.kind != "published":
            label = f"{MEASURED_MARK}{NO_BREAK_SPACE}{label}"
        verdicts = list(self.verdicts())
        is_shared = len(verdicts) == 1
        if is_shared:
            label += f"{NO_BREAK_SPACE}{VERDICT_MARKS[verdicts[0]]}"
        texts = [label + self.notes, self.evidence]
        for number in self.numbers:
            text = number.text
            if number.verdict and not is_shared:
                text += f"{NO_BREAK_SPACE}{VERDICT_MARKS[number.verdict]}"
            texts.append(text)
        return texts


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
    # The lines number the footnotes, so they are made before the notes are listed.
    blocks = _blocks(paper_table, reproductions, footnotes)
    notes = [f"{mark} {text}" for text, mark in footnotes.mark_by_text.items()]
    descriptions = [
        _description(row, paper_table, reproductions, registry, footnotes)
        for row in paper_table.rows
    ]
    is_measured = any(cell.scores for cell in reproductions.values())
    return Sheet(
        blocks=blocks,
        verdicts=_legend_of_verdicts(reproductions),
        legend=_legend_of_rows(paper_table, reproductions),
        notes=notes + _notes_of_table(paper_table),
        rows=descriptions,
        rules=[tolerances()] if is_measured else [],
    )


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
    """The notes on the whole table, then those on columns; columns may share one."""
    labels_by_note: dict[str, list[str]] = {}
    for column in paper_table.columns:
        note = "; ".join(filter(None, [_reason(column), column.note]))
        if note:
            labels_by_note.setdefault(note, []).append(column.label)
    notes_on_columns = [
        f"{', '.join(labels)}: {note}" for note, labels in labels_by_note.items()
    ]
    return [*paper_table.notes, *notes_on_columns]


def _reason(level: Row | Column) -> str:
    """Why no method or no task reproduces a row or column; empty where one does."""
    return reasons()[level.why_not].explanation if level.why_not else ""


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
    """A column's label, with its metric where this is not the table's and not in the label."""
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
    group = None
    for row in paper_table.rows:
        cells = [
            reproductions.get(f"{paper_table.id}/{row.id}/{column.id}")
            for column in columns
        ]
        if not any(cells):
            continue
        if row.group and row.group != group:
            lines.append(Line(kind="heading", label=row.group))
        group = row.group
        lines += _lines_of_row(row, cells, footnotes)
    return lines


def _lines_of_row(
    row: Row, cells: Sequence[Reproduction | None], footnotes: Footnotes
) -> Iterator[Line]:
    """The published numbers; if any was measured, the measured ones and their spread.

    Args:
        row: The published row.
        cells: A cell for each column, None where the row has no number.
        footnotes: The footnotes of the table, which are added to.
    """
    yield _published_line(row, cells, footnotes)
    present_cells = [cell for cell in cells if cell is not None]
    if any(cell.scores for cell in present_cells):
        yield _measured_line(row, cells, footnotes)
    if any(cell.verdict.k for cell in present_cells):
        yield Line(
            kind="spread",
            label=f"sd{NO_BREAK_SPACE}(seeds)",
            row=row.id,
            numbers=[Number(_spread(cell)) for cell in cells],
        )


def _published_line(
    row: Row, cells: Sequence[Reproduction | None], footnotes: Footnotes
) -> Line:
    """The published numbers of a row, with the footnotes on the row and on its numbers."""
    notes_on_row = [_reason(row), row.note]
    evidence = None
    for cell in cells:
        if cell is not None:
            notes_on_row += notes_on_origin(cell)
            evidence = evidence or cell.cell.evidence
    marks = [footnotes.mark(note) for note in dict.fromkeys(notes_on_row) if note]
    numbers = []
    for cell in cells:
        if cell is None:
            numbers.append(Number(""))
        else:
            note_on_number = row.notes.get(cell.cell.column.id, "")
            mark = footnotes.mark(note_on_number)
            numbers.append(Number(printed_number(cell.cell) + mark))
    return Line(
        kind="published",
        label=f"{row.label}{DAGGER}" if row.transductive else row.label,
        row=row.id,
        evidence=EVIDENCE_MARKS[evidence] if evidence else "",
        numbers=numbers,
        notes=NO_BREAK_SPACE.join(marks),
    )


def _measured_line(
    row: Row, cells: Sequence[Reproduction | None], footnotes: Footnotes
) -> Line:
    """The measured numbers of a row, with a footnote on words that have no vector."""
    coverage_by_column: dict[str, float] = {}
    for cell in cells:
        if cell is not None and cell.coverage is not None:
            coverage_by_column[cell.cell.column.label] = cell.coverage
    note = coverage_note(coverage_by_column)
    return Line(
        kind="measured",
        label="measured",
        row=row.id,
        numbers=[_measured_number(cell) for cell in cells],
        notes=footnotes.mark(f"{note}.") if note else "",
    )


def printed_number(cell: PublishedCell) -> str:
    """The published digits, in points; a long fraction is rounded to four decimals."""
    digits = cell.in_points or cell.value
    if _decimals(digits) > MOST_DECIMALS:
        return f"{float(digits):.{MOST_DECIMALS}f}"
    return digits


def _measured_number(cell: Reproduction | None) -> Number:
    """The mean over seeds with its verdict, or why there is none.

    It has as many decimals as the published number, but at least two and at most four.
    """
    if cell is None:
        return Number("")
    if cell.measured is None:
        return Number(str(cell.state))
    published_decimals = _decimals(cell.cell.in_points or "")
    decimals = min(max(published_decimals, LEAST_DECIMALS), MOST_DECIMALS)
    return Number(f"{cell.measured:.{decimals}f}", cell.state)


def _decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _spread(cell: Reproduction | None) -> str:
    """The standard deviation of a cell and its number of seeds; empty without seeds."""
    if cell is None or cell.verdict.k is None:
        return ""
    seeds, deviation = cell.verdict.k, cell.verdict.sd
    if deviation is None:
        return f"({seeds})"
    return f"{deviation:.2f}{NO_BREAK_SPACE}({seeds})"


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
    cells = [cell for cell in reproductions.values() if cell.cell.row.id == row.id]
    if not any(cell.scores for cell in cells):
        mark = footnotes.mark_by_text.get(_reason(row), "")
        facts.append(_states_in_words(row, cells) + mark)
    labels = [other.label for other in paper_table.rows]
    name = row.name if labels.count(row.label) > 1 else row.label
    return f"{name} (`{row.id}`): {'; '.join(filter(None, facts))}."


def _states_in_words(row: Row, cells: Sequence[Reproduction]) -> str:
    """Why the cells of a row have no score, each state once.

    A cell that cannot be reproduced because of its column says nothing about the row.
    """
    states: dict[str, None] = {}
    for cell in cells:
        is_because_of_column = bool(cell.cell.why_not and not row.why_not)
        if not is_because_of_column:
            states[str(cell.state)] = None
    return ", ".join(states)


# Markdown


def paper_page(
    paper_table: Table,
    reproductions: Reproductions,
    registry: Registry,
    records: Results,
) -> Page:
    """The page of a table. Its footer has the digest of the given records."""
    sheet = make_sheet(paper_table, reproductions, registry)
    source = f"{paper_table.paper}, {paper_table.table}. Source: {paper_table.source}."
    parts = [escape(source)]
    for block in sheet.blocks:
        if block.caption:
            parts.append(f"**{escape(block.caption)}**")
        head = [escape(heading) for heading in block.head]
        lines = [_markdown_cells(line, len(head)) for line in block.lines]
        parts.append(table(head, lines, words=2))
    columns = ", ".join(f"`{column.id}`" for column in paper_table.columns)
    command = f"harness explain {paper_table.id}/ROW/COLUMN"
    parts += [
        *map(escape, sheet.verdicts),
        *map(escape, sheet.legend),
        _bullets(sheet.notes),
        "## Rows",
        f"`{command}` looks at a cell; the columns are {columns}.",
        _bullets(sheet.rows),
        *map(escape, sheet.rules),
    ]
    filled_parts = [part for part in parts if part]
    return Page(title=paper_table.title, parts=filled_parts, records=records)


def _markdown_cells(line: Line, width: int) -> list[str]:
    """A line in Markdown, which has no cell across columns: a heading is in italics."""
    label, *other_cells = [escape(text) for text in line.texts()]
    if line.kind == "heading":
        return [f"*{label}*"] + [""] * (width - 1)
    # A browser may break a long name after an underscore within it.
    breakable_label = re.sub(r"(?<=\w)_(?=\w)", "_<wbr>", label)
    return [breakable_label, *other_cells]


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


# LaTeX


def paper_latex(
    paper_table: Table,
    reproductions: Reproductions,
    registry: Registry,
    records: Results,
) -> str:
    """The table for a paper: a file for \\input, with booktabs; its notes are comments."""
    sheet = make_sheet(paper_table, reproductions, registry)
    comments = [
        f"{paper_table.paper}, {paper_table.title}. Generated by harness table.",
        f"\\cite{{{paper_table.cite}}}: harness cite --table {paper_table.id}",
        f"Records: sha256 {records.digest()}",
    ]
    lines = [latex_comment(comment) for comment in comments]
    for block in sheet.blocks:
        if block.caption:
            lines.append(latex_comment(block.caption))
        lines.append(_latex_block(block))
    for texts in (sheet.verdicts, sheet.legend, sheet.notes, sheet.rows, sheet.rules):
        lines += [latex_comment(text) for text in texts]
    return "\n".join(lines)


def _latex_block(block: Block) -> str:
    """A table whose first two columns are words, with a rule above each group's heading."""
    groups: list[list[str]] = [[]]
    for line in block.lines:
        if line.kind == "heading":
            text = rf"\textit{{{latex_escape(line.label)}}}"
            groups.append([rf"\multicolumn{{{len(block.head)}}}{{l}}{{{text}}} \\"])
        else:
            groups[-1].append(latex_line(map(latex_escape, line.texts())))
    alignment = "ll" + "r" * len(block.columns)
    filled_groups = [group for group in groups if group]
    return latex_table(alignment, block.head, filled_groups)


# The list of published numbers


def contents(paper_tables: Sequence[Table]) -> str:
    """The digest and the count of numbers of each table and of all, so that a loss is noticed."""
    lines = ["# Generated by harness report: sha256, numbers, published table"]
    digests: dict[str, str] = {}
    total = 0
    for paper_table in paper_tables:
        digest = digest_of_repr(paper_table)
        count = len(paper_table.cells)
        lines.append(f"{digest}  {count:>5}  {paper_table.id}")
        digests[paper_table.id] = digest
        total += count
    lines.append(f"{digest_of(digests)}  {total:>5}  all")
    return "\n".join(lines) + "\n"
