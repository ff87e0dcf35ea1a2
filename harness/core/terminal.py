"""Text for a terminal: tables that fit its width, times and counts, no control characters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

INDENT = "  "
# Control characters except tab and line feed, characters that change the direction of
# writing, and halves of characters, which cannot be written.
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """A text with its control characters written as in a string of Python."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def text_table(
    rows: Sequence[Sequence[object]],
    head: Sequence[str],
    width: int | None = None,
    sides: Sequence[str] | None = None,
) -> str:
    """A table in plain text, or a list if the table is wider than `width`.

    Args:
        rows: The cells; None is an empty one.
        head: The names of the columns.
        width: The width of the terminal in characters; None for any.
        sides: The alignment of each column, `left` or `right`; None aligns all left.
    """
    from tabulate import tabulate

    text_rows = []
    for row in rows:
        text_rows.append(["" if cell is None else str(cell) for cell in row])
    table = tabulate(
        text_rows, headers=list(head), disable_numparse=True, colalign=sides
    )
    line_lengths = [len(line.rstrip()) for line in table.splitlines()]
    if width is None or max(line_lengths, default=0) <= width:
        return table
    # The first cell of a row on a line, and below it the others with their columns' names.
    lines = []
    for title, *texts in text_rows:
        lines.append(wrapped(title, width))
        columns = zip(head[1:], texts, strict=True)
        named = [f"{name}: {text}" for name, text in columns if text]
        if named:
            lines.append(wrapped(f"{INDENT}{'   '.join(named)}", width))
    return "\n".join(lines)


def wrapped(text: str, width: int | None) -> str:
    """A text broken into lines of a width, whose words stay whole.

    The lines after the first are indented by two blanks more than the text.
    """
    if width is None:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent + INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def duration(seconds: float) -> str:
    """A time in seconds, from 90 seconds on in minutes, from 90 minutes on in hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def counted(count: int, noun: str) -> str:
    """`1 fit`, `2 fits`."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def signed(number: float, decimals: int = 2) -> str:
    """With its sign and so many decimals; no -0.00."""
    return f"{round(number, decimals) + 0.0:+.{decimals}f}"
