"""What `harness fetch` does: it downloads assets, or carries them by a folder without a network.

    DIR/index.json                              what there is, with digests
    DIR/data/<path under the data folder>
    DIR/models/<owner>/<name>/<commit>/<file>
    DIR/datasets/<owner>/<name>/<config>/<commit>/<file>

Each of the three may be repeated: what is already in its place and the same is passed over, and
what differs is an error that names both digests, never overwritten. A folder to import was written
by others: no file is placed that its index does not list, or outside the places of its asset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath

from harness.assets.catalogue import Asset, Download, HubTable
from harness.assets.fetch import hub
from harness.assets.fetch.archives import chunks, unpack, verified, write_stream
from harness.assets.fetch.http import Remote, download, hub_address, silent
from harness.assets.places import (
    Pins,
    Places,
    first_seen,
    model_folder,
    packaged,
    require_pin,
    table_folder,
)
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.files import safe, sha256_of, write_atomically
from harness.core.interfaces import EncoderConfig, Hub, Packaged, Trained, VectorFile
from harness.core.toml import read_typed
from harness.core.types import Corpus, Progress, Task

Thing = Asset | EncoderConfig
SCHEMA, INDEX = 1, "index.json"
UNFINISHED = ".harness/downloads"  # under the data folder


@dataclass(frozen=True)
class Fetched:
    """The outcome for one name: a line about it, or the error that kept it away."""

    name: str
    line: str = ""
    error: HarnessError | None = None


@dataclass
class Jobs:
    """One call's work. `complaints` are about files that are present but not the right ones."""

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
                return None if place is None else f"{place} ({self._verified(thing)})"
            path = self.places.encoder(thing)
            self.places.encoder_pins.check(self.pins_of(thing)[1], _digests(thing, path))
            return str(path)
        except AssetMissing:
            return None
        except DataError as error:
            self.complaints[thing.name] = error
            return None

    def bring(self, thing: Thing) -> str:
        """Download it; its place and the checks that it passed. Raises HarnessError."""
        if isinstance(thing, Asset):
            return self.here(thing) or self._asset(thing)
        return self._model(thing)

    def pins_of(self, thing: Thing) -> tuple[Pins, str]:
        """The pins that hold what a thing was when it was first seen, and its name there."""
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
        """Bring one file of an asset into its place; its digests, and its commit on the hub."""
        data_dir, pins = self.places.data_dir, self.places.data_pins
        if data_dir is None:
            raise UsageError(f"fetch {asset.name}: into which folder? give --data-dir DIR")
        name = PurePosixPath(wanted.at).name
        remote = Remote(name, wanted.at, wanted.sha256, wanted.size)
        seen: dict[str, str] = {}
        if wanted.repo:
            remote, seen = hub.file_of(wanted, pins.of(asset.name).get("revision"))
        arrived = data_dir / UNFINISHED / name
        seen[name if wanted.keep else wanted.into] = download(remote, arrived, self.progress)
        try:
            pins.check(asset.name, seen)
            if wanted.keep is None:
                (data_dir / wanted.into).parent.mkdir(parents=True, exist_ok=True)
                arrived.replace(data_dir / wanted.into)
                return seen
            self.progress.phase(f"{name}: unpacking", None)
            members = unpack(arrived, wanted, data_dir)
        finally:
            arrived.unlink(missing_ok=True)
        return seen if asset.rows else seen | members

    def _model(self, config: EncoderConfig) -> str:
        """Bring a hub repository's model and tokenizer into the hub cache."""
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


# Downloading


def fetch_all(
    wanted: Mapping[str, tuple[Thing, ...]],
    jobs: Jobs,
    into: Path | None = None,
    switch: str | None = None,
) -> Iterator[Fetched]:
    """Fetch the assets and encoders that each name stands for.

    `into` is the data folder, made when something is downloaded into it; `switch` is what forbids
    downloads, if anything does. Raises UsageError, before anything is asked for, where something
    goes into a data folder and none is named.
    """
    _require_folder(wanted, into or jobs.places.data_dir)
    missing: dict[str, tuple[Thing, ...]] = {}
    for name, things in wanted.items():
        places = [place for place in map(jobs.here, things) if place is not None]
        if len(places) < len(things):
            missing[name] = things
        else:
            yield Fetched(name, f"already here: {', '.join(places)}")
    hosts = {name: _hosts_of(things) for name, things in missing.items()}
    unreachable = {} if switch else silent(chain.from_iterable(hosts.values()))
    for name, things in missing.items():
        try:
            if switch and hosts[name]:
                offline = AssetMissing(f"{name}: {switch} is set, so nothing is downloaded")
                raise next(filter(None, (jobs.complaints.get(t.name) for t in things)), offline)
            _require_hosts(name, things[0], hosts[name], unreachable)
            if into is not None and hosts[name]:
                into.mkdir(parents=True, exist_ok=True)
                jobs.places = replace(jobs.places, data_dir=into)
            yield Fetched(name, ", ".join(map(jobs.bring, things)))
        except HarnessError as error:
            yield Fetched(name, error=error)


def _require_folder(wanted: Mapping[str, Iterable[Thing]], data_dir: Path | None) -> None:
    """Raise UsageError if something goes into a data folder and none is named."""
    for name, things in wanted.items() if data_dir is None else ():
        if any(isinstance(t, Asset) and t.probe and t.downloads for t in things):
            raise UsageError(f"fetch {name}: into which folder? give --data-dir DIR")


def _hosts_of(things: Iterable[Thing]) -> list[str]:
    """The addresses that must answer; none for what has no download."""
    addresses: list[str] = []
    for thing in things:
        if isinstance(thing, Asset):
            addresses += [hub_address() if d.repo else d.address for d in thing.downloads]
        elif isinstance(thing.source, Hub):
            addresses.append(hub_address())
    return addresses


def _require_hosts(
    name: str, first: Thing, hosts: Sequence[str], unreachable: Mapping[str, str]
) -> None:
    """Raise AssetMissing, with a way to go without a network, if a host does not answer."""
    reason = next((unreachable[host] for host in hosts if host in unreachable), None)
    if reason is None:
        return
    by_hand = f"copy its files here and name them: --encoder {name}=PATH"
    if isinstance(first, Asset):
        several = len(hosts) > 1
        by_hand = "see by_hand in `harness list assets --json`" if several else first.by_hand
    raise AssetMissing(
        f"{name} could not be downloaded ({reason}); check the network, carry it here with "
        f"--export and --import, or by hand: {by_hand}"
    )


# Carrying


@dataclass(frozen=True)
class Entry:
    """One asset or encoder: the sha256 of each file by its path under DIR, and its pin, if any."""

    name: str
    files: Mapping[str, str]
    pin: Mapping[str, str]

    def __post_init__(self) -> None:
        for path in self.files:
            if str(safe(path)) != path:  # as `a//b`, of which a part alone would be absolute
                raise ValueError(f"the unsafe name {path!r}")
        require_pin(self.pin)


@dataclass(frozen=True)
class _Index:
    """What a folder of exported assets holds."""

    schema: int
    assets: tuple[Entry, ...]


def portable(thing: Thing, places: Places) -> bool:
    """Whether it is here and can be exported; what is trained or in a package cannot."""
    if isinstance(thing, Asset):
        return not thing.embedded and places.data(thing) is not None
    downloaded = isinstance(thing.source, Hub | VectorFile)
    return downloaded and places.has_encoder(thing) and packaged(thing) is None


def export_all(things: Iterable[Thing], jobs: Jobs, folder: Path) -> Iterator[Fetched]:
    """Write assets into a folder, beside what it holds, for another machine to import.

    Raises AssetMissing for one that is not here, and where there is none at all.
    """
    files = {thing: files_of(thing, jobs.places) for thing in things}
    if not files:
        raise AssetMissing("nothing is here to export: harness fetch --list shows what there is")
    for thing, sources in files.items():
        index = {entry.name: entry for entry in read_index(folder)}
        size = sum(file.stat().st_size for file in sources.values())
        digests = {path: sha256_of(file) for path, file in sources.items()}
        jobs.progress.phase(f"{thing.name}: exporting", size)
        for path, file in sources.items():
            place(file, folder / path, digests[path])
            jobs.progress.step(file.stat().st_size)
        pins, name = jobs.pins_of(thing)
        index[thing.name] = Entry(thing.name, digests, pins.of(name))
        assets = [asdict(entry) for _, entry in sorted(index.items())]
        text = json.dumps({"schema": SCHEMA, "assets": assets}, indent=1)
        write_atomically(folder / INDEX, f"{text}\n".encode())
        yield Fetched(thing.name, f"{len(sources)} files, {size:,} bytes")


def files_of(thing: Thing, places: Places) -> dict[str, Path]:
    """A thing's files by their paths under DIR. Raises AssetMissing if it cannot be exported."""
    if isinstance(thing, Asset):
        path = places.data(thing)
        if path is None:
            raise AssetMissing(f"{thing.name} is not here, so it cannot be exported: {thing.get}")
        folders = _places_of(thing, places).items()
        parts = (_below(root, at) for root, at in folders if at == path or not thing.probe)
        return dict(chain.from_iterable(part.items() for part in parts))
    path, source = places.encoder(thing), thing.source
    if isinstance(source, Hub | Packaged) and path == packaged(thing):
        package = str(source.package).partition("/")[0]
        raise AssetMissing(
            f"{thing.name} comes in the package {package}: install that on the other machine"
        )
    if isinstance(source, VectorFile):
        return _below(f"data/{source.file}", path)
    if not isinstance(source, Hub):
        raise AssetMissing(
            f"{thing.name} ({source}) has no download: copy {path} to the other machine and name "
            f"it there: --encoder {thing.name}=PATH"
        )
    root = f"models/{source.repo}/{path.name}"
    files = {name.removeprefix(f"{root}/"): file for name, file in _below(root, path).items()}
    return {f"{root}/{name}": files[name] for name in hub.model_files(files)}


def _places_of(thing: Thing, places: Places) -> dict[str, Path]:
    """The places of data here, by the path under DIR that stands for each."""
    if isinstance(thing, Asset):
        below, tables = thing.probe, thing.downloads
    else:
        below = (thing.source.file,) if isinstance(thing.source, VectorFile) else ()
        tables = ()
    data_dir = places.data_dir or Path()
    return {f"data/{place}": data_dir / place for place in below} | {
        f"datasets/{table.repo}/{table.config or 'default'}/{table.revision}": table_folder(table)
        for table in tables
        if isinstance(table, HubTable)
    }


def _below(root: str, path: Path) -> dict[str, Path]:
    """A file, or every file in a folder but hidden ones, where `root` stands for the path."""
    names = ((file.relative_to(path), file) for file in [path, *sorted(path.rglob("*"))])
    return {
        str(PurePosixPath(root, name)): file
        for name, file in names
        if file.is_file() and not any(part.startswith(".") for part in name.parts)
    }


def place(source: Path, target: Path, sha256: str) -> bool:
    """Copy a file with that digest to its place, all of it or none; False if it is there already.

    Raises DataError if another file is there, or the source has another digest.
    """
    if target.exists():
        existing = sha256_of(target)
        if existing != sha256:
            raise DataError(
                f"{target}: wanted sha256 {sha256}, found {existing}; it was not overwritten: "
                "remove the one that is wrong"
            )
        return False
    with source.open("rb") as content:
        found, _ = write_stream(chunks(content), target)
    if found != sha256:
        target.unlink()
        raise DataError(f"{source}: wanted sha256 {sha256}, found {found}; copy it again")
    return True


def import_all(
    resolve: Callable[[Iterable[str]], Mapping[str, tuple[Thing, ...]]],
    jobs: Jobs,
    folder: Path,
    into: Path | None,
) -> Iterator[Fetched]:
    """Put what an exported folder holds into its places here, and check it.

    `resolve` gives what names stand for. Raises UsageError for a folder that was not exported,
    DataError for one that is damaged.
    """
    entries = read_index(folder)
    if not entries:
        raise UsageError(f"--import {folder}: wanted a folder that harness fetch --export wrote")
    wanted = resolve(entry.name for entry in entries)
    _require_folder(wanted, into)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
    jobs.places = replace(jobs.places, data_dir=into)
    for entry in entries:
        try:
            yield Fetched(entry.name, _import(entry, wanted[entry.name][0], folder, jobs))
        except HarnessError as error:
            yield Fetched(entry.name, error=error)


def _import(entry: Entry, thing: Thing, folder: Path, jobs: Jobs) -> str:
    """Put the files of an asset into their places here, and check it; a line about it.

    What was first seen on the other machine is taken over, unless something else was seen here.
    Raises DataError for a file that is not as the index has it, or that would overwrite another.
    """
    targets = {path: target_of(thing, path, jobs.places) for path in entry.files}
    files = {path: _inside(folder, path) for path in targets}
    pins, name = jobs.pins_of(thing)
    pins.check(name, entry.pin)
    jobs.progress.phase(
        f"{entry.name}: importing", sum(file.stat().st_size for file in files.values())
    )
    new = 0
    for path, file in files.items():
        new += place(file, targets[path], entry.files[path])
        jobs.progress.step(file.stat().st_size)
    pins.record(name, entry.pin)
    here = jobs.here(thing)
    if here is None:
        incomplete = f"{folder / INDEX}: {entry.name} is not complete: export it again"
        raise jobs.complaints.get(entry.name, DataError(incomplete))
    return f"{new} of {len(files)} files are new; {here}"


def read_index(folder: Path) -> tuple[Entry, ...]:
    """The entries of a folder's index; none where there is no index. Raises DataError."""
    path = folder / INDEX
    if not path.exists():
        return ()
    index = read_typed(_Index, path)
    if index.schema != SCHEMA:
        raise DataError(f"{path}: wanted schema {SCHEMA}, found {index.schema}")
    return index.assets


def target_of(thing: Thing, path: str, places: Places) -> Path:
    """The place for an asset's file. Raises DataError for a path that is not the asset's."""
    if not isinstance(thing, Asset) and isinstance(thing.source, Hub):
        repo, pinned = thing.source.repo, thing.source.revision
        model = re.fullmatch(rf"models/{re.escape(repo)}/([0-9A-Za-z]+)/(.+)", path)
        if model and pinned in (None, model[1]):
            return model_folder(repo) / "snapshots" / model[1] / model[2]
    for root, at in _places_of(thing, places).items():
        if path == root or path.startswith(f"{root}/"):
            if places.data_dir is None and root.startswith("data/"):
                raise UsageError(f"import {thing.name}: into which folder? give --data-dir DIR")
            return at / path.removeprefix(root).removeprefix("/")
    raise DataError(f"{INDEX}: {path!r} is no file of {thing.name}; nothing of it was imported")


def _inside(folder: Path, path: str) -> Path:
    """The file to import, which lies in the folder itself."""
    file = folder / path
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{file}: wanted a file in {folder}, found none: export it again")
    return file
