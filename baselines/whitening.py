"""BERT-whitening: centre, rotate to the principal directions, scale each to unit variance.

Su et al. 2021, arXiv 2103.15316, Algorithm 1: Sigma = U Lambda U^T, W = (U
Lambda^(-1/2))[:, :k], x -> (x - mu) W. The paper takes 1/N, its code 1/(N-1), which no
cosine depends on. `whitening:256` is the paper's k for base models, `whitening:384` for
large ones; `whitening` keeps every direction that carries information (variance above
1e-9 of the largest), where the paper keeps rounding noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.errors import ScoreError, UsageError
from harness.core.types import grid
from harness.transforms.affine import Affine, FromMoments, Moments
from harness.transforms.pooling import FIRST_LAST
from .bert import BERT_BASE, BERT_LARGE


@dataclass(frozen=True)
class Whitening(FromMoments):
    """Whitening: mean 0 and covariance I, in `:k` dimensions. W = U Lambda^(-1/2)[:, :k]."""

    k: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise UsageError(
                f"whitening keeps k >= 1 directions, not {self.k!r}: write whitening:256"
            )

    @property
    def name(self) -> str:
        """`whitening` or `whitening:256`."""
        return "whitening" if self.k is None else f"whitening:{self.k}"

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit on rows (n, D) or their Moments; refuses a k above the rank."""
        moments = Moments.of(x)
        directions = moments.principal
        if self.k is not None and self.k > directions.rank:
            raise ScoreError(
                f"{self.name} keeps {self.k} directions, but the vectors span only "
                f"{directions.rank} of {len(moments.mean)} dimensions ({moments.count} rows): "
                "take a smaller k"
            )
        k = directions.rank if self.k is None else self.k
        weight = directions.vectors[:, :k] / np.sqrt(directions.values[:k])
        return Affine(moments.mean, weight, rank=k)


POSTS = {"whitening": Whitening}

# Table 1, in its own order: base with k = 256, large with k = 384.
CORPORA_OF_TABLE = ("nli", "target")
METHODS = (
    *grid(
        (BERT_BASE.with_max_length(64),),
        (FIRST_LAST,),
        ((Whitening(),), (Whitening(256),)),
        CORPORA_OF_TABLE,
        cite="su2021whitening",
    ),
    *grid(
        (BERT_LARGE.with_max_length(64),),
        (FIRST_LAST,),
        ((Whitening(),), (Whitening(384),)),
        CORPORA_OF_TABLE,
        cite="su2021whitening",
    ),
)
