"""Assets in a folder, for a machine without a network: one machine exports, another imports.

    DIR/index.json                              what there is, with digests
    DIR/data/<path under the data folder>
    DIR/models/<owner>/<name>/<commit>/<file>

Both ways can be repeated: what is already in its place and the same is passed over, and what
differs is an error that names both digests, never overwritten. A folder to import was written by
others: no file is placed that its index does not list, or outside the places of its asset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from harness.assets.catalogue import Asset
from harness.assets.fetch.archives import write_stream
from harness.assets.fetch.batch import Fetched, Jobs, Thing
from harness.assets.fetch.hub import model_files
from harness.assets.places import Places, model_folder, require_pin
from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.core.files import safe, sha256_of, write_atomically
from harness.core.interfaces import Hub, VectorFile
from harness.core.toml import read_typed

SCHEMA, INDEX = 1, "index.json"


@dataclass(frozen=True)
class CarriedAsset:
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
    assets: tuple[CarriedAsset, ...]


def read_index(folder: Path) -> tuple[CarriedAsset, ...]:
    """What a folder's index lists; nothing where there is no index. Raises DataError."""
    path = folder / INDEX
    if not path.exists():
        return ()
    index = read_typed(_Index, path)
    if index.schema != SCHEMA:
        raise DataError(f"{path}: wanted schema {SCHEMA}, found {index.schema}")
    return index.assets


def export_all(things: Iterable[Thing], jobs: Jobs, folder: Path) -> Iterator[Fetched]:
    """Write assets into a folder, beside what it holds, for another machine to import.

    Raises AssetMissing for one that is not here, and where there is none at all.
    """
    files = {thing: files_of(thing, jobs.places) for thing in things}
    absent = [thing.name for thing, sources in files.items() if not sources]
    if absent or not files:
        raise AssetMissing(
            f"{', '.join(absent) or 'nothing'}: no download is here to be exported (harness "
            "list assets shows what there is); what comes in a package is installed there instead"
        )
    for thing, sources in files.items():
        size = sum(file.stat().st_size for file in sources.values())
        digests = {path: sha256_of(file) for path, file in sources.items()}
        jobs.progress.phase(f"{thing.name}: exporting", size)
        for path, file in sources.items():
            _place(file, folder / path, digests[path])
            jobs.progress.step(file.stat().st_size)
        pins, name = jobs.pins_of(thing)
        index = {asset.name: asset for asset in read_index(folder)}
        index[thing.name] = CarriedAsset(thing.name, digests, pins.of(name))
        assets = [asdict(asset) for _, asset in sorted(index.items())]
        text = json.dumps({"schema": SCHEMA, "assets": assets}, indent=1)
        write_atomically(folder / INDEX, f"{text}\n".encode())
        yield Fetched(thing.name, f"{len(sources)} files, {size:,} bytes")


def files_of(thing: Thing, places: Places) -> dict[str, Path]:
    """A thing's files by their paths under DIR; none if no download of it is here."""
    try:
        path = places.data(thing) if isinstance(thing, Asset) else places.encoder(thing)
    except AssetMissing:
        return {}
    files: dict[str, Path] = {}
    for root, at in roots_of(thing, places, path.name if path else "").items():
        if at == path:
            paths = [at, *sorted(at.rglob("*"))]
            names = [str(file.relative_to(at)) for file in paths if file.is_file()]
            for name in model_files(names) if root.startswith("models/") else names:
                if not any(part.startswith(".") for part in Path(name).parts):
                    files[str(PurePosixPath(root, name))] = at / name
    return files


def roots_of(thing: Thing, places: Places, commit: str) -> dict[str, Path]:
    """A thing's places on this machine, by the path under DIR that stands for each."""
    data_dir = places.data_dir or Path()
    if isinstance(thing, Asset):
        return {f"data/{place}": data_dir / place for place in thing.probe}
    source = thing.source
    if isinstance(source, VectorFile):
        return {f"data/{source.file}": data_dir / source.file}
    if isinstance(source, Hub) and commit and source.revision in (None, commit):
        snapshot = model_folder(source.repo) / "snapshots" / commit
        return {f"models/{source.repo}/{commit}": snapshot}
    return {}


def _place(source: Path, target: Path, sha256: str) -> bool:
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
        copied, _ = write_stream(content, target)
    if copied != sha256:
        target.unlink()
        raise DataError(f"{source}: wanted sha256 {sha256}, found {copied}; copy it again")
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
    index = read_index(folder)
    if not index:
        raise UsageError(f"--import {folder}: wanted a folder that harness fetch --export wrote")
    wanted = resolve(asset.name for asset in index)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
    elif any(path.startswith("data/") for asset in index for path in asset.files):
        raise UsageError(f"--import {folder}: into which folder? give --data-dir DIR")
    jobs.places = replace(jobs.places, data_dir=into)
    for asset in index:
        try:
            yield Fetched(asset.name, _import(asset, wanted[asset.name][0], folder, jobs))
        except HarnessError as error:
            yield Fetched(asset.name, error=error)


def _import(asset: CarriedAsset, thing: Thing, folder: Path, jobs: Jobs) -> str:
    """Put the files of an asset into their places here, and check it; a line about it.

    What was first seen on the other machine is taken over, unless something else was seen here.
    Raises DataError for a file that is not as the index has it, or that would overwrite another.
    """
    targets = {path: target_of(thing, path, jobs.places) for path in asset.files}
    files = {path: folder / path for path in targets}
    for file in files.values():
        if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{file}: wanted a file in {folder}, found none: export it again")
    pins, name = jobs.pins_of(thing)
    pins.check(name, asset.pin)
    size = sum(file.stat().st_size for file in files.values())
    jobs.progress.phase(f"{asset.name}: importing", size)
    new = 0
    for path, file in files.items():
        new += _place(file, targets[path], asset.files[path])
        jobs.progress.step(file.stat().st_size)
    pins.record(name, asset.pin)
    try:
        return f"{new} of {len(files)} files are new; {jobs.check(thing)}"
    except AssetMissing:
        index = folder / INDEX
        raise DataError(f"{index}: {asset.name} is not complete: export it again") from None


def target_of(thing: Thing, path: str, places: Places) -> Path:
    """The place for an asset's file. Raises DataError for a path that is not the asset's."""
    model = re.match(r"models/[^/]+/[^/]+/([0-9A-Za-z]+)/", path)
    for root, at in roots_of(thing, places, model[1] if model else "").items():
        if path == root or path.startswith(f"{root}/"):
            return at / path.removeprefix(root).removeprefix("/")
    raise DataError(f"{INDEX}: {path!r} is no file of {thing.name}; nothing of it was imported")
