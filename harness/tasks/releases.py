"""Releases: the public versions of a data set, by the digests of their pairs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.core.toml import read_typed

OTHER_DATA = "other data"


@cache
def releases() -> Mapping[str, Mapping[str, str]]:
    """The digest of the pairs of each release, by task and by its name.

    Only tasks with several public versions are among them.
    """
    file = Path(__file__).with_name("releases.toml")
    return read_typed(Mapping[str, Mapping[str, str]], file)


def release_of(task: str, pairs_digest: str | None) -> str | None:
    """The release that pairs of this digest belong to, or `other data`.

    None for a task with a single version, and where the digest is not known.
    """
    digests = releases().get(task)
    if digests is None or pairs_digest is None:
        return None
    for release, digest in digests.items():
        if digest == pairs_digest:
            return release
    return OTHER_DATA
