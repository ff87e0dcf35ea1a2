"""Attacks on the harness and what came of them: tried, right, rebuilt, refused, silently wrong.

`results/questions/reliability.toml` says what is attacked and what is right then; `make soak`
writes what came of it, one file a row (`results/records/reliability/<id>.json`), in which each part
of an attack has its own counts, so that parts can be tried apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError
from harness.core.toml import read_json, read_rows
from harness.results.layout import measured_for

COUNTS = ("tried", "right", "rebuilt", "refused", "silent")


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness, and the behaviour that counts as right."""

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Tally:
    """How often a part of an attack was tried, and what came of it.

    Args:
        right: Nothing was wrong, and nobody had to do anything.
        rebuilt: What was damaged was noticed and made again, and the outcome was right.
        refused: It was refused in one line, with a status that says so.
        silent: A wrong number, a lost or a stray file, or a traceback.
        commit: The commit that was attacked.
    """

    right: int = 0
    rebuilt: int = 0
    refused: int = 0
    silent: int = 0
    commit: str = ""

    @property
    def tried(self) -> int:
        """All of them."""
        return self.right + self.rebuilt + self.refused + self.silent


@dataclass(frozen=True)
class Tallies:
    """The tallies of an attack, by the names of its parts; COUNTS are their sums."""

    parts: Mapping[str, Tally]

    def total(self, count: str) -> int:
        """The sum of one of COUNTS over the parts."""
        return sum(getattr(part, count) for part in self.parts.values())


def read_tallies(path: Path) -> dict[Attack, Tallies | None]:
    """Every row of a file of attacks with its tallies; None where it was not tried.

    Raises DataError for what is none, and where one was tried that has no row.
    """
    rows, folder = read_rows(Attack, path), tallies_folder(path)
    if len({row.id for row in rows}) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    if stray := {file.stem for file in folder.glob("*.json")} - {row.id for row in rows}:
        raise DataError(f"{path.name}: tried, but no row there: {', '.join(sorted(stray))}")
    files = {row: folder / f"{row.id}.json" for row in rows}
    return {row: read_json(Tallies, file) if file.exists() else None for row, file in files.items()}


def tallies_folder(rows: Path) -> Path:
    """The folder of the tallies of a file of attacks."""
    return measured_for(rows).with_suffix("")


def digest(path: Path) -> str:
    """sha256 over the rows and every tally."""
    files = (path, *sorted(tallies_folder(path).glob("*.json")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
