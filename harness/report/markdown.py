"""Markdown: escaped text, links to headings, and parts between markers."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from harness.core.errors import HarnessError

WHITE_SPACE = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")  # a no-break space stays
CODE_SPAN = re.compile(r"(`[^`<>]+`)")  # which shows its text as it is
ENTITY_START = re.compile(r"&(?=#?\w+;)")
# Characters that are markup anywhere, an underscore that is markup at the edge of a word,
# and what is markup at the start of a line.
MARKUP_CHARACTERS = re.compile(r"[\\*~`$\[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
BLOCK_START = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[#>])|(?=[-+=](?:[\s=-]|$)))")


@cache  # the same names are on many pages
def escape(text: str) -> str:
    """A text from data as one line of Markdown that shows it; `code` stays code."""
    parts = []
    for part in CODE_SPAN.split(one_line(text)):
        parts.append(part if CODE_SPAN.fullmatch(part) else _plain(part))
    return BLOCK_START.sub(r"\1\\", "".join(parts))


def one_line(text: str) -> str:
    """A text on one line, without blanks around it; no-break spaces stay."""
    return WHITE_SPACE.sub(" ", text).strip(" ")


def _plain(text: str) -> str:
    """A text without code, in which nothing is markup."""
    entities = ENTITY_START.sub("&amp;", text).replace("<", "&lt;")
    return MARKUP_CHARACTERS.sub(r"\\\g<0>", entities)


def link_to(heading: str) -> str:
    """A link to a heading of the same page, by the address that it has on GitHub."""
    words = re.sub(r"[^\w -]", "", heading.lower())
    return f"[{escape(heading)}](#{words.replace(' ', '-')})"


def between_markers(document: Path, name: str, generated: str) -> str:
    """A document with its part between `<!-- name -->` and `<!-- /name -->` replaced."""
    text = document.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise HarnessError(
            f"{document}: wanted a part between <!-- {name} --> and <!-- /{name} -->, found "
            "none; add both lines"
        )
    if f"<!-- /{name} -->" in generated:
        raise HarnessError(
            f"<!-- /{name} --> is in the text of the part that it ends; rename what holds it"
        )
    return pattern.sub(
        lambda match: f"{match[1]}{generated.rstrip()}\n{match[2]}", text
    )
