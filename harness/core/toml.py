"""TOML or JSON files as frozen dataclasses: each key is a field, each value has its type.

Errors are DataErrors of one line: file, row, key, the expected value, the value found.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, make_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from harness.core.errors import DataError
from harness.core.json_text import parse_json
from harness.core.terminal import CONTROL

Typed = TypeVar("Typed")

# The errors of reading. A TOMLDecodeError is a ValueError, and a number of more digits
# than Python reads raises one.
READING_ERRORS = (OSError, ValueError)

SCALARS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


# Files


def read_typed(
    kind: Callable[..., Typed], path: Path, /, **further_fields: Any
) -> Typed:
    """A file as a dataclass, or a JSON file as a list or mapping of dataclasses.

    A field of several dataclasses is a list of tables, under the field's name
    (`columns = [...]`) or its singular (`[[column]]`). Where a field may hold either of
    two dataclasses (`tuple[A | B, ...]`), a table is the one whose first field it has.
    A ValueError of a dataclass is reported with its place in the file.

    Args:
        kind: The dataclass, or the type of the list or mapping.
        path: The file.
        further_fields: Fields that the file does not hold, such as its name.
    """
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text, finite=False) if is_json else _parse_toml(text)
    except READING_ERRORS as error:
        wanted = "JSON" if is_json else "a TOML table"
        _refuse(path.name, f"wanted {wanted}, found: {error}")
    return _typed_content(kind, content, path.name, further_fields)


def _parse_toml(text: str) -> dict[str, Any]:
    """The table of a text of TOML. Raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def read_rows(kind: type[Typed], path: Path, key: str = "row") -> tuple[Typed, ...]:
    """The rows of a TOML file that is a list of tables under one key."""
    rows = make_dataclass("Rows", [(key, tuple[kind, ...])])  # type: ignore[valid-type]
    return getattr(read_typed(rows, path), key)


def _typed_content(
    kind: Callable[..., Typed],
    content: Any,
    file_name: str,
    further_fields: Mapping[str, Any],
) -> Typed:
    if is_dataclass(kind):
        return _dataclass(kind, content, file_name, further_fields)
    return _value(kind, content, f"{file_name}: rows")


# Tables


@dataclass(frozen=True)
class _TypedField:
    """A field of a dataclass, with its type."""

    field: Field[Any]
    kind: Any

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    def key_in(self, table: Mapping[str, Any]) -> str:
        """The key of the field in a table: its name, or the singular for several tables."""
        if self.name in table or not _row_types(self.kind):
            return self.name
        return self.name.removesuffix("s")


@cache
def _fields(kind: Any) -> tuple[_TypedField, ...]:
    """The fields of a dataclass, in their order."""
    types = get_type_hints(kind)
    return tuple(_TypedField(field, types[field.name]) for field in fields(kind))


def _dataclass(
    kind: Any, table: Any, place: str, further_fields: Mapping[str, Any]
) -> Any:
    """A table as a dataclass; `place` is the file and the row, for messages."""
    _require(dict, table, place, "a table")
    fields_by_key = {}
    for field in _fields(kind):
        if field.name not in further_fields:
            fields_by_key[field.key_in(table)] = field
    unknown_keys = sorted(set(table) - set(fields_by_key))
    if unknown_keys:
        known_keys = ", ".join(fields_by_key)
        _refuse(place, f"unknown key {unknown_keys[0]!r}; known are {known_keys}")
    values = dict(further_fields)
    for key, field in fields_by_key.items():
        if key in table:
            values[field.name] = _value(field.kind, table[key], f"{place}: {key}")
        elif field.is_required:
            _refuse(place, f"the key {key!r} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        _refuse(place, str(error))


def _row_types(kind: Any) -> tuple[Any, ...]:
    """The dataclasses that the rows of a field may be; none unless it holds several rows."""
    if get_origin(kind) is not tuple:
        return ()
    item = get_args(kind)[0]
    types = get_args(item) if get_origin(item) is UnionType else (item,)
    return tuple(filter(is_dataclass, types))


def _rows(row_types: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    """A list of tables as dataclasses; messages name a row by its id, name or number."""
    if not isinstance(value, list) or not value:
        _refuse(place, f"wanted one table or more, found {value!r:.80}")
    file, _, key = place.rpartition(": ")
    rows = []
    for number, table in enumerate(value, start=1):
        label: Any = number
        if isinstance(table, dict):
            label = table.get("id", table.get("name", number))
        row_place = f"{file}, {key.removesuffix('s')} {label}"
        rows.append(_dataclass(_row_type(row_types, table), table, row_place, {}))
    return tuple(rows)


def _row_type(row_types: tuple[Any, ...], table: Any) -> Any:
    """The dataclass whose first field a table has; else the first, which will refuse it."""
    for row_type in row_types:
        if isinstance(table, dict) and _fields(row_type)[0].name in table:
            return row_type
    return row_types[0]


# Values


def _value(kind: Any, value: Any, place: str) -> Any:
    """A value of TOML or JSON as the type of its field; `place` ends with its key."""
    if get_origin(kind) is UnionType:  # `X | None`, where the file has X or no key
        kind = get_args(kind)[0]
    if kind is Any:
        return value
    if kind in SCALARS:
        return _scalar(kind, value, place)
    if is_dataclass(kind):
        return _dataclass(kind, value, place, {})
    row_types = _row_types(kind)
    if row_types:
        return _rows(row_types, value, place)
    item_kinds = get_args(kind)
    if get_origin(kind) in (Mapping, dict):
        _require(dict, value, place, "a table")
        mapping = {}
        for name, item in value.items():
            mapping[name] = _value(item_kinds[1], item, f"{place}.{name}")
        return mapping
    _require(list, value, place, "a list")
    if Ellipsis in item_kinds:  # of any length
        item_kinds = (item_kinds[0],) * len(value)
    if len(value) != len(item_kinds):
        _refuse(place, f"wanted a list of {len(item_kinds)}, found {value!r}")
    items = zip(item_kinds, value, strict=True)
    return tuple(_value(item_kind, item, place) for item_kind, item in items)


def _scalar(kind: Any, value: Any, place: str) -> Any:
    """A text, a number or a truth value; a whole number is accepted as a number."""
    accepted_types = (int, float) if kind is float else (kind,)
    if type(value) not in accepted_types:
        is_number = type(value) in (int, float)
        remedy = f'; write "{value}"' if kind is str and is_number else ""
        _refuse(place, f"wanted {SCALARS[kind]}, found {value!r:.80}{remedy}")
    if kind is str and CONTROL.search(value):
        _refuse(place, f"wanted text without control characters, found {value!r}")
    if type(value) is float and not math.isfinite(value):
        _refuse(place, f"wanted a finite number, found {value}")
    try:
        return kind(value)
    except OverflowError:
        _refuse(place, "wanted a number of less than 309 digits, found a longer one")


def _require(kind: Any, value: Any, place: str, wanted: str) -> None:
    if not isinstance(value, kind):
        _refuse(place, f"wanted {wanted}, found {value!r:.80}")


def _refuse(place: str, fault: str) -> NoReturn:
    """Raise DataError with a message of one line, whatever the keys of a file hold."""
    message = ""
    for character in f"{place}: {fault}":
        message += character if character.isprintable() else ascii(character)[1:-1]
    raise DataError(message)
