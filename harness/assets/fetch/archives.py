"""Archives that others packed, and the check of an asset's files against what reads them.

No member leaves the folder that it is unpacked in, and no archive fills the disk.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.assets.catalogue import Asset, Download
from harness.assets.fetch.http import reason_of
from harness.assets.places import Places
from harness.core.errors import DataError
from harness.core.files import replacing, safe, sha256_of
from harness.core.types import Corpus, Task

CHUNK = 2**18
# What the readers of archives raise; RuntimeError for one that is encrypted.
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error),
    *(EOFError, RuntimeError, ValueError, LookupError),  # the last for a member without a name
)


def unpack(archive: Path, wanted: Download, folder: Path) -> dict[str, str]:
    """The wanted members into the folder, all of them or none: their paths in it and sha256.

    They wait beside the archive until it was read to its end.

    Raises DataError for an archive that is damaged, has a link or an unsafe name among the wanted,
    the same file twice with different content, none of them, or more bytes than it may.
    """
    pattern, left = re.compile(str(wanted.keep)), wanted.unpacked
    placed: dict[str, str] = {}
    waiting = archive.with_name(f"{archive.name}.members")
    shutil.rmtree(waiting, ignore_errors=True)  # of one that was killed
    try:
        for name, content in _members(archive, pattern):
            into = safe(pattern.sub(wanted.into, name))
            digest, size = write_stream(content, waiting / into, left)
            left -= size
            if placed.setdefault(str(into), digest) != digest:
                raise DataError(f"{wanted.address}: two members are {into}, and they differ")
        for name in placed:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (waiting / name).replace(folder / name)
    except DAMAGE as error:
        why = reason_of(error).rstrip(":")
        raise DataError(f"{wanted.address}: wanted an archive, found otherwise: {why}") from None
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    if not placed:
        raise DataError(f"{wanted.address}: wanted {wanted.keep} in the archive, found none")
    return placed


def _members(archive: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Name and content of the files whose whole name fits."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if pattern.fullmatch(info.filename) and not info.is_dir():
                    safe(info.filename)
                    with zipped.open(info) as content:
                        yield info.filename, chunks(content)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if not pattern.fullmatch(member.name) or member.isdir():
                continue
            safe(member.name)
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise ValueError(f"{member.name!r}, which is a link or a device")
            yield member.name, chunks(file)


def chunks(file: Any) -> Iterator[bytes]:
    """The content of an open binary file, some at a time."""
    return iter(partial(file.read, CHUNK), b"")


def write_stream(
    content: Iterable[bytes], target: Path, limit: int | None = None
) -> tuple[str, int]:
    """Write a file, all of it or none, from parts of its content: its sha256 and size.

    Raises ValueError if it is longer than the limit.
    """
    sha, size = hashlib.sha256(), 0
    with replacing(target) as scratch, scratch.open("wb") as file:
        for chunk in content:
            size += len(chunk)
            if limit is not None and size > limit:
                raise ValueError(f"more than the {limit:,} bytes that it may hold")
            file.write(chunk)
            sha.update(chunk)
    return sha.hexdigest(), size


def verified(
    asset: Asset, places: Places, tasks: Collection[Task], corpora: Collection[Corpus]
) -> str:
    """Read all that tasks and corpora take from an asset, which checks it; what was checked.

    Raises DataError, or AssetMissing for a part that is not here.
    """
    path = places.data(asset)
    data_dir = path if asset.embedded else places.data_dir
    if data_dir is None or path is None or not (asset.probe or asset.embedded):
        return "kept by datasets"
    if asset.sha256 is not None and (digest := sha256_of(path)) != asset.sha256:
        raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; get it again")
    files = {name: data_dir / name for name in places.data_pins.of(asset.name)}
    digests = {name: sha256_of(file) for name, file in files.items() if file.is_file()}
    places.data_pins.check(asset.name, digests)
    splits = {
        (repr(task.load), split): task.load
        for task in tasks
        if task.asset == asset.name
        for split in task.splits
    }
    streams = [corpus.sentences(data_dir) for corpus in corpora if corpus.asset == asset.name]
    counts = {
        "pairs": sum(len(load(data_dir, split)) for (_, split), load in splits.items()),
        "sentences": sum(1 for stream in streams for _ in stream),
        "records": _records(asset, path) if asset.records else 0,
    }
    checked = [f"{count:,} {what} checked" for what, count in counts.items() if count]
    return ", ".join(checked) or "stored"


def _records(asset: Asset, path: Path) -> int:
    """The records of a CSV file after the first, which names the columns."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = tuple(next(rows, []))
        count = sum(1 for _ in rows)
    if (header, count) != (asset.columns, asset.records):
        raise DataError(
            f"{path}: wanted {asset.records:,} records of {','.join(asset.columns)}, found "
            f"{count:,} of {','.join(header)}; this is not the published file: get it again"
        )
    return count
