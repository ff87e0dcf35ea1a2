"""What a contract requires: each function raises AssertionError in one line of wanted and found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from harness.core.arrays import read_only
from harness.core.errors import HarnessError

FOUND_CHARACTERS = 200  # of what was found, in a message


def require(holds: bool, wanted: str, found: object) -> None:
    """Raise AssertionError, in one line, unless what a contract wants holds."""
    if not holds:
        told = " ".join(str(found).split())[:FOUND_CHARACTERS]
        raise AssertionError(f"wanted {wanted}, found {told}")


def require_equal(found: object, wanted: object, what: str) -> None:
    """Raise AssertionError unless two values are equal."""
    require(found == wanted, f"{what} {wanted}", found)


def require_close(
    found: np.ndarray,
    wanted: np.ndarray,
    what: str,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Raise AssertionError unless the numbers of two arrays agree; without a tolerance, exactly."""
    require(found.shape == wanted.shape, f"{what} of shape {wanted.shape}", found.shape)
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    gap = np.abs(found - wanted)
    apart = ~(gap <= atol + rtol * np.abs(wanted))  # a NaN is apart from everything
    if apart.any():
        row = np.unravel_index(int(apart.argmax()), apart.shape)[0]
        raise AssertionError(
            f"wanted {what}, found {gap.max():.3g} between them, first in row {row}"
        )


def require_finite(x: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all numbers of an array are finite."""
    finite = np.isfinite(x)
    if not finite.all():
        row = np.unravel_index(int(finite.argmin()), finite.shape)[0]
        raise AssertionError(
            f"wanted {what} that are finite, found another in row {row}"
        )


@contextmanager
def refused(kind: type[HarnessError], *words: str) -> Iterator[None]:
    """Context that must raise such an error: one line to act on, with these words."""
    wanted = f"{kind.__name__}, in one line" + (
        f" with {' and '.join(words)}" if words else ""
    )
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
    """Context in which nobody may write into these arrays, since cells share arrays like them."""
    copies = [x.copy() for x in map(read_only, shared)]
    yield
    for x, copy in zip(
        shared, copies, strict=True
    ):  # other libraries write in spite of the flag
        require(
            np.array_equal(x, copy), "a shared array as it was", "other numbers in it"
        )


def found_in(error: BaseException) -> str:
    """The first line of an error, with its type unless a contract or the harness raised it."""
    line = next(iter(str(error).splitlines()), "")
    if isinstance(error, HarnessError) or (isinstance(error, AssertionError) and line):
        return line
    return f"found {type(error).__name__}" + (f": {line}" if line else "")
