"""BERT-flow: an invertible map of sentence embeddings to a standard Gaussian, fitted unsupervised.

Li et al. 2020, arXiv 2011.05864; bohanli/BERT-flow at 7fa8f6d. A step is actnorm,
reversal of the coordinates and an additive coupling. Paper, released code and its
PyTorch port differ:

* `flow` has the code's settings (3 levels of 3 steps, one epoch at a constant 1e-3) but starts
  actnorm from the first batch, as Glow and the port (UKPLab/pytorch-bertflow) do, and
  fits on encodings as they are scored. `flow-dropout` fits on encodings with dropout.
* `flow:glorot` starts actnorm as TensorFlow starts variables, uniform in +-sqrt(6 / (1 + D)): the
  code leaves Glow's start to `GlowInitHook`, which is given no variables.
* `flow:released` is the code as released: that start and BERT's dropout, STS12 to STS16 read three
  times an epoch (`@target-splits`).
* `flow:paper` is what Appendix B prints for a target (2 levels), `flow:paper-nli` for NLI (0.15
  epochs at 2e-5; it does not say how actnorm starts). `flow:released-nli` is the code
  with these settings; no command of it was released.

Not as in the code: a batch is 64 sentences and not 32 pairs, dropout is drawn once for
a sentence occurrence, arithmetic is float64, and a coordinate that hardly varies in the
corpus is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from harness.core.errors import UsageError
from harness.core.types import Method, Progress, grid
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN
from .bert import BERT_BASE, BERT_LARGE
from .minilm import MINILM
from .sbert import NLI as SBERT_NLI

if TYPE_CHECKING:
    from harness.transforms.flow_layers import LatentModel
    from harness.transforms.flows import FittedFlow

WIDTH = 32  # of the hidden layers of a coupling


@dataclass(frozen=True)
class Flow:
    """BERT-flow and flows like it, with the settings of their fit.

    Attributes:
        name: The name in ids.
        levels: The number of levels; half of the coordinates leave after each.
        depth: The number of steps in a level.
        step: The layers of a step, by the names of `flows.LAYER_KINDS`.
        first: The layers before all steps.
        epochs: How often the fit sees each row.
        learning_rate: The constant learning rate.
        start: How actnorm starts: from the first batch (`data`), or from random values
            (`glorot`).
        dropout: Whether it is fitted on encodings with dropout.
    """

    name: str
    levels: int = 3
    depth: int = 3
    step: tuple[str, ...] = ("actnorm", "reversal", "additive")
    first: tuple[str, ...] = ()
    epochs: float = 1.0
    learning_rate: float = 1e-3
    start: Literal["data", "glorot"] = "data"
    dropout: bool = False

    from_moments: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False
    reports_progress: ClassVar[bool] = True

    @property
    def share(self) -> float:
        """The share of a corpus that a fit sees: less than all in less than one epoch."""
        return min(1.0, self.epochs)

    def build(self, size: int, rng: np.random.Generator) -> LatentModel:
        """The unfitted model of vectors of this size."""
        from harness.transforms.flows import build_flow

        return build_flow(
            size,
            rng,
            levels=self.levels,
            depth=self.depth,
            width=WIDTH,
            step=self.step,
            first=self.first,
        )

    def fit(
        self,
        x: Any,
        rng: np.random.Generator,
        share: float = 1.0,
        progress: Progress | None = None,
    ) -> FittedFlow:
        """Fit on rows (n, D), in any order, which are `share` of the corpus."""
        from harness.transforms.flows import fit_flow

        return fit_flow(
            x,
            self.build,
            rng,
            epochs=self.epochs / share,
            learning_rate=self.learning_rate,
            start=self.start,
            progress=progress,
        )


AS_RELEASED: dict[str, Any] = {"start": "glorot", "dropout": True}
NLI_SCHEDULE: dict[str, Any] = {"epochs": 0.15, "learning_rate": 2e-5}  # Appendix B
FLOWS = {
    flow.name: flow
    for flow in (
        Flow("flow"),
        Flow("flow:paper", levels=2),
        Flow("flow:paper-nli", levels=2, **NLI_SCHEDULE),
        Flow("flow:glorot", start="glorot"),
        Flow("flow:released", **AS_RELEASED),
        Flow("flow:released-nli", **AS_RELEASED, **NLI_SCHEDULE),
    )
}
FLOW = FLOWS["flow"]
RELEASED = FLOWS["flow:released"]
DROPOUT = Flow("flow-dropout", dropout=True)


def flow(variant: str | int | None = None) -> Flow:
    """BERT-flow, an invertible map to a Gaussian by maximum likelihood; `:NAME` a variant."""
    name = "flow" if variant is None else f"flow:{variant}"
    if name not in FLOWS:
        raise UsageError(f"+{name}: no such variant; known are {', '.join(FLOWS)}")
    return FLOWS[name]


def flow_dropout() -> Flow:
    """BERT-flow, fitted on encodings with dropout."""
    return DROPOUT


POSTS = {"flow": flow, "flow-dropout": flow_dropout}
CITE = "li2020bertflow"
SEVEN = ("sts-b", "sick-r", "sts1?")
TASKS = (*SEVEN, "sts-b.dev")
ON_NLI = (FLOW, FLOWS["flow:paper-nli"], RELEASED, FLOWS["flow:released-nli"])
# Post-processors, corpora and tasks for small encoders, which show how the variants
# differ. NLI itself is large: 0.15 epochs of it are 4,508 steps, of snli-18k 84.
DIFFERENCES = (
    (FLOWS["flow:glorot"], "target", SEVEN),
    (RELEASED, "target", SEVEN),
    (RELEASED, "target-splits", ("sts1?",)),
    *((post, "snli-18k", SEVEN) for post in ON_NLI),
)
PUBLISHED = (  # the rows of Tables 2 and 5, and of the papers that quote or repeat them
    *((post, "nli") for post in (*ON_NLI, DROPOUT)),
    *((post, "target") for post in (FLOW, FLOWS["flow:paper"], DROPOUT)),
    (RELEASED, "target-splits"),
)
BASE = BERT_BASE.with_max_length(64)
LARGE = BERT_LARGE.with_max_length(64)
SBERT_BASE = SBERT_NLI[0].with_max_length(64)
METHODS = (
    *(
        Method(encoder, FIRST_LAST, (post,), fit_on, cite=CITE)
        for encoder in (BASE, LARGE)
        for post, fit_on in PUBLISHED
    ),
    Method(BASE, MEAN, (FLOW,), "target", cite=CITE),
    Method(BASE, MEAN, (RELEASED,), "target-splits", cite=CITE),
    *grid(
        (SBERT_BASE,),
        (FIRST_LAST,),
        ((RELEASED,),),
        ("nli", "target-splits"),
        cite=CITE,
    ),
    *grid(
        (MINILM,),
        (FIRST_LAST, LAST2, MEAN),
        ((FLOW,), (FLOWS["flow:paper"],), (DROPOUT,)),
        ("target",),
        cite=CITE,
        tasks=TASKS,
    ),
    *(
        Method(MINILM, FIRST_LAST, (post,), fit_on, cite=CITE, tasks=tasks)
        for post, fit_on, tasks in DIFFERENCES
    ),
)
