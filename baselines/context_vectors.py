"""Averages of words in context, as recurrent networks of 2017 and 2018 give them: ELMo and CoVe.

Peters et al. 2018, arXiv 1802.05365; McCann et al. 2017, arXiv 1708.00107. Layer 0 has no context
(ELMo's vectors of characters, CoVe's GloVe), so `mean` is the mean over words of the last layer and
`static-last` that of layers 0 and 2. The weights of a trained mixture of layers that ELMo's paper
has belong to tasks, and are none of the published files. Texts are split by the
conventions of the Penn Treebank (do n't), and never lower-cased. That deviates from both: CoVe's
authors tokenise with Moses (section 7), and ELMo's corpus was tokenised by WMT's scripts, which
split don 't. CoVe looks a word up in lower case where GloVe lacks it as written. Each text starts
from zeros, where AllenNLP's module goes on from the batch before (`harness/encoders/elmo.py`).
"""

from harness.core.types import Method
from harness.encoders.cove import CoveConfig
from harness.encoders.elmo import ElmoConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.transforms.pooling import FIRST_LAST, MEAN, STATIC_LAST
from .glove import FULL

ELMO, COVE = "peters2018elmo", "mccann2017cove"
BILLION = "1 Billion Word Benchmark (language model)"


def published(size: str, trained_on: str = BILLION) -> ElmoConfig:
    """One model of AllenNLP, in a folder of the data folder."""
    return ElmoConfig(
        f"elmo-{size}",
        f"elmo/{size}",
        trained_on=trained_on,
        cite=ELMO,
        licence="Apache-2.0",
    )


ENCODERS = (
    published("original"),
    published("original-5b", "Wikipedia and WMT news crawl 2008-2012, 5.5 B tokens"),
    published("medium"),
    published("small"),
    CoveConfig(
        "cove",
        "vectors/wmtlstm-8f474287.pth",
        Tokeniser("penn", "fallback"),
        weights_sha256="8f474287",  # torch writes how the digest begins into the file's name
        vectors=FULL,
        trained_on="WMT 2017 English-German (translation), over GloVe 840 B",
        cite=COVE,
        licence="BSD-3-Clause",
    ),
)

METHODS = tuple(
    Method(encoder, pooling, cite=encoder.cite)
    for encoder in ENCODERS
    for pooling in (MEAN, FIRST_LAST, STATIC_LAST)
)
