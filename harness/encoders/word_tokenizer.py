"""Splitting text into words for static vectors: a visible part of an encoder's identity.

The same vectors under other rules are another encoder: on SICK-R the rules alone move
GloVe's score by two points.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import punctuation
from typing import Literal

TOKEN_PATTERNS = {
    "whitespace": re.compile(r"\S+"),
    "words": re.compile(r"\w+|[^\w\s]"),
    # The Penn Treebank's clitics, as in GloVe's own vocabulary: do n't, it 's.
    "treebank": re.compile(
        r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+|[^\w\s]", re.IGNORECASE
    ),
}
# Of sentence-transformers' GloVe models: ENGLISH_STOP_WORDS of its version 6.2.0
# (Apache-2.0).
_ENGLISH = Path(__file__).with_name("english_stop_words.txt").read_bytes()
ENGLISH_WORDS = frozenset(_ENGLISH.decode().split())
# The digest of that list, which the keys of encoders imply.
ENGLISH_SHA256 = "e73ad51e9a363f7e7f88f34a2fd9e3cd2aa6999402de763a9a9a2b36c756a54c"
STOP_WORDS: dict[str, frozenset[str]] = {"none": frozenset(), "english": ENGLISH_WORDS}
STOP_WORD = -1  # in the place of a row
NEGATION = re.compile("^n't$", re.IGNORECASE)


@dataclass(frozen=True)
class Tokeniser:
    """The rule by which a text is split and looked up in a vocabulary.

    A token is tried as written; with `strip`, then without the punctuation around it;
    with case `fallback`, then in lower case. The first form that the vocabulary has
    counts. A token with a form among the stop words before that is dropped, as is one
    that the vocabulary lacks.
    """

    split: Literal["whitespace", "words", "treebank", "nltk"]
    case: Literal["keep", "lower", "fallback"]
    strip: bool = False
    stop_words: Literal["none", "english"] = "none"

    @property
    def list_digests(self) -> dict[str, str]:
        """The digest of its list of stop words, for keys; empty for the list as it was released."""
        digest = hashlib.sha256(_ENGLISH).hexdigest()
        if self.stop_words == "none" or digest == ENGLISH_SHA256:
            return {}
        return {"stop words": digest}

    def words(self, text: str) -> list[str]:
        """The words of a text, in order, in lower case where the rule says so."""
        text = text.lower() if self.case == "lower" else text
        if self.split in TOKEN_PATTERNS:
            return TOKEN_PATTERNS[self.split].findall(text)
        from nltk.tokenize import NLTKWordTokenizer

        tokens = NLTKWordTokenizer().tokenize(text)
        # The rule of Ethayarajh's uSIF code (2018), which Yokoi et al.'s (2024)
        # follows; but a text is not split into sentences first, which needs NLTK's data
        # files.
        return [
            word for token in tokens for word in NEGATION.sub("not", token).split("-")
        ]

    def row(self, token: str, vocabulary: Mapping[str, int]) -> int | None:
        """The vocabulary's row for a word, STOP_WORD for one that is dropped, None for neither."""
        forms = [token]
        if self.strip:
            forms.append(token.strip(punctuation))
        if self.case == "fallback":
            forms.append(forms[-1].lower())
        for form in forms:
            if form in STOP_WORDS[self.stop_words]:
                return STOP_WORD
            if form in vocabulary:
                return vocabulary[form]
        return None

    def token_rows(
        self, text: str, vocabulary: Mapping[str, int]
    ) -> tuple[list[int], int]:
        """The rows for the words of a text, in order, and the number of its words without stops."""
        rows = [self.row(token, vocabulary) for token in self.words(text)]
        words = [row for row in rows if row != STOP_WORD]
        return [row for row in words if row is not None], len(words)


# For vectors given by hand.
PLAIN_TOKENISER = Tokeniser("words", "fallback")

# What sentence-transformers' average_word_embeddings_* models do (its
# WhitespaceTokenizer).
SENTENCE_TRANSFORMERS = Tokeniser(
    "whitespace", "fallback", strip=True, stop_words="english"
)
