"""Text for a terminal: tables whose columns fit its width, and nothing that commands it."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence

INDENT = "  "
BETWEEN = "   "
# Control characters but tab and line feed, and those that turn the direction of writing.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A text with its control characters spelt out, as in a string of Python.

    Examples:
        >>> visible("a title\x1b[2J")
        'a title\\x1b[2J'
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def width_of(terminal: bool) -> int | None:
    """The columns of the terminal; None where output goes to a file or a pipe."""
    return shutil.get_terminal_size().columns if terminal else None


def table(
    rows: Sequence[Sequence[object]],
    head: Sequence[str],
    width: int | None = None,
    sides: Sequence[str] | None = None,
) -> str:
    """A table in plain text; no cell is broken while its words fit.

    Where the columns do not fit the width, each row has its first cell on a line of its own and the
    others, named by their heads, below it. Without a width every table has columns. `sides` align
    them: left, or right.
    """
    from tabulate import tabulate

    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    columns = tabulate(texts, headers=list(head), disable_numparse=True, colalign=sides)
    if width is None or all(len(line.rstrip()) <= width for line in columns.splitlines()):
        return columns
    return "\n".join(line for row in texts for line in _folded(row, head, width))


def wrapped(text: str, width: int | None) -> str:
    """A text in lines of a width, further lines indented; as it is without one."""
    if width is None:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    return "\n".join(_wrapped(text.strip(), width, indent))


def _folded(row: Sequence[str], head: Sequence[str], width: int) -> Iterator[str]:
    """A row as lines: its first cell, then the others as far as they fit beside each other."""
    first, *others = row
    yield from _wrapped(first, width, "")
    line = ""
    for name, text in zip(head[1:], others, strict=True):
        if not text:
            continue
        part = f"{name}: {text}"
        joined = f"{line}{BETWEEN}{part}" if line else f"{INDENT}{part}"
        if line and len(joined) > width:
            yield line
            joined = f"{INDENT}{part}"
        line = joined
        if len(line) > width:
            *whole, line = _wrapped(line.strip(), width, INDENT)
            yield from whole
    if line:
        yield line


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """A text in lines of a width, broken between words; a longer word stays whole."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is shortest to read."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
