"""JSON: how files are read, and sealed files, which end with a digest of their content.

The standard allows an object with the same key twice, of which Python keeps the last
one. A key that is appended to a file would then replace what was measured, so that such
text is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import write_atomically

SEAL_KEY = "sha256"
# The text between the content of a sealed file and its digest.
SEAL_START = f',\n "{SEAL_KEY}": "'


# Reading


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


# Sealed files


def sealed(name: str, text: str) -> str:
    """The text of a JSON object with a seal as its last key, and a line break at its end.

    The seal is the sha256 of the name of the file, a line break, and the text before
    the seal. With the name in it, no file can take the place of another.
    """
    body = text.rstrip().removesuffix("}").rstrip()
    digest = hashlib.sha256(f"{name}\n{body}".encode()).hexdigest()
    return f'{body}{SEAL_START}{digest}"\n}}\n'


def write_sealed(
    path: Path, content: Mapping[str, Any], *, sort_keys: bool = False
) -> None:
    """Write an object as a sealed file, unless the file has this content already."""
    text = json.dumps(
        content, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )
    data = sealed(path.name, text).encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)


def parse_sealed(path: Path, text: str) -> dict[str, Any]:
    """The content of a sealed file, without the seal.

    Raises DataError for a text that has changed since it was sealed.
    """
    body = text.rpartition(SEAL_START)[0]
    try:
        if not body or sealed(path.name, f"{body}}}") != text:
            raise ValueError(
                f"its last key is not the {SEAL_KEY} of its name and what is before it"
            )
        content: dict[str, Any] = parse_json(text)
    except ValueError as error:
        raise DataError(
            f"{path}: wanted a file as it was written, found another ({error}); restore it, "
            "or delete it and measure again"
        ) from None
    del content[SEAL_KEY]
    return content
