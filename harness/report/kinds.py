"""The colour and shape of each kind of post-processing: one in every picture, shared by none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from harness.core.toml import read_toml

LOOKS = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Look:
    """The colour and marker of a kind, as Matplotlib takes them."""

    name: str
    color: str
    marker: str


@dataclass(frozen=True)
class Kinds:
    """The looks of known kinds, and those that are left for others."""

    looks: tuple[Look, ...]
    spares: tuple[Look, ...]


@cache
def known_kinds() -> Kinds:
    """The looks of `kinds.toml`."""
    return read_toml(Kinds, LOOKS)


def looks_of(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What Matplotlib draws each kind with.

    A kind that is not listed takes the spare that the digest of its name points to, or the next
    that is free: another kind beside it changes that only where both point to one. Beyond the
    spares, looks repeat.
    """
    held = known_kinds()
    known = {look.name: look for look in held.looks}
    taken: dict[str, Look] = {}
    for kind in sorted(set(kinds)):
        taken[kind] = known.get(kind) or _spare(kind, held.spares, taken)
    return {kind: {"color": look.color, "marker": look.marker} for kind, look in taken.items()}


def _spare(kind: str, spares: Sequence[Look], taken: Mapping[str, Look]) -> Look:
    first = int(hashlib.sha256(kind.encode()).hexdigest(), 16)
    free = [look for look in spares if look not in taken.values()] or spares
    ordered = (spares[(first + step) % len(spares)] for step in count())
    return next(look for look in ordered if look in free)
