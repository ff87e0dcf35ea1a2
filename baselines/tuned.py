"""Encoders that the harness trains itself from `bert-mini`: SimCSE and SBERT, a family each.

SimCSE (Gao, Yao and Chen 2021, arXiv 2104.08821) and SBERT (Reimers and Gurevych 2019,
arXiv 1908.10084) are trained by the code that also trains larger ones (`harness train
simcse-unsup --help`). In addition to the size, they differ from the papers in the data:
other and fewer sentences of Wikipedia, and SNLI alone (16,971 triplets, 18,000 labelled
pairs) in place of SNLI and MultiNLI. With labels, and on the included sentences, the
learning rates are higher than the papers'; lower ones were not compared. Without
labels, on Wikipedia, no setting of `results/records/searches` improves this model's dev
score.

`simcse-sup-mini` is one member of its family and included in the harness;
`simcse-unsup-mini` is trained by the run that needs it, on included sentences.
"""

from harness.core.types import grid
from harness.encoders.fingerprints import Pin
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.transforms.pooling import CLS, FIRST_LAST, MEAN
from .flow import FLOWS
from .miniature import (
    BERT_MINI,
    MATRIX,
    MINIATURE,
    MINIATURE_SETTINGS,
    MINIATURE_TOKENS,
)
from .sbert import DECAY
from .whitening import Whitening

SIMCSE, SBERT = "gao2021simcse", "reimers2019sbert"
LICENCE = "Apache-2.0"
DEV = "checkpoint chosen on STS-B dev"
TRIPLETS = f"SNLI, labelled (16,971 triplets); {DEV}"

SIMCSE_UNSUP = FamilyConfig(
    "simcse-unsup-bert-mini",
    "simcse-unsup --from bert-mini --corpus enwiki-1m --first 32000 --half",
    BERT_MINI,
    trained_on=f"English Wikipedia, unlabelled; {DEV}",
    cite=SIMCSE,
    licence=LICENCE,
)
SIMCSE_SUP = FamilyConfig(
    "simcse-sup-bert-mini",
    "simcse-sup --from bert-mini --file snli-triplets --pooling mean --head none --batch 64 "
    "--learning-rate 0.0002 --half",
    BERT_MINI,
    trained_on=TRIPLETS,
    cite=SIMCSE,
    licence=LICENCE,
)
SBERT_NLI = FamilyConfig(
    "sbert-nli-bert-mini",
    "sbert-nli --from bert-mini --file snli-18k --epochs 3 --learning-rate 0.0002 --half",
    BERT_MINI,
    version=DECAY,
    trained_on="SNLI, labelled (18,000 pairs)",
    cite=SBERT,
    licence=LICENCE,
)
SIMCSE_UNSUP_MINI = FamilyConfig(
    "simcse-unsup-mini",
    "simcse-unsup --from bert-mini --corpus mini-text --first 4000 --learning-rate 0.0003 "
    "--dev mini-sts.dev --half",
    BERT_MINI,
    on_the_spot=True,
    trained_on="sentences that the harness makes, unlabelled; checkpoint chosen on mini-sts.dev",
    cite=SIMCSE,
    licence=LICENCE,
)
SIMCSE_SUP_MINI = TransformerConfig(
    "simcse-sup-mini",
    repo="",
    package="harness/data/embedded/simcse-sup-mini",
    weights_sha256="b38fddaa78945baf8f39a1b00c451f36fc254edd5f9be3c35a7aee3f07a11cea",
    architecture=MINIATURE,
    pin=Pin(
        tensors="eb2baf87ff1aaf01d9befcf278bb51b2edffe78bf91914b2127c8a7238da7b7b",
        settings=MINIATURE_SETTINGS,
        tokens=MINIATURE_TOKENS,
    ),
    trained_on=TRIPLETS,
    cite=SIMCSE,
    licence=LICENCE,
)

ENCODERS = (SIMCSE_SUP_MINI, SIMCSE_UNSUP, SIMCSE_SUP, SBERT_NLI, SIMCSE_UNSUP_MINI)

MINI = ("mini-*",)
# Five encoders each: in the text that SimCSE's and SBERT's tables are scored on.
SENTEVAL = (
    "sts-b.senteval",
    "sick-r.senteval",
    "sts1?.senteval",
    "sts-b",
    "qnli",
    "lexical",
)
BERT_FLOWS = ("sts-b", "sick-r", "sts1?", "qnli")  # its Tables 3 and 4
WHITENED = ((Whitening(),),)
METHODS = (
    *grid((SIMCSE_UNSUP,), (CLS, MEAN), tasks=SENTEVAL),
    *grid((SIMCSE_SUP,), (MEAN,), tasks=SENTEVAL),
    *grid((SIMCSE_SUP,), (MEAN,), WHITENED, ("target",), tasks=SENTEVAL),
    *grid((SBERT_NLI,), (MEAN, FIRST_LAST), tasks=MATRIX),
    *grid((SBERT_NLI,), (FIRST_LAST,), WHITENED, ("target",), tasks=MATRIX),
    *grid(
        (SBERT_NLI,), (FIRST_LAST,), ((FLOWS["flow"],),), ("target",), tasks=BERT_FLOWS
    ),
    *grid((SIMCSE_SUP_MINI,), (MEAN,), tasks=(*MATRIX, *MINI)),
    *grid((SIMCSE_SUP_MINI,), (MEAN,), WHITENED, ("target",), tasks=(*MATRIX, *MINI)),
    *grid((SIMCSE_UNSUP_MINI,), (CLS, MEAN), tasks=MINI),
)
