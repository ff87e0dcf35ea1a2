"""LaTeX: escaped text, tables of the package booktabs, comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.core.toml import read_typed
from harness.report.markdown import CODE_SPAN, WHITE_SPACE

OPTION_START = re.compile(
    r"^(?=[\[*])"
)  # what LaTeX takes for an option of the line break before it


def latex_table(
    sides: str, head: Sequence[str], groups: Iterable[Iterable[str]]
) -> str:
    """A table with a rule above each group of lines; `sides` are l and r, one for each column."""
    lines = [
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        latex_line(map(latex_escape, head)),
    ]
    for group in groups:
        lines.append(r"\midrule")
        lines += group
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def latex_line(cells: Iterable[str]) -> str:
    """One line of a table, from cells in LaTeX."""
    texts = [OPTION_START.sub("{}", cell) for cell in cells]
    return rf"{' & '.join(texts)} \\"


def latex_comment(text: str) -> str:
    """A text as one line that LaTeX skips."""
    return f"% {WHITE_SPACE.sub(' ', text).strip()}"


def latex_escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type."""
    escaped = []
    for part in CODE_SPAN.split(WHITE_SPACE.sub(" ", text).strip()):
        if CODE_SPAN.fullmatch(part):
            escaped.append(f"\\texttt{{{part.strip('`').translate(spelt())}}}")
        else:
            escaped.append(part.translate(spelt()))
    return "".join(escaped)


@cache
def spelt() -> Mapping[int, str]:
    """How LaTeX is told to print each character that it does not print as it is."""
    return str.maketrans(
        read_typed(dict[str, str], Path(__file__).with_suffix(".toml"))
    )
