"""BERT tuned on NLI as BERT-flow's authors tuned it, a family each for base and large.

Li et al. 2020, arXiv 2011.05864, Appendix B, and their released command: SBERT's
softmax objective over SNLI in full and MultiNLI's train split, 961,735 pairs, one epoch
in batches of 16 at 2e-5, 64 word pieces. The authors released one checkpoint of the
large model, for TensorFlow; Appendix C shows how far five seeds of it differ (77.26
with a standard deviation of 1.76 on STS-B). Different from their code: AdamW corrects
its bias, and the classifier has one.
"""

from harness.core.types import grid
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import FIRST_LAST, MEAN
from .bert import BERT_BASE, BERT_LARGE
from .sbert import DECAY

CITE = "li2020bertflow"
TASKS = ("sts-b", "sick-r", "sts1?", "qnli")


def tuned_on_nli(start: TransformerConfig) -> FamilyConfig:
    """The family of one size, cut at 64 as the paper reads it."""
    return FamilyConfig(
        f"bert-flow-nli-{start.name}",
        f"sbert-nli --from {start.name} --file all-nli --held-out --max-length 64 --device cuda",
        start,
        version=DECAY,
        trained_on="SNLI in full and MNLI, labelled",
        cite=CITE,
        licence=start.licence,
    )


ENCODERS = (tuned_on_nli(BERT_BASE), tuned_on_nli(BERT_LARGE))
CUT_AT_64 = (ENCODERS[0].with_max_length(64), ENCODERS[1].with_max_length(64))
METHODS = grid(CUT_AT_64, (MEAN, FIRST_LAST), tasks=TASKS)
