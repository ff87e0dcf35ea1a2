"""SimCSE, the authors' released checkpoints, read as its authors read them.

Gao, Yao & Chen 2021, arXiv 2104.08821. Unsupervised models are read at [CLS] before the pooler
(the MLP was for training only), supervised ones behind it. Behind it, as MTEB's results seem to
have it, the unsupervised model loses up to 2.35 points (STS12: 66.05, not 68.40). The unsupervised
checkpoints were replaced under the same names on 2021-05-11, so numbers from before (arXiv v1)
belong to weights that are gone. They exist as `.bin` only.
"""

from harness.core.types import Method
from harness.encoders.checkpoint import BERT_UNCASED
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, POOLER
from .bert import ABOUT

CITE = "gao2021simcse"
# Where a published revision could be verified; the others are recorded on first use.
REVISIONS = {"sup-simcse-roberta-large": "96d164d9950b72f4ce179cb1eb3414de0910953f"}
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
        fingerprint=BERT_UNCASED if backbone.startswith("bert") else None,
        about=ABOUT[model],
        trained_on=TRAINED_ON[kind],
        cite=CITE,
        licence="MIT",
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

METHODS = tuple(
    Method(encoder, CLS if "unsup" in encoder.name else POOLER, cite=CITE) for encoder in ENCODERS
)
