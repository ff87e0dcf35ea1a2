"""The included models: BERT and GloVe in miniature, trained on English Wikipedia.

`bert-mini` (4 layers of 256, masked language modelling) and `glove-mini` (100
dimensions) come from the same million sentences, by programs that docs/included.md
names; their folders hold the exact commands. They replace the papers' BERT-base and
GloVe 840B, so that every method runs on any machine. Which claims of the papers they
confirm is in `results/tables/replication-in-miniature.md`.
"""

from harness.core.types import Method, grid
from harness.encoders.fingerprints import Architecture, Pin
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.encoders.word_vectors import StaticConfig
from harness.transforms.pooling import CLS, FIRST_LAST, LAST2, MEAN, STATIC_LAST
from .flow import CITE as BERT_FLOW
from .flow import DIFFERENCES, DROPOUT, FLOWS
from .natsv import NULLED, Natsv
from .sn import SN
from .whitening import Whitening

# What `bert-mini` and the encoders that are trained from it have in common.
MINIATURE = Architecture(
    model_type="bert", layers=4, width=256, heads=4, vocabulary=8_192
)
MINIATURE_SETTINGS = (
    "bert, hidden_size=256, intermediate_size=1024, max_position_embeddings=128, "
    "num_attention_heads=4, num_hidden_layers=4, vocab_size=8192"
)
MINIATURE_TOKENS = "111487e15c87fbe508108f92c09a4389c8e6cfad7c226f39fb7190f479d93a22"

WIKIPEDIA = "1,000,000 sentences of English Wikipedia"

BERT_MINI = TransformerConfig(
    "bert-mini",
    repo="",
    package="harness/data/embedded/bert-mini",
    weights_sha256="b9d1aa5565dc10cec64b453a2f14bf5dd67f0d1e57acc606bf98e9f2eba007d2",
    architecture=MINIATURE,
    pin=Pin(
        tensors="966267346a32da3e9d6bfd3503decd03844606a6e507f7aa0e276565014c65c0",
        settings=MINIATURE_SETTINGS,
        tokens=MINIATURE_TOKENS,
    ),
    trained_on=WIKIPEDIA,
    cite="devlin2019bert",
    licence="Apache-2.0",
)
GLOVE_MINI = StaticConfig(
    "glove-mini",
    Tokeniser("words", "lower"),
    file="vectors.safetensors",
    package="harness/data/embedded/glove-mini",
    weights_sha256="152756a15fd8b6fd11dc0dce5fb12df2fa28d399e8e686ee8550f57a1df6cb3a",
    trained_on=WIKIPEDIA,
    cite="pennington2014glove",
    licence="Apache-2.0",
)

ENCODERS = (BERT_MINI, GLOVE_MINI)

CALIBRATIONS = ((SN(),), *NULLED, (Whitening(),), (Whitening(128),))
# Fits of flows take seconds to minutes, so each flow has only the tasks of its question.
SENTEVAL = ("sts-b.senteval", "sick-r.senteval", "sts1?.senteval")
STS = ("sts-b", "sick-r", "sts1?", *SENTEVAL)
MATRIX = (*STS, "qnli", "lexical", "mini-sts")
QUESTION = ("sts-b", "mini-sts")
# The tasks for maps that are fitted on Wikipedia, the corpus of unsupervised SimCSE.
WIKIPEDIA_TO_STS = ("sts-b", "sts-b.senteval.dev", "sick-r")

METHODS = (
    *grid((BERT_MINI,), (CLS, MEAN, FIRST_LAST, STATIC_LAST, LAST2)),
    *grid((BERT_MINI,), (MEAN, FIRST_LAST), CALIBRATIONS, ("target",)),
    # What BERT-whitening's evaluation in PyTorch scored (results/references).
    *grid(
        (BERT_MINI.with_max_length(64),),
        (FIRST_LAST,),
        ((Whitening(128),),),
        ("target",),
        tasks=SENTEVAL,
    ),
    *grid(
        (BERT_MINI,),
        (MEAN, FIRST_LAST),
        ((FLOWS["flow"],),),
        ("target",),
        cite=BERT_FLOW,
        tasks=MATRIX,
    ),
    *grid(
        (BERT_MINI,),
        (MEAN, FIRST_LAST),
        ((FLOWS["flow:paper"],), (DROPOUT,)),
        ("target",),
        cite=BERT_FLOW,
        tasks=QUESTION,
    ),
    *(
        Method(BERT_MINI, FIRST_LAST, (post,), fit_on, cite=BERT_FLOW, tasks=tasks)
        for post, fit_on, tasks in DIFFERENCES
    ),
    *grid(
        (BERT_MINI,),
        (MEAN, FIRST_LAST),
        ((SN(),), (Natsv(10),), (Whitening(),)),
        ("mini-text",),
    ),
    *grid(
        (BERT_MINI,),
        (CLS, MEAN),
        ((SN(),), (Whitening(),)),
        ("enwiki-10k",),
        tasks=WIKIPEDIA_TO_STS,
    ),
    *grid((GLOVE_MINI,), (MEAN,)),
    *grid((GLOVE_MINI,), (MEAN,), ((SN(),), (Natsv(1),), (Whitening(),)), ("target",)),
)
