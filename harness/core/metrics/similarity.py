"""Similarity functions other than the cosine: dot product, negative distances.

A record has the correlation of gold with each of them, under mteb's names
(`dot_spearman`, `euclidean_pearson`); correlations of cosines are called `spearman` and
`pearson`. Distances are negative, as in SentEval and mteb, so that a higher value means
more similar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from harness.core.arrays import Float, Float64

COSINE = "cosine"
CORRELATIONS = ("spearman", "pearson")

# The differences of all pairs at once may not fit in memory.
PAIRS_AT_A_TIME = 512

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
    """The name of a correlation in a record: `spearman` for cosines, `euclidean_spearman`."""
    return correlation if similarity == COSINE else f"{similarity}_{correlation}"


# The similarity function and the correlation of each score of a record, by its name.
CORRELATION_SCORES: Mapping[str, tuple[str, str]] = {
    score_name(similarity, correlation): (similarity, correlation)
    for similarity in (COSINE, *SIMILARITIES)
    for correlation in CORRELATIONS
}
# The scores of other similarity functions than the cosine, which old records do not have.
OTHER_SCORES = tuple(CORRELATION_SCORES)[len(CORRELATIONS) :]


def similarities(
    name: str, a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, " P"]:
    """The similarity of each pair, in float64."""
    similarity = SIMILARITIES[name]
    values = np.empty(len(a))
    for start in range(0, len(a), PAIRS_AT_A_TIME):
        block = slice(start, start + PAIRS_AT_A_TIME)
        values[block] = similarity(
            a[block].astype(np.float64), b[block].astype(np.float64)
        )
    return values
