"""all-mpnet-base-v2 under three poolings and every calibration: an encoder of the papers' own size.

The model is sentence-transformers' (Song et al. 2020, arXiv 2004.09297, fine-tuned on
1.17 billion pairs): 12 layers of 768 dimensions, as BERT-base. No paper of the matrix
uses it; its plain mean is published by MTEB at full precision. The rest of the grid
shows what post-processing does to an encoder that was tuned for similarity.
"""

from harness.core.interfaces import Pooling, PostProcessor
from harness.core.types import Method, grid
from harness.encoders.fingerprints import Architecture
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, FIRST_LAST, MEAN
from .flow import FLOW, RELEASED, SEVEN
from .natsv import NULLED
from .other_flows import GLOW, NICE
from .sn import SN
from .whitening import Whitening

MPNET = TransformerConfig(
    "mpnet-base",
    repo="sentence-transformers/all-mpnet-base-v2",
    revision="84f2bcc00d77236f9e89c8a360a00fb1139bf47d",
    weights_sha256="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    download_size=438_000_000,
    architecture=Architecture(
        model_type="mpnet", layers=12, width=768, heads=12, vocabulary=30_527
    ),
    trained_on="about a billion pairs from the web, labelled ones among them",
    cite="song2020mpnet, reimers2019sbert",  # the model, and the library that tuned it
    licence="Apache-2.0",
)

ENCODERS = (MPNET,)

# SN, NATSV and both with the numbers of directions of BERT-flow's Table 5.
CALIBRATIONS = (
    (SN(),),
    *NULLED,
    (Whitening(),),
    (Whitening(256),),
    (FLOW,),
    (NICE,),
    (GLOW,),
)
# Tasks by fit corpus: the papers' tables have both text forms, mteb has all of SICK-R.
FEW = ("sick-r.all", "qnli", "lexical", *(f"{task}.senteval" for task in SEVEN))
TEXTS = {"target": (*SEVEN, *FEW), "enwiki-100k": FEW}
POOLINGS = (MEAN, CLS, FIRST_LAST)

# Notes on flows on the last layer, whose scores depend on which narrow coordinates are
# left out.
LEFT_OUT = (
    "fitted without coordinate 34, which a flow keeps now: not all tasks are measured "
    "again"
)
KEPT = "one narrow coordinate moves its scores, which are those with the coordinate"
# Post-processors that were measured with and without the coordinate, by fit corpus.
MEASURED_AGAIN = {"target": (FLOW, NICE, GLOW), "enwiki-100k": (FLOW, NICE, GLOW)}


def note_of(pooling: Pooling, post: PostProcessor, corpus: str) -> str:
    """The note of a method; none where no coordinate is narrow."""
    if pooling == FIRST_LAST or post not in (FLOW, NICE, GLOW, RELEASED):
        return ""
    was_measured_again = post in MEASURED_AGAIN[corpus]
    note = KEPT if was_measured_again else LEFT_OUT
    return f"{note} (docs/flows.md)"


METHODS = (
    *grid((MPNET,), POOLINGS),
    *(
        Method(
            MPNET,
            pooling,
            post,
            corpus,
            cite=MPNET.cite,
            note=note_of(pooling, post[-1], corpus),
            tasks=tasks,
        )
        for pooling in POOLINGS
        for corpus, tasks in TEXTS.items()
        for post in CALIBRATIONS
    ),
    # Each fit encodes all sentences again, with dropout, so that the raw texts and
    # Wikipedia would take too long.
    *(
        Method(
            MPNET,
            pooling,
            (RELEASED,),
            "target",
            cite=MPNET.cite,
            note=note_of(pooling, RELEASED, "target"),
            tasks=FEW,
        )
        for pooling in POOLINGS
    ),
)
