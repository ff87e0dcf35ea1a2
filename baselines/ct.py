"""Contrastive Tension: BERT tuned on Wikipedia alone, or on NLI before that.

Carlsson et al. 2021 (ICLR). The released checkpoints were trained after the paper, with
other settings than it states (their repository's README). The mean over the last
layer's tokens is how its authors read them; SimCSE, whose Table 5 scores them again,
does not state a pooling. On STS-B the README has 73.31 and 81.47 where SimCSE has 74.31
and 81.46. The hub's names are those that the README links. Of one checkpoint a page of
the hub names the commit; the hub states no licence, and the MIT licence of the code
names another author, whose template it came from.
"""

from harness.core.types import grid
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import MEAN
from .bert import ARCHITECTURES, DOWNLOAD_SIZES

CITE = "carlsson2021ct"


def ct_checkpoint(
    name: str,
    repository: str,
    trained_on: str,
    shape: str = "bert-base",
    revision: str | None = None,
) -> TransformerConfig:
    """One checkpoint of the authors' organisation."""
    return TransformerConfig(
        name,
        repo=f"Contrastive-Tension/{repository}",
        revision=revision,
        download_size=DOWNLOAD_SIZES[shape],
        architecture=ARCHITECTURES[shape],
        trained_on=trained_on,
        cite=CITE,
        licence="none stated for the weights",
    )


WIKIPEDIA = "Wikipedia, unlabelled"
NLI = "NLI, labelled; Wikipedia, unlabelled"
STS = "Wikipedia, unlabelled; STS-B train, labelled"

ENCODERS = (
    ct_checkpoint("ct-distilbert", "BERT-Distil-CT", WIKIPEDIA, "distilbert"),
    ct_checkpoint("ct-bert-base", "BERT-Base-CT", WIKIPEDIA),
    ct_checkpoint("ct-bert-large", "BERT-Large-CT", WIKIPEDIA, "bert-large"),
    ct_checkpoint("ct-sbert-distilbert", "BERT-Distil-NLI-CT", NLI, "distilbert"),
    ct_checkpoint(
        "ct-sbert-base",
        "BERT-Base-NLI-CT",
        NLI,
        revision="643434b3007f7b101bf30e353dacd939daa58a0c",
    ),
    ct_checkpoint("ct-sbert-large", "BERT-Large-NLI-CT", NLI, "bert-large"),
    ct_checkpoint("ct-sts-distilbert", "BERT-Distil-CT-STSb", STS, "distilbert"),
    ct_checkpoint("ct-sts-bert-base", "BERT-Base-CT-STSb", STS),
    ct_checkpoint("ct-sts-bert-large", "BERT-Large-CT-STSb", STS, "bert-large"),
    ct_checkpoint(
        "ct-sts-roberta-large", "RoBerta-Large-CT-STSb", STS, "roberta-large"
    ),
)

METHODS = grid(ENCODERS, (MEAN,))
