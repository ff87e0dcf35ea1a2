"""Tables of the hub: rows of parquet or JSON lines become lines of files that a task reads.

`datasets` reads the rows from a downloaded file of a pinned commit; no code of the
repository is run. Whether they are the published rows is checked afterwards, as for any
other copy.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.assets.catalogue import Download, RowFormat
from harness.assets.fetch.archives import UNPACKING_ERRORS, copy_limited
from harness.assets.fetch.http import reason_of
from harness.core.errors import DataError
from harness.core.files import safe_path

SEPARATORS = ("\t", "\n", "\r")  # of the columns and lines of the files


def unpack_table(table_file: Path, download: Download, folder: Path) -> None:
    """Write the wanted rows of a table into a folder, as the lines of a file.

    Args:
        table_file: The table: a parquet file, or packed JSON lines.
        download: Its entry in the catalogue, whose `table` says how rows become lines.
        folder: The folder.

    Raises:
        DataError: The table is damaged, has too few rows, or a row that no line holds.
    """
    row_format = download.table
    assert row_format is not None  # noqa: S101 - only tables are given to it
    target = folder / safe_path(download.into)
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=table_file.parent, prefix="rows-") as scratch:
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
                line = _line(row_format, rows[number], number, download.address)
                file.write(f"{line}\n")


def _rows(table_file: Path, download: Download, scratch: Path) -> Any:
    """The rows as `datasets` reads them, with a temporary cache in `scratch`."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    options = {"cache_dir": str(scratch / "cache"), "keep_in_memory": True}
    try:
        if download.at.endswith(".parquet"):
            return Dataset.from_parquet(str(table_file), **options)
        json_file = scratch / "rows.jsonl"
        with gzip.open(table_file) as content:
            copy_limited(content, json_file, download.unpacked)
        return Dataset.from_json(str(json_file), **options)
    except Exception as error:
        # The libraries that read tables raise many types for damaged bytes. Their base
        # classes are not exported, so the module of the type tells where it is from.
        is_of_archive = isinstance(error, (*UNPACKING_ERRORS, OSError))
        if is_of_archive or _is_from_reader(error):
            raise DataError(
                f"{download.address}: wanted a table, found otherwise: {reason_of(error)}"
            ) from None
        raise


def _is_from_reader(error: Exception) -> bool:
    """Whether an error is defined by one of the libraries that read tables."""
    return type(error).__module__.partition(".")[0] in ("datasets", "pyarrow", "pandas")


def _line(
    row_format: RowFormat, row: Mapping[str, Any], number: int, address: str
) -> str:
    """A line of the file. Raises DataError for a row that a line cannot hold."""
    values: dict[str, Any] = {"number": number, **row}
    try:
        if row_format.classes:
            values["label"] = row_format.classes[row["label"]]
        line = row_format.line.format_map(values)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(f"{address}: row {number} has no {reason_of(error)}") from None
    for text in values.values():
        if isinstance(text, str) and any(separator in text for separator in SEPARATORS):
            raise DataError(
                f"{address}: row {number} holds a tab or a line end in a text"
            )
    return line
