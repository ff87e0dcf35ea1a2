"""Averaged word vectors (GloVe, Komninos); how a sentence is split is part of each encoder.

Pennington, Socher & Manning 2014. Two public threads say that SentEval's code does not
give SBERT's row "Avg. GloVe embeddings", and have no cause (SimCSE#87,
sentence-transformers#1165): sentence-transformers drops English stop words and falls
back through case and punctuation, SentEval's bow.py does neither. Under the rules below
the same vectors give 54.25 to 56.46 on SICK-R, so each rule has its own id. The `-sick`
encoders hold the genuine 840B rows of SICK's vocabulary and are meant for SICK only.
"""

from dataclasses import replace

from harness.core.types import grid
from harness.encoders.word_tokenizer import SENTENCE_TRANSFORMERS, Tokeniser
from harness.encoders.word_vectors import StaticConfig
from harness.transforms.pooling import MEAN

CITE = "pennington2014glove"
AS_WRITTEN = Tokeniser("whitespace", "keep")
WORDS = Tokeniser("words", "fallback")
LOWER = Tokeniser("words", "lower")
STRIPPED = Tokeniser("whitespace", "lower", strip=True)
TREEBANK = Tokeniser("treebank", "fallback")


def vectors(
    name: str, tokeniser: Tokeniser, file: str, trained_on: str
) -> StaticConfig:
    """One vector file under one tokenisation."""
    return StaticConfig(
        name, tokeniser, file=file, trained_on=trained_on, cite=CITE, licence="PDDL"
    )


WEB = "Common Crawl, 840 B tokens"
WIKI = "Wikipedia 2014 and Gigaword 5, 6 B tokens"
FULL = "vectors/glove.840B.300d.txt"
SICK = "vectors/glove.840B.300d.sick-subset.npz"
SIX = "vectors/glove.6B.300d.txt"
SMALL = "vectors/glove.6B.50d.22k-subset.npz"
KOMNINOS = "vectors/komninos_english_embeddings.gz"

ANYWHERE = (
    vectors("glove-840b", WORDS, FULL, WEB),
    vectors("glove-840b-lower", LOWER, FULL, WEB),
    vectors("glove-840b-st", SENTENCE_TRANSFORMERS, FULL, WEB),
    vectors("glove-6b", LOWER, SIX, WIKI),
    vectors("glove-6b-st", SENTENCE_TRANSFORMERS, SIX, WIKI),
    replace(
        vectors(
            "komninos",
            SENTENCE_TRANSFORMERS,
            KOMNINOS,
            "English Wikipedia, by dependency",
        ),
        cite="komninos2016dependency",
        licence="not stated",
    ),
    vectors("glove-6b-50d-22k", LOWER, SMALL, WIKI),
)
ON_SICK = (
    vectors("glove-840b-sick", WORDS, SICK, WEB),
    vectors("glove-840b-sick-whitespace", AS_WRITTEN, SICK, WEB),
    vectors("glove-840b-sick-treebank", TREEBANK, SICK, WEB),
    vectors("glove-840b-sick-lower", LOWER, SICK, WEB),
    vectors("glove-840b-sick-strip", STRIPPED, SICK, WEB),
    vectors("glove-840b-sick-st", SENTENCE_TRANSFORMERS, SICK, WEB),
)

ENCODERS = ANYWHERE + ON_SICK

METHODS = (*grid(ANYWHERE, (MEAN,)), *grid(ON_SICK, (MEAN,), tasks=("sick-r*",)))
