"""f-VAE: BERT-flow's flow inside a variational autoencoder, whose codes it maps to a Gaussian.

Su & Wu 2018, arXiv 1809.05861; `harness.transforms.flow_layers.Autoencoder` is the model. Beside
`flow` it answers whether an autoencoder around the flow matters.

Not as in the paper: it fits images, here rows are sentence embeddings, and flow and schedule are
BERT-flow's. So coordinates are reversed and not permuted at random between couplings, and what a
level finishes is not scaled by what goes on.
"""

from dataclasses import dataclass
from typing import ClassVar

from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST
from .flow import SEVEN, Flow
from .miniature import BERT_MINI
from .minilm import MINILM


@dataclass(frozen=True)
class AutoencoderFlow(Flow):
    """A flow that is fitted together with an encoder and a decoder around it."""

    autoencoder: ClassVar[bool] = True


FVAE = AutoencoderFlow("fvae")

POSTS = {"fvae": lambda: FVAE}
METHODS = tuple(
    Method(encoder, FIRST_LAST, (FVAE,), "target", cite="su2018fvae", tasks=SEVEN)
    for encoder in (MINILM, BERT_MINI)
)
