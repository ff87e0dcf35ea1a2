"""Texts: what can be encoded, and the digests by which sentences are known again.

Records and caches hold the digests, so their values never change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from harness.core.errors import DataError

KEY_BYTES = 16  # of a sentence's sha256: 2^64 sentences before a collision is likely


def why_no_text(value: object) -> str | None:
    """What keeps a value from being a text that can be encoded, in words; None for a text."""
    if not isinstance(value, str):
        return f"found {value!r:.40}"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return (
            f"found {value[error.start]!a}, one half of a character (a lone surrogate)"
        )
    return None


class TextDigest:
    """The digest of sentences in order, each in UTF-8 and ended by LF; `count` of them so far."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.count = 0
        self._sha = hashlib.sha256()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        try:
            self._sha.update(text.encode() + b"\n")
        except (AttributeError, UnicodeEncodeError):
            raise DataError(
                f"sentence {self.count + 1}: wanted a text, {why_no_text(text)}; mend it, or leave "
                "it out"
            ) from None
        self.count += 1

    def hexdigest(self) -> str:
        """The digest of the sentences so far."""
        return self._sha.hexdigest()


def text_digest(texts: Iterable[str]) -> str:
    """The digest of sentences, as `TextDigest` has it."""
    return TextDigest(texts).hexdigest()


@lru_cache(maxsize=2**17)  # every cell of a run asks for the same sentences again
def sentence_key(text: str) -> bytes:
    """The content address of a sentence."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]
