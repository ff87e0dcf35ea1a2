"""JSON lines in which a value that many rows share stands once.

The first line counts the rows. Then each shared value has a line, `{"id": "5f0c...", "environment":
{...}}`, and each row has one that names shared values by their ids. An id is the beginning of the
value's sha256, so that a new row moves no other line; a row ends with that of what stands before.
In files of version 0.2.0 no row has one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import DataError

ROWS, ID = "rows", "id"
DIGITS = 12  # of an id, hexadecimal
SEAL = ', "sha256": "'  # between the fields of a row and their digest


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no score")


# Made once: to make one takes as long as to read a record.
JSON = json.JSONDecoder(parse_constant=_no_number)


def pack(rows: Sequence[Mapping[str, Any]], shared: Sequence[str]) -> bytes:
    """The rows as lines, in their order; the values of the shared fields stand once.

    Raises ValueError for a number that is not finite.
    """
    values: dict[tuple[str, str], str] = {}
    lines = []
    for row in rows:
        ids = {}
        for name in shared:
            text = _json(row[name])
            ids[name] = _digest(text)
            values[name, ids[name]] = text
        line = _json({**row, **ids})[:-1]
        lines.append(f'{line}{SEAL}{_digest(line)}"}}')
    table = [f'{{"{ID}": "{key}", "{name}": {values[name, key]}}}' for name, key in sorted(values)]
    return "".join(f"{line}\n" for line in [_json({ROWS: len(rows)}), *table, *lines]).encode()


def unpack(path: Path, shared: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a file, and its place (`file:line`). Raises DataError naming file and line."""
    values: dict[tuple[str, str], Any] = {}
    wanted: Any = "a count of"
    found = unsealed = 0
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        place = f"{path}:{number}"
        try:
            text = line.decode()
            fields = JSON.decode(text)
            if number == 1:
                wanted = fields[ROWS]
            elif ID in fields:
                key = fields.pop(ID)
                [(name, value)] = fields.items()
                _require(key, text.partition(f'"{name}": ')[2][:-1])
                values[name, key] = value
            else:
                found += 1
                if "sha256" in fields:
                    _require(fields.pop("sha256"), text.rpartition(SEAL)[0])
                else:
                    unsealed += 1
                yield place, fields | {name: values[name, fields[name]] for name in shared}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(f"{place} is damaged ({error!r}); restore the file") from None
    if 0 < unsealed < found:
        raise DataError(f"{path}: {unsealed} of {found} rows lack their digest; restore the file")
    if found != wanted:
        raise DataError(f"{path}: wanted {wanted} rows, found {found}; restore the file")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _require(wanted: str, text: str) -> None:
    if _digest(text) != wanted:
        raise ValueError(f"its content has another digest than {wanted}")


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
