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
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.assets.asset import Asset, HubTable
from harness.assets.fetch.archives import write_stream
from harness.assets.fetch.hub import model_files
from harness.assets.fetch.jobs import Jobs, Thing
from harness.assets.pins import require_pin
from harness.assets.places import Places, model_folder, packaged, table_folder
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import safe, write_atomically
from harness.core.interfaces import EncoderConfig
from harness.core.sources import Hub, Packaged, VectorFile
from harness.core.toml import read_json

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
