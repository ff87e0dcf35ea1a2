"""Digests of sentences, values and files, and the identity of a configuration.

Records, caches and the catalogue hold them, so that their values never change. The
identity of a configuration is the text of its settings. A setting at its default is left
out, so that a new setting with a default changes no identity. docs/identity.md describes
the identity of a measured cell, and what makes a result stale.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

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


# The settings of a configuration

# The metadata of a field that is left out of identities: a remark, the source of files
# and their checks, and settings that change a score by rounding alone.
NOT_IN_IDENTITY: Mapping[str, Any] = {"identity": False}


def identity_text(value: Any, always_written: Collection[str] = ()) -> str:
    """The text of a value's settings, as one would write it in Python.

    A dataclass is written as the call that makes it, without fields that have the
    metadata `NOT_IN_IDENTITY` or take no part in equality, and without settings at
    their default.

    Args:
        value: A frozen dataclass, or a setting of one.
        always_written: The names of settings that are written even at their default,
            for digests that are older than the rule that leaves them out.

    Examples:
        >>> from harness.transforms.pooling import MEAN
        >>> identity_text(MEAN)
        "Mean(name='mean', layers=(-1,))"
    """
    if isinstance(value, tuple | list):
        items = [identity_text(item, always_written) for item in value]
        comma = "," if len(items) == 1 else ""  # as Python writes a tuple of one
        return f"({', '.join(items)}{comma})"
    if isinstance(value, np.ndarray):  # whose repr leaves numbers out
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"array({value.dtype}, {value.shape}, {digest})"
    if _has_unique_name(value):
        return f"{value.__module__}.{value.__qualname__}"
    if not is_dataclass(value):
        return repr(value)
    kind: Any = type(value)
    arguments = []
    for name, default in _defaults(kind).items():
        setting = identity_text(getattr(value, name), always_written)
        if name in always_written or setting != default:
            arguments.append(f"{name}={setting}")
    return f"{kind.__name__}({', '.join(arguments)})"


@cache
def _defaults(kind: Any) -> Mapping[str, str | None]:
    """The identity of the default of each setting of a dataclass; None without a default.

    Defaults are compared as texts, in which 1, 1.0 and True differ.
    """
    defaults: dict[str, str | None] = {}
    for field in fields(kind):
        if field.compare and field.metadata.get("identity", True):
            defaults[field.name] = None
            if field.default is not MISSING:
                defaults[field.name] = identity_text(field.default)
            elif field.default_factory is not MISSING:
                defaults[field.name] = identity_text(field.default_factory())
    return defaults


def _has_unique_name(value: Any) -> bool:
    """Whether a value is a class, or a function that is defined at the top of a module.

    Of any other function the `repr` is written, whose address is in no stored result.
    """
    name = getattr(value, "__qualname__", "<")
    owner = getattr(value, "__self__", None)  # of a built-in function its module
    return "<" not in name and (owner is None or isinstance(owner, ModuleType))
