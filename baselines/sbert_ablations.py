"""SBERT's ablation of poolings, a family each for the rows of its Table 6 that can be trained here.

Reimers & Gurevych 2019, arXiv 1908.10084, Section 6: SBERT-base trained on NLI with the
softmax objective (Section 3.1: one epoch in batches of 16 at 2e-5), or on STS-B's train
split with the regression objective as in Table 2, under another pooling; ten seeds,
scored on STS-B's development split, on which the released examples also choose the
checkpoint, every 1,000 steps for NLI. The maximum over the tokens is not here, nor other
inputs of the classifier of NLI than (u, v, |u - v|). The differences from the first
release's examples are listed in `sbert_sts.py`.
"""

from harness.core.interfaces import Pooling
from harness.core.types import Method
from harness.encoders.trained import FamilyConfig
from harness.transforms.pooling import CLS, MEAN
from .bert import BERT_BASE
from .sbert import CITE, DECAY

ON_NLI = "SNLI and MNLI, labelled; checkpoint chosen on STS-B dev"
ON_STS = "STS-B's train split, scored; checkpoint chosen on STS-B dev"


def ablation(name: str, recipe: str, trained_on: str, pooling: Pooling) -> Method:
    """One row under one training objective."""
    family = FamilyConfig(
        name,
        f"{recipe} --device cuda",
        BERT_BASE,
        version=DECAY,
        trained_on=trained_on,
        cite=CITE,
        licence="Apache-2.0",
    )
    return Method(family, pooling, cite=CITE, tasks=("sts-b.dev",))


NLI = "sbert-nli --from bert-base --file all-nli"
CHOSEN = "--dev sts-b.dev --dev-every 1000"
METHODS = (
    ablation("sbert-nli-bert-base", f"{NLI} {CHOSEN}", ON_NLI, MEAN),
    ablation("sbert-nli-bert-base-cls", f"{NLI} --pooling cls {CHOSEN}", ON_NLI, CLS),
    ablation(
        "sbert-sts-bert-base-cls",
        "sbert-sts --from bert-base --pooling cls",
        ON_STS,
        CLS,
    ),
)
ENCODERS = tuple(method.encoder for method in METHODS)
