"""The protocol traps of the papers, each shown with measured numbers: `traps.toml`, filled.

A trap is a few rows of one score under protocols that papers have confused; a row whose cell was
not run says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.report.markdown import page, table
from harness.results.index import Results, Value

FILE = "traps.toml"
INTRODUCTION = (
    "Why two honest measurements of one method differ: the traps of the papers' protocols, on "
    "encoders that anybody can run. Spearman x100 of cosine unless the row says otherwise; the "
    "last column is the difference from the first row of its trap and task."
)


def traps_page(results: Results, path: Path) -> str:
    """All traps with their numbers. Raises DataError for a file that holds something else."""
    parts = [INTRODUCTION]
    for number, trap in enumerate(read_traps(path), start=1):
        rows = _rows(results, trap["rows"])
        shown = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap['title']}", trap["text"], shown]
    return page("Protocol traps", parts, results.digest())


def read_traps(path: Path) -> Sequence[Mapping[str, Any]]:
    """The traps as data: title, text, and rows of what, method, task and score."""
    try:
        traps: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["trap"]
        for trap in traps:
            rows = [set(row) - {"score"} for row in trap["rows"]]
            if set(trap) != {"title", "text", "rows"} or any(
                row != {"what", "method", "task"} for row in rows
            ):
                raise DataError(f"{path.name}: a trap has title, text, and rows of what and where")
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path.name}: wanted a list of traps, found {error!r}") from None
    return traps


def _rows(results: Results, rows: Sequence[Mapping[str, Any]]) -> list[list[object]]:
    """Each row's score, against the first of its task."""
    first: dict[str, Value] = {}
    lines: list[list[object]] = []
    for row in rows:
        value = results.value(row["method"], row["task"], *row.get("score", ("spearman", "all")))
        base = first.setdefault(row["task"].partition(".")[0], value)
        gap = (
            ""
            if value is base or value.mean is None or base.mean is None
            else (f"{value.mean - base.mean:+.2f}")
        )
        lines.append([row["what"], f"`{row['method']}`", f"`{row['task']}`", value, gap])
    return lines
