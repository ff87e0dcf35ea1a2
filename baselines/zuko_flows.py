"""A masked autoregressive flow and a neural spline flow, both from the library zuko (extra `zuko`).

`maf` (Papamakarios et al. 2017, arXiv 1705.07057) is three affine transforms of each coordinate
given those before it. `nsf` (Durkan et al. 2019, arXiv 1906.04032) is three couplings by monotonic
rational-quadratic splines of 8 bins on [-5, 5].

Not as in the papers: MAF (5) has five transforms, of which a fit takes far longer; rows pass one
actnorm, as both need standardised rows, and BERT-flow's schedule fits them. `maf` has no batch
normalisation between its transforms, `nsf` a reversal in place of a learned linear map.
"""

from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST
from .flow import SEVEN, Flow
from .miniature import BERT_MINI
from .minilm import MINILM

MAF = Flow("maf", levels=1, depth=1, step=("autoregressive",), first=("actnorm",))
NSF = Flow("nsf", levels=1, depth=1, step=("spline",), first=("actnorm",))
CITES = {MAF: "papamakarios2017maf", NSF: "durkan2019nsf"}

POSTS = {"maf": lambda: MAF, "nsf": lambda: NSF}
METHODS = tuple(
    Method(encoder, FIRST_LAST, (post,), "target", cite=cite, tasks=SEVEN)
    for encoder in (MINILM, BERT_MINI)
    for post, cite in CITES.items()
)
