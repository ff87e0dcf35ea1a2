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
from typing import Any, cast
from urllib.parse import urlsplit

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Corpus, Task
from harness.data.archives import unpack
from harness.data.catalogue import KNOWN_DIGESTS, Asset, AssetPart, Download, Source
from harness.data.download import Unreachable, address_of, download_file
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
            if isinstance(item, Asset):
                is_public = bool(item.parts)
            else:
                is_public = isinstance(item.source, Hub)
            is_damaged = isinstance(error, DataError)
            if not is_public or (is_damaged and self.offline_switch):
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
        """Download the parts of an asset that are missing or wrong; returns notes for the user."""
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
                notes += self._bring_part(asset, part, data_dir)
            except (AssetMissing, DataError) as error:
                failures[part.name] = error
        if not failures:
            return notes
        missing = asset.name
        if len(asset.parts) > 1:
            missing += f" ({', '.join(failures)} of {len(asset.parts)} parts)"
        reason = next(iter(failures.values()))
        is_wrong = any(isinstance(error, DataError) for error in failures.values())
        raise (DataError if is_wrong else AssetMissing)(
            f"{missing} did not arrive: {reason}; to place files by hand: "
            f"harness fetch --dry-run {asset.name}"
        )

    def _bring_part(self, asset: Asset, part: AssetPart, data_dir: Path) -> list[str]:
        """Bring a part of an asset into its place from the first source that has it.

        Returns a note that names the source if it was not the first.

        Raises:
            DataError: A source had something else, and no source had the part.
            AssetMissing: No source had anything.
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
                continue
            if not refusals:
                return []
            return [f"{part.name} from {source.name}, not from {', '.join(refusals)}"]
        if len(refusals) == 1:
            raise refusals[sources[0].name]
        reasons = []
        for name, refusal in refusals.items():
            _, _, reason = str(refusal).partition(": ")  # without its address or path
            reasons.append(f"{name}: {reason[:REASON_LENGTH]}")
        is_wrong = any(isinstance(error, DataError) for error in refusals.values())
        raise (DataError if is_wrong else AssetMissing)("; ".join(reasons))

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
        folder = self.scratch / hashlib.sha256(url.encode()).hexdigest()[:16]
        target = folder / Path(urlsplit(url).path).name
        if target.is_file():
            return target
        host = urlsplit(url).netloc
        if host in self.unreachable_hosts:
            raise AssetMissing(f"{url}: its host cannot be reached")
        try:
            limit = max(download.size or 0, download.unpacked)
            digest = download_file(url, target, limit)
        except Unreachable:
            self.unreachable_hosts.add(host)
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


def _is_large(source: Source) -> bool:
    """Whether one of the downloads of a source is large."""
    return any((d.size or 0) > LARGE_DOWNLOAD for d in source.downloads)


# Addresses


def addresses_of(item: Fetchable) -> list[Mapping[str, Any]]:
    """The addresses that fetching an item may ask, in order, each once for a source.

    A row names the asset, its part, the source, the address (`url`) and its sha256 if
    it is known. There are none if the item is not public.
    """
    rows: dict[tuple[str, ...], Mapping[str, Any]] = {}
    if isinstance(item, Asset):
        for part in item.parts:
            for source in part.sources:
                for download in part.downloads_of(source):
                    url = address_of(download)
                    rows[part.name, source.name, url] = {
                        "asset": item.name,
                        "part": part.name,
                        "source": source.name,
                        "url": url,
                        "sha256": download.sha256,
                    }
    elif isinstance(item.source, Hub):
        from huggingface_hub.constants import ENDPOINT

        repo, revision = item.source.repo, item.source.revision
        rows[item.name,] = {
            "asset": item.name,
            "part": "model",
            "source": f"hub {repo}",
            "url": f"{ENDPOINT}/{repo}/tree/{revision or 'main'}",
            "sha256": item.source.sha256,
        }
    return list(rows.values())


def listing(item: Fetchable) -> list[str]:
    """The addresses of an item, and the files that are made of the downloads, as lines."""
    rows = addresses_of(item)
    if not rows:
        return [f"{item.name}: no address; {item.source}"]
    lines = [f"{item.name}:"]
    for row in rows:
        digest = f" sha256 {row['sha256']}" if row["sha256"] else ""
        lines.append(f"  {row['part']}, {row['source']}: {row['url']}{digest}")
    if isinstance(item, Asset):
        for part in item.parts:
            for path in part.paths:
                digest = (
                    f" sha256 {KNOWN_DIGESTS[path]}" if path in KNOWN_DIGESTS else ""
                )
                lines.append(f"  -> {path}{digest}")
    return lines
