"""Averaged word vectors of before and after GloVe: word2vec and fastText.

Mikolov et al. 2013, arXiv 1310.4546; Mikolov et al. 2018, arXiv 1712.09405. Both files keep the
case of words. Google's lacks punctuation and the words a, and, of, to, and writes each digit of a
number of several as #. A word that a file has neither as written nor in lower case is left out, so
these numbers are; fastText's vectors of character n-grams are in another file, which would give
unknown words one. As with GloVe (`glove.py`), the rule that splits text is part of the encoder.
"""

from harness.core.types import Method
from harness.encoders.word_tokenizer import SENTENCE_TRANSFORMERS
from harness.encoders.word_vectors import StaticConfig
from harness.transforms.pooling import MEAN
from .glove import WORDS


def averaged(name: str, file: str, **facts: str) -> tuple[StaticConfig, StaticConfig]:
    """A file's vectors under each tokenisation."""
    return (
        StaticConfig(name, WORDS, file=file, **facts),
        StaticConfig(f"{name}-st", SENTENCE_TRANSFORMERS, file=file, **facts),
    )


ENCODERS = (
    *averaged(
        "word2vec-google-news",
        "vectors/GoogleNews-vectors-negative300.bin.gz",
        trained_on="Google News, 100 B tokens",
        cite="mikolov2013word2vec",
        licence="not stated",
    ),
    *averaged(
        "fasttext-crawl",
        "vectors/crawl-300d-2M.vec",
        trained_on="Common Crawl, 600 B tokens",
        cite="mikolov2018fasttext",
        licence="CC BY-SA 3.0",
    ),
)

METHODS = tuple(Method(encoder, MEAN, cite=encoder.cite) for encoder in ENCODERS)
