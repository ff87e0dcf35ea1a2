"""SIF: weighted word vectors, less the direction that all sentences share.

Arora, Liang & Ma 2017 (ICLR). A word w weighs a / (a + p(w)), where p(w) is its share
of English Wikipedia and a = 1e-3; of the sentence vectors, the projection on their
first right singular vector is removed, uncentred. So GloVe+WR is
`glove-840b-lower-sif.mean+natsv:1@target`: the weights belong to the encoder, the
removal is `natsv:1`. As in the authors' code (PrincetonML/SIF, 84b5b4c) words are
looked up in lower case, the weighted sum is divided by the number of words, and a word
without a count weighs 1. It differs from theirs in three ways: a word without a vector
is left out, where they take the last vector of the file; texts are split here, where
they score tokenised copies of their own and drop a leading #; and `@target` removes one
direction of all sentences of a task, where they remove one of each subset and of each
side of its pairs.
"""

from dataclasses import dataclass, replace

import numpy as np

from harness.core.errors import UsageError
from harness.core.types import Method
from harness.encoders.word_vectors import (
    CountedConfig,
    StaticConfig,
    Vocabulary,
    WordMap,
)
from harness.transforms.pooling import MEAN
from .glove import FULL, LOWER, SICK, WEB, vectors
from .natsv import Natsv

CITE = "arora2017sif"
ENWIKI = "vectors/enwiki_vocab_min200.txt"
ENWIKI_SHA256 = "472326d0b31161ecd316f10fdb548f4cd812b6ff0b7c030b6cc0cbaf5de8b7cd"


@dataclass(frozen=True)
class SifWeights:
    """Each vector times a / (a + p(w)), with p(w) = count / total; 1 for a word without a count.

    Examples:
        >>> rows, vectors = {"the": 0, "cat": 1}, np.ones((2, 1), np.float32)
        >>> vocabulary = Vocabulary.with_counts(rows, vectors, {"the": 9, "dog": 1})
        >>> SifWeights(a=0.1)(vocabulary).vectors.round(3).tolist()
        [[0.10000000149011612], [1.0]]
    """

    a: float = 1e-3

    def __post_init__(self) -> None:
        if not self.a > 0:
            raise UsageError(f"SIF weights: wanted a > 0, found {self.a}")

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        weights = self.a / (self.a + vocabulary.counts / vocabulary.total)
        weighted = vocabulary.vectors * weights.astype(np.float32)[:, None]
        return replace(vocabulary, vectors=weighted)


def counted(name: str, plain: StaticConfig, *maps: WordMap) -> CountedConfig:
    """Vectors that are mapped with the counts of English Wikipedia."""
    return CountedConfig(
        name,
        plain.tokeniser,
        plain.file,
        trained_on=plain.trained_on,
        cite=plain.cite,
        licence=plain.licence,
        counts=ENWIKI,
        maps=maps,
        counts_sha256=ENWIKI_SHA256,
    )


ANYWHERE = counted(
    "glove-840b-lower-sif", vectors("glove-840b-lower", LOWER, FULL, WEB), SifWeights()
)
ON_SICK = counted(
    "glove-840b-sick-lower-sif",
    vectors("glove-840b-sick-lower", LOWER, SICK, WEB),
    SifWeights(),
)

ENCODERS = (ANYWHERE, ON_SICK)

# Table 1, "GloVe+WR".
METHODS = (
    Method(ANYWHERE, MEAN, (Natsv(1),), "target", cite=CITE),
    Method(ON_SICK, MEAN, (Natsv(1),), "target", cite=CITE, tasks=("sick-r*",)),
)
