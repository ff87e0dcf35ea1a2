"""Encoders that the harness trains itself, anew for every seed, from `bert-mini`.

SimCSE (Gao, Yao & Chen 2021, arXiv 2104.08821) and SBERT (Reimers & Gurevych 2019, arXiv
1908.10084) by the same code that trains larger ones (`harness train simcse-unsup --help`).
Different from the papers, besides the size: SNLI alone (16,971 triplets, 18,000 labelled pairs) in
place of SNLI and MultiNLI, mean pooling, and learning rates for a small model.
"""

from baselines.miniature import BERT_MINI
from harness.encoders.family import FamilyConfig

SIMCSE_UNSUP = FamilyConfig(
    "simcse-unsup-bert-mini",
    "simcse-unsup --from bert-mini --corpus enwiki-1m --first 64000 --learning-rate 0.0003",
    BERT_MINI,
    trained_on="English Wikipedia, unlabelled; checkpoint chosen on STS-B dev",
    cite="gao2021simcse",
    licence="Apache-2.0",
)
SIMCSE_SUP = FamilyConfig(
    "simcse-sup-bert-mini",
    "simcse-sup --from bert-mini --file snli-triplets --pooling mean --head none "
    "--learning-rate 0.0002",
    BERT_MINI,
    trained_on="SNLI, labelled (16,971 triplets); checkpoint chosen on STS-B dev",
    cite="gao2021simcse",
    licence="Apache-2.0",
)
SBERT_NLI = FamilyConfig(
    "sbert-nli-bert-mini",
    "sbert-nli --from bert-mini --file snli-18k --epochs 3 --learning-rate 0.0002",
    BERT_MINI,
    trained_on="SNLI, labelled (18,000 pairs)",
    cite="reimers2019sbert",
    licence="Apache-2.0",
)

ENCODERS = (SIMCSE_UNSUP, SIMCSE_SUP, SBERT_NLI)
METHODS = ()
