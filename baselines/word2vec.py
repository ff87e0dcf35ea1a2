"""Averaged vectors of word2vec, by CBOW or skip-gram; both write one format.

Mikolov et al. 2013, arXiv 1310.4546. Google's vectors are of words as they are written;
punctuation and the words a, and, of and to are missing, and each digit of a number of
several digits is #. A word that is missing in lower case, too, is left out. As with GloVe, the
rule that splits a text is part of an encoder (`glove.py`).
"""

from dataclasses import replace

from harness.core.types import grid
from harness.encoders.word_tokenizer import SENTENCE_TRANSFORMERS
from harness.encoders.word_vectors import StaticConfig
from harness.transforms.pooling import MEAN
from .glove import WORDS

GOOGLE_NEWS = StaticConfig(
    "word2vec-google-news",
    WORDS,
    file="vectors/GoogleNews-vectors-negative300.bin.gz",
    trained_on="Google News, 100 B tokens",
    cite="mikolov2013word2vec",
    licence="not stated",
)
AS_SENTENCE_TRANSFORMERS = replace(
    GOOGLE_NEWS, name="word2vec-google-news-st", tokeniser=SENTENCE_TRANSFORMERS
)
ENCODERS = (GOOGLE_NEWS, AS_SENTENCE_TRANSFORMERS)
METHODS = grid(ENCODERS, (MEAN,))
