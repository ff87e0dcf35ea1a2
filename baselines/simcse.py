"""SimCSE, the authors' released checkpoints, read as its authors read them.

Gao, Yao & Chen 2021, arXiv 2104.08821. Unsupervised models are read at [CLS] before the
pooler (the MLP was for training only), supervised ones after it. Read after the pooler,
as it seems to be in MTEB's results, the unsupervised model loses up to 2.35 points
(STS12: 66.05, not 68.40). The unsupervised checkpoints were replaced under the same names on
2021-05-11, so numbers from before (arXiv v1) belong to weights that are gone. They
exist as `.bin` only.
"""

from harness.core.types import grid
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, POOLER
from .bert import ARCHITECTURES, DOWNLOAD_SIZES

CITE = "gao2021simcse"
# Commits that public pages of the hub name in full; the others are recorded on first
# use.
REVISIONS = {
    "unsup-simcse-bert-base-uncased": "6504ae026e02a1464538d443b15e36afc318e034",
    "unsup-simcse-bert-large-uncased": "6a11fcd509ae87b1726516bd2878eea981c6d772",
    "sup-simcse-bert-large-uncased": "0828c45dc0f620fc68940c2ecfb3b8f80c04d93d",
    "sup-simcse-roberta-base": "4bf73c6b5df517f74188c5e9ec159b2208c89c08",
    "sup-simcse-roberta-large": "96d164d9950b72f4ce179cb1eb3414de0910953f",
}
TRAINED_ON = {
    "unsup": "1 M Wikipedia sentences, unlabelled; checkpoint chosen on STS-B dev",
    "sup": "SNLI and MNLI, labelled; checkpoint chosen on STS-B dev",
}


def released(kind: str, model: str, backbone: str) -> TransformerConfig:
    """One released checkpoint: `simcse-unsup-bert-base` is unsup-simcse-bert-base-uncased."""
    repository = f"{kind}-simcse-{backbone}"
    return TransformerConfig(
        f"simcse-{kind}-{model}",
        repo=f"princeton-nlp/{repository}",
        revision=REVISIONS.get(repository),
        download_size=DOWNLOAD_SIZES[model],
        architecture=ARCHITECTURES[model],
        trained_on=TRAINED_ON[kind],
        cite=CITE,
        licence="none stated for the weights; MIT is the code's",
    )


ENCODERS = tuple(
    released(kind, model, backbone)
    for kind in ("unsup", "sup")
    for model, backbone in (
        ("bert-base", "bert-base-uncased"),
        ("bert-large", "bert-large-uncased"),
        ("roberta-base", "roberta-base"),
        ("roberta-large", "roberta-large"),
    )
)

METHODS = (*grid(ENCODERS[:4], (CLS,)), *grid(ENCODERS[4:], (POOLER,)))
