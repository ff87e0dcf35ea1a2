"""The key of an encoder: a digest over every file and every setting that changes its output."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import DataError


def require_weights(name: str, path: Path, wanted: str | None, found: str) -> None:
    """Refuse weights that are not the pinned ones."""
    if wanted is not None and found != wanted:
        raise DataError(
            f"{name}: {path} has sha256 {found}, wanted {wanted}; "
            "fetch the pinned revision, or give these weights a name of their own"
        )
