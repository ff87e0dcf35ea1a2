"""Generated pages taken apart: tables, their numbers, and whether they are those that are due.

Words are not compared. A line of a table is found by what names it in the data (a
method, a claim, a paper), a column by its heading if that is a name too, else by the
numbers that fit it best; a sentence by the numbers that it has to hold, whatever it
says of them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?M?(?![\w.,]*\w)")
CODE = re.compile(r"`[^`]*`")
RAISED = str.maketrans(dict.fromkeys("⁰¹²³⁴⁵⁶⁷⁸⁹"))
HTML_TABLE = re.compile(r"<table.*?>(.*?)</table>", re.DOTALL)
HTML_ROW = re.compile(r"<tr.*?>(.*?)</tr>", re.DOTALL)
HTML_CELL = re.compile(r"<t[hd].*?>(.*?)</t[hd]>", re.DOTALL)
HTML_PARAGRAPH = re.compile(r"<(li|p|caption|summary)\b.*?>(.*?)</\1>", re.DOTALL)
COMPUTED = 9  # decimals of a number that was computed and is not yet rounded


@dataclass(frozen=True)
class Table:
    """A table and the headings above it; a line of one cell is a group."""

    headings: tuple[str, ...]
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Column:
    """What a column may hold: the words that name it, its cells by line, what they are of."""

    names: Collection[str]
    cells: Sequence[str]
    subject: object = None


@dataclass
class Report:
    """What was found wrong, by page, and how many numbers were compared."""

    faults: list[str] = field(default_factory=list)
    numbers: int = 0

    def equal(self, where: str, printed: object, due: object) -> None:
        """Compare what has to be equal."""
        if printed != due:
            self.faults.append(f"{where}: printed {printed!r}, recomputed {due!r}")

    def expect(self, where: str, printed: str, due: str, digits: int = 2) -> None:
        """Compare the numbers of a cell or of a line; `digits` of those that were computed."""
        self.numbers += len(numbers(printed))
        if not same(printed, due, digits):
            self.faults.append(f"{where}: printed {printed!r}, recomputed {due!r}")

    def columns(
        self, where: str, keys: Sequence[str], table: Table, columns: Sequence[Column]
    ) -> list[Column]:
        """Compare all columns of a table but the first; returns those that were found.

        `keys` name the lines of the table.

        A column is compared with those that its heading names, then with all, and has
        to equal the one that fits it best. One of words with a number here and there is
        not compared.
        """
        found = []
        for place, head in enumerate(table.head[1:], start=1):
            printed = [line[place] for line in table.lines]
            if not any(map(numbers, printed)):
                continue
            for fitting in (named(head, columns), columns):
                best = min(
                    fitting, key=lambda column: len(misfits(printed, column.cells))
                )
                wrong = misfits(printed, best.cells)
                if len(wrong) * 2 <= len(printed):
                    break
            if len(wrong) * 2 > len(printed) and not all(
                map(_holds_numbers_alone, printed)
            ):
                continue
            self.numbers += len(
                [number for cell in printed for number in numbers(cell)]
            )
            for line in wrong:
                self.equal(
                    f"{where}: {keys[line]}: {head}", printed[line], best.cells[line]
                )
            found.append(best)
        return found

    def sentence(
        self, where: str, paragraphs: Iterable[str], due: Iterable[object]
    ) -> None:
        """Require the paragraph with most of these numbers to hold them all, in any order."""
        wanted = Counter(str(number) for number in due)
        missing = min(
            ([*(wanted - Counter(numbers(text))).elements()] for text in paragraphs),
            key=len,
            default=[*wanted],
        )
        self.numbers += wanted.total()
        self.equal(
            f"{where}: numbers that are missing in a sentence of {[*wanted]}",
            missing,
            [],
        )


@cache
def numbers(text: str) -> Sequence[str]:
    """The numbers of a text without the separators of thousands, the marks of footnotes, code."""
    found = NUMBER.findall(CODE.sub("", text.translate(RAISED)))
    return [number.replace(",", "") for number in found]


def same(printed: str, due: str, digits: int = 2) -> bool:
    """Whether two texts have the same numbers, as far as they are printed."""
    pairs = numbers(printed), numbers(due)
    return len(pairs[0]) == len(pairs[1]) and all(
        _same_number(one, other, digits) for one, other in zip(*pairs, strict=True)
    )


def _same_number(printed: str, due: str, digits: int) -> bool:
    decimals, decimals_due = (len(text.partition(".")[2]) for text in (printed, due))
    if decimals_due < COMPUTED or printed.endswith("M"):
        return printed == due
    return (
        decimals == digits
        and abs(float(printed) - float(due)) <= 0.5 * 10.0**-digits + 2e-9
    )


def misfits(printed: Sequence[str], due: Sequence[str]) -> list[int]:
    """The lines on which a column has other numbers than are due."""
    pairs = enumerate(zip(printed, due, strict=True))
    return [line for line, (one, other) in pairs if not same(one, other)]


def named(head: str, columns: Sequence[Column]) -> Sequence[Column]:
    """The columns that a heading names as a whole, else by a word; all if it names none."""
    whole = head.lower()
    words = {whole, *re.findall(r"[\w-]+", whole)}
    lowered = [{name.lower() for name in column.names} for column in columns]
    exact = [
        column for column, names in zip(columns, lowered, strict=True) if whole in names
    ]
    by_word = [
        column for column, names in zip(columns, lowered, strict=True) if words & names
    ]
    return exact or by_word or columns


def _holds_numbers_alone(cell: str) -> bool:
    return not numbers(cell) or not re.search(r"[^\W\d_]", NUMBER.sub("", cell))


def content(path: Path) -> Any:
    """What a file of TOML or JSON holds."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def tables(path: Path) -> Iterator[Table]:
    """The tables of a page of Markdown or HTML, in order."""
    text = path.read_text(encoding="utf-8")
    return _of_html(text) if path.suffix == ".html" else _of_markdown(text.splitlines())


def paragraphs(path: Path) -> list[str]:
    """The texts of a page outside its tables."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return [_plain_html(found[2]) for found in HTML_PARAGRAPH.finditer(text)]
    return [plain(line) for line in text.splitlines() if not line.startswith("|")]


def _of_markdown(lines: Sequence[str]) -> Iterator[Table]:
    headings: dict[int, str] = {}
    rows: list[list[str]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            rows.append([plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            continue
        if rows:
            yield Table(tuple(headings.values()), rows[0], [*map(_group, rows[2:])])
            rows = []
        if found := re.match(r"(#+) (.*)", line):
            level = len(found[1])
            headings = {k: v for k, v in headings.items() if k < level} | {
                level: found[2]
            }


def _of_html(text: str) -> Iterator[Table]:
    for inner in HTML_TABLE.findall(text):
        rows = [
            [_plain_html(c) for c in HTML_CELL.findall(row)]
            for row in HTML_ROW.findall(inner)
        ]
        yield Table((), rows[0], rows[1:])


def plain(cell: str) -> str:
    """The text of a Markdown cell."""
    text = (
        cell.replace("<wbr>", "")
        .replace("&lt;", "<")
        .replace("\N{NO-BREAK SPACE}", " ")
    )
    return re.sub(r"\\(?=[^A-Za-z0-9\s])", "", text).strip()


def _plain_html(html: str) -> str:
    return " ".join(unescape(re.sub(r"<.*?>", " ", html)).split())


def _group(line: list[str]) -> list[str]:
    heads = line[0].startswith("*") and not any(line[1:])
    return [line[0].strip("*")] if heads else line


def bare(cell: str) -> str:
    """A cell without the marks of its footnotes."""
    return cell.translate(RAISED).strip()
