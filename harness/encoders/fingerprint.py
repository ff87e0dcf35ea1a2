"""What makes two encoders one: a key over every file and every setting that changes the output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.core.errors import DataError

Sha256 = Callable[[Path], str]


def digest_of(facts: Mapping[str, object]) -> str:
    """One hex digest over named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_files(files: tuple[Path, ...], sha256: Sha256) -> str:
    """The digest of one file, as its publisher prints it; of several, over their names too."""
    if len(files) == 1:
        return sha256(files[0])
    return digest_of({file.name: sha256(file) for file in files})


def require_weights(name: str, path: Path, wanted: str | None, found: str) -> None:
    """Refuse weights that are not the pinned ones."""
    if wanted is not None and found != wanted:
        raise DataError(
            f"{name}: {path} has sha256 {found}, wanted {wanted}; "
            "fetch the pinned revision, or give these weights a name of their own"
        )
