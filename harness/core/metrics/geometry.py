"""Alignment and uniformity of a task's vectors on the unit sphere (Wang and Isola 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Float, Float32, Float64, Int

PRODUCT_ROWS = 512  # rows of the product of all pairs at a time


def alignment_uniformity(
    vectors: Float[np.ndarray, "N K"],
    a: Int[np.ndarray, " P"],
    b: Int[np.ndarray, " P"],
    positive: Sequence[bool] | np.ndarray,
) -> dict[str, float | None]:
    """Alignment and uniformity on the unit sphere, as SimCSE uses them.

    Alignment is the mean squared distance of the positive pairs. Uniformity is the log
    of the mean of exp(-2 d^2) over all pairs of sentences, repetitions included. Lower
    is better. None where undefined.

    Args:
        vectors: The vectors of the distinct sentences.
        a: The row of each pair's first sentence.
        b: The row of each pair's second sentence.
        positive: Whether each pair is positive.
    """
    vectors = vectors.astype(np.float64, copy=False)
    norms = np.sqrt(np.einsum("nk,nk->n", vectors, vectors))[:, None]
    if (norms == 0).any():
        return {"alignment": None, "uniformity": None}
    unit = vectors / norms
    gaps = unit[a[positive]] - unit[b[positive]]
    alignment = None
    if len(gaps):
        alignment = float(np.einsum("pk,pk->p", gaps, gaps).mean())
    repeats = np.bincount(np.concatenate([a, b]), minlength=len(unit))
    uniformity = _uniformity(unit.astype(np.float32), repeats.astype(np.float64))
    return {"alignment": alignment, "uniformity": uniformity}


def _uniformity(
    unit: Float32[np.ndarray, "N K"], repeats: Float64[np.ndarray, " N"]
) -> float | None:
    """log E exp(-2 |f(x) - f(y)|^2) over unordered pairs of sentences.

    `repeats` is the number of times that each sentence occurs.
    """
    total = 0.0  # of exp(4 u.v) over all ordered pairs, a sentence with itself included
    weights = repeats.astype(np.float32)
    for start in range(0, len(unit), PRODUCT_ROWS):
        rows = unit[start : start + PRODUCT_ROWS]
        # On the sphere exp(-2 |u - v|^2) = exp(4 u.v) / exp(4). The matrix is
        # symmetric, so that only its later blocks are computed.
        kernel = (4 * rows) @ unit[start:].T
        np.exp(kernel, out=kernel)
        row_weights = weights[start : start + PRODUCT_ROWS]
        with_later_rows = float(row_weights @ (kernel @ weights[start:]))
        within_block = float(row_weights @ (kernel[:, : len(rows)] @ row_weights))
        total += 2 * with_later_rows - within_block
    with_itself = float(repeats @ np.exp(4.0 * np.einsum("nk,nk->n", unit, unit)))
    total -= with_itself
    if total <= 0:  # there is no pair
        return None
    sentence_count = repeats.sum()
    pair_count = sentence_count * (sentence_count - 1)
    return float(np.log(total / pair_count)) - 4.0
