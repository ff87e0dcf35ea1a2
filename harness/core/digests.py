"""Digests (sha256) of files, sentences, pairs and settings: what a number was made from.

Records, caches and the catalogue hold them, so each of these functions gives one value for ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from harness.core.types import Pairs

Sha256 = Callable[[Path], str]

KEY_BYTES = 16  # of a sentence's sha256: 2^64 sentences before a collision is likely


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(files: tuple[Path, ...], sha256: Sha256 = sha256_of) -> str:
    """The digest of one file, as its publisher prints it; of several, over their names too."""
    if len(files) == 1:
        return sha256(files[0])
    return digest_of({file.name: sha256(file) for file in files})


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values whose `repr` tells all of them."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


class TextDigest:
    """The digest of sentences that pass one by one, each ended by LF, in UTF-8; `count` of them."""

    def __init__(self) -> None:
        self.count = 0
        self._sha = hashlib.sha256()

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextDigest:
        """The digest of all these sentences."""
        digest = cls()
        for text in texts:
            digest.add(text)
        return digest

    def add(self, text: str) -> None:
        """Append a sentence."""
        self._sha.update(text.encode() + b"\n")
        self.count += 1

    def hexdigest(self) -> str:
        """The digest of the sentences so far."""
        return self._sha.hexdigest()


def text_digest(texts: Iterable[str]) -> str:
    """The digest of sentences: in a record, of those that a method was fitted on."""
    return TextDigest.of(texts).hexdigest()


def pairs_digest(pairs: Pairs) -> str:
    """The digest of scored pairs: both sentences, gold and group of each."""
    rows = zip(*pairs.columns, map(repr, pairs.gold.tolist()), pairs.group, strict=True)
    return text_digest(map("\t".join, rows))


def rows_digest(pairs: Pairs) -> str:
    """The digest of published rows "a TAB b TAB gold", gold as Python prints a float.

    Labelled sentences have no b.
    """
    rows = zip(*pairs.columns, map(repr, pairs.gold.tolist()), strict=True)
    return text_digest(map("\t".join, rows))


@lru_cache(maxsize=2**17)  # every cell of a run asks for the same sentences again
def sentence_key(text: str) -> bytes:
    """The content address of a sentence."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]
