"""One asset or encoder at a time: looked for, downloaded, compared, and put in place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from harness.assets.asset import Asset, Download, HubTable
from harness.assets.fetch import hub
from harness.assets.fetch.archives import unpack
from harness.assets.fetch.download import Remote, download
from harness.assets.fetch.verify import verified
from harness.assets.pins import Pins, first_seen
from harness.assets.places import Places
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.interfaces import EncoderConfig
from harness.core.sources import Hub, Trained
from harness.core.types import Corpus, Progress, Task

Thing = Asset | EncoderConfig
UNFINISHED = ".harness/downloads"  # under the data folder


@dataclass
class Jobs:
    """One call's work. `complaints` are about what is here and is not what it should be."""

    places: Places
    progress: Progress
    tasks: Collection[Task]
    corpora: Collection[Corpus]
    complaints: dict[str, HarnessError] = field(default_factory=dict)

    def here(self, thing: Thing) -> str | None:
        """Its place and the checks that it passed; None if it is absent or fails one."""
        try:
            if isinstance(thing, Asset):
                place = self.places.data(thing)
                if place is None:
                    return None
                return f"{place} ({self._verified(thing)})"
            path = self.places.encoder(thing)
            self.places.encoder_pins.check(self.pins_of(thing)[1], _digests(thing, path))
        except AssetMissing:
            return None
        except DataError as error:
            self.complaints[thing.name] = error
            return None
        return str(path)

    def bring(self, thing: Thing) -> str:
        """Download it; its place and the checks that it passed. Raises HarnessError."""
        if isinstance(thing, Asset):
            return self.here(thing) or self._asset(thing)
        return self._model(thing)

    def pins_of(self, thing: Thing) -> tuple[Pins, str]:
        """The file of pins that tells what a thing was when first seen, and its name there."""
        if isinstance(thing, Asset):
            return self.places.data_pins, thing.name
        source, name = thing.source, thing.name
        if isinstance(source, Hub):
            name = f"{source.repo}@{source.revision}" if source.revision else source.repo
        return self.places.encoder_pins, name

    def _verified(self, asset: Asset) -> str:
        return verified(asset, self.places, self.tasks, self.corpora)

    def _asset(self, asset: Asset) -> str:
        if not asset.downloads:
            raise AssetMissing(f"{asset.name} has no download: {asset.get}")
        digests: dict[str, str] = {}
        for source in asset.downloads:
            if isinstance(source, HubTable):
                self.progress.phase(f"{asset.name}: {source.repo}", None)
                hub.bring_rows(asset.name, source, self.places.data_dir)
            else:
                digests |= self._file(asset, source)
        self.places.data_pins.record(asset.name, digests)
        line = f"{self.places.data(asset)} ({self._verified(asset)})"
        return f"{line}; {first_seen(digests)}" if asset.pinned == "unpinned" and digests else line

    def _file(self, asset: Asset, wanted: Download) -> dict[str, str]:
        """One file of an asset into its place, and what it was."""
        data_dir, pins = self.places.data_dir, self.places.data_pins
        if data_dir is None:
            raise UsageError(f"fetch {asset.name}: into which folder? give --data-dir DIR")
        name = PurePosixPath(wanted.at).name
        remote = Remote(name, wanted.at, wanted.sha256, wanted.size)
        seen: dict[str, str] = {}
        if wanted.repo:
            remote, seen = hub.file_of(wanted, pins.of(asset.name).get("revision"))
        arrived = data_dir / UNFINISHED / name
        digest = download(remote, arrived, self.progress)
        seen[name if wanted.keep else wanted.into] = digest
        try:
            pins.check(asset.name, seen)
            if wanted.keep is None:
                (data_dir / wanted.into).parent.mkdir(parents=True, exist_ok=True)
                arrived.replace(data_dir / wanted.into)
                return seen
            self.progress.phase(f"{name}: unpacking", None)
            placed = unpack(arrived, wanted, data_dir)
        finally:
            arrived.unlink(missing_ok=True)
        return seen if asset.rows else seen | placed

    def _model(self, config: EncoderConfig) -> str:
        """A hub repository's model and tokenizer, in the hub cache."""
        source, pins = config.source, self.places.encoder_pins
        if isinstance(source, Trained):
            raise AssetMissing(
                f"{config.name} is trained, not downloaded: harness train family {config.name}"
            )
        if not isinstance(source, Hub):
            raise AssetMissing(
                f"{config.name} ({source}) has no download; name a copy: "
                f"--encoder {config.name}=PATH"
            )
        revision = source.revision or pins.of(source.repo).get("revision")
        folder = hub.snapshot(config.name, source.repo, revision, self.progress)
        seen = _digests(config, folder)
        pins.record(self.pins_of(config)[1], seen)
        return str(folder) if source.revision else f"{folder}; {first_seen(seen)}"


def _digests(config: EncoderConfig, folder: Path) -> dict[str, str]:
    """The commit and weights of an encoder. Raises DataError if they are not the pinned ones."""
    return {"revision": folder.name, "weights": config.identify(folder).digests["weights"]}
