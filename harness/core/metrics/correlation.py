"""Correlation of similarity and graded gold: Spearman's and Pearson's, under every aggregation.

The main score is that of the cosine. Correlations of dot product, Euclidean and
Manhattan distance are computed, too, but not for single groups.

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
from harness.core.types import AGGREGATIONS, Pairs

# Similarities, and gold scores or their ranks -> a correlation, x100.
Correlation = Callable[[np.ndarray, np.ndarray], float | None]


@dataclass(frozen=True, eq=False)
class GoldColumn:
    """What similarities are correlated with: gold scores, or their ranks.

    Attributes:
        of_all: One for each pair; ranks are those among all pairs.
        of_subsets: Those of the pairs of each subset; ranks are those in the subset.
    """

    of_all: Float64[np.ndarray, " P"]
    of_subsets: Mapping[str, Float64[np.ndarray, " p"]]


@dataclass(frozen=True, eq=False)
class Gold:
    """The gold of a task, made ready once for the correlations of every similarity function.

    Attributes:
        rows_of_subsets: Which pairs are those of each subset.
        scores: The gold scores.
        ranks: Their ranks.
    """

    rows_of_subsets: Mapping[str, Bool[np.ndarray, " P"]]
    scores: GoldColumn
    ranks: GoldColumn

    @classmethod
    def of_pairs(cls, pairs: Pairs) -> Gold:
        """The gold of pairs, with its ranks."""
        from scipy.stats import rankdata

        subset_of_pair = np.array(pairs.group)
        rows_of_subsets, scores, ranks = {}, {}, {}
        for name in dict.fromkeys(pairs.group):
            rows = subset_of_pair == name
            rows_of_subsets[name] = rows
            scores[name] = pairs.gold[rows]
            ranks[name] = rankdata(scores[name])
        return cls(
            rows_of_subsets=rows_of_subsets,
            scores=GoldColumn(of_all=pairs.gold, of_subsets=scores),
            ranks=GoldColumn(of_all=rankdata(pairs.gold), of_subsets=ranks),
        )


def aggregations(
    correlation: Correlation,
    values: Float64[np.ndarray, " P"],
    column: GoldColumn,
    rows_of_subsets: Mapping[str, Bool[np.ndarray, " P"]],
) -> dict[str, Any]:
    """A correlation under `all`, `mean` and `wmean`, and in every group.

    The means are None where the correlation in a group is.
    """
    groups = {
        name: correlation(values[rows], column.of_subsets[name])
        for name, rows in rows_of_subsets.items()
    }
    sizes = [rows.sum() for rows in rows_of_subsets.values()]
    defined = [score for score in groups.values() if score is not None]
    all_defined = 0 < len(defined) == len(groups)
    return {
        "all": correlation(values, column.of_all),
        "mean": float(np.mean(defined)) if all_defined else None,
        "wmean": float(np.average(defined, weights=sizes)) if all_defined else None,
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
    """Pearson's correlation, x100; None if a column is constant or there are fewer than two."""
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
    return correlations_with(values, Gold.of_pairs(pairs))


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
    constant = len(x) > 0 and np.ptp(np.round(x, TIE_DECIMALS)) == 0
    return None if constant else pearson(x, gold)


def of_other_similarities(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, pairs: Pairs
) -> dict[str, Any]:
    """Both correlations of dot products and distances with gold, under every aggregation."""
    gold = Gold.of_pairs(pairs)
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
