"""The protocol traps of the papers: rows of one score under protocols that papers have confused.

`results/questions/traps.toml` names them; the scores come from the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.results.index import Results, Value


@dataclass(frozen=True)
class TrapRow:
    """A cell of a trap: what is special about it, and which score of a method on a task it is."""

    what: str
    method: str
    task: str
    score: tuple[str, ...] = ("spearman", "all")


@dataclass(frozen=True)
class Trap:
    """One trap: what papers have confused, and the rows that show it."""

    title: str
    text: str
    rows: tuple[TrapRow, ...]

    def values(self, results: Results) -> Iterator[tuple[TrapRow, Value, float | None]]:
        """Every row with its score and how far that lies from the first of its task."""
        first: dict[str, Value] = {}
        for row in self.rows:
            value = results.value(row.method, row.task, *row.score)
            base = first.setdefault(row.task.partition(".")[0], value)
            if value is base or value.mean is None or base.mean is None:
                yield row, value, None
            else:
                yield row, value, value.mean - base.mean
