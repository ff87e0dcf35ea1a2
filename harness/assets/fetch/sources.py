"""Sources of data: each part of an asset comes from the first source that has it.

A download is unpacked into a waiting folder, which is laid out like the data folder.
Its files are read there, and are moved to their places only if they are the wanted
ones. A source that sends anything else, or nothing, is passed over.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.assets.catalogue import KNOWN_FILES, Asset, AssetPart, Download, Source
from harness.assets.fetch import http, hub
from harness.assets.fetch.archives import UNPACKING_ERRORS, unpack_archive
from harness.assets.fetch.download import download_url, is_web_page
from harness.assets.fetch.tables import unpack_table
from harness.assets.places import Pin, every_asset
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import AssetMissing, DataError, HarnessError, OtherData
from harness.core.files import safe_path

DOWNLOADS_FOLDER = ".harness/downloads"  # under the data folder
WAITING_FOLDER = ".harness/waiting"  # under the data folder
LARGE_DOWNLOAD = 20_000_000  # bytes

# A line of a file of word vectors: a word and at least two numbers.
VECTOR_LINE = re.compile(rb"\S+(?:[ \t]+-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?){2,}[ \t]*\r?")

# A check of a folder that holds a part; it raises DataError or AssetMissing.
FolderCheck = Callable[[Path], None]


# Downloads of one run


@dataclass(frozen=True)
class DownloadedFile:
    """The file of a download, before anything is unpacked or moved.

    Attributes:
        path: Its path in the folder of downloads.
        sha256: Its digest.
        commit: The commit of the hub's repository, if the catalogue pins none.
    """

    path: Path
    sha256: str
    commit: str | None = None


@dataclass
class DownloadSession:
    """The downloads of one run, and the hosts that did not answer in it.

    Several assets may be taken from one download. So it is kept until
    `remove_downloads` finds that no missing asset needs it.

    Attributes:
        data_dir: The data folder; downloads are kept below it.
        small_first: Whether sources with a large download are asked last.
        unreachable_hosts: Hosts without a connection, which are not asked again.
        silent_hosts: Hosts that did not answer; sources there are asked last.
        files: What was downloaded or found, by its path.
    """

    data_dir: Path
    small_first: bool = False
    unreachable_hosts: set[str] = field(default_factory=set)
    silent_hosts: set[str] = field(default_factory=set)
    files: dict[Path, DownloadedFile] = field(default_factory=dict)

    def ordered(self, sources: Sequence[Source]) -> list[Source]:
        """The sources in the order in which they are asked.

        It is the order of the catalogue, but silent hosts come last, and large
        downloads do with `small_first`.
        """
        if self.small_first:
            sources = sorted(sources, key=_is_large)
        return sorted(sources, key=self._is_silent)

    def _is_silent(self, source: Source) -> bool:
        """Whether the host of a source did not answer in this run."""
        first_download = source.complete(source.downloads[0])
        return http.host_of(hub.address_of(first_download)) in self.silent_hosts

    def bring(
        self, download: Download, *, by_rows: bool, commit: str | None
    ) -> DownloadedFile:
        """Bring a file into the folder of downloads, unless it is there already.

        Args:
            download: What is downloaded.
            by_rows: Whether the file is checked later by its rows: then it may have
                another size and digest than the published file.
            commit: The commit of the hub's repository at an earlier download, for a
                file that the catalogue does not pin.

        Raises:
            AssetMissing: The file cannot be had from this source.
            DataError: The source has another file.
        """
        sha256 = _known_sha256(download)
        folder = self._folder_of(download)
        path = folder / Path(download.at).name
        if path.is_file():
            if path not in self.files and sha256_of(path) == sha256:
                self.files[path] = DownloadedFile(path, sha256)
            if path in self.files:
                return self.files[path]
        host = http.host_of(hub.address_of(download))
        if host in self.unreachable_hosts:
            raise AssetMissing(
                f"{path.name}: {download.address} (its host cannot be reached)"
            )
        try:
            self.files[path] = _download(
                download, path, sha256=sha256, by_rows=by_rows, commit=commit
            )
        except http.Unreachable as error:
            self.silent_hosts.add(host)
            if error.host is not None:
                self.unreachable_hosts.add(error.host)
            raise
        finally:
            _remove_if_empty(folder)
        return self.files[path]

    def remove_downloads(
        self, asset: Asset, is_needed: Callable[[Asset], bool]
    ) -> None:
        """Remove the downloads of an asset, unless another asset needs them next.

        Args:
            asset: The asset whose files are in their places.
            is_needed: Whether another asset is still missing.
        """
        kept_digests = set()
        for other_asset in every_asset():
            if other_asset == asset or not is_needed(other_asset):
                continue
            for part in other_asset.every_part:
                for download in part.downloads_of(part.sources[0]):
                    kept_digests.add(download.sha256)
        for part in asset.every_part:
            for source in part.sources:
                for download in part.downloads_of(source):
                    if download.sha256 is None or download.sha256 not in kept_digests:
                        self._remove(download)
        _remove_if_empty(self.data_dir / DOWNLOADS_FOLDER)

    def _remove(self, download: Download) -> None:
        """Remove a download; the beginning of one stays, and a later fetch continues it."""
        folder = self._folder_of(download)
        for file in folder.glob("*"):
            if not file.name.endswith(".part"):
                file.unlink()
        _remove_if_empty(folder)

    def _folder_of(self, download: Download) -> Path:
        """A folder for one file, named by its digest, or by its address."""
        key = _known_sha256(download) or digest_of({"address": download.address})
        return self.data_dir / DOWNLOADS_FOLDER / key[:16]


def _is_large(source: Source) -> bool:
    """Whether one of the downloads of a source is large."""
    sizes = [download.size or 0 for download in source.downloads]
    return max(sizes, default=0) > LARGE_DOWNLOAD


def _known_sha256(download: Download) -> str | None:
    """The digest of a download, where the catalogue or `files.toml` has it."""
    if download.sha256 is not None:
        return download.sha256
    is_published_file = download.keep is None and download.table is None
    if is_published_file and download.into in KNOWN_FILES:
        return KNOWN_FILES[download.into].sha256
    return None


def _download(
    download: Download,
    target: Path,
    *,
    sha256: str | None,
    by_rows: bool,
    commit: str | None,
) -> DownloadedFile:
    """Download a file of a host, or of a repository on the hub."""
    is_on_hub = download.repo is not None
    if is_on_hub and download.revision is None and sha256 is None:
        digest, commit = hub.download_file(download, commit, target)
        return DownloadedFile(target, digest, commit)
    digest = download_url(
        hub.address_of(download),
        target,
        sha256,
        size=None if by_rows else download.size,
        headers=hub.headers() if is_on_hub else None,
        must_match=not by_rows,
    )
    return DownloadedFile(target, digest)


# One part, from its sources


@dataclass(frozen=True)
class PartChecks:
    """The checks of a part's files before they are moved to their places.

    Attributes:
        content: Raises DataError for a folder that does not hold the part as it was
            published; it is OtherData if the folder holds another version of the data.
        other_content: The same check, but it accepts another version.
        pin: Raises DataError for digests that differ from the first download's.
    """

    content: FolderCheck
    other_content: FolderCheck
    pin: Callable[[Pin], None]


@dataclass(frozen=True)
class FetchedPart:
    """A part that was brought: a note for the user, which may be empty, and its digests."""

    note: str
    pin: Pin


def bring_part(
    asset: Asset,
    part: AssetPart,
    session: DownloadSession,
    checks: PartChecks,
    commit: str | None,
) -> FetchedPart:
    """Bring a part of an asset into its place from the first source that has it.

    If no source has the published version of the data, the first source with another
    version is taken.

    Args:
        asset: The asset.
        part: The part of it.
        session: Downloads the files.
        checks: What the files must pass.
        commit: The commit of the hub's repository at an earlier download.

    Raises:
        DataError: A source had something else, and no source had the part.
        AssetMissing: No source had anything. The messages name every source that was
            asked, and how to place the files by hand.
    """
    refusals: dict[str, HarnessError] = {}
    sources_of_other_data: list[Source] = []
    for source in session.ordered(part.sources):
        try:
            pin = _bring_from(
                source, asset, part, session, checks.content, checks.pin, commit
            )
        except (AssetMissing, DataError) as error:
            refusals[source.name] = error
            if isinstance(error, OtherData):
                sources_of_other_data.append(source)
            continue
        return FetchedPart(_note_on(part, source, refusals), pin)
    if not sources_of_other_data:
        raise _failure(part, refusals)
    source = sources_of_other_data[0]
    pin = _bring_from(
        source, asset, part, session, checks.other_content, checks.pin, commit
    )
    return FetchedPart(f"{part.name} from {source.name}", pin)


def _note_on(
    part: AssetPart, source: Source, refusals: Mapping[str, HarnessError]
) -> str:
    """Which source had the part after which others refused; empty if the first one had it."""
    if not refusals:
        return ""
    failed_sources = [
        f"{name} ({_without_retry(error)})" for name, error in refusals.items()
    ]
    return f"{part.name} from {source.name}, after {', '.join(failed_sources)}"


def _failure(part: AssetPart, refusals: Mapping[str, HarnessError]) -> HarnessError:
    """The error for a part that no source has."""
    if len(refusals) == 1:
        reasons = [_without_retry(error) for error in refusals.values()]
    else:
        reasons = [
            f"{name}: {_without_retry(error)}" for name, error in refusals.items()
        ]
    all_reasons = "; ".join(reasons)
    if any(isinstance(error, DataError) for error in refusals.values()):
        return DataError(f"{all_reasons}; {manual_step(part)}")
    return AssetMissing(f"{all_reasons}{http.RETRY}; {manual_step(part)}")


def _without_retry(error: HarnessError) -> str:
    """The message of an error without its remedy, which is given once for all sources."""
    return str(error).removesuffix(http.RETRY)


def manual_step(part: AssetPart) -> str:
    """How to place the files of a part by hand: its first file, and the number of others."""
    if not part.paths:
        return "or place a copy below DATA_DIR by hand"
    first_path, *other_paths = part.paths
    files = first_path
    if first_path in KNOWN_FILES:
        files += f" (sha256 {KNOWN_FILES[first_path].sha256})"
    if other_paths:
        files += f" and {len(other_paths)} more, which --dry-run lists,"
    return f"or place {files} below DATA_DIR by hand"


def _bring_from(
    source: Source,
    asset: Asset,
    part: AssetPart,
    session: DownloadSession,
    check_content: FolderCheck,
    check_pin: Callable[[Pin], None],
    commit: str | None,
) -> Pin:
    """Bring a part from one source, all of it or nothing, and return its digests."""
    pin: dict[str, str] = {}
    with waiting_folder(session.data_dir, asset, part) as folder:
        for download in part.downloads_of(source):
            by_rows = asset.rows or download.table is not None
            file = session.bring(download, by_rows=by_rows, commit=commit)
            is_archive = download.keep is not None
            pinned_name = file.path.name if is_archive else download.into
            pin[pinned_name] = file.sha256
            if file.commit is not None:
                pin["revision"] = file.commit
            member_digests = _unpack(file.path, download, folder)
            if not asset.rows:
                pin.update(member_digests)
        _restore_case(folder, part.paths)
        for path in part.paths:
            if not (folder / path).is_file():
                raise DataError(f"{source.name}: wanted {path}, found none")
        check_content(folder)
        check_pin(pin)
        _move_files(folder, session.data_dir, part.paths)
    return pin


def _unpack(file: Path, download: Download, folder: Path) -> Mapping[str, str]:
    """Put the wanted files of a download into a folder.

    Returns the digests of an archive's members by their paths, and nothing for a table
    or a single file.
    """
    if download.keep:
        return unpack_archive(file, download, folder)
    if download.table:
        unpack_table(file, download, folder)
    else:
        target = folder / safe_path(download.into)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
    return {}


def _restore_case(folder: Path, paths: Sequence[str]) -> None:
    """Rename files whose names differ from the wanted paths in the case of letters alone."""
    missing_paths: dict[str, str] = {}
    for path in paths:
        if not (folder / path).is_file():
            missing_paths[path.casefold()] = path
    for file in _files_below(folder):
        name = file.relative_to(folder).as_posix()
        wanted_path = missing_paths.pop(name.casefold(), None)
        if wanted_path is not None:
            (folder / wanted_path).parent.mkdir(parents=True, exist_ok=True)
            file.replace(folder / wanted_path)


def _move_files(folder: Path, data_dir: Path, paths: Sequence[str]) -> None:
    """Move files from the waiting folder to the data folder: these, or all if none is named."""
    for file in _files_below(folder):
        path = file.relative_to(folder).as_posix()
        if not paths or path in paths:
            (data_dir / path).parent.mkdir(parents=True, exist_ok=True)
            file.replace(data_dir / path)


def _files_below(folder: Path) -> list[Path]:
    """The files in a folder and in the folders below it, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def waiting_folder(data_dir: Path, asset: Asset, part: AssetPart) -> Iterator[Path]:
    """An empty folder below the data folder, which is removed afterwards."""
    folder = (
        data_dir / WAITING_FOLDER / f"{safe_path(asset.name)}-{safe_path(part.name)}"
    )
    shutil.rmtree(folder, ignore_errors=True)  # of a fetch that was killed
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_if_empty(folder.parent)


def _remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is there and empty."""
    with suppress(OSError):
        folder.rmdir()


# Files without a known digest


def require_plausible(path: Path, name: str) -> None:
    """Raise DataError for a file that cannot be what its name says.

    It is empty, a web page, a damaged .gz, or a file of vectors without word vectors.
    """
    if path.stat().st_size == 0:
        raise DataError(f"{name}: wanted a file, found 0 bytes")
    if is_web_page(path):
        raise DataError(f"{name}: wanted a file, found a web page")
    first_lines = _content_start(path, name).split(b"\n", 2)[:2]
    if not name.startswith("vectors/"):
        return
    # The first line may be a header: the numbers of words and of dimensions.
    if not any(VECTOR_LINE.fullmatch(line) for line in first_lines):
        line = first_lines[0][:60].decode(errors="replace")
        raise DataError(f"{name}: wanted word vectors, found {line!r}")


def _content_start(path: Path, name: str) -> bytes:
    """The first bytes of a file's content. A .gz is read to its end, which tests it."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            return file.read(2**16)
    try:
        with gzip.open(path) as content:
            start = content.read(2**16)
            while content.read(2**20):
                pass  # a digest is at the end
    except (*UNPACKING_ERRORS, OSError) as error:
        raise DataError(
            f"{name}: wanted a .gz, found otherwise: {http.reason_of(error)}"
        ) from None
    return start
