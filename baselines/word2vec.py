"""Averaged vectors of word2vec, by CBOW or skip-gram; both write one format.

Mikolov et al. 2013, arXiv 1310.4546. Google's vectors are of words as they are written;
punctuation and the words a, and, of and to are missing, and each digit of a number of
several digits is #. A word that is missing in lower case, too, is left out. As with GloVe, the
rule that splits a text is part of an encoder (`glove.py`).
"""

from harness.core.types import Method
from harness.encoders.word_tokenizer import SENTENCE_TRANSFORMERS
from harness.encoders.word_vectors import StaticConfig
from harness.transforms.pooling import MEAN
from .glove import WORDS

CITE = "mikolov2013word2vec"
ENCODERS = tuple(
    StaticConfig(
        name,
        tokeniser,
        file="vectors/GoogleNews-vectors-negative300.bin.gz",
        trained_on="Google News, 100 B tokens",
        cite=CITE,
        licence="not stated",
    )
    for name, tokeniser in (
        ("word2vec-google-news", WORDS),
        ("word2vec-google-news-st", SENTENCE_TRANSFORMERS),
    )
)
METHODS = tuple(Method(encoder, MEAN, cite=CITE) for encoder in ENCODERS)
