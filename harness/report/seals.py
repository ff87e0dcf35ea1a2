"""Seals: a generated file that is dear to make says itself whether it is up to date.

Its last line is a digest of its text and of the code that made it; a line within it names the
digest of what it was made from. Where both agree, it need not be made again to be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

SEAL = "<!-- Made by: sha256 "


def seal(text: str, sources: Iterable[Path]) -> str:
    """A text with its last line: the digest of the code that made it and of itself."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    digest.update(text.encode())
    return f"{text}{SEAL}{digest.hexdigest()} -->\n"


def holds(drawn: str, made_from: str, sources: Iterable[Path]) -> bool:
    """Whether a text carries the line of what it is made from, and these sources made it."""
    return made_from in drawn and drawn == seal(drawn.partition(SEAL)[0], sources)
