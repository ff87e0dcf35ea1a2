"""Text for a terminal: tables whose columns fit its width, and nothing that commands it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

INDENT = "  "
# Control characters but tab and line feed, and those that turn the direction of
# writing.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A text with its control characters spelt out, as in a string of Python."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def text_table(
    rows: Sequence[Sequence[object]],
    head: Sequence[str],
    width: int | None = None,
    sides: Sequence[str] | None = None,
) -> str:
    """A table in plain text, its columns aligned to the left or as `sides` say.

    Where they do not fit the width, each row has its first cell on a line of its own
    and the others, named by their heads, below it; no word is broken.
    """
    from tabulate import tabulate

    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    columns = tabulate(texts, headers=list(head), disable_numparse=True, colalign=sides)
    if width is None or all(
        len(line.rstrip()) <= width for line in columns.splitlines()
    ):
        return columns
    lines = []
    for first, *others in texts:
        named = (
            f"{name}: {text}"
            for name, text in zip(head[1:], others, strict=True)
            if text
        )
        facts = f"{INDENT}{'   '.join(named)}"
        lines += (
            [wrapped(first, width), wrapped(facts, width)] if facts.strip() else [first]
        )
    return "\n".join(lines)


def wrapped(text: str, width: int | None) -> str:
    """A text in lines of a width, further lines indented; a longer word stays whole."""
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
    """Seconds, minutes or hours, whichever is shortest to read."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
