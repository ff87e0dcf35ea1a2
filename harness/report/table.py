"""Tables in four forms: Markdown, LaTeX, HTML and the terminal; and pages from templates.

A page puts the answer to its question into a `ShownTable`; here it is printed. The text of a
cell is plain, with code between backticks, and each form escapes it: nothing from data
is read as markup. HTML is printed by the macro in `templates/table.html`. A page is a
template of that folder, filled with tables and sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import markupsafe
from markupsafe import Markup
from tabulate import tabulate

from harness.core.terminal import text_table
from harness.core.toml import read_typed
from harness.core.types import is_transductive
from harness.results.verdict import TOLERANCES

if TYPE_CHECKING:
    from jinja2 import Environment

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
DAGGER = "†"  # the mark of a transductive row
TIE_MARK = "≈"  # of a method that is not distinguishable from another one
HEADING = "heading"  # the kind of a row that is the heading of those below it


class ShownCell(NamedTuple):
    """A place of a table.

    Attributes:
        text: Its text.
        mark: What follows the text as it is: the sign of a verdict or a tie, the marks
            of footnotes.
        link: The address that the text leads to; empty for none.
        bold: Whether it is in bold type.
        state: The verdict by which HTML colours it.
    """

    text: str
    mark: str = ""
    link: str = ""
    bold: bool = False
    state: str = ""

    @property
    def plain(self) -> str:
        """Its text and mark."""
        return self.text + self.mark


@dataclass(frozen=True)
class ShownColumn:
    """A column.

    Attributes:
        heading: Its heading.
        is_text: Whether it holds words, which are on the left; numbers are on the right.
        key: What it shows, for the script of the page of results.
    """

    heading: str
    is_text: bool = False
    key: str = ""

    @property
    def side(self) -> str:
        """The side on which its texts are aligned."""
        return "left" if self.is_text else "right"


@dataclass(frozen=True)
class ShownRow:
    """A row: `heading` for one that spans the table, or a word that HTML styles it by."""

    cells: Sequence[ShownCell]
    kind: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class ShownTable:
    """A table with its title and notes.

    Attributes:
        columns: The columns.
        rows: The rows, from top to bottom.
        title: Its title; empty where the page has one above it.
        about: An introduction, and what is said below it.
        notes: Sentences below it.
        key: Its id, for the script of the page of results.
    """

    columns: Sequence[ShownColumn]
    rows: Sequence[ShownRow]
    title: str = ""
    about: str = ""
    notes: Sequence[str] = ()
    key: str = ""


def table_of(
    head: Sequence[str],
    rows: Iterable[ShownRow | Iterable[object]],
    texts: int = 1,
    **further: Any,
) -> ShownTable:
    """A table of plain values.

    Args:
        head: The headings of the columns.
        rows: The rows, or the values of each; a `ShownCell` stays as it is.
        texts: How many of the first columns hold words.
        further: Title, introduction and notes of the table.
    """
    columns = [
        ShownColumn(heading, is_text=place < texts)
        for place, heading in enumerate(head)
    ]
    shown = [row if isinstance(row, ShownRow) else row_of(row) for row in rows]
    return ShownTable(columns=columns, rows=shown, **further)


def row_of(values: Iterable[object], kind: str = "", key: str = "") -> ShownRow:
    """A row of plain values; a `ShownCell` stays as it is."""
    cells = [
        value if isinstance(value, ShownCell) else ShownCell(str(value))
        for value in values
    ]
    return ShownRow(cells, kind, key)


def method_cell(method: str, *, is_tied: bool = False) -> ShownCell:
    """The id of a method, with the marks of a transductive one and of a tie."""
    marks = f" {DAGGER}" if is_transductive(method) else ""
    if is_tied:
        marks += f" {TIE_MARK}"
    return ShownCell(f"`{method}`", mark=marks)


# Markdown

WHITE_SPACE = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")  # a no-break space stays
CODE_SPAN = re.compile(r"`([^`<>]+)`")  # which shows its text as it is
ENTITY_START = re.compile(r"&(?=#?\w+;)")
# Characters that are markup anywhere, an underscore that is markup at the edge of a word,
# and what is markup at the start of a line.
MARKUP_CHARACTERS = re.compile(r"[\\*~`$\[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
BLOCK_START = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[#>])|(?=[-+=](?:[\s=-]|$)))")


@cache  # the same names are on many pages
def escape(text: str) -> str:
    """A text from data as one line of Markdown that shows it; `code` stays code."""
    return BLOCK_START.sub(r"\1\\", _in_parts(text, _plain, "`{}`".format))


def one_line(text: str) -> str:
    """A text on one line, without blanks around it; no-break spaces stay."""
    return WHITE_SPACE.sub(" ", text).strip(" ")


def _in_parts(
    text: str, plain: Callable[[str], str], code: Callable[[str], str]
) -> str:
    """A text on one line, its code in the form of code and all else in that of plain text."""
    parts = CODE_SPAN.split(one_line(text))
    parts[::2] = map(plain, parts[::2])
    parts[1::2] = map(code, parts[1::2])
    return "".join(parts)


def _plain(text: str) -> str:
    """A text without code, in which nothing is markup."""
    entities = ENTITY_START.sub("&amp;", text).replace("<", "&lt;")
    return MARKUP_CHARACTERS.sub(r"\\\g<0>", entities)


def anchor(heading: str) -> str:
    """The address that a heading has on GitHub, after the `#`."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def markdown(table: ShownTable) -> str:
    """The table in Markdown, without its title and notes."""
    rows = []
    for row in table.rows:
        cells = [_in_markdown(cell) for cell in row.cells]
        if row.kind == HEADING:
            cells = [f"*{cells[0]}*", *[""] * (len(table.columns) - 1)]
        rows.append(cells)
    # A column is one cell of several lines, since tabulate takes long for each cell.
    columns = ["\n".join(texts) for texts in zip(*rows, strict=True)]
    return tabulate(
        [columns],
        [_in_markdown(ShownCell(column.heading)) for column in table.columns],
        "pipe",
        colalign=[column.side for column in table.columns],
        disable_numparse=True,
        preserve_whitespace=True,
    )


def _in_markdown(cell: ShownCell) -> str:
    text = escape(cell.text)
    if cell.bold:
        text = f"**{text}**"
    if cell.link:
        text = f"[{text}]({cell.link})"
    return f"{text}{cell.mark}".replace("|", "\\|")  # a bar would end the cell


# HTML


def in_html(text: str) -> Markup:
    """A text from data as HTML that shows it; `code` is an element."""
    # As a `str`, since Markup would escape the tags of what replaces a part of it, too.
    escaped = str(markupsafe.escape(text))
    return Markup(CODE_SPAN.sub(r"<code>\1</code>", escaped))  # noqa: S704 - escaped


# LaTeX

# At the start of a line, LaTeX takes these for an option of the line break before it.
OPTION_START = re.compile(r"^(?=[\[*])")


def latex(table: ShownTable) -> str:
    """The table in LaTeX as a float, with its notes as the caption.

    It is set by the package booktabs, with a rule above rows of another kind.
    """
    sides = "".join("l" if column.is_text else "r" for column in table.columns)
    lines = [
        r"% Needs \usepackage{booktabs} in the preamble.",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _latex_line(latex_escape(column.heading) for column in table.columns),
    ]
    kind_above = None
    for row in table.rows:
        if row.kind != kind_above and kind_above != HEADING:
            lines.append(r"\midrule")
        kind_above = row.kind
        cells = [_in_latex(cell) for cell in row.cells]
        if row.kind == HEADING:
            width = len(table.columns)
            cells = [rf"\multicolumn{{{width}}}{{l}}{{\textit{{{cells[0]}}}}}"]
        lines.append(_latex_line(cells))
    lines += [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{latex_escape(' '.join(table.notes))}}}",
        r"\label{tab:methods}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _in_latex(cell: ShownCell) -> str:
    text = latex_escape(cell.text)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    return text + cell.mark.translate(_latex_commands())


def _latex_line(cells: Iterable[str]) -> str:
    texts = [OPTION_START.sub("{}", cell) for cell in cells]
    return rf"{' & '.join(texts)} \\"


def latex_escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type."""

    def printed(part: str) -> str:
        return part.translate(_latex_commands())

    return _in_parts(text, printed, lambda code: f"\\texttt{{{printed(code)}}}")


@cache
def _latex_commands() -> Mapping[int, str]:
    """The command for each character that LaTeX does not print as it is, for `str.translate`."""
    commands = read_typed(dict[str, str], Path(__file__).with_name("latex.toml"))
    return str.maketrans(commands)


# The terminal


def terminal(table: ShownTable, width: int | None) -> str:
    """The table in plain text, of a width in characters; None for any width."""
    rows = []
    for row in table.rows:
        texts = [one_line(cell.plain).replace("`", "") for cell in row.cells]
        rows.append(texts + [""] * (len(table.columns) - len(texts)))
    headings = [column.heading for column in table.columns]
    sides = [column.side for column in table.columns]
    return text_table(rows, headings, width, sides)


# Pages

TEMPLATE_FOLDER = Path(__file__).with_name("templates")
JSON_FORM = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
SEVERAL_EMPTY_LINES = re.compile(r"\n{3,}")


def rendered(template: str, **values: Any) -> str:
    """A template filled with values; at most one empty line is between two others."""
    text = templates().get_template(template).render(values)
    if template.endswith(".md"):
        text = SEVERAL_EMPTY_LINES.sub("\n\n", text)
    return text.strip() + "\n"


@cache
def templates() -> Environment:
    """The templates; in those of HTML every text is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "md": escape,
        "table": _table_in_markdown,
        "anchor": anchor,
        "code": in_html,
    }
    made.policies["json.dumps_kwargs"] = JSON_FORM
    made.globals["tolerances"] = TOLERANCES
    return made


def _table_in_markdown(
    rows: ShownTable | Iterable[Iterable[object]], *head: str, texts: int = 1
) -> str:
    """A table in Markdown, of rows with the headings that the template gives them."""
    return markdown(
        rows if isinstance(rows, ShownTable) else table_of(head, rows, texts)
    )
