"""Archives of publishers, zip and tar, and the members that are taken from them.

No member is written outside its folder, and none is unpacked beyond a limit of bytes,
so that no archive fills the disk.
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
from harness.core.files import safe_path

COPIED_BYTES = 2**18  # at a time
# Errors of the readers of archives for a damaged archive.
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


def unpack_archive(archive: Path, download: Download, folder: Path) -> dict[str, str]:
    """Write the wanted members of an archive into a folder, all of them or none.

    They are unpacked next to the archive, and moved when it has been read to its end.

    Args:
        archive: The archive.
        download: Its entry in the catalogue. `keep` is the pattern of the wanted
            members. It is matched in upper and lower case, since some systems change
            the case of names; a path in the folder has the case of the archive.
        folder: The folder.

    Returns:
        The sha256 of each member, by its path in the folder.

    Raises:
        DataError: The archive is damaged, too large, or has none of the members.
    """
    pattern = re.compile(str(download.keep), re.IGNORECASE)
    remaining_bytes = download.unpacked
    digests: dict[str, str] = {}
    unpacked = archive.with_name(f"{archive.name}.members")
    shutil.rmtree(unpacked, ignore_errors=True)  # of a fetch that was killed
    try:
        for name, content in _members(archive, pattern):
            path = safe_path(pattern.sub(download.into, name))
            digest, size = copy_limited(content, unpacked / path, remaining_bytes)
            remaining_bytes -= size
            first_digest = digests.setdefault(str(path), digest)
            if digest != first_digest:
                raise DataError(
                    f"{download.address}: two members are {path}, and they differ"
                )
        for member in digests:
            (folder / member).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / member).replace(folder / member)
    except UNPACKING_ERRORS as error:
        reason = reason_of(error).rstrip(":")
        raise DataError(
            f"{download.address}: wanted an archive, found otherwise: {reason}"
        ) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    if not digests:
        raise DataError(
            f"{download.address}: wanted {download.keep} in the archive, found none"
        )
    return digests


def _members(archive: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, Any]]:
    """The files whose name matches the pattern from start to end: the name and open content.

    Raises ValueError for a name that leaves its folder, and for a link or a device.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if pattern.fullmatch(info.filename) and not info.is_dir():
                    safe_path(info.filename)
                    with zipped.open(info) as content:
                        yield info.filename, content
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if not pattern.fullmatch(member.name) or member.isdir():
                continue
            safe_path(member.name)
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise ValueError("a member that is a link or a device")
            yield member.name, file


def copy_limited(content: Any, target: Path, limit: int) -> tuple[str, int]:
    """Copy an open file to a path, and return its sha256 and its size in bytes.

    Raises ValueError for more than `limit` bytes.
    """
    sha256 = hashlib.sha256()
    size = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while chunk := content.read(COPIED_BYTES):
            size += len(chunk)
            if size > limit:
                raise ValueError(f"more than the {limit:,} bytes that it may hold")
            file.write(chunk)
            sha256.update(chunk)
    return sha256.hexdigest(), size
