"""Similarity functions other than the cosine: dot product, negative distances.

A record holds the correlations of gold with each of them, under mteb's names
(`dot_spearman`, `euclidean_pearson`); correlations of cosines are `spearman` and
`pearson` alone. Distances are negative, as in SentEval and mteb, so that a higher value
means more similar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from harness.core.arrays import Float, Float64

COSINE = "cosine"
CORRELATIONS = ("spearman", "pearson")

PAIRS_AT_A_TIME = (
    512  # pairs at a time: the differences of all of them may not fit in memory
)

Vectors = Float[np.ndarray, "P K"]
Similarity = Callable[[Vectors, Vectors], Float64[np.ndarray, " P"]]


def dot(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, " P"]:
    """The dot product of each pair."""
    return np.einsum("pk,pk->p", a, b)


def euclidean(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, " P"]:
    """The negative Euclidean distance of each pair."""
    return -np.sqrt(np.square(a - b).sum(axis=1))


def manhattan(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, " P"]:
    """The negative Manhattan distance of each pair: the sum of absolute differences."""
    return -np.abs(a - b).sum(axis=1)


SIMILARITIES: Mapping[str, Similarity] = {
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}


def score_name(similarity: str, correlation: str) -> str:
    """The name of a correlation in a record: `spearman` of cosines, else `euclidean_spearman`."""
    return correlation if similarity == COSINE else f"{similarity}_{correlation}"


# Every correlation of a record by its name: its similarity function and its
# correlation.
CORRELATION_SCORES: Mapping[str, tuple[str, str]] = {
    score_name(similarity, correlation): (similarity, correlation)
    for similarity in (COSINE, *SIMILARITIES)
    for correlation in CORRELATIONS
}
# Those of other similarity functions than the cosine; the first records lack them.
OTHER_SCORES = tuple(CORRELATION_SCORES)[len(CORRELATIONS) :]


def scaled_similarities(
    name: str, a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, " P"]:
    """The similarity of each pair in float64, over the power of two that brings it into [-1, 1].

    No correlation changes by that. It makes rounding to decimals, by which equal pairs
    tie, relative to the largest value.
    """
    function = SIMILARITIES[name]
    starts = range(0, len(a), PAIRS_AT_A_TIME)
    blocks = [
        function(
            a[start : start + PAIRS_AT_A_TIME].astype(np.float64),
            b[start : start + PAIRS_AT_A_TIME].astype(np.float64),
        )
        for start in starts
    ]
    values = np.concatenate(blocks) if blocks else np.zeros(0)
    _, exponent = np.frexp(np.abs(values).max(initial=0.0))
    return np.ldexp(values, -exponent)
