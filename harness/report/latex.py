"""LaTeX: escaped text and booktabs tables that need no other package."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.report.markdown import CODE, SPACE

# Characters that are commands, and symbols that a plain LaTeX font has in its mathematics alone.
SPELT = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
    "|": r"\textbar{}",
    **{char: f"\\{char}" for char in "$&%#_"},
    "\N{NO-BREAK SPACE}": "~",
    "†": r"\dag{}",
    "↳": r"\quad{}",
    "≃": r"$\simeq$",
    "∼": r"$\sim$",
    "±": r"$\pm$",
    "≠": r"$\neq$",
    "…": r"\dots{}",
    "●": r"$\bullet$",
    "◉": r"$\odot$",
    "○": r"$\circ$",
    "△": r"$\triangle$",
    "×": r"$\times$",
    **{digit: rf"\textsuperscript{{{n}}}" for n, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
SPECIAL = re.compile("|".join(map(re.escape, SPELT)))


def escape(text: str) -> str:
    """A text from data as LaTeX that prints it; `code` is in typewriter type.

    Examples:
        >>> print(escape("5 % of `a_b`"))
        5 \\% of \\texttt{a\\_b}
    """
    parts = CODE.split(SPACE.sub(" ", text).strip())
    parts[::2] = [_plain(part) for part in parts[::2]]
    parts[1::2] = [f"\\texttt{{{_plain(part[1:-1])}}}" for part in parts[1::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    return SPECIAL.sub(lambda found: SPELT[found[0]], text)


def comment(text: str) -> str:
    """A text as one line that LaTeX skips."""
    return f"% {SPACE.sub(' ', text).strip()}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]], words: int = 1) -> str:
    """A booktabs table of plain texts, its first columns words; a line of one cell is a heading."""
    sides = "".join("l" if n < words else "r" for n in range(len(head)))
    made = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", _line(head), r"\midrule"]
    for n, line in enumerate(lines):
        if len(line) == len(head):
            made.append(_line(line))
            continue
        made += [r"\midrule"] if n else []
        made.append(rf"\multicolumn{{{len(head)}}}{{l}}{{\textit{{{escape(line[0])}}}}} \\")
    return "\n".join([*made, r"\bottomrule", r"\end{tabular}"])


def _line(cells: Sequence[str]) -> str:
    """One line; after a line break, [ and * are its options and not text."""
    texts = [re.sub(r"^(?=[\[*])", "{}", escape(cell)) for cell in cells]
    return rf"{' & '.join(texts)} \\"
