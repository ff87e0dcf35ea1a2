"""What contracts require of numbers, errors and arrays.

Each function raises AssertionError, in one line that says what was wanted and what was
found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from harness.core.arrays import read_only
from harness.core.errors import HarnessError

FOUND_CHARACTERS = 200  # of what was found, in a message


def require(holds: bool, wanted: str, found: object) -> None:
    """Raise AssertionError unless a condition holds; the message says `wanted` and `found`."""
    if not holds:
        found_in_one_line = " ".join(str(found).split())
        raise AssertionError(
            f"wanted {wanted}, found {found_in_one_line[:FOUND_CHARACTERS]}"
        )


def require_equal(found: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless two values are equal; `what` names them in the message."""
    require(found == wanted, f"{what} {wanted}", found)


def require_close(
    found: np.ndarray,
    wanted: np.ndarray,
    what: str,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Raise AssertionError unless the numbers of two arrays agree; without a tolerance, exactly.

    `what` names the numbers in the message.
    """
    require(found.shape == wanted.shape, f"{what} of shape {wanted.shape}", found.shape)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    difference = np.abs(found - wanted)
    is_close = difference <= atol + rtol * np.abs(wanted)  # never true of a NaN
    if not is_close.all():
        row = np.unravel_index(int(is_close.argmin()), is_close.shape)[0]
        raise AssertionError(
            f"wanted {what}, found {difference.max():.3g} between them, first in row {row}"
        )


def require_finite(x: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all numbers of an array are finite."""
    is_finite = np.isfinite(x)
    if not is_finite.all():
        row = np.unravel_index(int(is_finite.argmin()), is_finite.shape)[0]
        raise AssertionError(
            f"wanted {what} that are finite, found another in row {row}"
        )


@contextmanager
def refused(kind: type[HarnessError], *words: str) -> Iterator[None]:
    """Context in which an error of this kind must be raised: in one line, with these words."""
    wanted = f"{kind.__name__}, in one line"
    if words:
        wanted += f" with {' and '.join(words)}"
    try:
        yield
    except kind as refusal:
        require_one_line(refusal, *words)
    except Exception as error:
        raise AssertionError(f"wanted {wanted}, {found_in(error)}") from error
    else:
        raise AssertionError(f"wanted {wanted}, found no error")


def require_one_line(error: Exception, *words: str) -> None:
    """Raise AssertionError unless an error is one line that holds these words."""
    text = str(error)
    require(bool(text), "a line that says why", "none")
    require("\n" not in text, "one line", repr(text))
    require(all(word in text for word in words), " and ".join(words), repr(text))


@contextmanager
def untouched(*shared: np.ndarray) -> Iterator[None]:
    """Context in which nothing may be written into these arrays, since cells share such arrays."""
    copies = [read_only(x).copy() for x in shared]
    yield
    # Some libraries write into arrays that are read-only.
    for x, copy in zip(shared, copies, strict=True):
        require(
            np.array_equal(x, copy), "a shared array as it was", "other numbers in it"
        )


def found_in(error: BaseException) -> str:
    """The first line of an error, with its type unless a contract or the harness raised it."""
    lines = str(error).splitlines()
    line = lines[0] if lines else ""
    if isinstance(error, HarnessError) or (isinstance(error, AssertionError) and line):
        return line
    if not line:
        return f"found {type(error).__name__}"
    return f"found {type(error).__name__}: {line}"
