"""Batches of texts of similar length, and what a token costs an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
