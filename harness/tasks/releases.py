"""Which public version of a data set the pairs of a record are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.toml import read_typed

OTHER_DATA = "other data"


@dataclass(frozen=True)
class Releases:
    """For tasks of which several versions are public: the digest of the pairs of each, by name."""

    releases: Mapping[str, Mapping[str, str]]


@cache
def releases() -> Mapping[str, Mapping[str, str]]:
    """The known versions of each such task."""
    return read_typed(Releases, Path(__file__).with_name("releases.toml")).releases


def release_of(task: str, pairs_digest: str | None) -> str | None:
    """The version that a digest of pairs is of, or `other data`; None where there is only one."""
    known = releases().get(task)
    if known is None or pairs_digest is None:
        return None
    return next(
        (name for name, digest in known.items() if digest == pairs_digest), OTHER_DATA
    )
