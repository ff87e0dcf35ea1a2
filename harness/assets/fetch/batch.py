"""What `harness fetch` does: it downloads data and encoders that are missing, and checks all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.assets.catalogue import Asset, Download, HubTable
from harness.assets.fetch import hub
from harness.assets.fetch.archives import unpack_archive
from harness.assets.fetch.http import download, unreachable
from harness.assets.places import Pins, Places, first_seen
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.files import sha256_of
from harness.core.interfaces import EncoderConfig, Hub, Trained
from harness.core.types import Corpus, Task

Thing = Asset | EncoderConfig
UNFINISHED = ".harness/downloads"  # under the data folder


@dataclass(frozen=True)
class Fetched:
    """The outcome for one name: a line about it, or the error that kept it away."""

    name: str
    line: str = ""
    error: HarnessError | None = None


@dataclass
class Jobs:
    """One call's work: where files go, and what reads them."""

    places: Places
    tasks: Collection[Task]
    corpora: Collection[Corpus]

    def check(self, thing: Thing) -> str:
        """The place of what is here, and what was checked. Raises AssetMissing, DataError."""
        if isinstance(thing, Asset):
            path = self.places.data(thing)
            if path is None:
                raise AssetMissing(f"{thing.name} is not here: {thing.get}")
            return f"{path} ({self._read(thing, path)})"
        path = self.places.encoder(thing)
        pins, name = self.pins_of(thing)
        pins.check(name, _digests(thing, path))
        return str(path)

    def bring(self, thing: Thing) -> str:
        """Download what is missing or wrong; its place, and what was checked."""
        with suppress(AssetMissing, DataError):
            return self.check(thing)
        if isinstance(thing, Asset):
            return self._bring_data(thing)
        source = thing.source
        if not isinstance(source, Hub):
            family = f"harness train family {thing.name}"
            copy = f"name a copy: --encoder {thing.name}=PATH"
            raise AssetMissing(
                f"{thing.name} ({source}) has no download; "
                f"{family if isinstance(source, Trained) else copy}"
            )
        pins, name = self.pins_of(thing)
        revision = source.revision or pins.of(name).get("revision")
        folder = hub.model_snapshot(thing.name, source.repo, revision)
        digests = _digests(thing, folder)
        pins.record(name, digests)
        return str(folder) if source.revision else f"{folder}; {first_seen(digests)}"

    def pins_of(self, thing: Thing) -> tuple[Pins, str]:
        """The pins that hold what a thing was when it was first seen, and its name there."""
        if isinstance(thing, Asset):
            return self.places.data_pins, thing.name
        source, name = thing.source, thing.name
        if isinstance(source, Hub):
            name = f"{source.repo}@{source.revision}" if source.revision else source.repo
        return self.places.encoder_pins, name

    def _bring_data(self, asset: Asset) -> str:
        if not asset.downloads:
            raise AssetMissing(f"{asset.name} has no download: {asset.get}")
        data_dir = self.places.data_dir
        if data_dir is None:
            raise UsageError(f"fetch {asset.name}: into which folder? give --data-dir DIR")
        digests: dict[str, str] = {}
        for source in asset.downloads:
            if isinstance(source, HubTable):
                hub.bring_rows(asset.name, source, data_dir)
            else:
                digests |= self._bring_file(asset, source, data_dir)
        self.places.data_pins.record(asset.name, digests)
        line = self.check(asset)
        return f"{line}; {first_seen(digests)}" if asset.pinned == "unpinned" and digests else line

    def _bring_file(self, asset: Asset, wanted: Download, data_dir: Path) -> dict[str, str]:
        """Bring one file of an asset into its place; its digests, and its commit on the hub."""
        name, url, sha256, size = Path(wanted.at).name, wanted.at, wanted.sha256, wanted.size
        pins, headers, seen = self.places.data_pins, {}, {}
        if wanted.repo:
            revision = wanted.revision or pins.of(asset.name).get("revision")
            url, sha256, size, seen["revision"] = hub.located(wanted, revision)
            headers = hub.headers()
        arrived = data_dir / UNFINISHED / name
        seen[name if wanted.keep else wanted.into] = download(url, arrived, sha256, size, headers)
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
        splits = {(repr(t.load), split): t.load for t in tasks for split in t.splits}
        pairs = sum(len(load(data_dir, split)) for (_, split), load in splits.items())
        corpora = [corpus for corpus in self.corpora if corpus.asset == asset.name]
        sentences = sum(1 for corpus in corpora for _ in corpus.sentences(data_dir))
        counts = {"pairs": pairs, "sentences": sentences}
        checked = [f"{count:,} {what} checked" for what, count in counts.items() if count]
        return ", ".join(checked) or "stored"


def _digests(config: EncoderConfig, folder: Path) -> dict[str, str]:
    """The commit and weights of an encoder. Raises DataError if they are not the pinned ones."""
    return {"revision": folder.name, "weights": config.identify(folder).digests["weights"]}


def fetch_all(
    wanted: Mapping[str, tuple[Thing, ...]],
    jobs: Jobs,
    into: Path | None = None,
    switch: str | None = None,
) -> Iterator[Fetched]:
    """Fetch the assets and encoders that each name stands for.

    `into` is the data folder, made when something is downloaded into it; `switch` is what forbids
    downloads, if anything does.
    """
    missing: dict[str, HarnessError] = {}
    for name, things in wanted.items():
        try:
            yield Fetched(name, f"already here: {', '.join(map(jobs.check, things))}")
        except (AssetMissing, DataError) as error:
            missing[name] = error
    hosts = {name: [host for t in wanted[name] for host in _hosts_of(t)] for name in missing}
    silent = {} if switch else unreachable(host for each in hosts.values() for host in each)
    for name, absence in missing.items():
        reason = next((silent[host] for host in hosts[name] if host in silent), None)
        try:
            if switch and hosts[name]:
                offline = AssetMissing(f"{name}: {switch} is set, so nothing is downloaded")
                raise absence if isinstance(absence, DataError) else offline
            if reason is not None:
                raise AssetMissing(
                    f"{name} could not be downloaded ({reason}); check the network, or copy "
                    "the folders of a machine that has it (docs/how-to/offline.md)"
                )
            if into is not None and hosts[name]:
                into.mkdir(parents=True, exist_ok=True)
                jobs.places = replace(jobs.places, data_dir=into)
            yield Fetched(name, ", ".join(map(jobs.bring, wanted[name])))
        except HarnessError as error:
            yield Fetched(name, error=error)


def _hosts_of(thing: Thing) -> list[str]:
    """The addresses that must answer; none for what has no download."""
    if isinstance(thing, Asset):
        return [hub.endpoint() if d.repo else d.address for d in thing.downloads]
    return [hub.endpoint()] if isinstance(thing.source, Hub) else []
