"""Tokenisers of word vectors in the form of Hugging Face's `tokenizers`.

A word that has no vector is left out of an average. There, a word-level model would put a token for
unknown words in its place; so words are stored with a mark before them, which no single letter has,
in a byte-pair model without merges: it knows whole words and drops whatever is none.
"""

from __future__ import annotations

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from harness.core.arrays import Float32
from harness.core.errors import UsageError
from harness.encoders.word_tokenizer import STOP_WORDS
from harness.encoders.word_vectors import StaticEncoder

MARK = "▁"  # before each word
# What Python's \w matches; that of `tokenizers` knows combining marks, too, and other digits not.
WORD = r"[\p{L}\p{N}_]"
OTHER = r"[^\p{L}\p{N}_\s]"
END = rf"(?!{WORD})"
SPLITS = {
    "whitespace": r"\S+",
    "words": f"{WORD}+|{OTHER}",
    "treebank": (rf"(?i){WORD}+(?=n't{END})|n't{END}|'(?:s|m|d|re|ve|ll){END}|{WORD}+|{OTHER}"),
}


def as_tokenizer(name: str, encoder: StaticEncoder) -> tuple[Tokenizer, Float32[np.ndarray, "V D"]]:
    """A tokenizer that finds the words of an encoder, and the vector of each of its ids.

    Raises UsageError for a rule that looks a word up in several forms.
    """
    rule, words = encoder.tokeniser, encoder.vocabulary
    cased = rule.case == "fallback" and any(word != word.lower() for word in words)
    if rule.strip or rule.split not in SPLITS or cased:
        raise UsageError(
            f"{name}: wanted words that are looked up in one form, found {rule}; its words are "
            "looked up in several, which no tokenizer of a StaticEmbedding does"
        )
    kept = [word for word in words if word not in STOP_WORDS[rule.stop_words]]
    vocabulary = {MARK + word: number for number, word in enumerate(kept)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    if rule.case != "keep":
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS[rule.split]), "removed", invert=True),
            pre_tokenizers.Metaspace(MARK, prepend_scheme="always", split=False),
        ]
    )
    return tokenizer, encoder.vectors[[words[word] for word in kept]]
