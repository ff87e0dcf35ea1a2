"""Tables of the hub as files: rows of parquet or JSON lines become the lines that a task reads.

`datasets` reads the rows, from a file that was downloaded at its pinned commit; nothing
of the repository is run. Whether they are the published rows is checked afterwards, as
for any other copy.
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
from harness.core.files import safe

SEPARATORS = ("\t", "\n", "\r")


def unpack_table(table_file: Path, wanted: Download, folder: Path) -> None:
    """Write the wanted rows of a table into the folder, as the lines of a file."""
    table, target = wanted.table, folder / safe(wanted.into)
    assert table is not None  # noqa: S101 - the caller has looked
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=table_file.parent, prefix="rows-") as scratch:
        rows = _rows(table_file, wanted, Path(scratch))
        first, last = table.rows or (0, len(rows))
        if last > len(rows):
            raise DataError(f"{wanted.address}: wanted {last} rows, found {len(rows)}")
        with target.open("w", encoding="utf-8", newline="\n") as file:
            if table.header is not None:
                file.write(f"{table.header}\n")
            for number in range(first, last):
                file.write(f"{_line(table, rows[number], number, wanted.address)}\n")


def _rows(table_file: Path, wanted: Download, scratch: Path) -> Any:
    """The rows, as `datasets` reads them without its own cache."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    options = {"cache_dir": str(scratch / "cache"), "keep_in_memory": True}
    try:
        if wanted.at.endswith(".parquet"):
            return Dataset.from_parquet(str(table_file), **options)
        plain = scratch / "rows.jsonl"
        with gzip.open(table_file) as content:
            copy_limited(content, plain, wanted.unpacked)
        return Dataset.from_json(str(plain), **options)
    except Exception as error:  # whatever pyarrow and datasets raise of bad bytes
        if isinstance(error, (*UNPACKING_ERRORS, OSError)) or _of_a_reader(error):
            why = reason_of(error)
            raise DataError(
                f"{wanted.address}: wanted a table, found otherwise: {why}"
            ) from None
        raise


def _of_a_reader(error: Exception) -> bool:
    """Whether an error is one of the libraries that read tables."""
    return type(error).__module__.partition(".")[0] in ("datasets", "pyarrow", "pandas")


def _line(table: RowFormat, row: Mapping[str, Any], number: int, address: str) -> str:
    """A line of the file. Raises DataError for a row that it cannot hold."""
    values: dict[str, Any] = {"number": number, **row}
    try:
        if table.classes:
            values["label"] = table.classes[row["label"]]
        line = table.line.format_map(values)
    except (KeyError, IndexError, TypeError) as error:
        raise DataError(f"{address}: row {number} has no {reason_of(error)}") from None
    texts = [text for text in values.values() if isinstance(text, str)]
    if any(separator in text for text in texts for separator in SEPARATORS):
        raise DataError(f"{address}: row {number} holds a tab or a line end in a text")
    return line
