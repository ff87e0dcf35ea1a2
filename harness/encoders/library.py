"""Errors of the libraries that open models, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
