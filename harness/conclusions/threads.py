"""Public threads in which somebody could not reproduce a published number.

They test the diagnoses of `harness.conclusions.diagnosis`: for each thread, the known cause is
looked for among the suggestions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.conclusions.diagnosis import Diagnosis
from harness.core.toml import read_rows

UNKNOWN_CAUSE = "unknown"  # the cause of a thread in which nobody found one


@dataclass(frozen=True)
class Thread:
    """One thread, or one row of a thread that asks about several.

    Attributes:
        source: The repository and the number of the thread: `princeton-nlp/SimCSE#285`.
        row: The published row, `TABLE/ROW`; empty where no table here has the number.
        mine: The reader's numbers by column: `sts12=45.09,sts-b=59.05`.
        cause: What differed: a choice of the protocol, the id of a curated cause,
            `seed`, or `unknown`.
        evidence: How the cause is known.
    """

    source: str
    mine: str
    cause: str
    evidence: str
    row: str = ""

    def __post_init__(self) -> None:
        if self.row.count("/") not in (0, 1):
            raise ValueError(f"row: wanted TABLE/ROW, found {self.row!r}")


def read_threads(path: Path) -> Sequence[Thread]:
    """The threads of a file; none where there is no file. Raises DataError for a damaged one."""
    return read_rows(Thread, path, "thread") if path.exists() else ()


def rank_of_cause(thread: Thread, diagnosis: Diagnosis) -> int | None:
    """The rank of a thread's cause among the suggestions, from 1; None where it is absent.

    If nobody knows the cause, the rank is 1 for a diagnosis that it is unknown.
    """
    if thread.cause == UNKNOWN_CAUSE:
        return 1 if diagnosis.is_unknown else None
    for rank, suggestion in enumerate(diagnosis.suggestions, start=1):
        if thread.cause in suggestion.about:
            return rank
    return None
