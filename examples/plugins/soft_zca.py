"""Soft-ZCA whitening: scale each principal direction by its regularised spread, and rotate back.

Diera, Galke & Scherp 2024, "Isotropy Matters: Soft-ZCA Whitening of Embeddings for
Semantic Code Search", arXiv 2411.17538: W = U (Lambda + epsilon I)^(-1/2) U^T of the
covariance U Lambda U^T. Without epsilon it is whitening but for a rotation, which no
cosine can see; a large epsilon leaves the directions of large variance their weight.

Not as in the paper: it searches for code, here pairs of sentences are scored.
Directions without variance are left out, as `whitening` does; their share in a cosine
is rounding noise. Epsilon is absolute, as in the paper, so one epsilon means another
strength for each encoder.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness import Affine, Moments, UsageError


@dataclass(frozen=True)
class SoftZCA:
    """Soft ZCA whitening, rotated back. W = U (Lambda + epsilon I)^(-1/2) U^T, shift = mean."""

    epsilon: float

    from_moments: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    share: ClassVar[float] = 1.0
    dropout: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < np.inf:
            raise UsageError(
                f"soft-zca:{self.epsilon}: wanted a number above 0, as in soft-zca:0.1"
            )

    @property
    def name(self) -> str:
        """`soft-zca:0.1`."""
        return f"soft-zca:{self.epsilon:g}"

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit on rows (n, D) or their Moments. Raises ScoreError for rows that are all equal."""
        moments = Moments.of(x)
        principal = moments.principal
        vectors = principal.vectors[:, : principal.rank]
        scales = 1 / np.sqrt(principal.values[: principal.rank] + self.epsilon)
        return Affine(moments.mean, (vectors * scales) @ vectors.T, rank=principal.rank)


def soft_zca(epsilon: str) -> SoftZCA:
    """The post-processor of an id's argument."""
    try:
        return SoftZCA(float(epsilon))
    except ValueError:
        raise UsageError(
            f"soft-zca:{epsilon}: wanted a number, as in soft-zca:0.1"
        ) from None


POSTS = {"soft-zca": soft_zca}
METHODS = tuple(
    f"{encoder}.mean+soft-zca:{epsilon}@target"
    for encoder in ("bert-mini", "minilm", "glove-6b-50d-22k")
    for epsilon in ("1", "0.1", "0.01")
)
