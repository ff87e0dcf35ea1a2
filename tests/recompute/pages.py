"""Pages of Markdown and HTML as tables and paragraphs, compared with what they have to hold.

No sentence is known. A row is found by what names it in the data (a method, a claim, a
published row), and a number in it by its place; a sentence by the numbers it has to hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import unescape
from itertools import takewhile, zip_longest
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?M?(?![\w.,]*\w)")
CODE = re.compile(r"`[^`]*`")
FOOTNOTES = str.maketrans(dict.fromkeys("⁰¹²³⁴⁵⁶⁷⁸⁹"))
LINK = re.compile(r"\[(.*?)\]\(.*?\)")
TITLE = re.compile(r"#+ (.*)|\*\*(.*)\*\*$")
HTML_TABLE = re.compile(r"<table([^>]*)>(.*?)</table>", re.DOTALL)
HTML_ROW = re.compile(r"<tr.*?>(.*?)</tr>", re.DOTALL)
HTML_CELL = re.compile(r"<t[hd].*?>(.*?)</t[hd]>", re.DOTALL)
HTML_PARAGRAPH = re.compile(r"<(li|p|caption|summary)\b.*?>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """A table: the title above it (in HTML its name or its caption), headings, and rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def names(self) -> list[str]:
        return [name_in(row[0]) for row in self.rows]


@dataclass(frozen=True)
class Rounded:
    """A computed number, of which a page prints some decimals."""

    value: float
    decimals: int = 2

    def is_printed_as(self, text: str) -> bool:
        """Whether these are its digits; a tie may be rounded either way."""
        error = abs(float(text) - self.value)
        decimals = len(text.partition(".")[2])
        return decimals == self.decimals and error <= 0.5 * 10.0**-decimals + 2e-9


# Numbers of a cell, in order, where text is digits that are printed as they are. A cell
# may also be a name; or it has words that are not compared.
Numbers = Sequence[Rounded | int | str]
Cell = Numbers | str | None


@dataclass(frozen=True)
class Comparison:
    """A number or text on a page, and the one that the records give for its place."""

    where: str
    printed: object
    due: object
    is_equal: bool
    numbers: int = 0  # how many were compared


@cache
def numbers(text: str) -> Sequence[str]:
    """The numbers of a text without separators of thousands, marks of footnotes and code."""
    found = NUMBER.findall(CODE.sub("", text.translate(FOOTNOTES)))
    return [number.replace(",", "") for number in found]


def are_printed_as(due: Numbers, printed: str) -> bool:
    """Whether a text has these numbers, in this order, and no other."""
    found = numbers(printed)
    return len(found) == len(due) and all(
        one.is_printed_as(text) if isinstance(one, Rounded) else str(one) == text
        for text, one in zip(found, due, strict=True)
    )


def name_in(cell: str) -> str:
    """A name without its link, its footnotes and the marks around it."""
    return LINK.sub(r"\1", cell).translate(FOOTNOTES).replace("`", "").strip("*†≈ ")


class Page:
    """A page of Markdown or HTML."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.text = path.read_text(encoding="utf-8")
        self.is_html = path.suffix == ".html"

    @cached_property
    def tables(self) -> list[Table]:
        read = _tables_of_html if self.is_html else _tables_of_markdown
        return [*read(self.text)]

    @cached_property
    def paragraphs(self) -> list[str]:
        """The texts outside tables."""
        if self.is_html:
            found = HTML_PARAGRAPH.finditer(self.text)
            return [_text_of_html(one[2]) for one in found]
        return [line for line in self.text.splitlines() if not line.startswith("|")]

    def section(self, title: str) -> list[str]:
        """The paragraphs below a heading of Markdown."""
        after = self.paragraphs[self.paragraphs.index(f"## {title}") + 1 :]
        return [*takewhile(lambda line: not line.startswith("## "), after)]

    def equal(self, what: str, printed: object, due: object) -> Comparison:
        """Whether two things are equal."""
        return Comparison(f"{self.name}: {what}", printed, due, printed == due)

    def rows(self, table: Table, due: Iterable[Sequence[Cell]]) -> Iterator[Comparison]:
        """Every cell of a table, row by row."""
        rows = zip_longest(table.rows, due, fillvalue=())
        for place, (row, due_row) in enumerate(rows):
            where = f"{table.title}: {row[0] if row else f'row {place + 1}'}"
            yield self.equal(f"{where}: number of cells", len(row), len(due_row))
            for cell, due_cell in zip(row, due_row, strict=False):
                if due_cell is not None:
                    yield self.cell(where, cell, due_cell)

    def cell(self, where: str, printed: str, due: Numbers | str) -> Comparison:
        """The numbers of a cell, or its name."""
        if isinstance(due, str):
            return self.equal(where, name_in(printed), name_in(due))
        is_equal, count = are_printed_as(due, printed), len(numbers(printed))
        return Comparison(f"{self.name}: {where}", printed, due, is_equal, count)

    def sentence(
        self, what: str, due: Sequence[int | str], texts: Sequence[str] | None = None
    ) -> Comparison:
        """Whether a paragraph holds all these numbers, in any order."""
        wanted = Counter(map(str, due))
        rows = [" ".join(row) for table in self.tables for row in table.rows]
        every = [*self.paragraphs, *rows] if texts is None else texts
        missing = [wanted - Counter(numbers(text)) for text in every]
        fewest = min(missing, key=Counter.total, default=wanted)
        where = f"{self.name}: the sentence of {what}"
        printed = f"no {[*fewest.elements()]}"
        return Comparison(where, printed, [*wanted], not fewest, wanted.total())


def _tables_of_markdown(text: str) -> Iterator[Table]:
    title, rows = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            rows.append([_text_of_markdown(cell) for cell in cells])
        elif rows:
            # A heading of the rows below is one cell, as in HTML.
            body = [row if any(row[1:]) else row[:1] for row in rows[2:]]
            yield Table(title, rows[0], body)
            rows = []
        if found := TITLE.match(line):
            title = found[1] or found[2]


def _text_of_markdown(cell: str) -> str:
    text = cell.replace("<wbr>", "").replace("\N{NO-BREAK SPACE}", " ")
    return unescape(re.sub(r"\\(?=[^A-Za-z0-9\s])", "", text)).strip()


def _tables_of_html(text: str) -> Iterator[Table]:
    for attributes, inner in HTML_TABLE.findall(text):
        named = re.search(r'data-table="(.*?)"', attributes)
        caption = _text_of_html(inner.partition("<thead>")[0])
        rows = [
            [_text_of_html(cell) for cell in HTML_CELL.findall(row)]
            for row in HTML_ROW.findall(inner)
        ]
        yield Table(named[1] if named else caption, rows[0], rows[1:])


def _text_of_html(html: str) -> str:
    return " ".join(unescape(re.sub(r"<.*?>", " ", html)).split())
