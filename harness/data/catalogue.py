"""The catalogue of assets, `catalogue.toml`: what each holds, and where it is downloaded.

An asset has parts, a part has sources, and a source has downloads; a fetch takes each
part from the first of its sources that has it. What an asset holds is fixed by the
digest of every row that is read from it, by digests of its files (`files.toml`) or of
its downloads, or by a commit in each address. If the digests of rows are known, they
alone decide: any source with these rows is accepted, in any archive and with any line
ends. An asset without any of these is `unpinned`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.toml import read_typed

HUB = "https://huggingface.co"
GIB = 2**30
COMMIT = re.compile(r"/[0-9a-f]{40}/")  # in the address of a repository's file


def fixed_by(**pins: object) -> str:
    """The names of the pins that have a value, with commas between them, or `unpinned`."""
    names = [name for name, value in pins.items() if value]
    return ", ".join(names) or "unpinned"


@dataclass(frozen=True)
class RowFormat:
    """How rows of a table on the hub (parquet, JSON lines) become the lines of a file.

    Attributes:
        line: A line without its end, a format string with the names of columns:
            `{sentence1}`. `{number}` is the number of the row, from 0.
        header: The first line of the file, if it has one.
        classes: The words for the numbers of the column `label`, from 0.
        rows: The number of the first row, and the number after the last one; None takes
            all rows.
    """

    line: str
    header: str | None = None
    classes: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None


@dataclass(frozen=True)
class Download:
    """One file to download, and where it goes under the data folder.

    Attributes:
        at: Its address, after the `base` of its source. `{}` is replaced by each name of
            `AssetPart.each`.
        into: The path under the data folder of the file, or of an archive's members;
            with `{}` as in `at`, and groups of `keep` such as `\\1`.
        keep: For an archive, the pattern of the whole names of the wanted members.
        table: For a table, how its rows become the lines of a file.
        sha256: The digest of the download.
        size: Its size in bytes, as published.
    """

    at: str
    into: str
    keep: str | None = None
    table: RowFormat | None = None
    sha256: str | None = None
    size: int | None = None

    @property
    def url(self) -> str:
        """The address that is asked: on the hub that HF_ENDPOINT names."""
        from huggingface_hub.constants import ENDPOINT

        if self.at.startswith(f"{HUB}/"):
            return ENDPOINT + self.at.removeprefix(HUB)
        return self.at

    @property
    def most_bytes(self) -> int:
        """The limit of its bytes, and of what is unpacked from it."""
        return max(GIB, 4 * (self.size or 0))


@dataclass(frozen=True)
class Source:
    """One source of all files of a part: its publisher, or a copy on the hub or on GitHub.

    Attributes:
        name: Its name, for messages.
        downloads: Its files.
        base: What comes before the address of each download, without the last slash.
    """

    name: str
    downloads: tuple[Download, ...]
    base: str = ""


@dataclass(frozen=True)
class AssetPart:
    """Files of an asset that are downloaded together, and their sources.

    Attributes:
        name: Its name.
        files: Their paths under the data folder, in which `{}` is replaced by each name
            of `each`.
        sources: In the order in which they are asked.
        each: The names that `{}` is replaced by.
    """

    name: str
    files: tuple[str, ...]
    sources: tuple[Source, ...]
    each: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The path of every file under the data folder."""
        paths: list[str] = []
        for file in self.files:
            names = self.each if "{}" in file else ("",)
            paths += [file.replace("{}", name) for name in names]
        return tuple(paths)

    def downloads_of(self, source: Source) -> tuple[Download, ...]:
        """The downloads of a source by whole addresses; one with `{}` is one for each name."""
        base = f"{source.base}/" if source.base else ""
        downloads: list[Download] = []
        for listed in source.downloads:
            for name in self.each if "{}" in listed.at else ("",):
                at = base + listed.at.replace("{}", name)
                into = listed.into.replace("{}", name)
                downloads.append(replace(listed, at=at, into=into))
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
        rows: Whether every row that is read has a known digest.
        sha256: The digest of a single file without a download.
        cite: BibTeX keys.
        size: Bytes on disk, as measured or about.
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
    rows: bool = False
    sha256: str | None = None
    cite: tuple[str, ...] = ()
    size: int | None = None
    parts: tuple[AssetPart, ...] = field(default=(), repr=False)

    @property
    def embedded(self) -> bool:
        """Whether it is included in the package, so that it is never looked for."""
        return not self.probe

    @property
    def downloads(self) -> tuple[Download, ...]:
        """Every download of every source, in the order in which they are asked."""
        downloads: list[Download] = []
        for part in self.parts:
            for source in part.sources:
                downloads += part.downloads_of(source)
        return tuple(downloads)

    @property
    def download_size(self) -> int | None:
        """The size of all downloads, in bytes; None if nothing states it.

        It is the sum over the first source of each part, with each download once, since
        several parts may be taken from one archive. If the size of a download is not
        stated, the size on disk is given instead.
        """
        sizes: dict[str, int] = {}
        for part in self.parts:
            for download in part.downloads_of(part.sources[0]):
                sizes[download.at] = download.size or 0
        return sum(sizes.values()) if sizes and all(sizes.values()) else self.size

    @property
    def pinned(self) -> str:
        """The kinds of pins that fix its content: `sha256`, `revision`, `rows`, or `unpinned`."""
        has_digest, has_commit = self.sha256 is not None, False
        if self.downloads:
            paths = [path for part in self.parts for path in part.paths]
            has_digest |= all(path in KNOWN_DIGESTS for path in paths)
            has_digest |= all(download.sha256 for download in self.downloads)
            has_commit = all(COMMIT.search(download.at) for download in self.downloads)
        return fixed_by(sha256=has_digest, revision=has_commit, rows=self.rows)


# The sha256 of the published files, by their paths under the data folder.
KNOWN_DIGESTS: Mapping[str, str] = read_typed(
    Mapping[str, str], Path(__file__).with_name("files.toml")
)


@dataclass(frozen=True)
class Catalogue:
    """The content of `catalogue.toml`.

    Attributes:
        assets: The assets.
        together: The assets that one name means in `harness fetch`, by that name.
        embedded_sha256: The digests of the embedded files, by their names.
    """

    assets: tuple[Asset, ...]
    together: Mapping[str, tuple[str, ...]]
    embedded_sha256: Mapping[str, str]


CATALOGUE_FILE = Path(__file__).with_name("catalogue.toml")
CATALOGUE = read_typed(Catalogue, CATALOGUE_FILE)
DATA_ASSETS, BUNDLES = CATALOGUE.assets, CATALOGUE.together
EMBEDDED_SHA256 = CATALOGUE.embedded_sha256
