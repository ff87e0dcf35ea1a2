"""The format of committed records of version 0.3.0, from which they are written anew.

Each encoder has a file of JSON lines. The first line has the number of rows, `{"rows":
12}`. A value that many rows share has its own line, `{"id": "5f0c...", "environment":
{...}}`; the id is the beginning of the value's sha256, and rows have the id in place of
the value. A row ends with the digest of the text before it. It leaves out the
aggregations that equal the score of its only group, or `all`.

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
    parse_fault,
    read_committed,
    record_of_fields,
)
from harness.results.store import Store

SHARED_FIELDS = ("identity", "repr", "digests", "environment", "encoder")
SHARED_LINE = '{"id": '  # the beginning of the line of a shared value
ID_DIGITS = 12  # hexadecimal digits of an id and of a row's digest
RESTORE_FORMER = "restore the file"
SharedName = tuple[str, str]  # the field of a shared value, and its id


def read_former(path: Path) -> tuple[Record, ...]:
    """The records of a file. Raises DataError, which names the line, for a damaged file."""
    shared_values: dict[SharedName, Any] = {}
    records: list[Record] = []
    first_line, *lines = path.read_bytes().splitlines() or [b""]
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
                f"{place} is damaged ({parse_fault(error)}); {RESTORE_FORMER}"
            ) from None
        records.append(record_of_fields(place, fields, RESTORE_FORMER))
    _require_all_cells(path, first_line, records)
    return tuple(records)


def write_anew(paths: Iterable[Path]) -> int:
    """Write former files as files of methods, delete them, and return the number of records.

    Each file has to be in the folder `records` of its results folder. Raises DataError
    for a cell that has another record there, and leaves its former file as it is.
    """
    record_count = 0
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
        record_count += len(records)
    return record_count


def _require_no_other(path: Path, record: Record, store: Store) -> None:
    """Raise DataError for a cell that has another record in the folder."""
    cell = cell_of(record)
    file_of_run = store.path(cell)
    if file_of_run.exists():
        raise DataError(f"{path}: {cell} is also in {file_of_run}; delete one")
    committed_file = store.committed_path(cell.method)
    if read_committed(committed_file).get(cell, record) != record:
        raise DataError(
            f"{path}: {cell} has another record in {committed_file}; delete one"
        )


def _read_shared(text: str) -> tuple[SharedName, Any]:
    """The field and id of a shared value, and the value."""
    fields = parse_json(text)
    identifier = fields.pop("id")
    [(field, value)] = fields.items()
    value_text = json.dumps(value)
    _require_equal(identifier, _short_digest(value_text))
    _require_equal(text, f'{SHARED_LINE}"{identifier}", "{field}": {value_text}}}')
    return (field, identifier), value


def _read_row(text: str, shared_values: Mapping[SharedName, Any]) -> dict[str, Any]:
    """The fields of a record, with their shared values and all aggregations."""
    body = text.rpartition(LINE_SEAL)[0]
    _require_equal(text, f'{body}{LINE_SEAL}{_short_digest(body)}"}}')
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
    """A score with the aggregations that the file leaves out.

    `{"groups": {"msrpar": 45.1}}` has the score of its only group under every
    aggregation, and `{"all": 45.1}` of `OTHER_SCORES` its only score.
    """
    match score:
        case {"groups": {**groups}} if len(groups) == len(score) == 1:
            [only_score] = groups.values()
            return {**dict.fromkeys(AGGREGATIONS, only_score), **score}
        case {"all": only_score} if len(score) == 1 and name in OTHER_SCORES:
            return dict.fromkeys(AGGREGATIONS, only_score)
    return score


def _require_all_cells(
    path: Path, first_line: bytes, records: Sequence[Record]
) -> None:
    """Raise DataError unless the file has the rows that its first line counts, each of one cell."""
    cells = {cell_of(record) for record in records}
    expected_line = f'{{"rows": {len(cells)}}}'
    if len(cells) < len(records) or first_line != expected_line.encode():
        raise DataError(
            f"{path}: wanted {expected_line} as line 1 and each cell once, found {len(records)} "
            f"rows of {len(cells)} cells; {RESTORE_FORMER}"
        )


def _require_equal(text: str, expected_text: str) -> None:
    """Raise ValueError for a line that is not the text that its digest was taken of."""
    if text != expected_text:
        raise ValueError("its content has another digest than it states")


def _short_digest(text: str) -> str:
    """The first `ID_DIGITS` of a text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def migrate() -> None:
    """Write anew the files that the command line names."""
    try:
        record_count = write_anew(map(Path, sys.argv[1:]))
    except (DataError, OSError) as error:
        sys.exit(f"harness: {error}")
    sys.stdout.write(f"{record_count} records written\n")


if __name__ == "__main__":
    migrate()
