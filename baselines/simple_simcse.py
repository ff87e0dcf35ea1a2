"""Unsupervised SimCSE as its replication trains it: 50 seeds of each of four models.

Tsukagoshi 2022, github.com/hppRC/simple-simcse, `train-multiple.sh`; the settings are
those of Gao et al. 2021 but for AdamW's weight decay of 0.01, no bound on the gradient,
raw text of STS-B's dev split, scored every 250 steps, and 32 bits throughout. Different
from the replication: biases and norms do not decay; the head's weights are drawn as
BERT's are, not as torch's; the remainder of the 1,953 batches of 512 is a batch of its
own.
"""

from harness.core.types import grid
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS
from .bert import BERT_BASE, BERT_LARGE, ROBERTA_BASE, ROBERTA_LARGE

CITE = "tsukagoshi2022simplesimcse"
OPTIONS = "--weight-decay 0.01 --clip 0.0 --dev sts-b.dev --dev-every 250 --device cuda"
TASKS = ("sts-b", "sick-r", "sts1?")


def replicated(start: TransformerConfig) -> FamilyConfig:
    """The family of one model."""
    return FamilyConfig(
        f"simple-simcse-{start.name}",
        f"simcse-unsup --from {start.name} {OPTIONS}",
        start,
        trained_on="1 M Wikipedia sentences, unlabelled; checkpoint chosen on STS-B dev",
        cite=CITE,
        licence=start.licence,
    )


ENCODERS = tuple(map(replicated, (BERT_BASE, BERT_LARGE, ROBERTA_BASE, ROBERTA_LARGE)))
METHODS = grid(ENCODERS, (CLS,), cite=CITE, tasks=TASKS)
