"""ELMo: words in context, from a language model over characters, averaged over a text.

Peters et al. 2018, arXiv 1802.05365. `mean` is the mean over words of the last layer,
`layer:0` that of the layer without context, `mix` all layers in equal parts, and
`mix:0.2_1_-3_g0.5` a mixture with these s_j and gamma. The paper learns s_j and gamma
for each task; no published file has any.

Not as in AllenNLP: each text starts from a state of zeros, where its module goes on from
the states of the batch before. Words are those of the Penn Treebank's conventions, in
the case that they are written in; the training corpus was split by another program.
"""

from harness.core.types import grid
from harness.encoders.recurrent import ElmoConfig
from harness.transforms.pooling import LAYER, MEAN, MIX

CITE = "peters2018elmo"
BILLION = "1 Billion Word Benchmark"


def published(size: str, trained_on: str = BILLION) -> ElmoConfig:
    """One of AllenNLP's models."""
    return ElmoConfig(
        f"elmo-{size}",
        f"elmo/{size}",
        trained_on=trained_on,
        cite=CITE,
        licence="Apache-2.0",
    )


ENCODERS = (
    published("original"),
    published("original-5b", "Wikipedia and WMT news crawl 2008-2012, 5.5 B tokens"),
    published("medium"),
    published("small"),
)
METHODS = grid(ENCODERS, (MEAN, MIX, LAYER.with_argument("0")))
