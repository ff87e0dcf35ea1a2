"""Draws that are the same on every machine and under every release of NumPy.

NumPy promises the raw bits of a generator for ever and what `random()` or `integers()` make of them
for one release (NEP 19). So only the bits are taken: the upper 53 of each 64 as a fraction.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

import numpy as np

Thing = TypeVar("Thing")

BLOCK = 1024  # words of the bit stream that are taken at once


class Dice:
    """A stream of choices, given by its seed."""

    def __init__(self, seed: int) -> None:
        # A number from 0 to below 1. Everything here asks for millions of them.
        self.unit: Callable[[], float] = _units(np.random.PCG64(seed)).__next__

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.unit() < probability

    def pick(self, things: Sequence[Thing]) -> Thing:
        """One of these, each as likely."""
        return things[int(self.unit() * len(things))]

    def zipf(self, things: Sequence[Thing]) -> Thing:
        """One of these, the n-th with a weight of 1/n (Zipf 1935)."""
        count = len(things)
        if count == 1:
            return things[0]
        sums = _harmonic(count)
        return things[bisect(sums, self.unit() * sums[-1])]

    def weighted(self, things: Sequence[tuple[Thing, int]]) -> Thing:
        """One of these by its weight."""
        left = self.unit() * sum([weight for _, weight in things])
        for thing, weight in things:
            left -= weight
            if left < 0:
                return thing
        return things[-1][0]


def _units(bits: np.random.PCG64) -> Iterator[float]:
    while True:
        yield from ((bits.random_raw(BLOCK) >> np.uint64(11)) * 2.0**-53).tolist()


@cache
def _harmonic(count: int) -> list[float]:
    return list(accumulate(1 / n for n in range(1, count + 1)))
