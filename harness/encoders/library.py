"""What the libraries that open models do otherwise: long errors, and splitting at random."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, HarnessError, first_line, is_library_error


@contextmanager
def library_errors(wanted: str, remedy: str) -> Iterator[None]:
    """Context whose errors of a library become a DataError of one line.

    Args:
        wanted: What the library was to do: `bert: wanted ...`.
        remedy: What the user can do.
    """
    try:
        yield
    except HarnessError:
        raise
    except BaseException as error:  # of any class, and tokenizers panics
        if not is_library_error(error):
            raise
        reason = first_line(error) or type(error).__name__
        raise DataError(f"{wanted}, found: {reason}; {remedy}") from error


def require_no_sampling(file: Path, tokenizer: Any) -> None:
    """Refuse a `tokenizers.Tokenizer` that splits a text at random, by dropout of byte pairs."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise DataError(
            f"{file}: dropout = {dropout:g} splits a text at random, and a text is encoded once; "
            "set dropout to null"
        )
