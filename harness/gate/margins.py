"""Margins: how far a score may fall before `harness check --fail-below` fails.

With a margin a cell fails if its score is lower than the committed one by more, whatever made it
so: other weights and a moved encoder are then no failure by themselves. Other data are, since
their scores cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.core.errors import UsageError

FORM = "wanted POINTS or TASK=POINTS, as 0.5 or 'sts*=1'"


@dataclass(frozen=True)
class Margins:
    """Margins in points: of tasks, as name or glob, and of all others (None: held as ever).

    The first task that matches decides.
    """

    by_task: tuple[tuple[str, float], ...] = ()
    others: float | None = None

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Margins:
        """Margins as they are written on the command line. Raises UsageError."""
        parsed = [_margin(text) for text in texts]
        others = [points for task, points in parsed if not task]
        if len(others) > 1:
            raise UsageError(f"--fail-below: found two margins for all tasks; {FORM}")
        by_task = tuple((task, points) for task, points in parsed if task)
        return cls(by_task, others[0] if others else None)

    def of(self, task: str) -> float | None:
        """The margin of a task, or None."""
        own = (points for pattern, points in self.by_task if fnmatchcase(task, pattern))
        return next(own, self.others)


NO_MARGINS = Margins()


def _margin(text: str) -> tuple[str, float]:
    """A task, empty for all others, and its points."""
    task, equals, points = text.rpartition("=")
    try:
        number = float(points)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf or (equals and not task):
        raise UsageError(f"--fail-below {text}: {FORM}")
    return task, number
