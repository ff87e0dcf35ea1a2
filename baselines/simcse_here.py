"""SimCSE trained from BERT-base on the data that are here, a family of three seeds each.

Gao, Yao & Chen 2021, arXiv 2104.08821, Section 6.1 and Appendix A: the paper's recipe and
its choice of the checkpoint on STS-B's development set. Different from the paper: the
data. Without labels 32,000 sentences of English Wikipedia are read, where the paper reads
a million others; with labels 16,971 triplets of SNLI, where it has 275 thousand of SNLI and
MultiNLI. That is also a thirty-first and a sixteenth of the steps. Products are in
bfloat16, the paper's in fp16. So the scores stand below the paper's rows as `other corpus`,
without a verdict. After so few steps without labels the mean over tokens is far above
[CLS], which pretraining did not make a sentence vector of.

On two cores with AVX-512 and its bfloat16 products a step takes 3 to 4 s without labels and
some 20 s with them, so that a seed of either takes half an hour or more. An interrupted
training goes on.
"""

from harness.core.types import grid
from harness.encoders.trained import FamilyConfig
from harness.transforms.pooling import CLS, MEAN, POOLER
from .bert import BERT_BASE
from .simcse import CITE

TASKS = ("sts-b.senteval", "sick-r.senteval", "sts1?.senteval")
DEV = "checkpoint chosen on STS-B dev"

UNSUPERVISED = FamilyConfig(
    "simcse-unsup-bert-base-32k",
    "simcse-unsup --from bert-base --corpus enwiki-1m --first 32000 --dtype bfloat16",
    BERT_BASE,
    trained_on=f"32,000 sentences of English Wikipedia, unlabelled; {DEV}",
    cite=CITE,
    licence="Apache-2.0",
    in_place_of="simcse-unsup-bert-base",
)
SUPERVISED = FamilyConfig(
    "simcse-sup-bert-base-snli",
    "simcse-sup --from bert-base --file snli-triplets --dtype bfloat16",
    BERT_BASE,
    trained_on=f"SNLI, labelled (16,971 triplets); {DEV}",
    cite=CITE,
    licence="Apache-2.0",
    in_place_of="simcse-sup-bert-base",
)

ENCODERS = (UNSUPERVISED, SUPERVISED)
METHODS = (
    *grid((UNSUPERVISED,), (CLS, MEAN), tasks=TASKS),
    *grid((SUPERVISED,), (POOLER,), tasks=TASKS),
)
