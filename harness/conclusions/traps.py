"""Traps: choices of a protocol that papers have confused, shown by measured scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.types import ScorePath
from harness.registry import matches
from harness.results.index import Results, Value
from harness.results.published import PublishedNumber


@dataclass(frozen=True)
class TrapRow:
    """A measured score that shows a trap.

    Attributes:
        what: What is special about the score, for people.
        method: The method's id.
        task: The task's name.
        score: The path of the score in the record.
    """

    what: str
    method: str
    task: str
    score: ScorePath = ("spearman", "all")


class TrapValue(NamedTuple):
    """A row of a trap with its score, and the difference from the row that it is compared with.

    The difference is in points; None for the row with which the others are compared, and
    where a score is missing.
    """

    row: TrapRow
    value: Value
    difference: float | None


@dataclass(frozen=True)
class Trap:
    """One trap: what papers have confused.

    Attributes:
        title: Its heading.
        text: What is confused, and why.
        rows: Measured scores that show it.
        by_method: Whether a row is compared with the first one of its own method.
        about: The choices that are confused, as names of fields of `Protocol`.
        published: The published rows that are known to be confused, as patterns of
            `TABLE/ROW` or of method ids.
    """

    title: str
    text: str
    rows: tuple[TrapRow, ...]
    by_method: bool = False
    about: tuple[str, ...] = ()
    published: tuple[str, ...] = ()

    def applies_to(self, number: PublishedNumber) -> bool:
        """Whether a published number is in a row that is known to be confused in this way."""
        names = (number.row_id, number.method or "")
        return any(matches(name, self.published) for name in names)

    def values(self, results: Results) -> Iterator[TrapValue]:
        """Every row with its score and its difference from the first row of its task (and method).

        Rows of another score are compared too if the trap is about the aggregation or the
        metric; otherwise only rows of the same score are.
        """
        first_values: dict[tuple[str, str, ScorePath], Value] = {}
        is_about_scores = "aggregation" in self.about or "metric" in self.about
        for row in self.rows:
            value = results.value(row.method, row.task, *row.score)
            task = row.task.partition(".")[0]
            method = row.method if self.by_method else ""
            group = (task, method, () if is_about_scores else row.score)
            first_value = first_values.setdefault(group, value)
            difference = None
            is_first = value is first_value
            if not is_first and value.mean is not None and first_value.mean is not None:
                difference = value.mean - first_value.mean
            yield TrapValue(row=row, value=value, difference=difference)
