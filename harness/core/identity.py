"""The identity of a configuration: the text of its settings, which records hold.

A setting at its default is left out, so that a new setting with a default changes no
identity. docs/identity.md describes the identity of a measured cell, and what makes a
result stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

# The metadata of a field that is left out of identities: a remark, the source of files
# and their checks, and settings that change a score by rounding alone.
NOT_IN_IDENTITY: Mapping[str, Any] = {"identity": False}


def identity_text(value: Any, always_written: Collection[str] = ()) -> str:
    """The text of a value's settings, as one would write it in Python.

    A dataclass is written as the call that makes it, without fields that have the
    metadata `NOT_IN_IDENTITY` or take no part in equality, and without settings at
    their default.

    Args:
        value: A frozen dataclass, or a setting of one.
        always_written: The names of settings that are written even at their default,
            for digests that are older than the rule that leaves them out.

    Examples:
        >>> from harness.transforms.pooling import MEAN
        >>> identity_text(MEAN)
        "Mean(name='mean', layers=(-1,))"
    """
    if isinstance(value, tuple | list):
        items = [identity_text(item, always_written) for item in value]
        comma = "," if len(items) == 1 else ""  # as Python writes a tuple of one
        return f"({', '.join(items)}{comma})"
    if isinstance(value, np.ndarray):  # whose repr leaves numbers out
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"array({value.dtype}, {value.shape}, {digest})"
    if _has_unique_name(value):
        return f"{value.__module__}.{value.__qualname__}"
    if not is_dataclass(value):
        return repr(value)
    kind: Any = type(value)
    arguments = []
    for name, default in _defaults(kind).items():
        setting = identity_text(getattr(value, name), always_written)
        if name in always_written or setting != default:
            arguments.append(f"{name}={setting}")
    return f"{kind.__name__}({', '.join(arguments)})"


def identity_digest(value: object) -> str:
    """The sha256 of a value's identity."""
    return hashlib.sha256(identity_text(value).encode()).hexdigest()


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
    """Whether a value is a class, or a function that is defined at the top of a module.

    Of any other function the `repr` is written, whose address is in no stored result.
    """
    name = getattr(value, "__qualname__", "<")
    owner = getattr(value, "__self__", None)  # of a built-in function its module
    return "<" not in name and (owner is None or isinstance(owner, ModuleType))
