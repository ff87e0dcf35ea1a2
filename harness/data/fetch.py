"""The work of `harness fetch`: missing data and encoders are downloaded, and all are checked.

`Fetcher.bring` first checks what is on this machine, and downloads what is missing or
wrong. Each part of an asset comes from the first of its sources that has it: a download
is unpacked into a folder that is laid out like the data folder, is checked there, and
only then moved to its place. An asset is checked by its digests or by reading every row
that a task or a corpus takes of it, an encoder by its digests.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from urllib.parse import urlsplit

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Corpus, Task
from harness.data.catalogue import (
    HUB,
    KNOWN_DIGESTS,
    Asset,
    AssetPart,
    Download,
    Source,
)
from harness.data.download import Unreachable, download_file, unpack
from harness.data.hub import fetch_model, seal
from harness.data.places import Places

Fetchable = Asset | EncoderConfig

ALREADY_HERE = "already here"  # what `bring` returns begins so if nothing was wrong
LARGE_DOWNLOAD = 20_000_000  # bytes
REASON_LENGTH = 120  # of the reason why one source did not give a part


@dataclass(frozen=True)
class Fetcher:
    """Downloads missing data and encoders, and checks the ones that are on this machine.

    Attributes:
        places: Where files go.
        tasks: The tasks, whose readers check the files of data sets.
        corpora: The corpora, whose readers check their files.
        scratch: A folder on the disk of the data folder for what is not checked yet, which
            the caller removes. Archives stay in it, since several parts and assets may
            be taken from one.
        offline_switch: The name of the option or variable that forbids downloads.
        small_first: Whether sources with a large download are asked last.
        unreachable_hosts: Hosts that did not answer, which are not asked again.
    """

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    scratch: Path
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
            if not _is_public(item) or (is_damaged and self.offline_switch):
                raise
        if self.offline_switch:
            raise AssetMissing(
                f"{item.name}: {self.offline_switch} is set, so nothing is downloaded"
            )
        if isinstance(item, Asset):
            notes = self._bring_data(item)
            return "; ".join((self.check(item), *notes))
        snapshot = fetch_model(cast(Hub, item.source), again=is_damaged)
        self.places.identify(item, snapshot)  # compares the weights with their digest
        seal(snapshot)  # after the check, since runs read a sealed snapshot
        return str(snapshot)

    def check(self, item: Fetchable) -> str:
        """Check an item on this machine; returns its place and what was checked.

        Raises AssetMissing and DataError.
        """
        if not isinstance(item, Asset):
            folder = self.places.encoder(item)
            self.places.identify(item, folder)  # compares the weights with their digest
            return str(folder)
        data_dir = self.places.require_data(item.name)
        path = self.places.data(item)
        # A download goes to the first place; a local copy may be at another one.
        if item.probe and path == data_dir / item.probe[0]:
            files = [file for part in item.parts for file in part.paths]
            _require_files(item, data_dir, files or item.probe[:1])
        counts = self._read_rows(item, data_dir)
        words = [f"{count:,} {name} checked" for name, count in counts.items() if count]
        return f"{path} ({', '.join(words) or 'stored'})"

    def _bring_data(self, asset: Asset) -> list[str]:
        """Download the parts of an asset that are missing or wrong; returns notes for the user.

        A note names the source of a part that did not come from its first one. What
        arrived stays, also if another part is missing.
        """
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(
                f"fetch {asset.name}: into which folder? give --data-dir DIR"
            )
        notes: list[str] = []
        failures: dict[str, HarnessError] = {}
        for part in asset.parts:
            if all(_has_known_digest(data_dir, path) for path in part.paths):
                continue
            try:
                source, refusals = self._bring_part(asset, part, data_dir)
            except (AssetMissing, DataError) as error:
                failures[part.name] = error
                continue
            if refusals:
                notes.append(
                    f"{part.name} from {source}, not from {', '.join(refusals)}"
                )
        if not failures:
            return notes
        missing = asset.name
        if len(asset.parts) > 1:
            missing += f" ({', '.join(failures)} of {len(asset.parts)} parts)"
        reason = next(iter(failures.values()))
        raise _worst(failures)(
            f"{missing} did not arrive: {reason}; to place files by hand: "
            f"harness fetch --dry-run {asset.name}"
        )

    def _bring_part(
        self, asset: Asset, part: AssetPart, data_dir: Path
    ) -> tuple[str, Mapping[str, HarnessError]]:
        """Bring a part of an asset into its place from the first source that has it.

        Returns the name of the source, and why those before it did not give the part.
        Raises DataError or AssetMissing, with the reason of each source, if none did.
        """
        sources = list(part.sources)
        if self.small_first:
            sources.sort(key=_is_large)
        refusals: dict[str, HarnessError] = {}
        for source in sources:
            try:
                self._bring_from(source, asset, part, data_dir)
            except (AssetMissing, DataError) as error:
                refusals[source.name] = error
            else:
                return source.name, refusals
        if len(refusals) == 1:
            raise refusals[sources[0].name]
        reasons = []
        for name, refusal in refusals.items():
            _, _, reason = str(refusal).partition(": ")  # without its address or path
            reasons.append(f"{name}: {reason[:REASON_LENGTH]}")
        raise _worst(refusals)("; ".join(reasons))

    def _bring_from(
        self, source: Source, asset: Asset, part: AssetPart, data_dir: Path
    ) -> None:
        """Bring a part from one source, all of it or nothing."""
        with TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            for download in part.downloads_of(source):
                unpack(self._download(asset, download), download, folder)
            _require_files(asset, folder, part.paths)
            counts = self._read_rows(asset, folder, partly=True)
            if asset.rows and not counts.total():
                raise DataError(f"{asset.name}: wanted rows of {part.name}, found none")
            for path in part.paths:
                (data_dir / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).replace(data_dir / path)

    def _download(self, asset: Asset, download: Download) -> Path:
        """Bring the file of a download, and check its digest where that decides.

        An archive that is there from an earlier part or asset is not downloaded again.
        """
        url = address_of(download)
        address = urlsplit(url)
        folder = self.scratch / hashlib.sha256(url.encode()).hexdigest()[:16]
        target = folder / Path(address.path).name
        if target.is_file():
            return target
        if address.netloc in self.unreachable_hosts:
            raise AssetMissing(f"{url}: its host cannot be reached")
        try:
            digest = download_file(url, target, download.most_bytes)
        except Unreachable:
            self.unreachable_hosts.add(address.netloc)
            raise
        size = target.stat().st_size
        wanted = (download.sha256 or digest, download.size or size)
        if (digest, size) != wanted and not (asset.rows or download.table):
            target.unlink()
            raise DataError(
                f"{url}: wanted sha256 {wanted[0]} and {wanted[1]:,} bytes, found {digest} "
                f"and {size:,}"
            )
        return target

    def _read_rows(
        self, asset: Asset, folder: Path, partly: bool = False
    ) -> Counter[str]:
        """Read all that tasks and corpora take of an asset in a folder, which checks it.

        With `partly`, files that are not in the folder are left out. Returns the number
        of pairs and of sentences.
        """
        missing = (AssetMissing,) if partly else ()
        counts: Counter[str] = Counter()
        # Tasks share readers: each split of a reader is read once.
        tasks = [task for task in self.tasks if task.asset == asset.name]
        for load, split in {
            (task.load, split) for task in tasks for split in task.splits
        }:
            with suppress(*missing):
                counts["pairs"] += len(load(folder, split))
        for corpus in self.corpora:
            if corpus.asset == asset.name:
                with suppress(*missing):
                    counts["sentences"] += sum(1 for _ in corpus.sentences(folder))
        return counts


def _is_public(item: Fetchable) -> bool:
    """Whether there is an address to download an item from."""
    if isinstance(item, Asset):
        return bool(item.parts)
    return isinstance(item.source, Hub)


def _is_large(source: Source) -> bool:
    """Whether one of the downloads of a source is large."""
    return any((d.size or 0) > LARGE_DOWNLOAD for d in source.downloads)


def _worst(failures: Mapping[str, HarnessError]) -> type[HarnessError]:
    """DataError if something arrived and was wrong, AssetMissing if nothing arrived."""
    is_wrong = any(isinstance(error, DataError) for error in failures.values())
    return DataError if is_wrong else AssetMissing


def _require_files(asset: Asset, folder: Path, paths: Sequence[str]) -> None:
    """Raise AssetMissing unless all files are in a folder, DataError for another digest.

    If the digests of an asset's rows are known, any digest of a file is accepted.
    """
    for path in paths:
        if not (folder / path).is_file():
            raise AssetMissing(f"{asset.name}: {folder} holds no {path}: {asset.get}")
        wanted = asset.sha256 or KNOWN_DIGESTS.get(path)
        if wanted is not None and not asset.rows:
            digest = sha256_of(folder / path)
            if digest != wanted:
                raise DataError(
                    f"{path}: wanted sha256 {wanted}, found {digest}; get it again"
                )


def _has_known_digest(folder: Path, path: str) -> bool:
    """Whether a file is in a folder, and is the published one."""
    file = folder / path
    return file.is_file() and sha256_of(file) == KNOWN_DIGESTS.get(path)


# Addresses


def address_of(download: Download) -> str:
    """The address that a download is asked for at: on the hub that HF_ENDPOINT names."""
    from huggingface_hub.constants import ENDPOINT

    if download.at.startswith(f"{HUB}/"):
        return ENDPOINT + download.at.removeprefix(HUB)
    return download.at


def listing(item: Fetchable) -> list[str]:
    """The addresses that fetching an item may ask, in order, and the files that they become."""
    lines = [f"{item.name}:"]
    if isinstance(item, Asset):
        for part in item.parts:
            for source in part.sources:
                place = f"  {part.name}, {source.name}: "
                downloads = part.downloads_of(source)
                digests = {address_of(x): x.sha256 for x in downloads}  # each once
                lines += [_with_digest(place + url, digests[url]) for url in digests]
            for path in part.paths:
                lines.append(_with_digest(f"  -> {path}", KNOWN_DIGESTS.get(path)))
    elif isinstance(item.source, Hub):
        from huggingface_hub.constants import ENDPOINT

        repo, revision = item.source.repo, item.source.revision
        url = f"{ENDPOINT}/{repo}/tree/{revision or 'main'}"
        lines.append(_with_digest(f"  model, hub {repo}: {url}", item.source.sha256))
    if not _is_public(item):
        return [f"{item.name}: no address; {item.source}"]
    return lines


def _with_digest(text: str, sha256: str | None) -> str:
    """A line of a listing, with the digest of its file if it is known."""
    return f"{text} sha256 {sha256}" if sha256 else text
