"""LaTeX: escaped text and booktabs tables that need no other package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.files import digest_of, digest_of_repr
from harness.registry import Registry
from harness.report.markdown import CODE, SPACE, escape, page, table
from harness.report.sentences import fitted_on, metric, trained_on
from harness.results.published import EVIDENCE, Column, PublishedCell, Row, Table, reasons
from harness.results.reproduction import Reproduction, composed, count, coverage_note
from harness.results.verdict import TOLERANCES, VERDICTS, CellState

# Characters that are commands, and symbols that a plain LaTeX font has in its mathematics alone.
SPELT = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
    "|": r"\textbar{}",
    **{char: f"\\{char}" for char in "$&%#_"},
    "\N{NO-BREAK SPACE}": "~",
    "†": r"\dag{}",
    "↳": r"\quad{}",
    "≃": r"$\simeq$",
    "∼": r"$\sim$",
    "±": r"$\pm$",
    "≠": r"$\neq$",
    "…": r"\dots{}",
    "●": r"$\bullet$",
    "◉": r"$\odot$",
    "○": r"$\circ$",
    "△": r"$\triangle$",
    "×": r"$\times$",
    **{digit: rf"\textsuperscript{{{n}}}" for n, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
SPECIAL = re.compile("|".join(map(re.escape, SPELT)))


def latex_escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type.

    Examples:
        >>> print(escape("5 % of `a_b`"))
        5 \\% of \\texttt{a\\_b}
    """
    parts = CODE.split(SPACE.sub(" ", text).strip())
    parts[::2] = [_plain(part) for part in parts[::2]]
    parts[1::2] = [f"\\texttt{{{_plain(part[1:-1])}}}" for part in parts[1::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    return SPECIAL.sub(lambda found: SPELT[found[0]], text)


def comment(text: str) -> str:
    """A text as one line that LaTeX skips."""
    return f"% {SPACE.sub(' ', text).strip()}"


def latex_table(head: Sequence[str], lines: Sequence[Sequence[str]], words: int = 1) -> str:
    """A booktabs table of plain texts, its first columns words; a line of one cell is a heading."""
    sides = "".join("l" if n < words else "r" for n in range(len(head)))
    made = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", _line(head), r"\midrule"]
    for n, line in enumerate(lines):
        if len(line) == len(head):
            made.append(_line(line))
            continue
        made += [r"\midrule"] if n else []
        made.append(rf"\multicolumn{{{len(head)}}}{{l}}{{\textit{{{latex_escape(line[0])}}}}} \\")
    return "\n".join([*made, r"\bottomrule", r"\end{tabular}"])


def _line(cells: Sequence[str]) -> str:
    """One line; after a line break, [ and * are its options and not text."""
    texts = [re.sub(r"^(?=[\[*])", "{}", latex_escape(cell)) for cell in cells]
    return rf"{' & '.join(texts)} \\"


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
Cells = Sequence[Reproduction | None]


@dataclass(frozen=True)
class Block:
    """Columns that stand beside each other; a line of one cell heads the lines below it.

    `columns` are the ids of the columns of numbers, `rows` the id of each line's row, empty for a
    heading.
    """

    caption: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    columns: Sequence[str]
    rows: Sequence[str]


@dataclass(frozen=True)
class Sheet:
    """A table in plain text: its blocks, their marks' legend, notes, each row, the rules."""

    blocks: Sequence[Block]
    legend: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[str]
    rules: Sequence[str]


def sheet(published: Table, cells: Mapping[str, Reproduction], registry: Registry) -> Sheet:
    """The table as both formats print it: a line of published numbers a row, ours beneath."""
    footnotes: Footnotes = {}
    by_row = {
        row.id: [c for c in cells.values() if c.cell.row.id == row.id] for row in published.rows
    }
    blocks = [
        _block(caption, columns, published, cells, footnotes)
        for caption, columns in _columns(published)
    ]
    notes = [f"{mark} {text}" for text, mark in footnotes.items()] + _notes(published)
    rules = [TOLERANCES.sentence()] if any(cell.scores for cell in cells.values()) else []
    labels = [row.label for row in published.rows]
    about = [
        f"{row.name if labels.count(row.label) > 1 else row.label} (`{row.id}`): "
        f"{_about(row, by_row[row.id], registry, footnotes)}."
        for row in published.rows
    ]
    legend = [*_verdicts(cells.values()), *_evidence(cells.values()), *_dagger(published)]
    return Sheet(blocks, legend, notes, about, rules)


def heading(published: Table, column: Column) -> str:
    """The column's label, with its metric where that is not the table's and not said by it."""
    name = (column.metric or published.metric).replace("_", " ")
    said = column.metric in (None, published.metric) or name in column.label
    return column.label if said else f"{column.label} ({name})"


def markdown(
    published: Table, cells: Mapping[str, Reproduction], registry: Registry, digest: str
) -> str:
    """The table's page."""
    made = sheet(published, cells, registry)
    parts = [escape(f"{published.paper}, {published.table}. Source: {published.source}.")]
    for block in made.blocks:
        parts += [f"**{escape(block.caption)}**"] if block.caption else []
        lines = [_paper_tables_line(line, len(block.head)) for line in block.lines]
        parts.append(table([escape(text) for text in block.head], lines, words=2))
    parts += [*map(escape, made.legend), _bullets(made.notes)]
    columns = ", ".join(f"`{column.id}`" for column in published.columns)
    named = (
        f"`harness explain {published.id}/ROW/COLUMN` looks at a cell; the columns are {columns}."
    )
    parts += ["## Rows", named, _bullets(made.rows), *map(escape, made.rules)]
    return page(published.title, [part for part in parts if part], digest)


def _paper_tables_line(line: Sequence[str], width: int) -> list[str]:
    """A line of Markdown, which has no cell across columns: a heading is in italics."""
    first, *rest = map(escape, line)
    if len(line) < width:
        return [f"*{first}*", *[""] * (width - 1)]
    return [re.sub(r"(?<=\w)_(?=\w)", "_<wbr>", first), *rest]  # where a long name may be broken


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)


def latex(
    published: Table, cells: Mapping[str, Reproduction], registry: Registry, digest: str
) -> str:
    """The table for a paper: booktabs, one file to \\input; what stands below it as comments."""
    made = sheet(published, cells, registry)
    texts = [
        comment(f"{published.paper}, {published.title}. Generated by harness report."),
        comment(f"\\cite{{{published.cite}}}: harness cite --table {published.id}"),
        comment(f"Records: sha256 {digest}"),
    ]
    for block in made.blocks:
        texts += [comment(block.caption)] if block.caption else []
        texts.append(latex_table(block.head, block.lines, words=2))
    texts += map(comment, [*made.legend, *made.notes, *made.rows, *made.rules])
    return "\n".join(texts) + "\n"


def summary(
    tables: Sequence[tuple[Table, Mapping[str, Reproduction]]], measured: bool = False
) -> str:
    """Per paper: cells run, by each verdict that there is, with a method here, and published.

    With `measured` papers without a measured number have no line; the last counts all papers.
    """
    papers: dict[str, list[Reproduction]] = {}
    for published, cells in tables:
        papers.setdefault(published.paper, []).extend(cells.values())
    papers["all"] = [cell for cells in papers.values() for cell in cells]
    counts = {paper: count(cells_of_paper) for paper, cells_of_paper in papers.items()}
    given = [str(verdict) for verdict in VERDICTS if counts["all"][verdict]]
    columns = ["run", *given, "runnable", "published"]
    lines = [
        [escape(paper), *(found[c] for c in columns)]
        for paper, found in counts.items()
        if found["run"] or paper == "all" or not measured
    ]
    return table(["paper", *columns], lines)


def contents(tables: Sequence[Table]) -> str:
    """The digest and the count of numbers of each table, then of all: none is lost unnoticed."""
    digests = {table.id: digest_of_repr(table) for table in tables}
    lines = [f"{digests[t.id]}  {len(t.cells()):>5}  {t.id}" for t in tables]
    total = sum(len(table.cells()) for table in tables)
    lines.append(f"{digest_of(digests)}  {total:>5}  all")
    return "\n".join(
        ["# Generated by harness report: sha256, numbers, published table", *lines, ""]
    )


def _columns(published: Table) -> Iterator[tuple[str, Sequence[Column]]]:
    """The columns without a caption or, where they are too many, those of each metric with it."""
    if len(published.columns) <= WIDEST:
        yield "", published.columns
        return
    metrics = [column.metric or published.metric for column in published.columns]
    for name in dict.fromkeys(metrics):
        own = [c for c, of in zip(published.columns, metrics, strict=True) if of == name]
        yield metric(name), own


def _block(
    caption: str,
    columns: Sequence[Column],
    published: Table,
    cells: Mapping[str, Reproduction],
    notes: Footnotes,
) -> Block:
    """The rows that print a number in these columns, each group below its heading."""
    lines: list[tuple[str, list[str]]] = []
    group = None
    for row in published.rows:
        own = [cells.get(f"{published.id}/{row.id}/{column.id}") for column in columns]
        if any(own):
            lines += [("", [row.group])] if row.group and row.group != group else []
            lines += [(row.id, line) for line in _row(row, own, notes)]
            group = row.group
    headings = (c.label if caption else heading(published, c) for c in columns)
    rows, texts = zip(*lines, strict=True) if lines else ((), ())
    head = ["row", EVIDENCE_COLUMN, *headings]
    return Block(caption, head, texts, [column.id for column in columns], rows)


def _row(row: Row, cells: Cells, notes: Footnotes) -> list[list[str]]:
    """The published numbers; if any was measured also ours, and their spread over seeds.

    A verdict that all measured cells share stands once, before them.
    """
    there = [cell for cell in cells if cell]
    texts = [_reason(row), row.note, *dict.fromkeys(c for cell in there for c in cell.copies)]
    marks = THIN_SPACE.join(_mark(text, notes) for text in texts if text)
    known = next((e for cell in there if (e := cell.cell.evidence)), None)
    evidence = EVIDENCE_MARKS[known] if known else ""
    label = f"{row.label}{DAGGER if row.transductive else ''}{marks}"
    lines = [[label, evidence, *(_printed(cell, notes) for cell in cells)]]
    verdicts = {cell.state for cell in there if cell.scores}
    shared = f"{THIN_SPACE}{MARKS[next(iter(verdicts))]}" if len(verdicts) == 1 else ""
    if verdicts:
        measured = (_measured(cell, marked=not shared) for cell in cells)
        shares = {c.cell.column.label: c.coverage for c in there if c.coverage is not None}
        covered = coverage_note(shares)
        mark = _mark(f"{covered}.", notes) if covered else ""
        lines.append([f"{OURS}{THIN_SPACE}measured{shared}{mark}", "", *measured])
    if any(cell.verdict.k for cell in there):
        lines.append([f"{OURS}{THIN_SPACE}sd{THIN_SPACE}(seeds)", "", *map(_spread, cells)])
    return lines


def _reason(level: Row | Column) -> str:
    """The explanation of why no method or no task reproduces it; empty where one does."""
    return reasons()[level.why_not].explanation if level.why_not else ""


def _mark(text: str, notes: Footnotes) -> str:
    """The mark of a footnote; a text that stands there already keeps its own."""
    return notes.setdefault(text, str(len(notes) + 1).translate(RAISED))


def _printed(cell: Reproduction | None, notes: Footnotes) -> str:
    if cell is None:
        return ""
    note = cell.cell.row.notes.get(cell.cell.column.id)
    return f"{printed(cell.cell)}{_mark(note, notes) if note else ''}"


def printed(cell: PublishedCell) -> str:
    """The published digits, in points; of a long fraction those that tables show."""
    digits = cell.in_points or cell.value
    return f"{float(digits):.{DIGITS}f}" if _decimals(digits) > DIGITS else digits


def _measured(cell: Reproduction | None, marked: bool) -> str:
    """The mean over seeds with as many digits as are printed, two at least, and its verdict."""
    if cell is None:
        return ""
    if cell.measured is None:
        return str(cell.state)
    digits = min(max(_decimals(cell.cell.in_points or ""), 2), DIGITS)
    return f"{cell.measured:.{digits}f}" + (f"{THIN_SPACE}{MARKS[cell.state]}" if marked else "")


def _spread(cell: Reproduction | None) -> str:
    if cell is None or cell.verdict.k is None:
        return ""
    sd = "" if cell.verdict.sd is None else f"{cell.verdict.sd:.2f}{THIN_SPACE}"
    return f"{sd}({cell.verdict.k})"


def _decimals(digits: str) -> int:
    return len(digits.partition(".")[2])


def _verdicts(cells: Iterable[Reproduction]) -> list[str]:
    """The legend of the verdicts that the table has."""
    found = {cell.state for cell in cells}
    words = [f"{mark} {state}" for state, mark in MARKS.items() if state in found]
    about = f"{OURS} measured here, with its verdict (or before the numbers, if all have the same)"
    return [f"{about}: {', '.join(words)}."] if words else []


def _evidence(cells: Iterable[Reproduction]) -> list[str]:
    """The legend of the evidence that the table has."""
    found = {cell.cell.evidence for cell in cells}
    words = [f"{EVIDENCE_MARKS[e]} {e}, {text}" for e, text in EVIDENCE.items() if e in found]
    about = f"{EVIDENCE_COLUMN} (evidence) is how the protocol of a row is known"
    return [f"{about}: {'; '.join(words)}."] if words else []


def _about(row: Row, cells: Sequence[Reproduction], registry: Registry, notes: Footnotes) -> str:
    """What a row holds: its method, what it was trained and fitted on, why it was not run."""
    method = composed(row.method, registry) if row.method and not row.model_free else None
    facts = [f"`{row.method}`"] if row.method else []
    facts += [f"trained on {trained_on(row, method)}"] if not row.model_free else []
    facts += [f"fitted on {corpus}"] if (corpus := fitted_on(row, method)) else []
    if not any(cell.scores for cell in cells):
        states = {cell.state: None for cell in cells if row.why_not or not cell.cell.why_not}
        facts.append(f"{', '.join(map(str, states))}{notes.get(_reason(row), '')}")
    return "; ".join(filter(None, facts))


def _dagger(published: Table) -> list[str]:
    """What the dagger means, if a row has it."""
    fitted = any(row.transductive for row in published.rows)
    return [f"{DAGGER} fitted on the sentences that are scored, no labels seen."] if fitted else []


def _notes(published: Table) -> list[str]:
    """The table's own notes and its columns'."""
    columns: dict[str, list[str]] = {}
    for column in published.columns:
        if text := "; ".join(filter(None, (_reason(column), column.note))):
            columns.setdefault(text, []).append(column.label)
    return [*published.notes, *(f"{', '.join(of)}: {text}" for text, of in columns.items())]
