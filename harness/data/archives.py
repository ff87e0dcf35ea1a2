"""Unpacking of downloads: members of an archive, or the rows of a table as lines of a file.

No member is written outside its folder, and none is unpacked beyond a limit of bytes.
Of a table, the rows of parquet or JSON lines become lines of a file that a task reads.
Whether the content is the published one is checked afterwards.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.core.errors import DataError, first_line
from harness.core.files import safe_path
from harness.data.catalogue import Download, RowFormat

# Errors of the readers of archives and tables for a damaged file.
UNPACKING_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # an encrypted archive
    NotImplementedError,  # an unknown compression
    LookupError,  # a member without a name
)
SEPARATORS = ("\t", "\n", "\r")  # of the columns and lines of the files


def unpack(file: Path, download: Download, folder: Path) -> None:
    """Put the wanted files of a download into a folder.

    Args:
        file: An archive (zip or tar), a table, or the file itself, which is moved.
        download: Its entry in the catalogue.
        folder: The folder, which the caller removes after an error.

    Raises:
        DataError: The file is damaged, too large, or has none of the wanted content.
    """
    try:
        if download.keep is not None:
            _unpack_archive(file, download, folder)
            return
        target = folder / safe_path(download.into)
        target.parent.mkdir(parents=True, exist_ok=True)
        if download.table is None:
            file.replace(target)
            return
        lines = _lines_of(_rows(file), download.table)
        target.write_text("".join(lines), encoding="utf-8", newline="\n")
    except UNPACKING_ERRORS as error:
        if getattr(error, "errno", None):  # of this machine: a full disk
            raise
        wanted = "a table" if download.table else "an archive"
        raise DataError(
            f"{download.address}: wanted {wanted}, found otherwise: {first_line(error)}"
        ) from None


def _unpack_archive(archive: Path, download: Download, folder: Path) -> None:
    """Write the wanted members of an archive into a folder."""
    pattern = re.compile(str(download.keep))
    remaining_bytes = download.unpacked
    member_count = 0
    for name, size, content in _members(archive):
        if not pattern.fullmatch(name):
            continue
        remaining_bytes -= size
        if remaining_bytes < 0:
            raise ValueError(f"more than {download.unpacked:,} bytes")
        if content is None:
            raise ValueError("a member that is a link or a device")
        safe_path(name)
        target = folder / safe_path(pattern.sub(download.into, name))
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        member_count += 1
    if not member_count:
        raise ValueError(f"no member {download.keep}")


def _members(archive: Path) -> Iterator[tuple[str, int, Any]]:
    """The name, the size in bytes and the content of each member but folders.

    The content is None for a link and for a device.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if not info.is_dir():
                    with zipped.open(info) as content:
                        yield info.filename, info.file_size, content
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if not member.isdir():
                    file = tar.extractfile(member) if member.isreg() else None
                    yield member.name, member.size, file


def _rows(table: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a table, in parquet or in packed lines of JSON."""
    if table.suffix != ".parquet":
        with gzip.open(table) as file:
            return [json.loads(line) for line in file]
    from datasets import Dataset, disable_progress_bars
    from datasets.exceptions import DatasetGenerationError

    disable_progress_bars()
    with TemporaryDirectory() as cache:
        try:
            rows = Dataset.from_parquet(
                str(table), cache_dir=cache, keep_in_memory=True
            )
        except DatasetGenerationError as error:
            raise ValueError(first_line(error.__cause__ or error)) from None
        return rows.to_list()


def _lines_of(rows: Sequence[Mapping[str, Any]], row_format: RowFormat) -> list[str]:
    """The lines of a file for the wanted rows. Raises ValueError for other rows."""
    start, stop = row_format.rows or (0, len(rows))
    if stop > len(rows):
        raise ValueError(f"wanted {stop} rows, found {len(rows)}")
    lines = [] if row_format.header is None else [f"{row_format.header}\n"]
    for number in range(start, stop):
        row = {"number": number, **rows[number]}
        for text in row.values():
            if isinstance(text, str) and any(sign in text for sign in SEPARATORS):
                raise ValueError(f"row {number} holds a tab or a line end in a text")
        try:
            if row_format.classes:
                row["label"] = row_format.classes[row["label"]]
            lines.append(f"{row_format.line.format_map(row)}\n")
        except KeyError as error:
            raise ValueError(f"row {number} has no {error}") from None
    return lines
