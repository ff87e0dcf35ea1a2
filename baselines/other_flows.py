"""NICE, RealNVP and Glow, from which BERT-flow's flow was made: does a better one help?

NICE (Dinh et al. 2014, arXiv 1410.8516) has additive couplings after one actnorm.
RealNVP (Dinh et al. 2016, arXiv 1605.08803) has couplings that also scale. Glow (Kingma
and Dhariwal 2018, arXiv 1807.03039) has a learned linear map in place of the reversal;
it is fitted at 1e-4, since its maps overshoot at 1e-3. No paper has numbers for them.

The papers fit images. Here rows are sentence embeddings, and levels, steps, width and
schedule are BERT-flow's unless said otherwise.
"""

from harness.core.types import Method, grid
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN
from .flow import TASKS, Flow
from .miniature import BERT_MINI
from .minilm import MINILM

NICE = Flow(
    "nice", levels=1, depth=4, step=("reversal", "additive"), first=("actnorm",)
)
REALNVP = Flow("realnvp", step=("actnorm", "reversal", "scaled"))
GLOW = Flow("glow", step=("actnorm", "mixing", "scaled"), learning_rate=1e-4)

COUPLINGS = {NICE: "dinh2014nice", REALNVP: "dinh2017realnvp", GLOW: "kingma2018glow"}


def nice() -> Flow:
    """The flow NICE, by maximum likelihood: additive couplings."""
    return NICE


def realnvp() -> Flow:
    """The flow RealNVP, by maximum likelihood: couplings that shift and scale."""
    return REALNVP


def glow() -> Flow:
    """The flow Glow, by maximum likelihood: RealNVP with learned linear maps."""
    return GLOW


POSTS = {"nice": nice, "realnvp": realnvp, "glow": glow}
METHODS: tuple[Method, ...] = ()
for flow, cite in COUPLINGS.items():
    chains, small = ((flow,),), ("sts-b", "mini-sts")
    METHODS += (
        *grid(
            (MINILM,),
            (FIRST_LAST, LAST2, MEAN),
            chains,
            ("target",),
            cite=cite,
            tasks=TASKS,
        ),
        *grid(
            (BERT_MINI,),
            (MEAN, FIRST_LAST),
            chains,
            ("target",),
            cite=cite,
            tasks=small,
        ),
    )
