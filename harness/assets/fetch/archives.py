"""Archives that others packed: no member leaves the folder, no archive fills the disk."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.assets.catalogue import Download
from harness.assets.fetch.http import reason_of
from harness.core.errors import DataError
from harness.core.files import safe

COPIED_BYTES = 2**18
# What the readers of archives raise; RuntimeError for one that is encrypted.
UNPACKING_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error),
    *(
        EOFError,
        RuntimeError,
        ValueError,
        LookupError,
    ),  # the last for a member without a name
)


def unpack_archive(archive: Path, wanted: Download, folder: Path) -> dict[str, str]:
    """The wanted members into the folder, all of them or none: their paths in it and sha256.

    They wait next to the archive until it was read to its end. Names fit in any case of
    letters, as some systems change it; a path in the folder has that of the archive.
    """
    pattern, left = re.compile(str(wanted.keep), re.IGNORECASE), wanted.unpacked
    digests: dict[str, str] = {}
    waiting = archive.with_name(f"{archive.name}.members")
    shutil.rmtree(waiting, ignore_errors=True)  # of one that was killed
    try:
        for name, content in _members(archive, pattern):
            into = safe(pattern.sub(wanted.into, name))
            digest, size = copy_limited(content, waiting / into, left)
            left -= size
            if digests.setdefault(str(into), digest) != digest:
                raise DataError(
                    f"{wanted.address}: two members are {into}, and they differ"
                )
        for name in digests:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (waiting / name).replace(folder / name)
    except UNPACKING_ERRORS as error:
        why = reason_of(error).rstrip(":")
        raise DataError(
            f"{wanted.address}: wanted an archive, found otherwise: {why}"
        ) from None
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    if not digests:
        raise DataError(
            f"{wanted.address}: wanted {wanted.keep} in the archive, found none"
        )
    return digests


def _members(archive: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, Any]]:
    """Name and open content of the files whose whole name fits."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if pattern.fullmatch(info.filename) and not info.is_dir():
                    safe(info.filename)
                    with zipped.open(info) as content:
                        yield info.filename, content
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if not pattern.fullmatch(member.name) or member.isdir():
                continue
            safe(member.name)
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise ValueError("a member that is a link or a device")
            yield member.name, file


def copy_limited(content: Any, target: Path, limit: int) -> tuple[str, int]:
    """Write an open file to a place, and return its sha256 and size. ValueError past the limit."""
    sha, size = hashlib.sha256(), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while chunk := content.read(COPIED_BYTES):
            size += len(chunk)
            if size > limit:
                raise ValueError(f"more than the {limit:,} bytes that it may hold")
            file.write(chunk)
            sha.update(chunk)
    return sha.hexdigest(), size
