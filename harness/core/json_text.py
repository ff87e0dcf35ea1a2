"""JSON as every file of it is read, and files of it that end with a digest of their own content.

JSON says nothing of a key that is there twice, and Python keeps the last one: a key
that is appended to an object would replace the one that was measured. Such text is
refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import write_atomically

SEAL_KEY = "sha256"
LAST_KEY = f',\n "{SEAL_KEY}": "'  # between the content of a sealed file and its digest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which each key is there once."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return made


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


# Made once: to make one takes as long as to read a record.
_FINITE = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
_ANY_NUMBER = json.JSONDecoder(object_pairs_hook=_object)


def parse_json(
    text: str | bytes,
    *,
    finite: bool = True,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a text of JSON.

    Args:
        text: The text; bytes are UTF-8.
        finite: Whether NaN and Infinity, which are no JSON, are refused; Python writes
            them, and files of other programs hold them.
        parse_float: What makes a number of its digits; by default `float`.

    Raises:
        ValueError: The text is no JSON, an object has a key twice, or brackets are
            nested deeper than Python's parser goes.
    """
    decoder = _FINITE if finite else _ANY_NUMBER
    if parse_float is not None:
        decoder = json.JSONDecoder(
            object_pairs_hook=_object,
            parse_constant=_no_number if finite else parse_float,
            parse_float=parse_float,
        )
    try:
        return decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def sealed(name: str, text: str) -> str:
    """The text of a JSON object with a seal as its last key, and a line break at its end.

    The seal is the sha256 of the name of its file, a line break, and all that is before
    it. So the content of one file is refused in the place of another.
    """
    body = text.rstrip().removesuffix("}").rstrip()
    digest = hashlib.sha256(f"{name}\n{body}".encode()).hexdigest()
    return f'{body}{LAST_KEY}{digest}"\n}}\n'


def write_sealed(
    path: Path, content: Mapping[str, Any], *, sort_keys: bool = False
) -> None:
    """Write an object as JSON that ends with its seal; a file that has this content stays."""
    text = json.dumps(
        content, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )
    data = sealed(path.name, text).encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)


def parse_sealed(path: Path, text: str) -> dict[str, Any]:
    """The content of a sealed file without its seal.

    Raises DataError, which names the file, for text that has changed since it was
    sealed.
    """
    body = text.rpartition(LAST_KEY)[0]
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
