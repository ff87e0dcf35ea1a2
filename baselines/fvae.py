"""f-VAE: BERT-flow's flow on the codes of a variational autoencoder.

Su and Wu 2018, arXiv 1809.05861. No paper has numbers of it for sentence embeddings.

As in the authors' program (bojone/flow, f-VAEs.py), encoder and decoder are residual
networks that start as the identity, a code has as many coordinates as a row, and the
two noise levels are one learned number each. Not as there: encoder and decoder have one
block of linear maps and not 36 of convolutions, and no tanh at the end, since the rows
are no images but standardised embeddings; and the flow is BERT-flow's, which reverses
coordinates and does not permute them at random, and does not scale those that leave a
level by those that stay. The schedule is BERT-flow's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.types import grid
from harness.transforms.pooling import FIRST_LAST, MEAN
from .flow import WIDTH, Flow
from .miniature import BERT_MINI

if TYPE_CHECKING:
    from harness.transforms.flow_layers import LatentModel


@dataclass(frozen=True)
class AutoencoderFlow(Flow):
    """A flow that is fitted together with an encoder and a decoder around it."""

    def build(self, size: int, rng: np.random.Generator) -> LatentModel:
        """The unfitted autoencoder of vectors of this size."""
        from harness.transforms.autoencoder import Autoencoder

        flow = super().build(size, rng)
        return Autoencoder(flow, size, WIDTH, rng)


FVAE = AutoencoderFlow("fvae")


def fvae() -> AutoencoderFlow:
    """f-VAE, a flow of codes by a bound on the likelihood: BERT-flow in an autoencoder."""
    return FVAE


POSTS = {"fvae": fvae}
METHODS = grid(
    (BERT_MINI,),
    (MEAN, FIRST_LAST),
    ((FVAE,),),
    ("target",),
    cite="su2018fvae",
    tasks=("sts-b", "mini-sts"),
)
