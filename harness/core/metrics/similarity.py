"""The cosine of each pair of vectors, which most metrics score."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Float, Float64, Int
from harness.core.errors import ScoreError

# Cosines that differ by rounding alone must tie: STS12 holds 61 identical and 194 repeated pairs.
TIE_DECIMALS = 10

BLOCK = 512  # pairs at a time, so that their vectors stay in the processor's cache


def cosine(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """Cosine of each pair, in float64, and how many pairs hold a zero vector.

    A zero vector has no direction; its cosine counts as 0, as in SentEval, and is reported.
    Raises ScoreError for a value that is not finite.
    """
    pairs = np.arange(len(a))
    return pair_cosines(np.concatenate([a, b]), pairs, pairs + len(a))


def pair_cosines(
    vectors: Float[np.ndarray, "N K"], a: Int[np.ndarray, " P"], b: Int[np.ndarray, " P"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """Cosines of pairs of rows of a matrix, as `cosine` gives them."""
    vectors = vectors.astype(np.float64, copy=False)
    products = np.empty(len(a))
    with np.errstate(invalid="ignore", over="ignore"):  # refused below, by number
        squares = np.einsum("nk,nk->n", vectors, vectors)
        norms = np.sqrt(squares[a] * squares[b])
        for some in (slice(start, start + BLOCK) for start in range(0, len(a), BLOCK)):
            products[some] = np.einsum("pk,pk->p", vectors[a[some]], vectors[b[some]])
    if not np.isfinite(norms).all():
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise ScoreError(f"pair {bad + 1}: a vector to score is not finite")
    zero = norms == 0
    values = products / np.where(zero, 1.0, norms)
    return np.where(zero, 0.0, np.clip(values, -1.0, 1.0)), int(zero.sum())


def directions(vectors: Float[np.ndarray, "... K"]) -> Float64[np.ndarray, "... K"]:
    """Vectors of length 1 in float64; a zero vector has no direction and stays."""
    vectors = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(norms == 0, 1.0, norms)
