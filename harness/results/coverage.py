"""The share of a task's tokens for which word vectors have a vector, and when it is too low."""

from __future__ import annotations

from collections.abc import Iterable

from harness.core.types import Record

# General files have a vector for 88 to 99 % of the tokens of the STS, transfer and embedded tasks
# (the smallest, of 15,000 words, for 88 % of SST-2); a subset made for another task for 46 to 79 %.
LOW = 0.85


def low_coverage(records: Iterable[Record]) -> float | None:
    """The lowest share among records that is too low; None where none is, or was counted."""
    shares = (record.facts.get("coverage") for record in records)
    return min((share for share in shares if share is not None and share < LOW), default=None)


def percentage(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.0f} %"
