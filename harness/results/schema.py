"""The JSON Schema of a record, made from its dataclass: for programs that read a run's files.

A run's file is the record and the digest of it. A committed file holds the same fields, some of
them by reference (`harness.results.json_lines`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from harness.core.types import Record
from harness.results.records import SCHEMA, SEAL

DIALECT = "http://json-schema.org/draft-07/schema#"
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

# What the types of the fields do not say.
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "schema": {"const": SCHEMA},
    "seed": {"minimum": 0},
    "pairs": {"minimum": 1},
    "scores": {"additionalProperties": {"$ref": "#/definitions/score"}, "minProperties": 1},
}
SCORE = {
    "description": "Points (x100); null is undefined. Correlations by aggregation and subset.",
    "anyOf": [
        {"type": ["number", "null"]},
        {"type": "object", "additionalProperties": {"$ref": "#/definitions/score"}},
    ],
}


def record_schema() -> dict[str, Any]:
    """The schema of a run's file, `records/<encoder>/<method>/<task>/seed-<n>.json`."""
    types, told = get_type_hints(Record), _attributes(Record.__doc__ or "")
    properties: dict[str, Any] = {
        field.name: {"description": told[field.name], **_of_type(types[field.name])}
        | dict(FURTHER.get(field.name, {}))
        for field in fields(Record)
    }
    needed = [f.name for f in fields(Record) if f.default_factory is MISSING]
    seal = "The sha256 of the record as one line of JSON; files of 0.2.0 and before lack it."
    return {
        "$schema": DIALECT,
        "title": "Record",
        "description": (Record.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties
        | {SEAL: {"description": seal, "type": "string", "pattern": "^[0-9a-f]{64}$"}},
        "required": needed,
        "additionalProperties": False,
        "definitions": {"score": SCORE},
    }


def _of_type(kind: Any) -> dict[str, Any]:
    """The schema of a field's type; a type that has none yet is refused."""
    if kind is Any:
        return {}
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(one) for one in arguments]}
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        values = _of_type(arguments[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    raise TypeError(f"wanted a type that JSON has, found {kind}")


def _attributes(docstring: str) -> dict[str, str]:
    """The sentence on each attribute of a docstring, on one line."""
    block = docstring.partition("Attributes:\n")[2]
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", block, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
