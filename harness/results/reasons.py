"""Why a published number has no method here: a closed list, which `reasons.toml` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.toml import read_rows


@dataclass(frozen=True)
class Reason:
    """One reason: the id that rows and columns name in `why_not`, and its explanation.

    `other_protocol` marks a number that belongs to the protocol of another paper.
    """

    id: str
    explanation: str
    other_protocol: bool = False


@cache
def reasons() -> Mapping[str, Reason]:
    """The closed list, by id."""
    rows = read_rows(Reason, Path(__file__).with_name("reasons.toml"), "reason")
    return {reason.id: reason for reason in rows}
