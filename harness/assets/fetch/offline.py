"""Assets in a plain folder, for a machine without a network: written by one, read by the other.

    DIR/index.json                              what there is, with sizes and digests
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.assets.asset import Asset, HubTable
from harness.assets.fetch.archives import safe, write_stream
from harness.assets.fetch.hub import model_files
from harness.assets.fetch.jobs import Jobs, Thing
from harness.assets.places import Places, model_folder, packaged, table_folder
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import write_atomically
from harness.core.sources import Hub, Packaged, VectorFile
from harness.core.types import EncoderConfig, Progress

SCHEMA, INDEX = 1, "index.json"
COMMIT = re.compile(r"[0-9A-Za-z]+")


@dataclass(frozen=True)
class File:
    """One file: its path under DIR, bytes and sha256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """The files of one asset or encoder, and what it was when it was first seen."""

    name: str
    files: tuple[File, ...]
    pin: Mapping[str, str] = field(default_factory=dict)


# A folder here, what stands for it under DIR, and the files in it.
Part = tuple[Path, str, Sequence[Path]]


@dataclass(frozen=True)
class Parts:
    """The folders that hold one thing's files here, and its pin."""

    name: str
    folders: Sequence[Part]
    pin: Mapping[str, str]


def export(wanted: Iterable[Parts], folder: Path, progress: Progress) -> Iterator[tuple[str, str]]:
    """Write what is wanted into a folder, beside what it holds already; name and line of each."""
    index = {entry.name: entry for entry in read_index(folder)}
    for parts in wanted:
        progress.phase(f"{parts.name}: exporting", None)
        files = []
        for source, root, paths in parts.folders:
            for path in paths:
                into = f"{root}/{path.relative_to(source).as_posix()}"
                size, digest = path.stat().st_size, sha256_of(path)
                place(path, folder / into, digest)
                files.append(File(into, size, digest))
                progress.step(size)
        index[parts.name] = Entry(parts.name, tuple(files), parts.pin)
        write_index(folder, index.values())
        yield parts.name, f"{len(files)} files, {sum(f.bytes for f in files):,} bytes"


def parts_of(thing: Thing, places: Places) -> Parts:
    """The folders of a thing's files. Raises AssetMissing if it is not here, or in a package."""
    folders, pin = _here(thing, places)
    return Parts(thing.name, folders, pin)


def _here(thing: Thing, places: Places) -> tuple[list[Part], Mapping[str, str]]:
    """The folders of a thing's files, and its pin."""
    if not isinstance(thing, Asset):
        return _model(thing, places)
    path = places.data(thing)
    if path is None:
        raise AssetMissing(f"{thing.name} is not here, so it cannot be exported: {thing.get}")
    if thing.probe and places.data_dir:
        return [(places.data_dir, "data", files_under(path))], places.first_seen(thing)
    tables = [d for d in thing.downloads if isinstance(d, HubTable)]
    folders = [(table_folder(table), _root(table)) for table in tables]
    return [(folder, root, files_under(folder)) for folder, root in folders], {}


def _model(config: EncoderConfig, places: Places) -> tuple[list[Part], Mapping[str, str]]:
    path, source = places.encoder(config), config.source
    if isinstance(source, Hub | Packaged) and path == packaged(config):
        package = str(source.package).partition("/")[0]
        raise AssetMissing(
            f"{config.name} comes in the package {package}: install that on the other machine"
        )
    if isinstance(source, VectorFile) and places.data_dir:
        return [(places.data_dir, "data", [path])], {}
    if not isinstance(source, Hub):
        raise AssetMissing(
            f"{config.name} ({source}) has no download: copy {path} to the other machine and name "
            f"it there: --encoder {config.name}=PATH"
        )
    pin = {} if source.revision else places.encoder_pins.of(source.repo)
    files = model_files(file.relative_to(path).as_posix() for file in files_under(path))
    return [(path, f"models/{source.repo}/{path.name}", [path / file for file in files])], pin


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

    Raises DataError for a file that is not as the index has it, or that would overwrite another.
    """
    places = {file: target_of(thing, file.path, jobs.places) for file in entry.files}
    _trust(thing, entry, jobs.places)
    jobs.progress.phase(f"{entry.name}: importing", sum(file.bytes for file in entry.files))
    new = 0
    for file, target in places.items():
        new += place(_inside(folder, file), target, file.sha256)
        jobs.progress.step(file.bytes)
    here = jobs.here(thing)
    if here is None:
        incomplete = f"{folder / INDEX}: {entry.name} is not complete: export it again"
        raise jobs.complaints.get(entry.name, DataError(incomplete))
    return f"{new} of {len(places)} files are new; {here}"


def _inside(folder: Path, file: File) -> Path:
    """The file to import, which lies in the folder itself and is as long as the index says."""
    path = folder / file.path
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: wanted a file in {folder}, found none: export it again")
    size = path.stat().st_size
    if size != file.bytes:
        raise DataError(f"{path}: wanted {file.bytes:,} bytes, found {size:,}: copy it again")
    return path


def target_of(thing: Thing, path: str, places: Places) -> Path:
    """The place for an asset's file. Raises DataError for a path that is not the asset's."""
    root, inner = safe(path).parts[0], "/".join(safe(path).parts[1:])
    own: tuple[str, ...] = ()
    if isinstance(thing, Asset):
        own = thing.probe
        for table in thing.downloads:
            if isinstance(table, HubTable) and path.startswith(f"{_root(table)}/"):
                return table_folder(table) / path.removeprefix(f"{_root(table)}/")
    elif isinstance(thing.source, VectorFile):
        own = (thing.source.file,)
    elif isinstance(thing.source, Hub) and root == "models":
        repo, pinned = thing.source.repo, thing.source.revision
        commit, _, name = inner.removeprefix(f"{repo}/").partition("/")
        is_commit = COMMIT.fullmatch(commit) and pinned in (None, commit)
        if inner.startswith(f"{repo}/") and is_commit and name:
            return model_folder(repo) / "snapshots" / commit / name
    if root == "data" and any(inner == p or inner.startswith(f"{p}/") for p in own):
        if places.data_dir is None:
            raise UsageError(f"import {thing.name}: into which folder? give --data-dir DIR")
        return places.data_dir / inner
    raise DataError(f"{INDEX}: {path!r} is no file of {thing.name}; nothing of it was imported")


def _trust(thing: Thing, entry: Entry, places: Places) -> None:
    """Take over what was first seen on the other machine, unless something else was seen here."""
    if not entry.pin:
        return
    if isinstance(thing, Asset):
        if places.data_pins:
            places.data_pins.record(thing.name, entry.pin)
    elif isinstance(thing.source, Hub):
        places.encoder_pins.record(thing.source.repo, entry.pin)


def read_index(folder: Path) -> list[Entry]:
    """The entries of a folder's index; none where there is no index. Raises DataError."""
    path = folder / INDEX
    if not path.exists():
        return []
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise DataError(f"{path}: wanted schema {SCHEMA}, found {found['schema']!r}")
        return [
            Entry(
                str(entry["name"]),
                tuple(File(str(safe(f["path"])), f["bytes"], f["sha256"]) for f in entry["files"]),
                dict(entry["pin"]),
            )
            for entry in found["assets"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: wanted an index of assets, found {error}") from None


def write_index(folder: Path, entries: Iterable[Entry]) -> None:
    """Write the index, sorted by name."""
    assets = [asdict(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
    text = json.dumps({"schema": SCHEMA, "assets": assets}, indent=1)
    write_atomically(folder / INDEX, f"{text}\n".encode())
