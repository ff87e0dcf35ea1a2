"""Centring: subtract the mean. A template for a method: copy this file, rename it, change the rest.

Say here which paper it is, its year and arXiv number, and where this code differs from it. (With
this step BERT-whitening begins: Su et al. 2021, arXiv 2103.15316.)

A copy is registered as soon as its name does not begin with `template_`: `harness list` shows it,
`minilm.mean+centre@target` runs, and `pytest tests/test_contracts.py -k centre` holds it to the
laws of every method. It needs no test of its own for those; compare it with the authors' formula.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.core.types import Method
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import MEAN
from .minilm import MINILM


@dataclass(frozen=True)
class Centre:
    """W = I, shift = mean. Fields hold settings, never anything fitted; natsv.py has one.

    Examples:
        >>> fitted = Centre().fit(np.array([[0.0, 1.0], [2.0, 5.0]]), np.random.default_rng(0))
        >>> fitted(np.array([[1.0, 4.0]])).tolist()
        [[0.0, 1.0]]
    """

    name: ClassVar[str] = "centre"  # as in the id; with a setting a property: `natsv:6`
    from_moments: ClassVar[bool] = True  # fitted from a mean and a covariance: any corpus streams
    deterministic: ClassVar[bool] = True  # never draws from the generator: one seed is enough
    share: ClassVar[float] = 1.0  # of a corpus that a fit looks at; less in flow.py's
    dropout: ClassVar[bool] = False  # fitted on encodings as they are scored

    def fit(self, x: Any, rng: np.random.Generator) -> Affine:  # noqa: ARG002 - draws nothing
        """Fit a new map; nothing of the configuration changes.

        Args:
            x: rows (n, D), or their Moments since `from_moments` is True.
            rng: the only source of randomness.

        Returns:
            A Transform: called with rows (m, D), it returns (m, K) in float64.

        Raises:
            ScoreError: for rows that cannot be fitted; never a number that is not one.
        """
        moments = Moments.of(x)
        return Affine(moments.mean, np.eye(len(moments.mean)), rank=moments.principal.rank)


# Its word in ids, and what it makes of the argument after the colon, if it takes one.
POSTS = {"centre": Centre}

# The rows that stand in tables by name; any other composition runs by its id. `cite` is a key of
# harness/report/references.bib.
METHODS = (Method(MINILM, MEAN, (Centre(),), "target", cite="su2021whitening"),)
