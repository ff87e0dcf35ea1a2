"""Threads of linear algebra: with one, sums have one order on any number of cores."""

from __future__ import annotations

from functools import cache
from typing import Any


def one_blas_thread() -> Any:
    """Context in which NumPy and SciPy multiply and decompose matrices on one thread.

    On several, the order of a sum depends on how many there are, and with it the last digits of a
    fit or a score.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 - has a library of its own, found only where it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
