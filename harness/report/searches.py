"""Tables of searches and ablations, as the command that made them left them: `results/searches`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.report.markdown import table
from harness.types import DataError

FOLDER = "searches"
TEXTS = ("title", "caption", "command", "corpus")
KEYS = {*TEXTS, "columns", "rows"}


@dataclass(frozen=True)
class Search:
    """One table, its cells as texts; `command` made it, on `corpus`, whose size it states."""

    title: str
    caption: str
    command: str
    corpus: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def parts(self) -> list[str]:
        """As it stands in a page."""
        about = f"{self.caption}\n\nCorpus: {self.corpus}. Made by `{self.command}`."
        return [f"### {self.title}", about, table(self.columns, self.rows)]


def read_searches(folder: Path) -> tuple[Search, ...]:
    """Every table of a folder, by file name; none where there is no folder. Raises DataError."""
    return tuple(read_search(path) for path in sorted(folder.glob("*.toml")))


def read_search(path: Path) -> Search:
    """One table. Raises DataError that names file and key."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(path, f"wanted a table, found {error!r}")
    if set(raw) != KEYS:
        _refuse(path, f"wanted the keys {', '.join(sorted(KEYS))}, found {sorted(raw)}")
    for key in TEXTS:
        if not isinstance(raw[key], str) or not raw[key].strip():
            _refuse(path, f"{key}: wanted a text, found {raw[key]!r}")
    columns, rows = raw["columns"], raw["rows"]
    if not columns or not _texts(columns):
        _refuse(path, f"columns: wanted texts, found {columns!r}")
    if not isinstance(rows, list) or not rows:
        _refuse(path, f"rows: wanted one row or more, found {rows!r}")
    for row in rows:
        if not _texts(row) or len(row) != len(columns):
            _refuse(path, f"rows: wanted {len(columns)} texts (numbers as printed), found {row!r}")
    texts = {key: raw[key] for key in TEXTS}
    return Search(**texts, columns=tuple(columns), rows=tuple(tuple(row) for row in rows))


def _texts(found: Any) -> bool:
    return isinstance(found, Sequence) and all(isinstance(one, str) for one in found)


def _refuse(path: Path, fault: str) -> NoReturn:
    raise DataError(f"{FOLDER}/{path.name}: {fault}")
