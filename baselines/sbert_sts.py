"""SBERT trained on the STS Benchmark's train split, a family each for the rows of its Table 2.

Reimers & Gurevych 2019, arXiv 1908.10084, Section 4.2: the regression objective, ten
seeds. The settings are those of the first release's examples,
`training_stsbenchmark_bert.py` and `_roberta.py`, and where NLI came first
`training_stsbenchmark_continue_training.py`, which starts from the released checkpoint:
four epochs in batches of 16 at 2e-5, the checkpoint of the epoch that scores best on
the development split. Different from them: AdamW corrects its bias, the decay begins
with the first step, and the development score is the cosine's Spearman, where theirs is
the best of four similarities.
"""

from harness.core.types import grid
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import MEAN
from .bert import BERT_BASE, BERT_LARGE, ROBERTA_BASE, ROBERTA_LARGE
from .sbert import CITE, DECAY, NLI


def tuned_on_sts(start: TransformerConfig) -> FamilyConfig:
    """The family that starts from one checkpoint."""
    before = f"{start.trained_on}; then " if start in NLI else ""
    return FamilyConfig(
        f"sbert-sts-{start.name}",
        f"sbert-sts --from {start.name} --device cuda",
        start,
        version=DECAY,
        trained_on=f"{before}STS-B's train split, scored; checkpoint chosen on STS-B dev",
        cite=CITE,
        licence=start.licence,
    )


ENCODERS = tuple(
    map(tuned_on_sts, (BERT_BASE, BERT_LARGE, ROBERTA_BASE, ROBERTA_LARGE, *NLI))
)
METHODS = grid(ENCODERS, (MEAN,), tasks=("sts-b",))
