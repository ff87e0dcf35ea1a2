"""The papers' tables, ours beneath each published number: one sheet, as Markdown and as LaTeX."""

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
from harness.report.sentences import fitted_on, metric, notes_on_origin, trained_on
from harness.results.index import Results
from harness.results.published import (
    EVIDENCE,
    Column,
    PublishedCell,
    Row,
    Table,
    reasons,
)
from harness.results.reproduction import Reproduction, composed
from harness.results.verdict import CellState

CONTENTS_FILE = "CONTENTS.txt"
WIDEST_TABLE = 10  # columns of one table; more are split into a table for each metric
MOST_DECIMALS = 4  # of a printed number that are shown
DAGGER, MEASURED_MARK, THIN_SPACE = "†", "↳", "\N{NO-BREAK SPACE}"
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
EVIDENCE_COLUMN = "ev."
EVIDENCE_MARKS: Mapping[str, str] = {
    "confirmed": "●",
    "code": "◉",
    "paper": "○",
    "inferred": "△",
}

Cells = Mapping[str, Reproduction]


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
        label: What it is called; a measured line is called `measured`.
        row: The id of the published row; empty for a heading.
        evidence: The mark that says how the protocol of the row is known.
        notes: The marks of footnotes behind the label.
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
        """Its cells as plain text; a verdict that all numbers share is in the label."""
        if self.kind == "heading":
            return [self.label]
        label = (
            self.label
            if self.kind == "published"
            else f"{MEASURED_MARK}{THIN_SPACE}{self.label}"
        )
        verdicts = list(self.verdicts())
        is_shared = len(verdicts) == 1
        if is_shared:
            label += f"{THIN_SPACE}{VERDICT_MARKS[verdicts[0]]}"
        texts = [label + self.notes, self.evidence]
        for number in self.numbers:
            if number.verdict and not is_shared:
                texts.append(
                    f"{number.text}{THIN_SPACE}{VERDICT_MARKS[number.verdict]}"
                )
            else:
                texts.append(number.text)
        return texts


@dataclass(frozen=True)
class Block:
    """One of the tables that a published table is split into, if it is too wide.

    `head` has the headings of all columns, `columns` the ids of those that hold
    numbers.
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
        notes: The footnotes, then the notes on columns and on the whole table.
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
    """The footnotes of a table, numbered in the order in which it calls for them."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}  # of each text

    def mark(self, text: str) -> str:
        """The mark of a footnote; a text that has one keeps it, and an empty one has none."""
        if not text:
            return ""
        next_mark = str(len(self.marks) + 1).translate(RAISED_DIGITS)
        return self.marks.setdefault(text, next_mark)


def sheet(published: Table, cells: Cells, registry: Registry) -> Sheet:
    """The table as every format prints it: a line of published numbers a row, ours beneath."""
    footnotes = Footnotes()
    blocks = list(_blocks(published, cells, footnotes))
    notes = [f"{mark} {text}" for text, mark in footnotes.marks.items()]
    is_measured = any(cell.scores for cell in cells.values())
    return Sheet(
        blocks=blocks,
        verdicts=_legend_of_verdicts(cells),
        legend=_legend_of_rows(published, cells),
        notes=notes + _notes_of_table(published),
        rows=[
            _description(row, published, cells, registry, footnotes)
            for row in published.rows
        ],
        rules=[tolerances()] if is_measured else [],
    )


def _legend_of_verdicts(cells: Cells) -> list[str]:
    """What the marks of the verdicts in a table mean."""
    states = {cell.state for cell in cells.values()}
    marks = [
        f"{mark} {state}" for state, mark in VERDICT_MARKS.items() if state in states
    ]
    if not marks:
        return []
    measured = f"{MEASURED_MARK} measured here, with its verdict"
    return [
        f"{measured} (or before the numbers, if all have the same): {', '.join(marks)}."
    ]


def _legend_of_rows(published: Table, cells: Cells) -> list[str]:
    """What the marks of evidence and of transductive rows in a table mean."""
    legend = []
    kinds = {cell.cell.evidence for cell in cells.values()}
    marks = [
        f"{EVIDENCE_MARKS[kind]} {kind}, {EVIDENCE[kind]}"
        for kind in EVIDENCE
        if kind in kinds
    ]
    if marks:
        meaning = f"{EVIDENCE_COLUMN} (evidence) is how the protocol of a row is known"
        legend.append(f"{meaning}: {'; '.join(marks)}.")
    if any(row.transductive for row in published.rows):
        legend.append(
            f"{DAGGER} fitted on the sentences that are scored, no labels seen."
        )
    return legend


def _notes_of_table(published: Table) -> list[str]:
    """The notes on the whole table, then those on columns; columns may share one."""
    labels: dict[str, list[str]] = {}
    for column in published.columns:
        note = "; ".join(filter(None, [_reason(column), column.note]))
        if note:
            labels.setdefault(note, []).append(column.label)
    notes_of_columns = [f"{', '.join(names)}: {note}" for note, names in labels.items()]
    return [*published.notes, *notes_of_columns]


# The lines of a table


def _blocks(published: Table, cells: Cells, footnotes: Footnotes) -> Iterator[Block]:
    """The table; one that is too wide as a table for each metric."""
    if len(published.columns) <= WIDEST_TABLE:
        headings = [heading(published, column) for column in published.columns]
        yield _block("", headings, published.columns, published, cells, footnotes)
        return
    by_metric: dict[str, list[Column]] = {}
    for column in published.columns:
        by_metric.setdefault(metric(column.metric or published.metric), []).append(
            column
        )
    for caption, columns in by_metric.items():
        headings = [column.label for column in columns]
        yield _block(caption, headings, columns, published, cells, footnotes)


def _block(
    caption: str,
    headings: Sequence[str],
    columns: Sequence[Column],
    published: Table,
    cells: Cells,
    footnotes: Footnotes,
) -> Block:
    """Some columns of a table: its rows, each group below its heading."""
    lines: list[Line] = []
    group = None
    for row in published.rows:
        in_row = [
            cells.get(f"{published.id}/{row.id}/{column.id}") for column in columns
        ]
        if not any(in_row):
            continue
        if row.group and row.group != group:
            lines.append(Line(kind="heading", label=row.group))
        group = row.group
        lines += _lines_of_row(row, in_row, footnotes)
    return Block(
        caption=caption,
        head=["row", EVIDENCE_COLUMN, *headings],
        columns=[column.id for column in columns],
        lines=lines,
    )


def heading(published: Table, column: Column) -> str:
    """The column's label, with its metric where that is not the table's and not in the label."""
    if column.metric is None or column.metric == published.metric:
        return column.label
    name = column.metric.replace("_", " ")
    return column.label if name in column.label else f"{column.label} ({name})"


def _lines_of_row(
    row: Row, columns: Sequence[Reproduction | None], footnotes: Footnotes
) -> Iterator[Line]:
    """The published numbers; if any was measured also ours, and their spread over seeds.

    A column in which the row has no number is None.
    """
    cells = [cell for cell in columns if cell is not None]
    yield _published_line(row, columns, footnotes)
    if any(cell.scores for cell in cells):
        shares = {
            c.cell.column.label: c.coverage for c in cells if c.coverage is not None
        }
        note = coverage_note(shares)
        yield Line(
            kind="measured",
            label="measured",
            row=row.id,
            numbers=[
                _measured_number(cell) if cell else Number("") for cell in columns
            ],
            notes=footnotes.mark(f"{note}.") if note else "",
        )
    if any(cell.verdict.k for cell in cells):
        yield Line(
            kind="spread",
            label=f"sd{THIN_SPACE}(seeds)",
            row=row.id,
            numbers=[Number(_spread(cell) if cell else "") for cell in columns],
        )


def _published_line(
    row: Row, columns: Sequence[Reproduction | None], footnotes: Footnotes
) -> Line:
    """The published numbers of a row, with the footnotes on the row and on its numbers."""
    cells = [cell for cell in columns if cell is not None]
    texts = [_reason(row), row.note]
    for known in cells:
        texts += notes_on_origin(known)
    marks = [footnotes.mark(text) for text in dict.fromkeys(texts) if text]
    evidence = next((cell.cell.evidence for cell in cells if cell.cell.evidence), None)
    numbers = []
    for cell in columns:
        if cell is None:
            numbers.append(Number(""))
        else:
            note = row.notes.get(cell.cell.column.id, "")
            numbers.append(Number(printed(cell.cell) + footnotes.mark(note)))
    return Line(
        kind="published",
        label=f"{row.label}{DAGGER}" if row.transductive else row.label,
        row=row.id,
        evidence=EVIDENCE_MARKS[evidence] if evidence else "",
        numbers=numbers,
        notes=THIN_SPACE.join(marks),
    )


def _reason(level: Row | Column) -> str:
    """Why no method or no task reproduces a row or column; empty where one does."""
    return reasons()[level.why_not].explanation if level.why_not else ""


def printed(cell: PublishedCell) -> str:
    """The published digits, in points; a long fraction has as many as tables show."""
    digits = cell.in_points or cell.value
    return (
        f"{float(digits):.{MOST_DECIMALS}f}"
        if _decimals(digits) > MOST_DECIMALS
        else digits
    )


def _measured_number(cell: Reproduction) -> Number:
    """The mean over seeds with as many digits as are printed, two at least, and its verdict."""
    if cell.measured is None:
        return Number(str(cell.state))
    decimals = min(max(_decimals(cell.cell.in_points or ""), 2), MOST_DECIMALS)
    return Number(f"{cell.measured:.{decimals}f}", cell.state)


def _decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _spread(cell: Reproduction) -> str:
    """The standard deviation of a cell and its number of seeds; empty without seeds."""
    seeds, deviation = cell.verdict.k, cell.verdict.sd
    if seeds is None:
        return ""
    return (
        f"({seeds})" if deviation is None else f"{deviation:.2f}{THIN_SPACE}({seeds})"
    )


def _description(
    row: Row, published: Table, cells: Cells, registry: Registry, footnotes: Footnotes
) -> str:
    """What a row holds: its method, what it was trained and fitted on, why it was not run."""
    method = composed(row.method, registry)
    facts = []
    if row.method:
        facts.append(f"`{row.method}`")
    if not row.model_free:
        facts.append(f"trained on {trained_on(row, method)}")
    corpus = fitted_on(row, method)
    if corpus:
        facts.append(f"fitted on {corpus}")
    in_row = [cell for cell in cells.values() if cell.cell.row.id == row.id]
    if not any(cell.scores for cell in in_row):
        states = [
            str(cell.state) for cell in in_row if row.why_not or not cell.cell.why_not
        ]
        facts.append(
            ", ".join(dict.fromkeys(states)) + footnotes.marks.get(_reason(row), "")
        )
    labels = [other.label for other in published.rows]
    name = row.name if labels.count(row.label) > 1 else row.label
    return f"{name} (`{row.id}`): {'; '.join(filter(None, facts))}."


# Formats


def paper_page(
    published: Table, cells: Cells, registry: Registry, records: Results
) -> Page:
    """The table's page, made from these records."""
    shown = sheet(published, cells, registry)
    parts = [
        escape(f"{published.paper}, {published.table}. Source: {published.source}.")
    ]
    for block in shown.blocks:
        if block.caption:
            parts.append(f"**{escape(block.caption)}**")
        head = [escape(text) for text in block.head]
        lines = [_markdown_cells(line, len(head)) for line in block.lines]
        parts.append(table(head, lines, words=2))
    columns = ", ".join(f"`{column.id}`" for column in published.columns)
    parts += [
        *map(escape, shown.verdicts),
        *map(escape, shown.legend),
        _bullets(shown.notes),
        "## Rows",
        f"`harness explain {published.id}/ROW/COLUMN` looks at a cell; the columns are {columns}.",
        _bullets(shown.rows),
        *map(escape, shown.rules),
    ]
    return Page(title=published.title, parts=list(filter(None, parts)), records=records)


def _markdown_cells(line: Line, width: int) -> list[str]:
    """A line in Markdown, which has no cell across columns: a heading is in italics."""
    label, *others = [escape(text) for text in line.texts()]
    if line.kind == "heading":
        return [f"*{label}*"] + [""] * (width - 1)
    breakable = re.sub(
        r"(?<=\w)_(?=\w)", "_<wbr>", label
    )  # where a long name may be broken
    return [breakable, *others]


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def paper_latex(
    published: Table, cells: Cells, registry: Registry, records: Results
) -> str:
    """The table for a paper: a file for \\input, with booktabs; its notes are comments."""
    shown = sheet(published, cells, registry)
    lines = [
        latex_comment(
            f"{published.paper}, {published.title}. Generated by harness table."
        ),
        latex_comment(
            f"\\cite{{{published.cite}}}: harness cite --table {published.id}"
        ),
        latex_comment(f"Records: sha256 {records.digest()}"),
    ]
    for block in shown.blocks:
        if block.caption:
            lines.append(latex_comment(block.caption))
        lines.append(_latex_block(block))
    for texts in (shown.verdicts, shown.legend, shown.notes, shown.rows, shown.rules):
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
    return latex_table(
        "ll" + "r" * len(block.columns), block.head, filter(None, groups)
    )


def contents(tables: Sequence[Table]) -> str:
    """The digest and the count of numbers of each table, then of all: none is lost unnoticed."""
    lines = ["# Generated by harness report: sha256, numbers, published table"]
    digests = {published.id: digest_of_repr(published) for published in tables}
    for published in tables:
        lines.append(
            f"{digests[published.id]}  {len(published.cells):>5}  {published.id}"
        )
    total = sum(len(published.cells) for published in tables)
    lines.append(f"{digest_of(digests)}  {total:>5}  all")
    return "\n".join(lines) + "\n"
