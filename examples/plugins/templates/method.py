"""Centring: subtract the mean. Name the paper here, its year, and where the code differs from it.

harness run --plugin FILE -m 'bert-mini.mean+mine@target' -t mini-sts
harness list plugins --plugin FILE
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import Affine, Moments


@dataclass(frozen=True)
class Mine:
    """x -> x - mean. Fields hold settings, nothing fitted: a field `k: int` makes `mine:6`."""

    name: ClassVar[str] = "mine"  # as in the id; with a setting a property: `mine:6`
    from_moments: ClassVar[bool] = (
        True  # fitted from a mean and a covariance: any corpus streams
    )
    deterministic: ClassVar[bool] = (
        True  # never draws from the generator: one seed is enough
    )
    share: ClassVar[float] = 1.0  # of a corpus that a fit sees
    dropout: ClassVar[bool] = False  # fitted on encodings as they are scored

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit a new map on rows (n, D), or on their Moments since `from_moments` is True.

        Returns a map of rows (m, D) to rows (m, K) in float64. `Moments.of` raises
        ScoreError for rows that are not finite, `principal` for rows that are all
        equal.
        """
        moments = Moments.of(x)
        return Affine(
            moments.mean, np.eye(len(moments.mean)), rank=moments.principal.rank
        )


# By its word in ids, what makes it of the argument after the colon, if it takes one.
POSTS = {"mine": Mine}

# The rows that `harness list methods` shows, by their ids. Any other composition runs
# as well.
METHODS = ("bert-mini.mean+mine@target",)
