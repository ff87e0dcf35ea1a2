"""All-but-the-top: subtract the mean and null the top D principal directions.

Mu & Viswanath 2018, "All-but-the-Top: Simple and Effective Postprocessing for Word
Representations", arXiv 1702.01417, Algorithm 1: x -> x - mu - sum_i (u_i^T x) u_i over
the first D principal components u_i of the centred vectors, D about d / 100.

Not as in the paper: it post-processes word vectors, here sentence vectors are; and the
projections are of the centred vectors, so that the result is centred (the paper
projects x itself, which moves all vectors by one constant).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import Affine, Moments, ScoreError, UsageError


@dataclass(frozen=True)
class AllButTheTop:
    """All-but-the-top: less the mean and the first D principal components. W = I - U U^T."""

    directions: int | None = (
        None  # D; a hundredth of the dimensions where it is not given
    )

    from_moments: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    share: ClassVar[float] = 1.0
    dropout: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.directions is not None and self.directions < 1:
            raise UsageError(f"{self.name}: wanted one direction or more")

    @property
    def name(self) -> str:
        """`all-but-the-top` or `all-but-the-top:3`."""
        return "all-but-the-top" + (
            "" if self.directions is None else f":{self.directions}"
        )

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit on rows (n, D) or their Moments. Raises ScoreError where nothing would be left."""
        moments = Moments.of(x)
        count = self.directions or max(1, round(len(moments.mean) / 100))
        if count >= moments.principal.rank:
            raise ScoreError(
                f"{self.name} nulls {count} directions, but the vectors span only "
                f"{moments.principal.rank}: take fewer"
            )
        top = moments.principal.vectors[:, :count]
        return Affine.nulling(moments.mean, top, rank=moments.principal.rank - count)


POSTS = {"all-but-the-top": AllButTheTop}
METHODS = tuple(
    f"{encoder}.mean+all-but-the-top@target"
    for encoder in ("bert-mini", "minilm", "glove-6b-50d-22k")
)
