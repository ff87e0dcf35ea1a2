"""Generated pages taken apart: tables, their numbers, and cells against what is expected.

An expected cell is its text with more digits than are printed: words have to be equal, a printed
number has to be the expected one, rounded to the digits that are due.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w.]*\w)")
RAISED = str.maketrans(dict.fromkeys("⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass(frozen=True)
class Table:
    """A table, the headings above it and the bold line before it; a line of one cell is a group."""

    headings: tuple[str, ...]
    caption: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass
class Report:
    """What was found wrong, by page, and how many numbers were compared."""

    faults: list[str] = field(default_factory=list)
    numbers: int = 0

    def expect(self, where: str, printed: str, expected: str, digits: int | None = 2) -> None:
        """Compare a printed text with the expected one; `digits` of numbers with a point."""
        self.numbers += len(NUMBER.findall(printed))
        if not same(printed, expected, digits):
            self.faults.append(f"{where}: printed {printed!r}, recomputed {expected!r}")

    def cells(
        self, where: str, heads: Sequence[str], printed: Sequence[str], expected: Sequence[str]
    ) -> None:
        """Compare the cells of a line, each under its heading."""
        self.equal(f"{where}: cells", (len(heads), len(printed)), (len(expected),) * 2)
        for head, cell, due in zip(heads, printed, expected, strict=False):
            self.expect(f"{where}: {head}", cell, due)

    def equal(self, where: str, printed: object, expected: object) -> None:
        """Compare what has to be equal."""
        if printed != expected:
            self.faults.append(f"{where}: printed {printed!r}, recomputed {expected!r}")


def same(printed: str, expected: str, digits: int | None = 2) -> bool:
    """Whether words are equal, and numbers as far as they are printed; None: any digits."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", expected):
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True)
    return all(_same_number(a, b, digits) for a, b in pairs)


def _same_number(printed: str, expected: str, digits: int | None) -> bool:
    if "." not in expected:
        return printed == expected
    decimals = len(printed.partition(".")[2])
    if digits is not None and decimals != digits:
        return False
    return abs(float(printed) - float(expected)) <= 0.5 * 10.0**-decimals + 2e-9


def content(path: Path) -> Any:
    """What a file of TOML or JSON holds."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def markdown(path: Path) -> Iterator[Table]:
    """The tables of a page, in order."""
    headings: dict[int, str] = {}
    caption, lines = "", path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if found := re.match(r"(#+) (.*)", line):
            level = len(found[1])
            headings = {k: v for k, v in headings.items() if k < level} | {level: found[2]}
            caption = ""
        elif found := re.fullmatch(r"\*\*(.*)\*\*", line):
            caption = found[1]
        elif line.startswith("|"):
            rows = []
            while at < len(lines) and lines[at].startswith("|"):
                rows.append([plain(cell) for cell in re.split(r"(?<!\\)\|", lines[at])[1:-1]])
                at += 1
            yield Table(tuple(headings.values()), caption, rows[0], [*map(_group, rows[2:])])
            continue
        at += 1


def plain(cell: str) -> str:
    """The text of a Markdown cell."""
    text = cell.replace("<wbr>", "").replace("&lt;", "<").replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\\(?=[^A-Za-z0-9\s])", "", text).strip()


def _group(line: list[str]) -> list[str]:
    heads = line[0].startswith("*") and not any(line[1:])
    return [line[0].strip("*")] if heads else line


def numbers(cells: Iterable[str]) -> list[str]:
    return [number for cell in cells for number in NUMBER.findall(bare(cell))]


def bare(cell: str) -> str:
    """A cell without the marks of its footnotes."""
    return cell.translate(RAISED).strip()
