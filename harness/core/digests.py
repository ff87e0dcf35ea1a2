"""Digests of sentences, values and files.

Records, caches and the catalogue hold them, so that their values never change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from harness.core.errors import DataError

# Bytes of a sentence's key: a collision is likely after 2^64 sentences.
KEY_BYTES = 16


def text_fault(value: object) -> str | None:
    """Why a value is no text that can be encoded, in words; None for a text."""
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
    """The sha256 of sentences in order, each in UTF-8 and followed by a line feed.

    A sentence that holds a line feed has its length before it, after a byte that UTF-8
    has not, so that it is no two sentences.

    Attributes:
        count: The number of sentences so far.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.count = 0
        self._sha = hashlib.sha256()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a sentence. Raises DataError for a value that is no text."""
        try:
            line = text.encode()
            if b"\n" in line:
                line = b"\xff%d:" % len(line) + line
            self._sha.update(line + b"\n")
        except (AttributeError, UnicodeEncodeError):
            raise DataError(
                f"sentence {self.count + 1}: wanted a text, {text_fault(text)}; mend it, or leave "
                "it out"
            ) from None
        self.count += 1

    def hexdigest(self) -> str:
        """The digest of the sentences so far."""
        return self._sha.hexdigest()


def text_digest(texts: Iterable[str]) -> str:
    """The `TextDigest` of sentences, in hexadecimal digits."""
    return TextDigest(texts).hexdigest()


@lru_cache(maxsize=2**17)  # every cell of a run asks for the same sentences again
def sentence_key(text: str) -> bytes:
    """The key of a sentence in the cache: the beginning of its sha256."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values that differ wherever their `repr` does."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(files: tuple[Path, ...]) -> str:
    """The sha256 of one file; of several, the digest over their names and digests."""
    if len(files) == 1:
        return sha256_of(files[0])
    return digest_of({file.name: sha256_of(file) for file in files})
