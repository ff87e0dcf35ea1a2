"""JSON: how files are read and written.

The standard allows an object with the same key twice, of which Python keeps the last
one. A key that is appended to a file would then replace what was measured, so that such
text is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.core.files import write_atomically


def _object(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dictionary of an object. Raises ValueError for a key that is there twice."""
    content = dict(items)
    if len(content) < len(items):
        counts = Counter(key for key, _ in items)
        repeated_keys = [key for key, count in counts.items() if count > 1]
        raise ValueError(f"the key {repeated_keys[0]!r} is there twice")
    return content


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


# Decoders are made once, since making one takes as long as reading a record.
_FINITE_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant
)
_DECODER = json.JSONDecoder(object_pairs_hook=_object)


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
        ValueError: The text is no JSON, an object has a key twice, or brackets are
            nested too deep for Python's parser.
    """
    decoder = _FINITE_DECODER if finite else _DECODER
    if parse_float is not None:
        decoder = json.JSONDecoder(
            object_pairs_hook=_object,
            parse_constant=_refuse_constant if finite else parse_float,
            parse_float=parse_float,
        )
    try:
        return decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def write_json(
    path: Path, content: Mapping[str, Any], *, sort_keys: bool = False
) -> None:
    """Write an object, whole or not at all, unless the file has this content already."""
    text = json.dumps(
        content, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )
    data = f"{text}\n".encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
