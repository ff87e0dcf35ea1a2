"""What people paste: rows of named numbers in a text of any common form.

A text is a list of assignments (`sts12=72.37,sts13=80.60` or `STS Avg 81.57`), the table
that SimCSE's `evaluation.py` prints, or a table of Markdown, LaTeX, HTML, CSV or columns
between blanks. Every form of a table becomes a grid of cells first; `_rows_of_grid` finds
the names of columns and the numbers in it. A file may also be a model's card or a result
file of mteb, and a folder may hold several of them.

A number is a text, with the digits that it has.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

from harness.conclusions.card_statements import (
    FORMS_OF_NUMBERS,
    Statement,
    card_files,
    statements_of_file,
    statements_of_text,
)
from harness.conclusions.cards import parse_metric
from harness.core.errors import DataError, UsageError
from harness.results.published_tables import plain_name
from harness.results.verdict import readings_in_points

FORMS = (
    "COLUMN=NUMBER, as in sts12=45.09,sts13=64.30, a table of Markdown, LaTeX, HTML or CSV, "
    "or a file of them"
)
TEST_SPLITS = ("", "test")

# The columns of the papers' table, in their order: what a row of seven or eight numbers
# without names has.
USUAL_COLUMNS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
TRANSFER_COLUMNS = frozenset(("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"))

Grid = Sequence[Sequence[str]]  # the cells of a table, line by line


@dataclass(frozen=True)
class PastedRow:
    """One row of a text: numbers as they are written, by the names of their columns.

    Attributes:
        label: What the row is called; empty without a name.
        values: The numbers by the names that the text has.
        is_assumed: Whether the text has no names, and those of the papers' table are taken.
    """

    label: str
    values: Mapping[str, str]
    is_assumed: bool = False

    @property
    def is_transfer(self) -> bool:
        """Whether its columns are tasks of classification, and its average is theirs."""
        return not TRANSFER_COLUMNS.isdisjoint(map(plain_name, self.values))


def read_pasted(text: str, known_columns: Collection[str]) -> list[PastedRow]:
    """The rows of a text, or of the file or folder of that name.

    Args:
        text: The text, or a path.
        known_columns: The plain names of columns that have published numbers.

    Raises:
        UsageError: The text has no such rows, or one with two numbers for a column.
        DataError: The file or folder has no such numbers.
    """
    is_path = "\n" not in text and len(text) < 1000 and Path(text).exists()
    if not is_path:
        rows = _rows_of_text(text, known_columns)
        if not rows:
            shown = " ".join(text.split())[:40]
            raise UsageError(f"--mine {shown}: wanted {FORMS}; found no named number")
        return rows
    path = Path(text)
    rows = _rows_of_statements(path)
    if not rows and path.is_file():
        try:
            content = path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: wanted a text in UTF-8, found {error}") from None
        rows = _rows_of_text(content, known_columns)
    if not rows:
        raise DataError(
            f"{path}: wanted Spearman correlations in {FORMS_OF_NUMBERS}, or a table of "
            "Markdown, LaTeX or HTML; found none"
        )
    return rows


OWN_LABEL = re.compile(
    r"\b(mine|our|ours|own|reproduced|reproduction|re-?run|this)\b", re.I
)


def values_of_row(
    text: str,
    known_columns: Collection[str],
    column: str = "",
    columns: Sequence[str] = (),
) -> Mapping[str, str]:
    """The numbers of a text that is for one published row, by column.

    Args:
        text: A number for `column`, or a text or path with a row of numbers.
        known_columns: As in `read_pasted`.
        column: The column of a single number; empty where the text names its own.
        columns: The columns of the published row, in their order: those of numbers that
            have no names, if they are as many.

    Raises:
        UsageError: The text has no such numbers, or several rows of which none is called
            `mine` or `ours`.
        DataError: The file has no such numbers.
    """
    is_number = not re.search(r"[=\n|&<,]", text) and not Path(text).is_file()
    if column and is_number:
        return {column: text}
    rows = read_pasted(text, known_columns)
    own_rows = (
        rows if len(rows) == 1 else [r for r in rows if OWN_LABEL.search(r.label)]
    )
    if len(own_rows) != 1:
        labels = ", ".join(row.label or "a row without a name" for row in rows)
        raise UsageError(
            f"--mine: wanted one row, or one that is called mine, found {len(rows)}: {labels}; "
            "keep one of them, or leave the published row out to compare them all"
        )
    [row] = own_rows
    if row.is_assumed and len(columns) == len(row.values):
        return dict(zip(columns, row.values.values(), strict=True))
    return row.values


# Cards and result files


def _rows_of_statements(path: Path) -> list[PastedRow]:
    """The Spearman correlations of cosines on test sets that a file or folder states, as a row."""
    values: dict[str, str] = {}
    for file in card_files(path):
        if file.suffix in (".csv", ".tsv", ".txt", ".tex", ".html", ".htm"):
            continue
        values |= _values_of_statements(statements_of_file(file), values)
    return [PastedRow(label=path.stem, values=values)] if values else []


def _values_of_statements(
    statements: Iterable[Statement], known: Mapping[str, str]
) -> dict[str, str]:
    """The numbers of statements by data set, the first of each."""
    values = dict(known)
    for statement in statements:
        is_cosine = parse_metric(statement.metric) == ("cosine", "spearman")
        readings = readings_in_points(statement.value)
        if is_cosine and readings and statement.split in TEST_SPLITS:
            name = statement.data_set.removeprefix("MTEB ")
            values.setdefault(name, statement.value)
    return values


# Texts


def _rows_of_text(text: str, known_columns: Collection[str]) -> list[PastedRow]:
    """The rows of a text in the first form that gives any."""
    if text.lstrip().startswith(("---", "{")):
        suffix = ".md" if text.lstrip().startswith("---") else ".json"
        source = Path(f"standard input{suffix}")
        try:
            values = _values_of_statements(
                statements_of_text(source, text.lstrip()), {}
            )
        except DataError:
            values = {}
        if values:
            return [PastedRow(label="", values=values)]
    if re.search(r"<t[rdh]\b", text, re.IGNORECASE):
        grids = _grids_of_html(text)
    else:
        grids = [_grid_of_lines(block) for block in re.split(r"\n\s*\n", text)]
    rows = [row for grid in grids for row in _rows_of_grid(grid, known_columns)]
    return rows or _assignments(text, known_columns)


ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=\s*(\S+)\s*")
NAME_AND_NUMBER = re.compile(
    r"([A-Za-z][A-Za-z0-9.\- ]*?)\s*[:\s]\s*(-?\d{1,3}(?:\.\d+)?%?)(?=[\s,;]|$)"
)


def _assignments(text: str, known_columns: Collection[str]) -> list[PastedRow]:
    """The row of a list such as `sts12=72.37,sts13=80.60` or `STS12 72.37, STS Avg: 81.57`.

    Raises UsageError for a part of a list with `=` that has no name, and a repeated name.
    """
    values: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    if "=" in text:
        for part in re.split(r"[,;\n]", text.strip().strip(",;")):
            match = ASSIGNMENT.fullmatch(part)
            if match is None:
                raise UsageError(f"--mine {part.strip()}: wanted {FORMS}")
            pairs.append((match[1], match[2]))
    else:
        for match in NAME_AND_NUMBER.finditer(text):
            column = _column_named(match[1], known_columns)
            if column:
                pairs.append((column, match[2]))
    for name, number in pairs:
        if plain_name(name) in map(plain_name, values):
            raise UsageError(f"--mine {text}: wanted one number a column, found two")
        values[name] = number
    return [PastedRow(label="", values=values)] if values else []


# Grids of cells


class _TableParser(HTMLParser):
    """Collects the cells of tables, without the text of `sup` and `sub`: marks of footnotes."""

    def __init__(self) -> None:
        super().__init__()
        self.grids: list[list[list[str]]] = [[]]
        self._marks = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the library's signature
        if tag == "table":
            self.grids.append([])
        elif tag == "tr":
            self.grids[-1].append([])
        elif tag in ("td", "th"):
            if not self.grids[-1]:
                self.grids[-1].append([])
            self.grids[-1][-1].append("")
        elif tag in ("sup", "sub"):
            self._marks += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("sup", "sub"):
            self._marks = max(0, self._marks - 1)

    def handle_data(self, data: str) -> None:
        lines = self.grids[-1]
        if lines and lines[-1] and not self._marks:
            lines[-1][-1] += data


def _grids_of_html(text: str) -> list[Grid]:
    """The tables of a page."""
    parser = _TableParser()
    parser.feed(text)
    parser.close()
    return list(parser.grids)


def _grid_of_lines(block: str) -> Grid:
    """The cells of a table in LaTeX, Markdown, CSV, or columns between blanks."""
    if "&" in block:
        block = re.sub(r"(?<!\\)%.*", "", block)
        lines = re.split(r"\\\\(?:\[[^]]*\])?|\\tabularnewline", block)
        return [re.split(r"(?<!\\)&", " ".join(line.split())) for line in lines]
    lines = [line.strip() for line in block.splitlines() if line.strip()]
    if any("|" in line for line in lines):
        piped = [line for line in lines if "|" in line]
        return [re.sub(r"^\||\|$", "", line).split("|") for line in piped]
    for delimiter in ("\t", ";", ","):
        if any(delimiter in line for line in lines):
            cells = csv.reader(StringIO("\n".join(lines)), delimiter=delimiter)
            if delimiter == ";":  # decimals have commas there
                return [[cell.replace(",", ".") for cell in line] for line in cells]
            return list(cells)
    return [_cells_between_blanks(line) for line in lines]


def _cells_between_blanks(line: str) -> list[str]:
    """The words before the first number as one cell, and each number; or all words."""
    numbers = re.search(r"(?:\s+-?\d{1,3}\.\d+)+\s*$", line)
    if numbers is None:
        return line.split()
    return [line[: numbers.start()], *numbers[0].split()]


COMMAND = re.compile(
    r"\\(?:multi(?:column|row)\{[^}]*\}\{[^}]*\}|[a-zA-Z]+\*?)|[{}$*_^~\\]|[†‡♣♠♢♡⋆∗#]"
)
NUMBER = re.compile(r"(-?\d{1,3}(?:\.\d+)?|-?\.\d+)\s*%?(?![\d.]*[A-Za-z\d])")
RULE = re.compile(r"[\s:|+=-]*")


def _plain_cell(cell: str) -> str:
    """A cell without commands of LaTeX and marks of Markdown."""
    # A subscript is a deviation or a size: no part of a number, but of a name.
    return " ".join(COMMAND.sub(" ", cell).split())


def _number_of(cell: str) -> str:
    """The number that a cell begins with; empty if there is none."""
    match = NUMBER.match(cell)
    return match[1] if match else ""


def _column_named(cell: str, known_columns: Collection[str]) -> str:
    """A heading if it names a known column, without remarks in brackets; empty otherwise."""
    without_remarks = re.sub(r"\([^)]*\)|\[[^]]*\]|[↑↓]", "", cell).strip()
    for name in (cell, without_remarks, without_remarks.split(" ")[-1]):
        if plain_name(name) in known_columns:
            return name.strip()
    return ""


def _rows_of_grid(grid: Grid, known_columns: Collection[str]) -> Iterator[PastedRow]:
    """The rows of a table, by the names of columns in the last line of names above them.

    A table with a task a line is turned first. Numbers without any names have those of the
    papers' table if they are seven or eight.
    """
    lines = [[_plain_cell(cell) for cell in line] for line in grid]
    lines = [line for line in lines if not all(map(RULE.fullmatch, line))]
    if not lines:
        return
    named_first = [
        line for line in lines if line and _column_named(line[0], known_columns)
    ]
    headings = [
        sum(bool(_column_named(cell, known_columns)) for cell in line) for line in lines
    ]
    if len(named_first) > 1 and max(headings) < 2:
        width = max(map(len, lines))
        padded = [[*line, *[""] * (width - len(line))] for line in lines]
        lines = [list(line) for line in zip(*padded, strict=True)]
    names: list[str] = []
    for line in lines:
        numbers = [_number_of(cell) for cell in line]
        columns = [_column_named(cell, known_columns) for cell in line]
        is_heading = any(columns) and not any(
            number and name for number, name in zip(numbers, names, strict=False)
        )
        if is_heading:
            names = columns
            continue
        yield from _row_of_line(line, numbers, names)


def _row_of_line(
    line: Sequence[str], numbers: Sequence[str], names: Sequence[str]
) -> Iterator[PastedRow]:
    """The row of a line that has numbers; zeros are tasks that `evaluation.py` did not run."""
    label = next(
        (
            cell
            for cell, number in zip(line, numbers, strict=True)
            if cell and not number
        ),
        "",
    )
    if not any(names):
        present = [number for number in numbers if number]
        if len(present) in (len(USUAL_COLUMNS) - 1, len(USUAL_COLUMNS)):
            values = dict(zip(USUAL_COLUMNS, present, strict=False))
            yield PastedRow(label=label, values=values, is_assumed=True)
        return
    # A line with fewer cells than the heading lacks the cell of a name, at its left.
    offset = len(names) - len(line)
    shifted = names[offset:] if offset > 0 else names
    values = {}
    for name, number in zip(shifted, numbers, strict=False):
        is_repeated = plain_name(name) in map(plain_name, values)
        if name and number and float(number) and not is_repeated:
            values[name] = number
    if values:
        yield PastedRow(label=label, values=values)
