"""i-ResNet: a flow of invertible residual blocks, in place of BERT-flow's couplings.

Behrmann et al. 2019, arXiv 1811.00995, whose log-determinant is estimated here without
bias, as in Residual Flows (Chen et al. 2019, arXiv 1906.02735). No paper has numbers of
it for sentence embeddings.

As in the authors' density models, an actnorm is before each block, and half of the
coordinates leave after each of three levels. Not as there: blocks are of linear maps
and not of convolutions, with three of them on a level; spectral norms are exact, not by
power iteration; the final Gaussian is standard. The schedule is BERT-flow's.
"""

from harness.core.types import grid
from harness.transforms.pooling import FIRST_LAST, MEAN
from .flow import Flow
from .miniature import BERT_MINI

IRESNET = Flow("iresnet", step=("actnorm", "residual"))


def iresnet() -> Flow:
    """The flow i-ResNet, by maximum likelihood: invertible residual blocks."""
    return IRESNET


POSTS = {"iresnet": iresnet}
METHODS = grid(
    (BERT_MINI,),
    (MEAN, FIRST_LAST),
    ((IRESNET,),),
    ("target",),
    cite="behrmann2019iresnet",
    tasks=("sts-b", "mini-sts"),
)
