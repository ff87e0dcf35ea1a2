"""Requirements of contracts on numbers, errors and arrays.

Each function raises AssertionError if its requirement does not hold, in one line that
says what was wanted and what was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from harness.core.arrays import is_plain_array, read_only
from harness.core.errors import HarnessError, first_line

MAX_FINDING = 200  # characters of a finding in a message


def require(condition: bool, requirement: str, finding: object) -> None:
    """Raise AssertionError, `wanted REQUIREMENT, found FINDING`, unless a condition holds."""
    if not condition:
        finding_in_one_line = " ".join(str(finding).split())
        raise AssertionError(
            f"wanted {requirement}, found {finding_in_one_line[:MAX_FINDING]}"
        )


def require_equal(value: object, expected_value: object, description: str) -> None:
    """Raise AssertionError unless a value is as expected; `description` says what it is."""
    require(value == expected_value, f"{description} {expected_value}", value)


def require_close(
    numbers: Any,
    expected_numbers: Any,
    requirement: str,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Raise AssertionError unless the numbers of two arrays agree; without a tolerance, exactly.

    Args:
        numbers: The numbers to test.
        expected_numbers: The numbers that they should be.
        requirement: What is wanted of them, for the message.
        rtol: The allowed difference as a share of each expected number.
        atol: The allowed difference in addition to that.
    """
    for x in (numbers, expected_numbers):
        require_real_array(x, requirement)
    require(
        numbers.shape == expected_numbers.shape,
        f"{requirement} of shape {expected_numbers.shape}",
        numbers.shape,
    )
    numbers = numbers.astype(np.float64)
    expected_numbers = expected_numbers.astype(np.float64)
    difference = np.abs(numbers - expected_numbers)
    # The comparison is false for NaN, which is never close.
    is_close = difference <= atol + rtol * np.abs(expected_numbers)
    if not is_close.all():
        row = np.unravel_index(int(is_close.argmin()), is_close.shape)[0]
        raise AssertionError(
            f"wanted {requirement}, found {difference.max():.3g} between them, first in row {row}"
        )


def require_real_array(x: Any, description: str) -> None:
    """Raise AssertionError unless a value is an array of NumPy that holds real numbers."""
    finding = f"an array of {x.dtype}" if is_plain_array(x) else type(x).__name__
    is_real = is_plain_array(x) and x.dtype.kind in "fiub"
    require(is_real, f"{description} as an array of real numbers", finding)


def require_finite(x: Any, description: str) -> None:
    """Raise AssertionError unless all numbers of an array are finite."""
    require_real_array(x, description)
    is_finite = np.isfinite(x)
    if not is_finite.all():
        row = np.unravel_index(int(is_finite.argmin()), is_finite.shape)[0]
        raise AssertionError(
            f"wanted {description} that are finite, found another in row {row}"
        )


@contextmanager
def refused(error_type: type[HarnessError], *words: str) -> Iterator[None]:
    """Context whose code has to raise an error of this type, in one line with these words."""
    requirement = f"{error_type.__name__}, in one line"
    if words:
        requirement += f" with {' and '.join(words)}"
    try:
        yield
    except error_type as refusal:
        require_one_line(refusal, *words)
    except Exception as error:  # the code of a plug-in may raise anything
        raise AssertionError(
            f"wanted {requirement}, {describe_error(error)}"
        ) from error
    else:
        raise AssertionError(f"wanted {requirement}, found no error")


def require_one_line(error: Exception, *words: str) -> None:
    """Raise AssertionError unless the message of an error is one line with these words."""
    text = str(error)
    require(bool(text), "a line that says why", "none")
    require("\n" not in text, "one line", repr(text))
    require(all(word in text for word in words), " and ".join(words), repr(text))


@contextmanager
def untouched(*shared_arrays: np.ndarray) -> Iterator[None]:
    """Context whose code may not write into these arrays, as cells share them."""
    copies = [read_only(x).copy() for x in shared_arrays]
    yield
    # Some libraries write into arrays that are read-only.
    for x, copy in zip(shared_arrays, copies, strict=True):
        require(
            np.array_equal(x, copy), "a shared array as it was", "other numbers in it"
        )


def describe_error(error: BaseException) -> str:
    """The first line of an error, with its type unless a contract or the harness raised it."""
    line = first_line(error)
    if not line:
        return f"found {type(error).__name__}"
    if isinstance(error, HarnessError):
        return line
    if isinstance(error, AssertionError):
        return line
    return f"found {type(error).__name__}: {line}"
