"""Invertible residual networks as a flow of sentence embeddings.

Behrmann et al. 2019, arXiv 1811.00995; `harness.transforms.flow_residual` is a block. As in the
authors' run on CIFAR-10 (jhjacobsen/invertible-resnet) an actnorm stands before each block and half
of the coordinates is finished behind each of three levels.

Not as there: the paper fits images, here rows are sentence embeddings, and levels, steps, width
and schedule are BERT-flow's; the final Gaussian is standard, not learned; no ELU stands before a
block.
"""

from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST
from .flow import SEVEN, Flow
from .miniature import BERT_MINI
from .minilm import MINILM

IRESNET = Flow("iresnet", step=("actnorm", "residual"))

POSTS = {"iresnet": lambda: IRESNET}
METHODS = tuple(
    Method(encoder, FIRST_LAST, (IRESNET,), "target", cite="behrmann2019iresnet", tasks=SEVEN)
    for encoder in (MINILM, BERT_MINI)
)
