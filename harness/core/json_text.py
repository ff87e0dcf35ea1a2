"""JSON: how files are read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.core.files import write_atomically


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


# Made once, since making a decoder takes as long as reading a record.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_json(
    text: str | bytes,
    *,
    finite: bool = True,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a text of JSON.

    Args:
        text: The text; bytes are UTF-8.
        finite: Whether NaN and Infinity are refused. The standard does not have them,
            but Python writes them, and files of other programs hold them.
        parse_float: Makes a number of its text; by default `float`.

    Raises:
        ValueError: The text is no JSON, or brackets are nested too deep for Python.
    """
    decoder = _DECODER
    if not finite or parse_float is not None:
        constant = _refuse_constant if finite else parse_float
        decoder = json.JSONDecoder(parse_constant=constant, parse_float=parse_float)
    try:
        return decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def write_json(
    path: Path, content: Mapping[str, Any] | list[Any], *, sort_keys: bool = False
) -> None:
    """Write an object or a list, whole or not at all, unless the file has this content already."""
    text = json.dumps(
        content, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )
    data = f"{text}\n".encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
