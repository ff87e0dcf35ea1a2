"""Correlation of similarity and graded gold: Spearman's and Pearson's, under every aggregation.

The main score is the correlation of the cosine. Correlations of dot product, negative
Euclidean and negative Manhattan distance are computed, too, but not for single groups. A
record has them under mteb's names (`dot_spearman`, `euclidean_pearson`), those of cosines
as `spearman` and `pearson`.

The aggregation `all` is the correlation over all pairs of a year's subsets (SBERT,
SimCSE), `mean` is the mean of the subsets' correlations, and `wmean` their mean
weighted by the numbers of pairs (BERT-flow, BERT-whitening).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.metrics import Metric, PairRows, tie_rounded
from harness.core.pairs import Pairs

CORRELATIONS = ("spearman", "pearson")
COSINE = "cosine"
SIMILARITIES = ("dot", "euclidean", "manhattan")  # the other similarity functions

# The differences of all pairs at once may not fit in memory.
PAIRS_AT_A_TIME = 512


def score_name(similarity: str, correlation: str) -> str:
    """The name of a correlation in a record: `spearman` for cosines, `euclidean_spearman`."""
    return correlation if similarity == COSINE else f"{similarity}_{correlation}"


# The similarity function and the correlation of each score of a record, by its name.
CORRELATION_SCORES: Mapping[str, tuple[str, str]] = {
    score_name(similarity, correlation): (similarity, correlation)
    for similarity in (COSINE, *SIMILARITIES)
    for correlation in CORRELATIONS
}

# Similarities and gold scores -> a correlation, x100.
Correlation = Callable[[np.ndarray, np.ndarray], float | None]


def spearman(
    x: Float64[np.ndarray, " P"], y: Float64[np.ndarray, " P"]
) -> float | None:
    """Spearman's rank correlation with mid-ranks for ties, x100; None if a column is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def pearson(x: Float64[np.ndarray, " P"], y: Float64[np.ndarray, " P"]) -> float | None:
    """Pearson's correlation, x100; None if a column is constant, or there is one pair or none."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x, y = _centred(x), _centred(y)
    return float(100 * np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def _centred(x: Float64[np.ndarray, " P"]) -> Float64[np.ndarray, " P"]:
    """The values less their mean, scaled so that squares cannot overflow.

    The scale is a power of two, so that no digit changes.
    """
    x = x - x.mean()
    return np.ldexp(x, -np.frexp(np.abs(x).max())[1])


def correlations(values: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, Any]:
    """Both correlations of similarities and gold, under every aggregation.

    Similarities are rounded before they are ranked, but not for Pearson's correlation,
    which that would change where all of them are nearly equal; where they differ by
    rounding alone, there is none.
    """

    def pearson_of_values(x: np.ndarray, gold: np.ndarray) -> float | None:
        is_constant = len(x) > 0 and np.ptp(tie_rounded(x)) == 0
        return None if is_constant else pearson(x, gold)

    return {
        "spearman": aggregations(spearman, tie_rounded(values), pairs),
        "pearson": aggregations(pearson_of_values, values, pairs),
    }


def aggregations(
    correlation: Correlation, similarities: Float64[np.ndarray, " P"], pairs: Pairs
) -> dict[str, Any]:
    """A correlation under `all`, `mean` and `wmean`, and in every group.

    The means are None where the correlation in a group is.
    """
    group_of_pair = np.array(pairs.group)
    groups: dict[str, float | None] = {}
    sizes: list[int] = []
    for name in dict.fromkeys(pairs.group):
        rows = np.flatnonzero(group_of_pair == name)
        groups[name] = correlation(similarities[rows], pairs.gold[rows])
        sizes.append(len(rows))
    defined_scores = [score for score in groups.values() if score is not None]
    mean = weighted_mean = None
    if groups and len(defined_scores) == len(groups):
        mean = float(np.mean(defined_scores))
        weighted_mean = float(np.average(defined_scores, weights=sizes))
    return {
        "all": correlation(similarities, pairs.gold),
        "mean": mean,
        "wmean": weighted_mean,
        "groups": groups,
    }


def of_other_similarities(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, pairs: Pairs
) -> dict[str, Any]:
    """Both correlations of dot products and distances with gold, under every aggregation."""
    values_by_name = {name: np.empty(len(scored.a)) for name in SIMILARITIES}
    for start in range(0, len(scored.a), PAIRS_AT_A_TIME):
        block = slice(start, start + PAIRS_AT_A_TIME)
        a = vectors[scored.a[block]].astype(np.float64)
        b = vectors[scored.b[block]].astype(np.float64)
        values_by_name["dot"][block] = np.einsum("pk,pk->p", a, b)
        values_by_name["euclidean"][block] = -np.sqrt(np.square(a - b).sum(axis=1))
        values_by_name["manhattan"][block] = -np.abs(a - b).sum(axis=1)
    scores: dict[str, Any] = {}
    for similarity, values in values_by_name.items():
        for correlation, score in correlations(values, pairs).items():
            del score["groups"]
            scores[score_name(similarity, correlation)] = score
    return scores


METRIC = Metric(
    name="correlation",
    score=correlations,
    of_vectors=of_other_similarities,
    main_score=("spearman", "all"),
    words={
        "spearman": "Spearman x100 of {} and gold",
        "pearson": "Pearson x100 of {} and gold",
        "dot_spearman": "Spearman x100 of dot product and gold",
        "dot_pearson": "Pearson x100 of dot product and gold",
        "euclidean_spearman": "Spearman x100 of negative Euclidean distance and gold",
        "euclidean_pearson": "Pearson x100 of negative Euclidean distance and gold",
        "manhattan_spearman": "Spearman x100 of negative Manhattan distance and gold",
        "manhattan_pearson": "Pearson x100 of negative Manhattan distance and gold",
    },
)
