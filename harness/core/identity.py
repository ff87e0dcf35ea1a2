"""The identity of a configuration: the text of its settings, by which results know it again.

A setting at its default is left out, so that a new setting with a default changes no
identity. What is then in the identity of a measured cell, and what makes a result
stale, says docs/identity.md.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np

from harness.core.provenance import PLUGINS

# Metadata of a field that is in no identity: what is only said of a method, where its
# files come from, how they are checked, and what moves a score by no more than
# rounding.
NOT_IN_IDENTITY: Mapping[str, Any] = {"identity": False}

PLAIN_TYPES = (
    type(None),
    bool,
    int,
    float,
    str,
)  # types whose `repr` says all of a value


def identity_text(value: Any, written: Collection[str] = ()) -> str:
    """The text of a value's settings, as one would write it in Python.

    A dataclass is written as the call that makes it. Left out are fields with the
    metadata `NOT_IN_IDENTITY`, fields that equality leaves out, and settings at their
    default. A plug-in's classes are written with all their settings: no test holds its
    defaults in place.

    Args:
        value: A frozen dataclass, or a setting of one.
        written: The names of settings that are written at their default, too: for
            digests that are older than the rule that leaves them out.

    Examples:
        >>> from harness.transforms.pooling import MEAN
        >>> identity_text(MEAN)
        "Mean(name='mean', layers=(-1,))"
    """
    if type(value) in PLAIN_TYPES:
        return repr(value)
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case PurePath():
            return repr(str(value))
        case np.generic():
            return repr(value.item())
        case np.ndarray():
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            return f"array({value.dtype}, {value.shape}, {digest})"
        case tuple() | list():
            items = [identity_text(item, written) for item in value]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        case set() | frozenset():
            return f"{{{', '.join(sorted(identity_text(item, written) for item in value))}}}"
        case Mapping():
            items = [
                f"{identity_text(k)}: {identity_text(v, written)}"
                for k, v in value.items()
            ]
            return f"{{{', '.join(sorted(items))}}}"
    if _has_a_name(value):
        return f"{value.__module__}.{value.__qualname__}"
    if not is_dataclass(value):
        return repr(value)
    kind: Any = type(value)
    in_full = any(plugin.defines(kind) for plugin in PLUGINS.values())
    arguments = []
    for name, default in _defaults(kind).items():
        setting = identity_text(getattr(value, name), written)
        if in_full or name in written or setting != default:
            arguments.append(f"{name}={setting}")
    return f"{kind.__name__}({', '.join(arguments)})"


def identity_digest(value: object) -> str:
    """The sha256 of a value's identity."""
    return hashlib.sha256(identity_text(value).encode()).hexdigest()


def describes(text: str, configuration: object) -> bool:
    """Whether an identity is that of a configuration, whichever version of the harness wrote it.

    Earlier versions wrote every setting, and a setting may be newer than the text: what
    the text names must be as it is now, and what it does not name must be at its
    default. A class may tell the names that it had for some of its settings
    (`FORMER_NAMES`, as in baselines/flow.py).
    """
    if text == identity_text(configuration):
        return True
    try:
        return _agrees(_parsed(text), configuration)
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # no text of settings
        return False


def _parsed(text: str) -> ast.expr:
    """A text as an expression of Python; nothing of it is evaluated."""
    return ast.parse(text, mode="eval").body


def _agrees(node: ast.expr, value: object) -> bool:
    """Whether a parsed identity, or a part of one, is that of a value."""
    if isinstance(value, tuple | list):
        parts = node.elts if isinstance(node, ast.Tuple) else None
        return (
            parts is not None
            and len(parts) == len(value)
            and all(
                _agrees(part, item) for part, item in zip(parts, value, strict=True)
            )
        )
    if not is_dataclass(value) or isinstance(value, type):
        return ast.unparse(node) == ast.unparse(_parsed(identity_text(value)))
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    former_name = node.func.id
    implied: Mapping[str, object] | None = {}
    if former_name != type(value).__name__:
        implied = getattr(type(value), "FORMER_NAMES", {}).get(former_name)
    if implied is None:
        return False
    named = {argument.arg: argument.value for argument in node.keywords}
    for name, default in _defaults(type(value)).items():
        setting = getattr(value, name)
        if name in named:
            same = _agrees(named.pop(name), setting)
        elif name in implied:
            same = setting == implied[name]
        else:
            same = identity_text(setting) == default
        if not same:
            return False
    return not named and not node.args


@cache
def _defaults(kind: Any) -> Mapping[str, str | None]:
    """The settings of a dataclass, in their order, with the text of their default; None for none.

    Defaults are compared by their text, in which 1, 1.0 and True differ.
    """
    defaults: dict[str, str | None] = {}
    for field in fields(kind):
        if field.compare and field.metadata.get("identity", True):
            defaults[field.name] = None
            if field.default is not MISSING:
                defaults[field.name] = identity_text(field.default)
            elif field.default_factory is not MISSING:
                defaults[field.name] = identity_text(field.default_factory())
    return defaults


def _has_a_name(value: Any) -> bool:
    """Whether a value is a class or function that its module and name tell from all others.

    Not a function that is made in another one or bound to an object: it is written as
    its `repr`, whose address keeps any stored result from being taken for that of
    another function.
    """
    bound_to = getattr(value, "__self__", None)
    name = getattr(value, "__qualname__", "<")
    return "<" not in name and (bound_to is None or isinstance(bound_to, ModuleType))
