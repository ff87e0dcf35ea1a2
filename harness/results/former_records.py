"""Committed records in the format of version 0.3.0, which are read and written anew.

There was one file of JSON lines an encoder. Its first line counts the rows, `{"rows":
12}`. A value that many rows share has a line, `{"id": "5f0c...", "environment":
{...}}`, and each row names such values by their ids, which are the beginning of their
sha256. A row ends with the digest of what is before it, and leaves out aggregations
that equal the score of its only group, or `all`.

    python -m harness.results.former_records results/records/minilm.jsonl
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import OTHER_SCORES
from harness.core.types import AGGREGATIONS, Record
from harness.results.layout import RECORDS
from harness.results.records import (
    LINE_SEAL,
    PARSE_ERRORS,
    cell_of,
    read_committed,
    record_of_fields,
)
from harness.results.store import Store

SHARED_FIELDS = ("identity", "repr", "digests", "environment", "encoder")
SHARED_LINE = '{"id": '  # how the line of a shared value begins
ID_DIGITS = 12  # of an id and of a row's digest, hexadecimal
RESTORE_FORMER = "restore the file"
SharedName = tuple[str, str]  # the field of a shared value, and its id


def read_former(path: Path) -> tuple[Record, ...]:
    """The records of a file of an encoder. DataError names a bad line."""
    shared_values: dict[SharedName, Any] = {}
    records: list[Record] = []
    count, *lines = path.read_bytes().splitlines() or [b""]
    for number, line in enumerate(lines, start=2):
        place = f"{path}:{number}"
        try:
            text = line.decode()
            if text.startswith(SHARED_LINE):
                name, value = _read_shared(text)
                shared_values[name] = value
                continue
            fields = _read_row(text, shared_values)
        except PARSE_ERRORS as error:
            raise DataError(
                f"{place} is damaged ({error!r}); {RESTORE_FORMER}"
            ) from None
        records.append(record_of_fields(place, fields, RESTORE_FORMER))
    _require_all_cells(path, count, records)
    return tuple(records)


def write_anew(paths: Iterable[Path]) -> int:
    """Write former files as files of methods, and delete them; how many records they hold.

    Each file has to be in the folder `records` of its results folder. Raises DataError
    for a cell that has another record there, and leaves its former file as it is.
    """
    written = 0
    for path in paths:
        if path.parent.name != RECORDS:
            raise DataError(
                f"{path}: wanted a file in a folder {RECORDS}; move it there"
            )
        records = read_former(path)
        store = Store(path.parent.parent)
        for record in records:
            _require_no_other(path, record, store)
        store.commit(records)
        path.unlink()
        written += len(records)
    return written


def _require_no_other(path: Path, record: Record, store: Store) -> None:
    """Raise DataError for a cell that has another record in the folder."""
    cell = cell_of(record)
    own = store.path(cell)
    committed = store.committed_path(cell.method)
    if own.exists():
        raise DataError(f"{path}: {cell} is also in {own}; delete one")
    if read_committed(committed).get(cell, record) != record:
        raise DataError(f"{path}: {cell} has another record in {committed}; delete one")


def _read_shared(text: str) -> tuple[SharedName, Any]:
    """The field and id of a shared value, and the value."""
    fields = parse_json(text)
    identifier = fields.pop("id")
    [(field, value)] = fields.items()
    written = json.dumps(value)
    _require_equal(identifier, _digest(written))
    _require_equal(text, f'{SHARED_LINE}"{identifier}", "{field}": {written}}}')
    return (field, identifier), value


def _read_row(text: str, shared_values: Mapping[SharedName, Any]) -> dict[str, Any]:
    """The fields of a record, with what they share and what they leave out."""
    body = text.rpartition(LINE_SEAL)[0]
    _require_equal(text, f'{body}{LINE_SEAL}{_digest(body)}"}}')
    fields: dict[str, Any] = parse_json(f"{body}}}")
    for name in SHARED_FIELDS:
        if name in fields:
            fields[name] = shared_values[name, fields[name]]
    fields["facts"] = {**fields["facts"], **fields.pop("encoder", {})}
    fields["scores"] = {
        name: _with_aggregations(name, score)
        for name, score in fields["scores"].items()
    }
    return fields


def _with_aggregations(name: str, score: Any) -> Any:
    """A score with the aggregations that equal its only group, or `all`."""
    match score:
        case {"groups": {**groups}} if len(groups) == len(score) == 1:
            return {**dict.fromkeys(AGGREGATIONS, *groups.values()), **score}
        case {"all": value} if len(score) == 1 and name in OTHER_SCORES:
            return dict.fromkeys(AGGREGATIONS, value)
    return score


def _require_all_cells(path: Path, count: bytes, records: Sequence[Record]) -> None:
    """Raise DataError for a file with other rows than its first line counts, or a cell twice."""
    cells = {cell_of(record) for record in records}
    wanted = f'{{"rows": {len(cells)}}}'
    if len(cells) < len(records) or count != wanted.encode():
        raise DataError(
            f"{path}: wanted {wanted} as line 1 and each cell once, found {len(records)} rows of "
            f"{len(cells)} cells; {RESTORE_FORMER}"
        )


def _require_equal(text: str, wanted: str) -> None:
    if text != wanted:
        raise ValueError("its content has another digest than it states")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def migrate() -> None:
    """Write the files that the command line names."""
    try:
        written = write_anew(map(Path, sys.argv[1:]))
    except (DataError, OSError) as error:
        sys.exit(f"harness: {error}")
    sys.stdout.write(f"{written} records written\n")


if __name__ == "__main__":
    migrate()
