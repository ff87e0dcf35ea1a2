"""Archives that others packed, zip and tar.

No member is written outside the folder, and no archive may fill the disk.
"""

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

COPIED_BYTES = 2**18  # at a time
# What the readers of archives raise for a damaged one.
UNPACKING_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    RuntimeError,  # an encrypted archive
    LookupError,  # a member without a name
)


def unpack_archive(archive: Path, wanted: Download, folder: Path) -> dict[str, str]:
    """Write the wanted members of an archive into a folder, all of them or none.

    They are unpacked next to the archive, and moved when it has been read to its end.
    `wanted.keep` is matched in any case of letters, which some systems change; a path
    in the folder has the case of the archive.

    Returns:
        The sha256 of each member, by its path in the folder.

    Raises:
        DataError: The archive is damaged, too large, or has none of the members.
    """
    pattern = re.compile(str(wanted.keep), re.IGNORECASE)
    remaining_bytes = wanted.unpacked
    digests: dict[str, str] = {}
    unpacked = archive.with_name(f"{archive.name}.members")
    shutil.rmtree(unpacked, ignore_errors=True)  # of a fetch that was killed
    try:
        for name, content in _members(archive, pattern):
            path = safe(pattern.sub(wanted.into, name))
            digest, size = copy_limited(content, unpacked / path, remaining_bytes)
            remaining_bytes -= size
            if digests.setdefault(str(path), digest) != digest:
                raise DataError(
                    f"{wanted.address}: two members are {path}, and they differ"
                )
        for member in digests:
            (folder / member).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / member).replace(folder / member)
    except UNPACKING_ERRORS as error:
        reason = reason_of(error).rstrip(":")
        raise DataError(
            f"{wanted.address}: wanted an archive, found otherwise: {reason}"
        ) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    if not digests:
        raise DataError(
            f"{wanted.address}: wanted {wanted.keep} in the archive, found none"
        )
    return digests


def _members(archive: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, Any]]:
    """The files whose whole name matches, each as its name and its open content."""
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
    """Copy an open file to a path, and return its sha256 and its size in bytes.

    Raises ValueError for more than `limit` bytes.
    """
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
