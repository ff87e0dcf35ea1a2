"""Batches of tokenised texts, and the arrays that their encodings are gathered in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from harness.core.interfaces import Encoding


class Batch(NamedTuple):
    """The rows of some texts, and their token ids."""

    rows: list[int]
    ids: list[list[int]]


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Row numbers, longest first, so many at a time as fit the budget of padded tokens.

    Longest first: what does not fit in memory fails at once, and an estimate errs on the safe side.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


def multiplications(depth: int, width: int) -> int:
    """Multiplications that a token takes, roughly: 12 matrices (width, width) in each layer."""
    return 12 * depth * width**2 + width


def arrays(encoding: Encoding) -> list[Any]:
    """The arrays of an encoding that it has."""
    kept = (encoding.mean, encoding.cls, encoding.pooler)
    return [array for array in kept if array is not None]


def blank(shape: Encoding, rows: int) -> Encoding:
    """An encoding of so many rows to write into, alike in all but their number."""

    def empty(array: Any) -> Any:
        return None if array is None else np.empty((rows, *array.shape[1:]), np.float32)

    return replace(shape, mean=empty(shape.mean), cls=empty(shape.cls), pooler=empty(shape.pooler))
