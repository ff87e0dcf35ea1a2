"""Digests of files and of values.

Records, caches and the catalogue hold them, so that their values never change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path


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
