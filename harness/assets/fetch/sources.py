"""Sources of data: each file from the first source that has it, checked before it takes its place.

What a source sends waits in a folder of its own, laid out as the data folder is. It is
moved to its place once it has been read and found to be what is wanted; a source that
sends anything else, or nothing, is passed over.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.assets.catalogue import KNOWN_FILES, Asset, AssetPart, Download, Source
from harness.assets.fetch import http, hub
from harness.assets.fetch.archives import UNPACKING_ERRORS, unpack_archive
from harness.assets.fetch.tables import unpack_table
from harness.assets.places import Pin, every_asset
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import AssetMissing, DataError, HarnessError, OtherData
from harness.core.files import safe

DOWNLOADS_FOLDER = ".harness/downloads"  # under the data folder
UNCHECKED_FOLDER = ".harness/waiting"
RETRY = "; check the network and run the same command again"
LARGE_DOWNLOAD = 20_000_000  # bytes of one download

Check = Callable[
    [Path], None
]  # of a folder that holds a part; raises DataError, AssetMissing


@dataclass
class Arrivals:
    """The files that arrive in one run; what several assets are taken from is asked for once.

    `unreachable` are the hosts that could not be reached, which are not asked again;
    `silent` those that did not answer: their sources are asked last. With
    `small_first`, so are sources that have the files in one large download.
    """

    data_dir: Path
    small_first: bool = False
    unreachable: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    digests: dict[Path, Pin] = field(default_factory=dict)

    def bring(
        self, wanted: Download, *, by_rows: bool, commit: str | None
    ) -> tuple[Path, Pin]:
        """A download as it came: the file, its digest, and the commit of the hub if it is loose."""
        known_file = KNOWN_FILES.get(wanted.into)
        pinned = known_file.sha256 if known_file and _is_the_file(wanted) else None
        sha256 = wanted.sha256 or pinned
        key = sha256 or digest_of({"address": wanted.address})
        target = self.data_dir / DOWNLOADS_FOLDER / key[:16] / Path(wanted.at).name
        if target.is_file():  # it waited for what else is taken from it
            if target not in self.digests and (digest := sha256_of(target)) == sha256:
                self.digests[target] = {target.name: digest}
            if target in self.digests:
                return target, self.digests[target]
        host = http.host_of(hub.address_of(wanted))
        if host in self.unreachable:
            raise AssetMissing(
                f"{target.name}: {wanted.address} (its host cannot be reached)"
            )
        try:
            self.digests[target] = self._download(
                wanted, target, sha256, commit, by_rows
            )
            return target, self.digests[target]
        except http.Unreachable as error:
            self.silent.add(host)
            self.unreachable |= {error.dead} if error.dead else set()
            raise
        finally:
            _remove_empty(target.parent)

    @staticmethod
    def _download(
        wanted: Download,
        target: Path,
        sha256: str | None,
        commit: str | None,
        by_rows: bool,
    ) -> Pin:
        size = None if by_rows else wanted.size
        if wanted.repo is None:
            digest = http.download(
                wanted.at, target, sha256, size, must_match=not by_rows
            )
            return {target.name: digest}
        if wanted.revision or sha256:
            url, headers = hub.address_of(wanted), hub.headers()
            digest = http.download(
                url, target, sha256, size, headers, must_match=not by_rows
            )
            return {target.name: digest}
        digest, commit = hub.download_file(wanted, commit, target)
        return {target.name: digest, "revision": commit}

    def order(self, sources: tuple[Source, ...]) -> list[Source]:
        """The sources as the catalogue has them, those that are asked last at the end."""

        def is_silent(source: Source) -> bool:
            first = source.complete(source.downloads[0])
            return http.host_of(hub.address_of(first)) in self.silent

        def is_large(source: Source) -> bool:
            return any(
                (download.size or 0) > LARGE_DOWNLOAD for download in source.downloads
            )

        by_size = sorted(sources, key=is_large) if self.small_first else sources
        return sorted(by_size, key=is_silent)

    def forget(self, asset: Asset, needed: Callable[[Asset], bool]) -> None:
        """Remove what an asset was taken from, unless others that are needed ask for it first."""
        others = [other for other in every_asset() if other != asset and needed(other)]
        parts = [part for other in others for part in other.every_part]
        kept = {d.sha256 for part in parts for d in part.downloads_of(part.sources[0])}
        for download in _every_download(asset):
            if download.sha256 is None or download.sha256 not in kept:
                key = download.sha256 or digest_of({"address": download.address})
                self._remove(key)
                known_file = KNOWN_FILES.get(download.into)
                if known_file is not None:
                    self._remove(known_file.sha256)
        _remove_empty(self.data_dir / DOWNLOADS_FOLDER)

    def _remove(self, key: str) -> None:
        folder = self.data_dir / DOWNLOADS_FOLDER / key[:16]
        for file in folder.glob("*") if folder.is_dir() else ():
            if not file.name.endswith(
                ".part"
            ):  # a beginning, from which a later fetch goes on
                file.unlink()
        _remove_empty(folder)


def _is_the_file(wanted: Download) -> bool:
    """Whether a download is the published file itself, and not what it is taken from."""
    return wanted.keep is None and wanted.table is None


def _every_download(asset: Asset) -> Iterator[Download]:
    for part in asset.every_part:
        for source in part.sources:
            yield from part.downloads_of(source)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds something, or is not there
        folder.rmdir()


def bring_part(
    asset: Asset,
    part: AssetPart,
    arrivals: Arrivals,
    check: Check,
    check_other: Check,
    check_pins: Callable[[Pin], None],
    commit: str | None,
) -> tuple[str, Pin]:
    """Bring a part of an asset into its place from the first source that has it.

    Where no source has a known version of the data, the first with other data serves,
    after `check_other`. Returns what is to be told of it, and the digests that were
    seen. Raises DataError where a source had something else and none had it,
    AssetMissing where none had anything; the message names every source that was asked
    and how to place the files by hand.
    """
    refused: dict[str, HarnessError] = {}
    others: list[Source] = []
    for source in arrivals.order(part.sources):
        try:
            seen = _bring_from(source, asset, part, arrivals, check, check_pins, commit)
        except (AssetMissing, DataError) as error:
            refused[source.name] = error
            others += [source] if isinstance(error, OtherData) else []
        else:
            before = (f"{name} ({_short(error)})" for name, error in refused.items())
            line = (
                f"{part.name} from {source.name}, after {', '.join(before)}"
                if refused
                else ""
            )
            return line, seen
    if others:  # no source has a known version
        seen = _bring_from(
            others[0], asset, part, arrivals, check_other, check_pins, commit
        )
        return f"{part.name} from {others[0].name}", seen
    tried = "; ".join(f"{name}: {_short(error)}" for name, error in refused.items())
    if len(refused) == 1:
        tried = _short(*refused.values())
    wrong = any(isinstance(error, DataError) for error in refused.values())
    kind = DataError if wrong else AssetMissing
    raise kind(f"{tried}{RETRY if not wrong else ''}; {by_hand(part)}")


def _short(error: HarnessError) -> str:
    return str(error).removesuffix(RETRY)


def by_hand(part: AssetPart) -> str:
    """How to place the files of a part by hand: the path and digest of the first, and how many."""
    if not part.paths:
        return "or place a copy below DATA_DIR by hand"
    first, *others = part.paths
    known_file = KNOWN_FILES.get(first)
    digest = f" (sha256 {known_file.sha256})" if known_file else ""
    more = f" and {len(others)} more, which --dry-run lists," if others else ""
    return f"or place {first}{digest}{more} below DATA_DIR by hand"


def _bring_from(
    source: Source,
    asset: Asset,
    part: AssetPart,
    arrivals: Arrivals,
    check: Check,
    check_pins: Callable[[Pin], None],
    commit: str | None,
) -> Pin:
    """Bring a part from one source, or nothing of it."""
    seen: dict[str, str] = {}
    with waiting_folder(arrivals.data_dir, asset, part) as folder:
        for wanted in part.downloads_of(source):
            by_rows = asset.rows or wanted.table is not None
            arrived, digests = arrivals.bring(wanted, by_rows=by_rows, commit=commit)
            seen |= _named(digests, arrived, wanted)
            members = _unpack(arrived, wanted, folder)
            seen |= {} if asset.rows else members
        _restore_case(folder, part.paths)
        lacking = [path for path in part.paths if not (folder / path).is_file()]
        if lacking:
            raise DataError(f"{source.name}: wanted {lacking[0]}, found none")
        check(folder)
        check_pins(seen)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            place = arrivals.data_dir / file.relative_to(folder)
            if not part.paths or str(file.relative_to(folder).as_posix()) in part.paths:
                place.parent.mkdir(parents=True, exist_ok=True)
                file.replace(place)
    return seen


def _restore_case(folder: Path, paths: Sequence[str]) -> None:
    """Give the files of a folder their own names, where an archive has them in another case."""
    own_names = {
        path.casefold(): path for path in paths if not (folder / path).is_file()
    }
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        own_name = own_names.pop(file.relative_to(folder).as_posix().casefold(), None)
        if own_name is not None:
            (folder / own_name).parent.mkdir(parents=True, exist_ok=True)
            file.replace(folder / own_name)


def _named(digests: Pin, arrived: Path, wanted: Download) -> Pin:
    """Digests by the name that a pin has: a file's place, an archive's own name."""
    place = arrived.name if wanted.keep else wanted.into
    return {
        place if name == arrived.name else name: digest
        for name, digest in digests.items()
    }


def _unpack(arrived: Path, wanted: Download, folder: Path) -> Pin:
    """Lay a download out in the folder; the digests of an archive's members."""
    if wanted.keep:
        return unpack_archive(arrived, wanted, folder)
    if wanted.table:
        unpack_table(arrived, wanted, folder)
        return {}
    target = folder / safe(wanted.into)
    target.parent.mkdir(parents=True, exist_ok=True)
    arrived.replace(target)
    return {}


@contextmanager
def waiting_folder(data_dir: Path, asset: Asset, part: AssetPart) -> Iterator[Path]:
    """An empty folder below the data folder, which is removed afterwards."""
    folder = data_dir / UNCHECKED_FOLDER / f"{safe(asset.name)}-{safe(part.name)}"
    shutil.rmtree(folder, ignore_errors=True)  # of a fetch that was killed
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(folder.parent)


# What can be said of a file of which nothing is known.
VECTOR_LINE = re.compile(rb"\S+(?:[ \t]+-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?){2,}[ \t]*\r?")


def require_plausible(path: Path, name: str) -> None:
    """Raise DataError for a file that cannot be what its name says.

    It is empty, a web page, damaged as a .gz, or holds no word vectors where it should.
    """
    if path.stat().st_size == 0:
        raise DataError(f"{name}: wanted a file, found 0 bytes")
    if http.is_page(path):
        raise DataError(f"{name}: wanted a file, found a web page")
    start = _start(path, name)
    first, _, rest = start.partition(b"\n")
    if name.startswith("vectors/") and not (
        VECTOR_LINE.fullmatch(first) or VECTOR_LINE.fullmatch(rest.partition(b"\n")[0])
    ):
        first_line = first[:60].decode(errors="replace")
        raise DataError(f"{name}: wanted word vectors, found {first_line!r}")


def _start(path: Path, name: str) -> bytes:
    """The first bytes of a file, of a .gz those of its content; a .gz is read to its end."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            return file.read(2**16)
    try:
        with gzip.open(path) as content:
            start = content.read(2**16)
            while content.read(2**20):
                pass
    except (*UNPACKING_ERRORS, OSError) as error:
        raise DataError(
            f"{name}: wanted a .gz, found otherwise: {http.reason_of(error)}"
        ) from None
    return start
