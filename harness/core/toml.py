"""TOML or JSON files as frozen dataclasses: each key is a field, each value has its type.

Errors are DataErrors of one line: file, row, key, the expected value, the value found.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, make_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from harness.core.errors import DataError
from harness.core.json_text import parse_json, parse_sealed
from harness.core.terminal import CONTROL

Typed = TypeVar("Typed")

# What reading raises: TOMLDecodeError is a ValueError, and so is a number of 5,000
# digits.
READING_ERRORS = (OSError, ValueError)

SCALARS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_typed(kind: Callable[..., Typed], path: Path, /, **given: Any) -> Typed:
    """A file as a dataclass, or a JSON file as a list or mapping of such.

    `given` are fields that the file does not hold, such as its name. A field of several
    dataclasses is a list of tables, under the field's name (`columns = [...]`) or its
    singular (`[[column]]`); of either of two (`tuple[A | B, ...]`), a table is the
    first dataclass whose first field it holds. A ValueError that a dataclass raises is
    reported with its place.
    """
    is_json = path.suffix == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        content = parse_json(text, finite=False) if is_json else _parse_toml(text)
    except READING_ERRORS as error:
        _refuse(
            path.name, f"wanted {'JSON' if is_json else 'a TOML table'}, found: {error}"
        )
    return _made(kind, content, path.name, given)


def _parse_toml(text: str) -> dict[str, Any]:
    """A text of TOML. Raises ValueError, too where brackets are nested deeper than Python goes."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def read_sealed(kind: Callable[..., Typed], path: Path, /, **given: Any) -> Typed:
    """A JSON file that was measured, and that ends with its seal; else as `read_typed`.

    Raises DataError for a file that has changed since it was written.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except READING_ERRORS as error:
        _refuse(path.name, f"wanted JSON, found: {error}")
    return _made(kind, parse_sealed(path, text), path.name, given)


def _made(
    kind: Callable[..., Typed], content: Any, name: str, given: Mapping[str, Any]
) -> Typed:
    if is_dataclass(kind):
        return _dataclass(kind, content, name, given)
    return _value(kind, content, f"{name}: rows")


def read_rows(cls: type[Typed], path: Path, key: str = "row") -> tuple[Typed, ...]:
    """A TOML file of nothing but one list of tables, each as a dataclass."""
    rows = make_dataclass("Rows", [(key, tuple[cls, ...])])  # type: ignore[valid-type]
    return getattr(read_typed(rows, path), key)


@cache
def _fields(cls: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    """Every field by name, with its type."""
    types = get_type_hints(cls)
    return {field.name: (field, types[field.name]) for field in fields(cls)}


def _dataclass(cls: Any, table: Any, place: str, given: Mapping[str, Any]) -> Any:
    _require(dict, table, place, "a table")
    values = dict(given)
    keys = {
        name if name in table or not _members(kind) else name.removesuffix("s"): (
            field,
            kind,
        )
        for name, (field, kind) in _fields(cls).items()
        if name not in values
    }
    if unknown := sorted(set(table) - set(keys)):
        _refuse(place, f"unknown key {unknown[0]!r}; known are {', '.join(keys)}")
    for key, (field, kind) in keys.items():
        if key in table:
            values[field.name] = _value(kind, table[key], f"{place}: {key}")
        elif field.default is MISSING and field.default_factory is MISSING:
            _refuse(place, f"the key {key!r} is missing")
    try:
        return cls(**values)
    except ValueError as error:
        _refuse(place, str(error))


def _members(kind: Any) -> tuple[Any, ...]:
    """The dataclasses of which a field holds several; none for any other field."""
    member = get_args(kind)[0] if get_origin(kind) is tuple else None
    members = get_args(member) if get_origin(member) is UnionType else (member,)
    return tuple(filter(is_dataclass, members))


def _value(kind: Any, value: Any, place: str) -> Any:
    """A value of TOML or JSON as the type of its field; `place` ends with its key."""
    if get_origin(kind) is UnionType:  # `X | None`: TOML has no None
        kind = get_args(kind)[0]
    if kind is Any:
        return value
    if kind in SCALARS:
        return _scalar(kind, value, place)
    if is_dataclass(kind):
        return _dataclass(kind, value, place, {})
    if members := _members(kind):
        return _rows(members, value, place)
    kinds = get_args(kind)
    if get_origin(kind) in (Mapping, dict):
        _require(dict, value, place, "a table")
        return {
            name: _value(kinds[1], inner, f"{place}.{name}")
            for name, inner in value.items()
        }
    _require(list, value, place, "a list")
    if Ellipsis in kinds:
        return tuple(_value(kinds[0], inner, place) for inner in value)
    if len(value) != len(kinds):
        _refuse(place, f"wanted a list of {len(kinds)}, found {value!r}")
    return tuple(_value(*typed, place) for typed in zip(kinds, value, strict=True))


def _scalar(kind: Any, value: Any, place: str) -> Any:
    if type(value) not in ((int, float) if kind is float else (kind,)):
        quoted = (
            f'; write "{value}"' if kind is str and type(value) in (int, float) else ""
        )
        _refuse(place, f"wanted {SCALARS[kind]}, found {value!r:.80}{quoted}")
    if kind is str and CONTROL.search(value):
        _refuse(place, f"wanted text without control characters, found {value!r}")
    if kind is float and type(value) is float and not math.isfinite(value):
        _refuse(place, f"wanted a finite number, found {value}")
    try:
        return kind(value)
    except OverflowError:
        _refuse(place, "wanted a number of less than 309 digits, found a longer one")


def _rows(members: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    """Tables as dataclasses; an error names a row by its id, else its name, else its number."""
    if not isinstance(value, list) or not value:
        _refuse(place, f"wanted one table or more, found {value!r:.80}")
    file, _, key = place.rpartition(": ")
    rows = []
    for number, row in enumerate(value, start=1):
        keys = row if isinstance(row, dict) else {}
        fitting = (member for member in members if next(iter(_fields(member))) in keys)
        where = f"{file}, {key.removesuffix('s')} {keys.get('id', keys.get('name', number))}"
        rows.append(_dataclass(next(fitting, members[0]), row, where, {}))
    return tuple(rows)


def _require(kind: Any, value: Any, place: str, wanted: str) -> None:
    if not isinstance(value, kind):
        _refuse(place, f"wanted {wanted}, found {value!r:.80}")


def _refuse(place: str, fault: str) -> NoReturn:
    """Raise DataError, one line whatever a file's keys hold."""
    text = f"{place}: {fault}"
    raise DataError("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))
