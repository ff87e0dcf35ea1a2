"""TOML or JSON files as frozen dataclasses: each key is a field, each value has its type.

msgspec compares the content with the types. Errors are DataErrors of one line: file, key,
the expected type, the type found. A key that is no field is an error, too: a mistyped
key would otherwise leave its field at the default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass, make_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from harness.core.errors import DataError
from harness.core.files import parse_json

Typed = TypeVar("Typed")

# The errors of reading. A TOMLDecodeError is a ValueError, and a number of more digits
# than Python reads raises one.
READING_ERRORS = (OSError, ValueError, RecursionError)
NESTED = (dict, list)  # the content that may hold dataclasses


def read_typed(
    kind: Callable[..., Typed], path: Path, /, **further_fields: Any
) -> Typed:
    """A file as a dataclass, or a JSON file as a list or mapping of dataclasses.

    A field of several dataclasses is a list of tables, under the field's name
    (`columns = [...]`) or its singular (`[[column]]`). A ValueError of a dataclass is
    reported with its place in the file.

    Args:
        kind: The dataclass, or the type of the list or mapping.
        path: The file.
        further_fields: Fields that the file does not hold, such as its name.

    Raises:
        DataError: The file is none of these.
    """
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text, finite=False) if is_json else tomllib.loads(text)
    except READING_ERRORS as error:
        wanted = "JSON" if is_json else "a TOML table"
        _refuse(path.name, f"wanted {wanted}, found: {error}")
    place = path.name if isinstance(content, dict) else f"{path.name}: rows"
    table = _with_names_of_fields(kind, content, place, further_fields)
    if isinstance(table, dict):
        table |= further_fields
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        fault, _, position = str(error).partition(" - at ")
        if fault in ("Expected `str`, got `int`", "Expected `str`, got `float`"):
            fault += "; write the number in quotes"
        key = position.strip("`").removeprefix("$").removeprefix(".")
        place = f"{path.name}: {key}" if key else path.name
        row = re.match(r"(\w*)\[(\d+)\]\.?(.*)", key)
        # A row of a list is `rows[3].score`, or `[3].score` where the file is a list.
        if row is not None:
            name, number, key = row[1], int(row[2]), row[3]
            rows = table[name] if name else table
            place = _place_of_row(
                f"{path.name}: {name or 'rows'}", rows[number], number
            )
            place += f": {key}" if key else ""
        _refuse(place, fault)


def read_rows(kind: type[Typed], path: Path, key: str = "row") -> tuple[Typed, ...]:
    """The rows of a TOML file that is a list of tables under one key."""
    rows = make_dataclass("Rows", [(key, tuple[kind, ...])])  # type: ignore[valid-type]
    return getattr(read_typed(rows, path), key)


def _place_of_row(place: str, row: Any, number: int) -> str:
    """The place of a row of a list, by its id or name, or else by its number."""
    file, _, key = place.rpartition(": ")
    label: Any = number + 1
    if isinstance(row, dict):
        label = row.get("id", row.get("name", label))
    return f"{file}, {key.removesuffix('s')} {label}"


@cache
def _types_of(kind: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields, by name."""
    return get_type_hints(kind)


def _with_names_of_fields(
    kind: Any, content: Any, place: str, further_fields: Collection[str] = ()
) -> Any:
    """Content whose keys are names of fields: `[[row]]` becomes `rows`.

    Raises DataError for a key that is no field, by its `place`. Content of another form
    than the type's stays as it is; msgspec refuses it.
    """
    if not isinstance(content, NESTED):
        return content
    if get_origin(kind) is UnionType:  # `X | None`
        kind = get_args(kind)[0]
    if isinstance(content, list) and get_args(kind):
        item = get_args(kind)[0]
        rows = enumerate(content)
        return [
            _with_names_of_fields(item, row, _place_of_row(place, row, number))
            for number, row in rows
        ]
    if not isinstance(content, dict):
        return content
    table = {}
    if is_dataclass(kind):
        types = _types_of(kind)  # type: ignore[arg-type]
        for key, value in content.items():
            name = key if key in types else f"{key}s"
            if name not in types or name in further_fields:
                names = ", ".join(n for n in types if n not in further_fields)
                _refuse(place, f"unknown key {key!r}; known are {names}")
            table[name] = value
            if isinstance(value, NESTED):
                table[name] = _with_names_of_fields(
                    types[name], value, f"{place}: {name}"
                )
    else:
        item = get_args(kind)[-1] if get_args(kind) else Any
        for key, value in content.items():
            table[key] = _with_names_of_fields(item, value, f"{place}.{key}")
    return table


def _refuse(place: str, fault: str) -> NoReturn:
    raise DataError(f"{place}: {fault}".replace("\n", " "))
