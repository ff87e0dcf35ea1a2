"""DeCLUTR: RoBERTa tuned so that neighbouring spans of a document agree.

Giorgi et al. 2021, arXiv 2006.03659. Its authors average the last layer's tokens;
SimCSE, whose Table 5 scores the checkpoint again, does not state a pooling.
"""

from harness.core.types import Method
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import MEAN
from .bert import ARCHITECTURES, DOWNLOAD_SIZES

CITE = "giorgi2021declutr"
DECLUTR = TransformerConfig(
    "declutr-base",
    repo="johngiorgi/declutr-base",
    revision="2d2698d26e937f401f44b2f1b93760555d53df95",
    download_size=DOWNLOAD_SIZES["roberta-base"],
    architecture=ARCHITECTURES["roberta-base"],
    trained_on="OpenWebText, unlabelled",
    cite=CITE,
    licence="Apache-2.0",
)

ENCODERS = (DECLUTR,)
METHODS = (Method(DECLUTR, MEAN, cite=CITE),)
