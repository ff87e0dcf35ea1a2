"""SN, standard normalisation: (u - mean) / standard deviation, per dimension.

The calibration baseline of BERT-flow (Li et al. 2020, arXiv 2011.05864), Table 5. The
paper gives neither code nor the fit set; here it is fitted on the named corpus. A
dimension whose spread is below 1e-6 of the largest becomes 0 instead of amplified
rounding noise.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.core.errors import ScoreError
from harness.core.types import Method
from harness.transforms.affine import LEAST_SPREAD, Affine, FromMoments, Moments
from harness.transforms.pooling import MEAN
from .bert import BERT_BASE


@dataclass(frozen=True)
class SN(FromMoments):
    """Standard normalisation: each coordinate to mean 0, variance 1. W = diag(1 / sigma)."""

    name: ClassVar[str] = "sn"

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit on rows (n, D) or their Moments."""
        moments = Moments.of(x)
        sigma = np.sqrt(np.diag(moments.covariance))
        varies = sigma > LEAST_SPREAD * sigma.max()
        if not varies.any():
            raise ScoreError(
                "sn: all vectors to fit on are equal, so no dimension has a spread"
            )
        scale = np.where(varies, 1.0 / np.where(varies, sigma, 1.0), 0.0)
        return Affine(moments.mean, np.diag(scale), rank=int(varies.sum()))


POSTS = {"sn": SN}

METHODS = (
    # BERT-flow, Table 5, "+SN".
    Method(
        BERT_BASE.with_max_length(64), MEAN, (SN(),), "target", cite="li2020bertflow"
    ),
)
