"""Unpacking of downloads: members of an archive, or the rows of a table as lines of a file.

No member is written outside its folder, and none is unpacked beyond a limit of bytes.
Of a table, the rows of parquet or JSON lines become lines of a file that a task reads;
`datasets` reads them, and no code of a repository is run. Whether the content is the
published one is checked afterwards.
"""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from harness.assets.catalogue import Download, RowFormat
from harness.core.errors import DataError, first_line
from harness.core.files import safe_path

# Errors of the readers of archives for a damaged archive.
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
    """Put the wanted files of a download into a folder. Raises DataError for other content."""
    if download.keep is not None:
        unpack_archive(file, download, folder)
        return
    target = folder / safe_path(download.into)
    target.parent.mkdir(parents=True, exist_ok=True)
    if download.table is not None:
        _write_table(file, download, download.table, target)
    else:
        file.replace(target)


# Archives


def unpack_archive(archive: Path, download: Download, folder: Path) -> None:
    """Write the wanted members of an archive into a folder.

    Args:
        archive: A zip or tar archive.
        download: Its entry in the catalogue. `keep` is the pattern of the wanted
            members, in upper or lower case, since some systems change the case of names.
        folder: The folder, which the caller removes after an error.

    Raises:
        DataError: The archive is damaged, too large, or has none of the members.
    """
    pattern = re.compile(str(download.keep), re.IGNORECASE)
    remaining_bytes = download.unpacked
    member_count = 0
    try:
        for name, size, content in _members(archive, pattern):
            remaining_bytes -= size
            if remaining_bytes < 0:
                raise ValueError(f"more than {download.unpacked:,} bytes")
            target = folder / safe_path(pattern.sub(download.into, name))
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)
            member_count += 1
    except UNPACKING_ERRORS as error:
        if getattr(error, "errno", None):  # of this machine: a full disk
            raise
        raise DataError(
            f"{download.address}: wanted an archive, found otherwise: {first_line(error)}"
        ) from None
    if not member_count:
        raise DataError(
            f"{download.address}: wanted {download.keep} in the archive, found none"
        )


def _members(
    archive: Path, pattern: re.Pattern[str]
) -> Iterator[tuple[str, int, BinaryIO]]:
    """The files whose whole name matches: the name, the size in bytes and the content.

    Raises ValueError for a name that leaves its folder, and for a link or a device.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                if pattern.fullmatch(info.filename) and not info.is_dir():
                    safe_path(info.filename)
                    with zipped.open(info) as content:
                        yield info.filename, info.file_size, content  # type: ignore[misc]
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if not pattern.fullmatch(member.name) or member.isdir():
                continue
            safe_path(member.name)
            file = tar.extractfile(member) if member.isreg() else None
            if file is None:
                raise ValueError("a member that is a link or a device")
            yield member.name, member.size, file  # type: ignore[misc]


# Tables


def _write_table(
    table_file: Path, download: Download, row_format: RowFormat, target: Path
) -> None:
    """Write the wanted rows of a table as the lines of a file."""
    with TemporaryDirectory(dir=table_file.parent) as scratch:
        rows = _rows(table_file, download, Path(scratch))
        start, stop = row_format.rows or (0, len(rows))
        if stop > len(rows):
            raise DataError(
                f"{download.address}: wanted {stop} rows, found {len(rows)}"
            )
        with target.open("w", encoding="utf-8", newline="\n") as file:
            if row_format.header is not None:
                file.write(f"{row_format.header}\n")
            for number in range(start, stop):
                try:
                    line = _line(row_format, rows[number], number)
                except ValueError as error:
                    raise DataError(
                        f"{download.address}: row {number} {error}"
                    ) from None
                file.write(f"{line}\n")


def _rows(table_file: Path, download: Download, scratch: Path) -> Any:
    """The rows as `datasets` reads them, with a temporary cache in `scratch`."""
    from datasets import Dataset, disable_progress_bars
    from datasets.exceptions import DatasetGenerationError

    disable_progress_bars()
    options = {"cache_dir": str(scratch / "cache"), "keep_in_memory": True}
    try:
        if download.at.endswith(".parquet"):
            return Dataset.from_parquet(str(table_file), **options)
        json_file = scratch / "rows.jsonl"
        with gzip.open(table_file) as content, json_file.open("wb") as file:
            shutil.copyfileobj(content, file)
        return Dataset.from_json(str(json_file), **options)
    except (DatasetGenerationError, *UNPACKING_ERRORS) as error:
        reason = first_line(error.__cause__ or error)
        raise DataError(
            f"{download.address}: wanted a table, found otherwise: {reason}"
        ) from None


def _line(row_format: RowFormat, row: Mapping[str, Any], number: int) -> str:
    """A line of the file. Raises ValueError for a row that a line cannot hold."""
    values: dict[str, Any] = {"number": number, **row}
    try:
        if row_format.classes:
            values["label"] = row_format.classes[row["label"]]
        line = row_format.line.format_map(values)
    except (LookupError, TypeError) as error:
        raise ValueError(f"has no {first_line(error)}") from None
    for text in values.values():
        if isinstance(text, str) and any(separator in text for separator in SEPARATORS):
            raise ValueError("holds a tab or a line end in a text")
    return line
