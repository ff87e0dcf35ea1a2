"""What a search for the protocol of a row has found (`harness.evaluation.row_search`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.results.verdict import CellState

# If more protocols than this are expected to give the numbers by chance, none is told as
# found.
LIKELY_CHANCE = 0.1


@dataclass(frozen=True)
class Choice:
    """Another value of one setting of a protocol, and the words for it."""

    setting: str
    value: Any
    words: str


@dataclass(frozen=True)
class Finding:
    """A protocol whose scores were measured on all columns.

    Attributes:
        choices: Its differences from the stated protocol; none for this itself.
        scores: Its score in points, by column.
        missed: The columns whose digits it does not give.
    """

    choices: tuple[Choice, ...]
    scores: Mapping[str, float]
    missed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """`pooling static-last instead of first-last and max length 64`."""
        return (
            " and ".join(choice.words for choice in self.choices)
            or "the method as it is stated"
        )


@dataclass(frozen=True)
class RowSearch:
    """What a search has found.

    Attributes:
        columns: How many numbers were looked for.
        tried: How many protocols were compared with the first of them; where one with a
            single choice gives them, those with two are left out.
        by_chance: How many of these are expected to give all numbers by chance.
        given: The protocols that give all of them, of the first group that has any.
        state: How well they are given: `exact` or `match`; None without any.
        nearly: Protocols that give all but one of four numbers or more.
        left_out: How many protocols were not measured, since they need encodings.
        encodings: How many encodings were made.
    """

    columns: int
    tried: int
    by_chance: float
    given: tuple[Finding, ...] = ()
    state: CellState | None = None
    nearly: tuple[Finding, ...] = ()
    left_out: int = 0
    encodings: int = 0

    @property
    def is_found(self) -> bool:
        """Whether a protocol gives all numbers, and chance does not explain it."""
        return bool(self.given) and self.by_chance < LIKELY_CHANCE
