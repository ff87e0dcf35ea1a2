"""BERT-flow: an invertible map of sentence embeddings to a standard Gaussian, fitted unsupervised.

Li et al. 2020, arXiv 2011.05864. Paper and released code differ: `flow` is the code (3 levels of 3
steps, constant rate 1e-3, one epoch), `flow:paper` what Appendix B prints for a target corpus (2
levels), `flow:paper-nli` what it prints for NLI (0.15 epochs at 2e-5). A step is actnorm, reversal
of the coordinates and an additive coupling. The released code fits beside a BERT whose dropout is
on, `flow-dropout` on one such encoding of each sentence occurrence, drawn from the seed; all others
fit on encodings as they are scored. A coordinate that is constant in the fit corpus is left out
instead of amplified.

`nice`, `realnvp` and `glow` are the flows that it descends from, fitted in the same way: additive
couplings alone (Dinh et al. 2014, arXiv 1410.8516), couplings that also scale (Dinh et al. 2016,
arXiv 1605.08803), and a learned linear map in place of the reversal (Kingma & Dhariwal 2018, arXiv
1807.03039; at 1e-4, since these maps overshoot at 1e-3). Beside whitening they answer whether a
linear map is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from baselines.bert import BERT_BASE, BERT_LARGE
from baselines.minilm import MINILM
from harness.core.errors import UsageError
from harness.core.types import Method
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN

if TYPE_CHECKING:
    from harness.transforms.flows import Fitted

WIDTH = 32  # of the hidden layers of a coupling


@dataclass(frozen=True)
class Flow:
    """`levels` of `depth` steps; `step` names the pieces of one, `first` those before all."""

    name: str
    levels: int = 3
    depth: int = 3
    step: tuple[str, ...] = ("actnorm", "reversal", "additive")
    first: tuple[str, ...] = ()
    epochs: float = 1.0
    learning_rate: float = 1e-3

    from_moments: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False
    dropout: ClassVar[bool] = False

    @property
    def share(self) -> float:
        """How much of a corpus a fit sees: less than one epoch sees no more than that."""
        return min(1.0, self.epochs)

    def fit(self, x: Any, rng: np.random.Generator, share: float = 1.0) -> Fitted:
        """Fit on rows (n, D), in any order, which are this share of the corpus."""
        from harness.transforms.flows import Architecture, FitSettings, fit

        architecture = Architecture(self.levels, self.depth, WIDTH, self.step, self.first)
        return fit(x, architecture, FitSettings(self.epochs / share, self.learning_rate), rng)


@dataclass(frozen=True)
class DropoutFlow(Flow):
    """Fitted on encodings that dropout has moved."""

    dropout: ClassVar[bool] = True


FLOWS = {
    flow.name: flow
    for flow in (
        Flow("flow"),
        Flow("flow:paper", levels=2),
        Flow("flow:paper-nli", levels=2, epochs=0.15, learning_rate=2e-5),
    )
}
DROPOUT = DropoutFlow("flow-dropout")
NICE = Flow("nice", levels=1, depth=4, step=("reversal", "additive"), first=("actnorm",))
REALNVP = Flow("realnvp", step=("actnorm", "reversal", "scaled"))
GLOW = Flow("glow", step=("actnorm", "mixing", "scaled"), learning_rate=1e-4)


def flow(variant: str | int | None = None) -> Flow:
    """`flow`, or a variant as its id names it."""
    name = "flow" if variant is None else f"flow:{variant}"
    if name not in FLOWS:
        raise UsageError(f"+{name}: no such variant; known are {', '.join(FLOWS)}")
    return FLOWS[name]


POSTS = {
    "flow": flow,
    "flow-dropout": lambda: DROPOUT,
    "nice": lambda: NICE,
    "realnvp": lambda: REALNVP,
    "glow": lambda: GLOW,
}

CITE = "li2020bertflow"
TASKS = ("sts-b", "sts-b.dev", "sick-r", "sts1?")  # those of the paper
METHODS = (
    *(
        Method(encoder.with_max_length(64), FIRST_LAST, (post,), fit_on, cite=CITE)
        for encoder in (BERT_BASE, BERT_LARGE)
        for fit_on in ("nli", "target")
        for post in (
            FLOWS["flow"],
            FLOWS["flow:paper" if fit_on == "target" else "flow:paper-nli"],
            DROPOUT,
        )
    ),
    Method(BERT_BASE.with_max_length(64), MEAN, (FLOWS["flow"],), "target", cite=CITE),
    *(
        Method(MINILM, pooling, (post,), "target", cite=cite, tasks=TASKS)
        for pooling in (FIRST_LAST, LAST2, MEAN)
        for post, cite in (
            (FLOWS["flow"], CITE),
            (FLOWS["flow:paper"], CITE),
            (DROPOUT, CITE),
            (NICE, "dinh2014nice"),
            (REALNVP, "dinh2017realnvp"),
            (GLOW, "kingma2018glow"),
        )
    ),
)
