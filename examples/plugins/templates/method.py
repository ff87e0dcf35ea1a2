"""Centring: subtract the mean. Name the paper here, its year, and where the code differs from it.

harness run --plugin FILE -m 'bert-mini.mean+mine@target' -t mini-sts
harness list plugins --plugin FILE
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import Affine, FromMoments, Moments


@dataclass(frozen=True)
class Mine(FromMoments):
    """x -> x - mean. Fields hold settings, nothing fitted: a field `k: int` makes `mine:6`."""

    name: ClassVar[str] = "mine"  # as in the id; with a setting a property: `mine:6`

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """The map of rows (m, D) to rows (m, K), fitted on rows (n, D) or their Moments."""
        moments = Moments.of(x)
        rank = moments.principal.rank
        return Affine(moments.mean, np.eye(len(moments.mean)), rank=rank)


# By its word in ids, what makes it of the argument after the colon, if it takes one.
POSTS = {"mine": Mine}

# The rows that `harness list methods` shows, by their ids. Any other composition runs
# as well.
METHODS = ("bert-mini.mean+mine@target",)
