"""Correlation of similarity and graded gold: Spearman's and Pearson's, under every aggregation.

The main score is the correlation of the cosine. Correlations of dot product, Euclidean
and Manhattan distance are computed, too, but not for single groups.

The aggregation `all` is the correlation over all pairs of a year's subsets (SBERT,
SimCSE), `mean` is the mean of the subsets' correlations, and `wmean` their mean
weighted by the numbers of pairs (BERT-flow, BERT-whitening).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Bool, Float, Float64
from harness.core.metrics import TIE_DECIMALS, Metric, PairRows
from harness.core.metrics.similarity import (
    SIMILARITIES,
    scaled_similarities,
    score_name,
)
from harness.core.pairs import Pairs
from harness.core.types import AGGREGATIONS

# Similarities, and gold scores or their ranks -> a correlation, x100.
Correlation = Callable[[np.ndarray, np.ndarray], float | None]


@dataclass(frozen=True, eq=False)
class GoldColumn:
    """What similarities are correlated with: gold scores, or their ranks.

    Attributes:
        values: A number for each pair; a rank is among all pairs.
        values_by_subset: The numbers of the pairs of each subset; a rank is in the
            subset.
    """

    values: Float64[np.ndarray, " P"]
    values_by_subset: Mapping[str, Float64[np.ndarray, " p"]]


@dataclass(frozen=True, eq=False)
class Gold:
    """The gold of a task, made ready once for the correlations of every similarity function.

    Attributes:
        rows_of_subsets: Which pairs belong to each subset.
        scores: The gold scores.
        ranks: Their ranks.
    """

    rows_of_subsets: Mapping[str, Bool[np.ndarray, " P"]]
    scores: GoldColumn
    ranks: GoldColumn

    @classmethod
    def from_pairs(cls, pairs: Pairs) -> Gold:
        """The gold of pairs, with its ranks."""
        from scipy.stats import rankdata

        subset_of_pair = np.array(pairs.group)
        rows_of_subsets = {}
        scores = {}
        ranks = {}
        for name in dict.fromkeys(pairs.group):
            rows = subset_of_pair == name
            rows_of_subsets[name] = rows
            scores[name] = pairs.gold[rows]
            ranks[name] = rankdata(scores[name])
        return cls(
            rows_of_subsets=rows_of_subsets,
            scores=GoldColumn(values=pairs.gold, values_by_subset=scores),
            ranks=GoldColumn(values=rankdata(pairs.gold), values_by_subset=ranks),
        )


def aggregations(
    correlation: Correlation,
    similarities: Float64[np.ndarray, " P"],
    column: GoldColumn,
    rows_of_subsets: Mapping[str, Bool[np.ndarray, " P"]],
) -> dict[str, Any]:
    """A correlation under `all`, `mean` and `wmean`, and in every group.

    The means are None where the correlation in a group is.
    """
    groups = {
        name: correlation(similarities[rows], column.values_by_subset[name])
        for name, rows in rows_of_subsets.items()
    }
    sizes = [rows.sum() for rows in rows_of_subsets.values()]
    defined_scores = [score for score in groups.values() if score is not None]
    mean = weighted_mean = None
    if groups and len(defined_scores) == len(groups):
        mean = float(np.mean(defined_scores))
        weighted_mean = float(np.average(defined_scores, weights=sizes))
    return {
        "all": correlation(similarities, column.values),
        "mean": mean,
        "wmean": weighted_mean,
        "groups": groups,
    }


def spearman(
    x: Float64[np.ndarray, " P"], y: Float64[np.ndarray, " P"]
) -> float | None:
    """Spearman's rank correlation with mid-ranks for ties, x100; None if a column is constant."""
    from scipy.stats import rankdata

    return spearman_of_ranked(x, rankdata(y))


def spearman_of_ranked(
    x: Float64[np.ndarray, " P"], ranks: Float64[np.ndarray, " P"]
) -> float | None:
    """As `spearman`, of values and the ranks of the other column."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), ranks)


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
    """Both correlations of similarities and gold, under every aggregation."""
    return correlations_with(values, Gold.from_pairs(pairs))


def correlations_with(values: Float64[np.ndarray, " P"], gold: Gold) -> dict[str, Any]:
    """Both correlations of similarities and gold, under every aggregation.

    Similarities are rounded to ten decimals before they are ranked, so that equal pairs
    tie. They are not rounded for Pearson's correlation, since that would change it
    where all similarities are nearly equal.
    """
    ranked = np.round(values, TIE_DECIMALS)
    rows = gold.rows_of_subsets
    return {
        "spearman": aggregations(spearman_of_ranked, ranked, gold.ranks, rows),
        "pearson": aggregations(pearson_of_similarities, values, gold.scores, rows),
    }


def pearson_of_similarities(
    x: Float64[np.ndarray, " P"], gold: Float64[np.ndarray, " P"]
) -> float | None:
    """Pearson's correlation, x100; None if the similarities differ by rounding alone."""
    is_constant = len(x) > 0 and np.ptp(np.round(x, TIE_DECIMALS)) == 0
    return None if is_constant else pearson(x, gold)


def of_other_similarities(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, pairs: Pairs
) -> dict[str, Any]:
    """Both correlations of dot products and distances with gold, under every aggregation."""
    gold = Gold.from_pairs(pairs)
    a, b = vectors[scored.a], vectors[scored.b]
    scores: dict[str, Any] = {}
    for similarity in SIMILARITIES:
        values = scaled_similarities(similarity, a, b)
        for correlation, score in correlations_with(values, gold).items():
            aggregated = {
                aggregation: score[aggregation] for aggregation in AGGREGATIONS
            }
            scores[score_name(similarity, correlation)] = aggregated
    return scores


METRIC = Metric(
    name="correlation",
    score=correlations,
    of_vectors=of_other_similarities,
    rounded=False,
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
