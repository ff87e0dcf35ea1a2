"""Splitting text into words for static vectors: a visible part of an encoder's identity.

The same vectors under other rules are another encoder: on SICK-R the rules alone move GloVe's
score by two points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import punctuation
from typing import Literal

SPLITS = {
    "whitespace": re.compile(r"\S+"),
    "words": re.compile(r"\w+|[^\w\s]"),
    # The Penn Treebank's clitics, as in GloVe's own vocabulary: do n't, it 's.
    "treebank": re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+|[^\w\s]", re.IGNORECASE),
}
# Of sentence-transformers' GloVe models: ENGLISH_STOP_WORDS of its version 6.2.0 (Apache-2.0).
ENGLISH = frozenset(Path(__file__).with_name("english_stop_words.txt").read_text("utf-8").split())
STOP_WORD = -1  # in the place of a row
NOT = re.compile("^n't$", re.IGNORECASE)
STOP_WORDS: dict[str, frozenset[str]] = {"none": frozenset(), "english": ENGLISH}


def nltk_words(text: str) -> list[str]:
    """NLTK's word tokens with n't written out as not, each taken apart at its hyphens.

    The rule of Ethayarajh's uSIF code (2018), which Yokoi et al.'s (2024) follows; but a text is
    not split into sentences first, which needs NLTK's data files.
    """
    from nltk.tokenize import NLTKWordTokenizer

    tokens = NLTKWordTokenizer().tokenize(text)
    return [word for token in tokens for word in NOT.sub("not", token).split("-")]


def penn_words(text: str) -> list[str]:
    """NLTK's word tokens of one sentence, by the conventions of the Penn Treebank: do n't, it 's.

    Quotation marks are written ", as in the raw text, and not `` and ''.
    """
    from nltk.tokenize import NLTKWordTokenizer

    tokens = NLTKWordTokenizer().tokenize(text)
    return ['"' if token in ("``", "''") else token for token in tokens]


@dataclass(frozen=True)
class Tokeniser:
    """The rule by which a text is split and looked up in a vocabulary.

    A token is tried as written; with `strip`, then without the punctuation around it; with case
    `fallback`, then in lower case. The first form that the vocabulary knows counts. A token with
    a form among the stop words before that is dropped, as is one that is never found.
    """

    split: Literal["whitespace", "words", "treebank", "nltk", "penn"]
    case: Literal["keep", "lower", "fallback"]
    strip: bool = False
    stop_words: Literal["none", "english"] = "none"

    def rows(self, text: str, vocabulary: Mapping[str, int]) -> list[int]:
        """The vocabulary's rows for the words of a text, in order."""
        return self.look_up(text, vocabulary)[0]

    def look_up(self, text: str, vocabulary: Mapping[str, int]) -> tuple[list[int], int]:
        """The rows for the words of a text, and the number of its words; stop words are none."""
        rows, count = [], 0
        for token in self.words(text):
            row = self.row(token, vocabulary)
            count += row != STOP_WORD
            if row is not None and row != STOP_WORD:
                rows.append(row)
        return rows, count

    def words(self, text: str) -> list[str]:
        """The words of a text, in order, in lower case where the rule says so."""
        text = text.lower() if self.case == "lower" else text
        if self.split == "nltk":
            return nltk_words(text)
        return penn_words(text) if self.split == "penn" else SPLITS[self.split].findall(text)

    def row(self, token: str, vocabulary: Mapping[str, int]) -> int | None:
        """The vocabulary's row for a word, STOP_WORD for one that is dropped, None for neither."""
        for form in self._forms(token):
            if form in STOP_WORDS[self.stop_words]:
                return STOP_WORD
            if form in vocabulary:
                return vocabulary[form]
        return None

    def _forms(self, token: str) -> Iterator[str]:
        yield token
        if self.strip:
            token = token.strip(punctuation)
            yield token
        if self.case == "fallback":
            yield token.lower()


# For vectors given by hand.
PLAIN = Tokeniser("words", "fallback")

# For networks that read words as they stand in running text.
PENN = Tokeniser("penn", "keep")

# What sentence-transformers' average_word_embeddings_* models do (its WhitespaceTokenizer).
SENTENCE_TRANSFORMERS = Tokeniser("whitespace", "fallback", strip=True, stop_words="english")
