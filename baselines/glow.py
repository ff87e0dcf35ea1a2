"""NICE, RealNVP and Glow, the flows that BERT-flow descends from, fitted as `flow` is.

Additive couplings alone behind one actnorm (`nice`, Dinh et al. 2014, arXiv 1410.8516), couplings
that also scale (`realnvp`, Dinh et al. 2016, arXiv 1605.08803), and a learned linear map in place
of the reversal (`glow`, Kingma & Dhariwal 2018, arXiv 1807.03039; at 1e-4, since these maps
overshoot at 1e-3). The papers fit images; here rows are sentence embeddings, and levels, steps and
width are BERT-flow's. Beside whitening they answer whether a linear map is enough.
"""

from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN
from .flow import TASKS, Flow
from .minilm import MINILM

NICE = Flow("nice", levels=1, depth=4, step=("reversal", "additive"), first=("actnorm",))
REALNVP = Flow("realnvp", step=("actnorm", "reversal", "scaled"))
GLOW = Flow("glow", step=("actnorm", "mixing", "scaled"), learning_rate=1e-4)
CITES = {NICE: "dinh2014nice", REALNVP: "dinh2017realnvp", GLOW: "kingma2018glow"}

POSTS = {"nice": lambda: NICE, "realnvp": lambda: REALNVP, "glow": lambda: GLOW}
METHODS = tuple(
    Method(MINILM, pooling, (post,), "target", cite=cite, tasks=TASKS)
    for pooling in (FIRST_LAST, LAST2, MEAN)
    for post, cite in CITES.items()
)
