"""SimCSE's ablations of Tables 1 to 4, 6, 7, D.1 and D.2, a family each.

Gao, Yao & Chen 2021, arXiv 2104.08821; commands after the authors'
`run_unsup_example.sh` and `run_sup_example.sh`. No checkpoint of them was released, and
the paper prints one run of each on the dev set that the checkpoint is chosen on.
Different from the paper: scored every 125 steps, as in those scripts, where its
appendix says 250; in bfloat16, where the scripts say fp16; on one GPU, where the
supervised script spreads its batch of 512 over four; the second view alone is augmented
(Table 1 does not say). Runs on positive pairs of NLI draw the 134 thousand of Table 4's
samples by the seed.
"""

import math

from harness.core.interfaces import Pooling
from harness.core.types import Method
from harness.encoders.trained import FamilyConfig
from harness.transforms.pooling import CLS, POOLER, STATIC_LAST
from .bert import BERT_BASE

CITE = "gao2021simcse"
GPU = "--dtype bfloat16 --device cuda"
DEV = ("sts-b.senteval.dev",)
SAMPLE = 134_000


def unsupervised(name: str, options: str, pooling: Pooling = CLS) -> Method:
    """Trained on a million sentences of Wikipedia."""
    return _method(
        f"simcse-unsup-bert-base-{name}",
        f"simcse-unsup --from bert-base {options} {GPU}",
        "1 M Wikipedia sentences, unlabelled; checkpoint chosen on STS-B dev",
        pooling,
    )


def supervised(name: str, options: str, pooling: Pooling = POOLER) -> Method:
    """Trained on the triplets of SNLI and MultiNLI."""
    return _method(
        f"simcse-sup-bert-base-{name}",
        f"simcse-sup --from bert-base --file nli-for-simcse {options} {GPU}",
        "SNLI and MNLI, labelled; checkpoint chosen on STS-B dev",
        pooling,
    )


def positives(kind: str, size: str = "", options: str = "") -> Method:
    """Trained on the pairs of one label, or of all, as positives."""
    return _method(
        f"simcse-sup-bert-base-nli-{kind}{size}",
        f"simcse-sup --from bert-base --file all-nli --pairs {kind}{options} {GPU}",
        f"SNLI and MNLI, pairs of the label {kind}; checkpoint chosen on STS-B dev",
        POOLER,
    )


def _method(name: str, recipe: str, trained_on: str, pooling: Pooling) -> Method:
    family = FamilyConfig(
        name, recipe, BERT_BASE, trained_on=trained_on, cite=CITE, licence="Apache-2.0"
    )
    return Method(family, pooling, cite=CITE, tasks=DEV)


METHODS = (
    # Table 1: words are removed.
    *(unsupervised(f"crop-{p}", f"--augmentation crop:{p}") for p in (10, 20, 30)),
    *(
        unsupervised(f"deletion-{p}", f"--augmentation deletion:{p}")
        for p in (10, 20, 30)
    ),
    unsupervised("deletion-one", "--augmentation deletion:one"),
    unsupervised(
        "deletion-one-no-dropout", "--dropout 0.0 --augmentation deletion:one"
    ),
    # Table 3: dropout probabilities.
    *(
        unsupervised(f"dropout-{p:g}".replace(".", "-"), f"--dropout {p}")
        for p in (0.0, 0.01, 0.05, 0.15, 0.2, 0.5)
    ),
    unsupervised("same-mask", "--same-mask"),
    # Table 4: pairs of NLI as positives.
    *(
        method
        for kind in ("entailment", "neutral", "contradiction", "all")
        for method in (positives(kind), positives(kind, "-134k", f" --sample {SAMPLE}"))
    ),
    # Table 6: poolers; its first-last averages took layer 0 for the first (README since
    # 2024).
    unsupervised("head-kept", "--head keep", POOLER),
    unsupervised("no-head", "--head none"),
    unsupervised("static-last", "--pooling static-last --head none", STATIC_LAST),
    supervised("head-dropped", "--head train", CLS),
    supervised("no-head", "--head none", CLS),
    supervised("static-last", "--pooling static-last --head none", STATIC_LAST),
    # Table 7: the weight alpha of a hard negative, given as its logarithm.
    supervised("alpha-0-5", f"--hard-weight {math.log(0.5)}"),
    supervised("alpha-2", f"--hard-weight {math.log(2)}"),
    # Table D.1: temperatures.
    supervised("dot", "--temperature 1.0 --similarity dot"),
    *(
        supervised(f"temperature-{t:g}".replace(".", "-"), f"--temperature {t}")
        for t in (0.001, 0.01, 0.1, 1.0)
    ),
    # Table D.2: the weight of masked language modelling.
    *(
        supervised(f"mlm-{weight:g}".replace(".", "-"), f"--masked-words {weight}")
        for weight in (0.01, 0.1, 1.0)
    ),
)
ENCODERS = tuple(method.encoder for method in METHODS)
