"""LaTeX: escaped text and lines of tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from harness.core.toml import read_typed
from harness.report.markdown import CODE_SPAN, one_line

# At the start of a line, LaTeX takes these for an option of the line break before it.
OPTION_START = re.compile(r"^(?=[\[*])")


def latex_line(cells: Iterable[str]) -> str:
    """One line of a table, from cells in LaTeX."""
    texts = [OPTION_START.sub("{}", cell) for cell in cells]
    return rf"{' & '.join(texts)} \\"


def latex_escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type."""
    commands = character_commands()
    escaped = []
    for part in CODE_SPAN.split(one_line(text)):
        if CODE_SPAN.fullmatch(part):
            code = part.strip("`").translate(commands)
            escaped.append(f"\\texttt{{{code}}}")
        else:
            escaped.append(part.translate(commands))
    return "".join(escaped)


@cache
def character_commands() -> Mapping[int, str]:
    """The command that prints each character that LaTeX does not print as it is.

    It is for `str.translate`, so the characters are code points.
    """
    commands = read_typed(dict[str, str], Path(__file__).with_suffix(".toml"))
    return str.maketrans(commands)
