"""The papers' tables, each published number beside ours: one sheet, as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.files import digest_of, digest_of_repr
from harness.core.toml import read_typed
from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.markdown import CODE, SPACE, Page, escape, table, tolerances
from harness.report.sentences import fitted_on, metric, notes_on_origin, trained_on
from harness.results.index import Results
from harness.results.published import EVIDENCE, Column, PublishedCell, Row, Table, reasons
from harness.results.reproduction import Reproduction, composed
from harness.results.verdict import CellState

CONTENTS = "CONTENTS.txt"
WIDEST = 10  # columns that fit beside each other; more are a table for each metric
DIGITS = 4  # of a printed number that are shown
DAGGER, OURS, THIN_SPACE = "†", "↳", "\N{NO-BREAK SPACE}"
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
MARKS: Mapping[CellState, str] = {
    CellState.EXACT: "=",
    CellState.MATCH: "≃",
    CellState.CLOSE: "∼",
    CellState.CONSISTENT: "±",
    CellState.DIFFERS: "≠",
    CellState.INCONCLUSIVE: "?",
    CellState.TOO_FEW_SEEDS: "…",
}
EVIDENCE_COLUMN = "ev."
EVIDENCE_MARKS: Mapping[str, str] = {"confirmed": "●", "code": "◉", "paper": "○", "inferred": "△"}

Footnotes = dict[str, str]  # the mark of each text, in the order in which the table calls for them
Cells = Mapping[str, Reproduction]


@dataclass(frozen=True)
class Number:
    """A number as text; of a measured one also its verdict."""

    text: str
    verdict: CellState | None = None


@dataclass(frozen=True)
class Line:
    """A line of a table."""

    kind: str  # heading (of a group), published, measured or spread
    label: str
    row: str = ""  # the id of the published row
    evidence: str = ""
    numbers: Sequence[Number] = ()
    notes: str = ""  # the marks of footnotes behind the label

    def verdicts(self) -> Mapping[CellState, int]:
        """How many numbers have each verdict."""
        return Counter(number.verdict for number in self.numbers if number.verdict)

    def texts(self) -> list[str]:
        """As plain text; a verdict that all numbers share stands once, in the label."""
        if self.kind == "heading":
            return [self.label]
        verdicts = self.verdicts()
        shared = f"{THIN_SPACE}{MARKS[next(iter(verdicts))]}" if len(verdicts) == 1 else ""
        ours = "" if self.kind == "published" else f"{OURS}{THIN_SPACE}"
        numbers = [
            f"{n.text}{THIN_SPACE}{MARKS[n.verdict]}" if n.verdict and not shared else n.text
            for n in self.numbers
        ]
        return [f"{ours}{self.label}{shared}{self.notes}", self.evidence, *numbers]


@dataclass(frozen=True)
class Block:
    """Columns that stand beside each other; `columns` are the ids of those of numbers."""

    caption: str
    head: Sequence[str]
    columns: Sequence[str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Sheet:
    """What a table's page says in any format; `rows` say what each row holds."""

    blocks: Sequence[Block]
    verdicts: Sequence[str]  # their legend
    legend: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[str]
    rules: Sequence[str]


def sheet(published: Table, cells: Cells, registry: Registry) -> Sheet:
    """The table as every format prints it: a line of published numbers a row, ours beneath."""
    footnotes: Footnotes = {}
    blocks = list(_blocks(published, cells, footnotes))
    states = {cell.state for cell in cells.values()}
    words = ", ".join(f"{mark} {state}" for state, mark in MARKS.items() if state in states)
    about = f"{OURS} measured here, with its verdict (or before the numbers, if all have the same)"
    levels = {cell.cell.evidence for cell in cells.values()}
    marks = [f"{EVIDENCE_MARKS[e]} {e}, {text}" for e, text in EVIDENCE.items() if e in levels]
    legend = f"{EVIDENCE_COLUMN} (evidence) is how the protocol of a row is known"
    transductive = f"{DAGGER} fitted on the sentences that are scored, no labels seen."
    fitted = any(row.transductive for row in published.rows)
    return Sheet(
        blocks,
        [f"{about}: {words}."] if words else [],
        [*([f"{legend}: {'; '.join(marks)}."] if marks else []), *([transductive] * fitted)],
        [*(f"{mark} {text}" for text, mark in footnotes.items()), *_notes(published)],
        [_about(row, published, cells, registry, footnotes) for row in published.rows],
        [tolerances()] if any(cell.scores for cell in cells.values()) else [],
    )


def _blocks(published: Table, cells: Cells, footnotes: Footnotes) -> Iterator[Block]:
    """Rows below their groups' headings; columns that do not fit beside each other by metric."""
    by_metric: dict[str, list[Column]] = {}
    for column in published.columns:
        fits = len(published.columns) <= WIDEST
        caption = "" if fits else metric(column.metric or published.metric)
        by_metric.setdefault(caption, []).append(column)
    for caption, columns in by_metric.items():
        lines: list[Line] = []
        group = None
        for row in published.rows:
            in_row = [cells.get(f"{published.id}/{row.id}/{column.id}") for column in columns]
            if any(in_row):
                lines += [Line("heading", row.group)] if row.group and row.group != group else []
                lines += _row(row, in_row, footnotes)
                group = row.group
        headings = (c.label if caption else heading(published, c) for c in columns)
        head = ["row", EVIDENCE_COLUMN, *headings]
        yield Block(caption, head, [column.id for column in columns], lines)


def heading(published: Table, column: Column) -> str:
    """The column's label, with its metric where that is not the table's and not in the label."""
    name = (column.metric or published.metric).replace("_", " ")
    implied = column.metric in (None, published.metric) or name in column.label
    return column.label if implied else f"{column.label} ({name})"


def _row(row: Row, cells: Sequence[Reproduction | None], footnotes: Footnotes) -> Iterator[Line]:
    """The published numbers; if any was measured also ours, and their spread over seeds."""
    there = [cell for cell in cells if cell]
    origins = [note for cell in there for note in notes_on_origin(cell)]
    texts = [_reason(row), row.note, *dict.fromkeys(origins)]
    marks = THIN_SPACE.join(_mark(text, footnotes) for text in texts if text)
    evidence = next((EVIDENCE_MARKS[e] for cell in there if (e := cell.cell.evidence)), "")
    label = f"{row.label}{DAGGER if row.transductive else ''}"
    numbers = [Number(_printed(cell, footnotes) if cell else "") for cell in cells]
    yield Line("published", label, row.id, evidence, numbers, marks)
    if any(cell.scores for cell in there):
        shares = {c.cell.column.label: c.coverage for c in there if c.coverage is not None}
        covered = coverage_note(shares)
        mark = _mark(f"{covered}.", footnotes) if covered else ""
        numbers = [_measured(cell) if cell else Number("") for cell in cells]
        yield Line("measured", "measured", row.id, "", numbers, mark)
    if any(cell.verdict.k for cell in there):
        spreads = [Number(_spread(cell) if cell else "") for cell in cells]
        yield Line("spread", f"sd{THIN_SPACE}(seeds)", row.id, "", spreads)


def _reason(level: Row | Column) -> str:
    """The explanation of why no method or no task reproduces it; empty where one does."""
    return reasons()[level.why_not].explanation if level.why_not else ""


def _mark(text: str, footnotes: Footnotes) -> str:
    """The mark of a footnote; a text that stands there already keeps its own."""
    return footnotes.setdefault(text, str(len(footnotes) + 1).translate(RAISED))


def _printed(cell: Reproduction, footnotes: Footnotes) -> str:
    note = cell.cell.row.notes.get(cell.cell.column.id)
    return f"{printed(cell.cell)}{_mark(note, footnotes) if note else ''}"


def printed(cell: PublishedCell) -> str:
    """The published digits, in points; of a long fraction those that tables show."""
    digits = cell.in_points or cell.value
    return f"{float(digits):.{DIGITS}f}" if _decimals(digits) > DIGITS else digits


def _measured(cell: Reproduction) -> Number:
    """The mean over seeds with as many digits as are printed, two at least, and its verdict."""
    if cell.measured is None:
        return Number(str(cell.state))
    digits = min(max(_decimals(cell.cell.in_points or ""), 2), DIGITS)
    return Number(f"{cell.measured:.{digits}f}", cell.state)


def _decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _spread(cell: Reproduction) -> str:
    k, sd = cell.verdict.k, cell.verdict.sd
    return "" if k is None else f"({k})" if sd is None else f"{sd:.2f}{THIN_SPACE}({k})"


def _about(
    row: Row, published: Table, cells: Cells, registry: Registry, footnotes: Footnotes
) -> str:
    """What a row holds: its method, what it was trained and fitted on, why it was not run."""
    labels = [other.label for other in published.rows]
    in_row = [cell for cell in cells.values() if cell.cell.row.id == row.id]
    method = composed(row.method, registry)
    facts = [f"`{row.method}`"] if row.method else []
    facts += [f"trained on {trained_on(row, method)}"] if not row.model_free else []
    facts += [f"fitted on {corpus}"] if (corpus := fitted_on(row, method)) else []
    if not any(cell.scores for cell in in_row):
        states = {cell.state: None for cell in in_row if row.why_not or not cell.cell.why_not}
        facts.append(f"{', '.join(map(str, states))}{footnotes.get(_reason(row), '')}")
    name = row.name if labels.count(row.label) > 1 else row.label
    return f"{name} (`{row.id}`): {'; '.join(filter(None, facts))}."


def _notes(published: Table) -> list[str]:
    columns: dict[str, list[str]] = {}
    for column in published.columns:
        if text := "; ".join(filter(None, (_reason(column), column.note))):
            columns.setdefault(text, []).append(column.label)
    return [*published.notes, *(f"{', '.join(of)}: {text}" for text, of in columns.items())]


# Formats


def markdown(published: Table, cells: Cells, registry: Registry, records: Results) -> Page:
    """The table's page."""
    made = sheet(published, cells, registry)
    parts = [escape(f"{published.paper}, {published.table}. Source: {published.source}.")]
    for block in made.blocks:
        parts += [f"**{escape(block.caption)}**"] if block.caption else []
        lines = [_cells_of(line, len(block.head)) for line in block.lines]
        parts.append(table([escape(text) for text in block.head], lines, words=2))
    parts += [*map(escape, [*made.verdicts, *made.legend]), _bullets(made.notes)]
    columns = ", ".join(f"`{column.id}`" for column in published.columns)
    look = (
        f"`harness explain {published.id}/ROW/COLUMN` looks at a cell; the columns are {columns}."
    )
    parts += ["## Rows", look, _bullets(made.rows), *map(escape, made.rules)]
    return Page(published.title, [part for part in parts if part], records)


def _cells_of(line: Line, width: int) -> list[str]:
    """A line of Markdown, which has no cell across columns: a heading is in italics."""
    first, *rest = map(escape, line.texts())
    if line.kind == "heading":
        return [f"*{first}*", *[""] * (width - 1)]
    return [re.sub(r"(?<=\w)_(?=\w)", "_<wbr>", first), *rest]  # where a long name may be broken


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def latex(published: Table, cells: Cells, registry: Registry, records: Results) -> str:
    """The table for a paper: booktabs, one file to \\input; what stands below it as comments."""
    made = sheet(published, cells, registry)
    comments = [
        f"{published.paper}, {published.title}. Generated by harness report.",
        f"\\cite{{{published.cite}}}: harness cite --table {published.id}",
        f"Records: sha256 {records.digest()}",
    ]
    texts = [comment(text) for text in comments]
    for block in made.blocks:
        texts += [comment(block.caption)] if block.caption else []
        texts.append(_latex_table(block))
    below = [*made.verdicts, *made.legend, *made.notes, *made.rows, *made.rules]
    return "\n".join([*texts, *map(comment, below)]) + "\n"


def comment(text: str) -> str:
    """A text as one line that LaTeX skips."""
    return f"% {SPACE.sub(' ', text).strip()}"


def _latex_table(block: Block) -> str:
    """The block's table, its first two columns words; rules above each group's heading."""
    groups: list[list[str]] = [[]]
    for line in block.lines:
        if line.kind == "heading":
            text = rf"\textit{{{latex_escape(line.label)}}}"
            groups.append([rf"\multicolumn{{{len(block.head)}}}{{l}}{{{text}}} \\"])
        else:
            groups[-1].append(latex_line(map(latex_escape, line.texts())))
    return booktabs(f"ll{'r' * len(block.columns)}", block.head, filter(None, groups))


def booktabs(sides: str, head: Sequence[str], groups: Iterable[Iterable[str]]) -> str:
    """A table of LaTeX's package booktabs: a rule above each group of lines."""
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", latex_line(map(latex_escape, head))]
    lines += [line for group in groups for line in (r"\midrule", *group)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def latex_line(cells: Iterable[str]) -> str:
    """One line; after a line break, [ and * are its options and not text."""
    texts = [re.sub(r"^(?=[\[*])", "{}", cell) for cell in cells]
    return rf"{' & '.join(texts)} \\"


@cache
def spelt() -> Mapping[int, str]:
    """What LaTeX prints a character by, of those that it does not print as they are."""
    return str.maketrans(read_typed(dict[str, str], Path(__file__).with_name("latex.toml")))


def latex_escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type."""
    parts = CODE.split(SPACE.sub(" ", text).strip())
    parts[1::2] = [part[1:-1] for part in parts[1::2]]
    parts = [part.translate(spelt()) for part in parts]
    parts[1::2] = [f"\\texttt{{{part}}}" for part in parts[1::2]]
    return "".join(parts)


def contents(tables: Sequence[Table]) -> str:
    """The digest and the count of numbers of each table, then of all: none is lost unnoticed."""
    digests = {table.id: digest_of_repr(table) for table in tables}
    lines = [f"{digests[t.id]}  {len(t.cells):>5}  {t.id}" for t in tables]
    total = sum(len(table.cells) for table in tables)
    lines.append(f"{digest_of(digests)}  {total:>5}  all")
    return "\n".join(
        ["# Generated by harness report: sha256, numbers, published table", *lines, ""]
    )
