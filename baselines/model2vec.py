"""Model2Vec: static sub-word vectors distilled from bge-base-en-v1.5, averaged.

Tulkens & van Dongen 2024, github.com/MinishLab/model2vec. The results that MTEB has of
them name no revision; the revisions here are those of mteb's own entries of the models.
"""

from harness.core.types import grid
from harness.encoders.subword_vectors import SubwordConfig
from harness.transforms.pooling import MEAN

CITE = "tulkens2024model2vec"
DISTILLED = "distilled from bge-base-en-v1.5"


def distilled(
    name: str, repository: str, revision: str, download_size: int, text: str
) -> SubwordConfig:
    """One table of the organisation minishlab."""
    return SubwordConfig(
        name,
        repo=f"minishlab/{repository}",
        revision=revision,
        download_size=download_size,
        trained_on=f"{DISTILLED}{text}",
        cite=CITE,
        licence="MIT",
    )


PRETRAINED = ", then trained on C4"
ENCODERS = (
    distilled(
        "m2v-base-glove",
        "M2V_base_glove",
        "1d84d24b086580d886e36fb15f1973e0c04bad87",
        410_000_000,
        " over GloVe's vocabulary",
    ),
    distilled(
        "potion-base-2m",
        "potion-base-2M",
        "389b9f64be5aa4ae7a6bc6fe95ef20ce485ae5da",
        8_000_000,
        PRETRAINED,
    ),
    distilled(
        "potion-base-8m",
        "potion-base-8M",
        "bf8b056651a2c21b8d2565580b8569da283cab23",
        31_000_000,
        PRETRAINED,
    ),
)

METHODS = grid(ENCODERS, (MEAN,))
