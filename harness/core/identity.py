"""The identity of a configuration: the text of its settings, which records hold.

A setting at its default is left out, so that a new setting with a default changes no
identity. docs/identity.md describes the identity of a measured cell, and what makes a
result stale.
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

# The metadata of a field that is left out of identities: a remark, the source of files
# and their checks, and settings that change a score by rounding alone.
NOT_IN_IDENTITY: Mapping[str, Any] = {"identity": False}

# Types whose values differ wherever their `repr` does.
PLAIN_TYPES = (type(None), bool, int, float, str)


def identity_text(value: Any, always_written: Collection[str] = ()) -> str:
    """The text of a value's settings, as one would write it in Python.

    A dataclass is written as the call that makes it, without fields that have the
    metadata `NOT_IN_IDENTITY` or take no part in equality, and without settings at
    their default. Only for a class of a plug-in all settings are written, since its
    defaults may change unnoticed.

    Args:
        value: A frozen dataclass, or a setting of one.
        always_written: The names of settings that are written even at their default,
            for digests that are older than the rule that leaves them out.

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
            items = [identity_text(item, always_written) for item in value]
            comma = "," if len(items) == 1 else ""  # as Python writes a tuple of one
            return f"({', '.join(items)}{comma})"
        case set() | frozenset():
            items = [identity_text(item, always_written) for item in value]
            return f"{{{', '.join(sorted(items))}}}"
        case Mapping():
            items = []
            for key, item in value.items():
                items.append(
                    f"{identity_text(key)}: {identity_text(item, always_written)}"
                )
            return f"{{{', '.join(sorted(items))}}}"
    if _has_unique_name(value):
        return f"{value.__module__}.{value.__qualname__}"
    if not is_dataclass(value):
        return repr(value)
    kind: Any = type(value)
    is_of_plugin = any(plugin.defines(kind) for plugin in PLUGINS.values())
    arguments = []
    for name, default in _defaults(kind).items():
        setting = identity_text(getattr(value, name), always_written)
        if is_of_plugin or name in always_written or setting != default:
            arguments.append(f"{name}={setting}")
    return f"{kind.__name__}({', '.join(arguments)})"


def identity_digest(value: object) -> str:
    """The sha256 of a value's identity."""
    return hashlib.sha256(identity_text(value).encode()).hexdigest()


def describes(text: str, configuration: object) -> bool:
    """Whether a text is the identity of a configuration, in this or an earlier version.

    Earlier versions of the harness wrote every setting, and they lacked settings that
    are new. So a setting in the text must have its present value, and a setting that is
    not in the text must be at its default. For some values of its settings a class may
    have had another name (`FORMER_NAMES`, as in baselines/flow.py).
    """
    if text == identity_text(configuration):
        return True
    try:
        return _agrees(_parsed(text), configuration)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # the text is no identity


def _parsed(text: str) -> ast.expr:
    """A text as an expression of Python, which is not evaluated."""
    return ast.parse(text, mode="eval").body


def _agrees(node: ast.expr, value: object) -> bool:
    """Whether a parsed identity, or a part of one, is the identity of a value."""
    if isinstance(value, tuple | list):
        if not isinstance(node, ast.Tuple) or len(node.elts) != len(value):
            return False
        return all(map(_agrees, node.elts, value))
    if not is_dataclass(value) or isinstance(value, type):
        return ast.unparse(node) == ast.unparse(_parsed(identity_text(value)))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.args:
        return False
    written_settings = {argument.arg: argument.value for argument in node.keywords}
    return _settings_agree(node.func.id, written_settings, value)


def _settings_agree(
    class_name: str, written_settings: dict[str | None, ast.expr], value: Any
) -> bool:
    """Whether a dataclass has the settings that an identity writes or implies."""
    kind: Any = type(value)
    implied_settings: Mapping[str, object] = {}
    if class_name != kind.__name__:
        former_names = getattr(kind, "FORMER_NAMES", {})
        if class_name not in former_names:
            return False
        implied_settings = former_names[class_name]
    settings = _defaults(kind)
    for name, default in settings.items():
        setting = getattr(value, name)
        if name in written_settings:
            is_same = _agrees(written_settings[name], setting)
        elif name in implied_settings:
            is_same = setting == implied_settings[name]
        else:
            is_same = identity_text(setting) == default
        if not is_same:
            return False
    return written_settings.keys() <= settings.keys()


@cache
def _defaults(kind: Any) -> Mapping[str, str | None]:
    """The identity of the default of each setting of a dataclass; None without a default.

    Defaults are compared as texts, in which 1, 1.0 and True differ.
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


def _has_unique_name(value: Any) -> bool:
    """Whether a value is a class or function that no other has the module and name of.

    A function that is defined in another one, or bound to an object, has no such name.
    Its `repr` is written, whose address is in no stored result.
    """
    name = getattr(value, "__qualname__", None)
    if name is None or "<" in name:  # `<locals>`, `<lambda>`
        return False
    owner = getattr(value, "__self__", None)  # of a built-in function its module
    return owner is None or isinstance(owner, ModuleType)
