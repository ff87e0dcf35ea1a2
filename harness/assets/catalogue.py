"""The catalogue: every file that tasks and corpora read, whence, under which licence, how pinned.

It is data, `catalogue.toml`, and read at import. Encoders stand in the registry
(`harness list encoders`) with their own sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.assets.asset import Asset
from harness.core.toml import read_toml


@dataclass(frozen=True)
class Catalogue:
    """Every asset, the names for several that come in one download, and the embedded digests."""

    assets: tuple[Asset, ...]
    together: Mapping[str, tuple[str, ...]]
    embedded_sha256: Mapping[str, str]


CATALOGUE_FILE = Path(__file__).with_suffix(".toml")
CATALOGUE = read_toml(Catalogue, CATALOGUE_FILE)
DATA_ASSETS, TOGETHER = CATALOGUE.assets, CATALOGUE.together
EMBEDDED_SHA256 = CATALOGUE.embedded_sha256
