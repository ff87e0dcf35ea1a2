"""Relatedness as a supervised regression, as SentEval scores STS-B and SICK-R by default.

None of the papers of the matrix uses it (they take the raw cosine), but numbers made
with it are compared with theirs. SentEval trains a small network on [|u - v|, u * v];
here a ridge regression on the same features, its penalty chosen on the development
split, makes the point without randomness: labels were seen, so the score is another
thing than a cosine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import ScoreError
from harness.core.metrics import PairRows
from harness.core.metrics.correlation import METRIC as CORRELATION
from harness.core.metrics.correlation import pearson

RIDGE_PENALTIES = tuple(10.0**power for power in range(-1, 6))

# Features whose spread is below this share of the largest hold rounding noise of
# float32 alone.
LEAST_SPREAD = 1e-6


def predicted_gold(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The predicted gold of each pair, and the penalty with the best Pearson on dev.

    Features are standardised on the training split. Raises ScoreError if no penalty
    gives a prediction that varies.
    """
    if len(labelled) != 2:
        raise ScoreError(
            "regression: wanted a train and a dev split beside the scored one"
        )
    train, dev, test = (
        _features(vectors[pairs.a], vectors[pairs.b]) for pairs in (*labelled, scored)
    )
    train_gold, dev_gold = (pairs.gold for pairs in labelled)
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread[spread <= LEAST_SPREAD * spread.max()] = np.inf  # a constant says nothing
    scaled = (train - mean) / spread
    gram, moment = scaled.T @ scaled, scaled.T @ (train_gold - train_gold.mean())
    best: tuple[float, float, Float64[np.ndarray, " F"]] | None = None
    for penalty in RIDGE_PENALTIES:
        weight = np.linalg.solve(gram + penalty * np.eye(len(gram)), moment)
        correlation = pearson((dev - mean) / spread @ weight, dev_gold)
        if correlation is not None and (best is None or correlation > best[0]):
            best = correlation, penalty, weight
    if best is None:
        raise ScoreError(
            "regression: no penalty gives a prediction that varies over dev"
        )
    _, penalty, weight = best
    return (test - mean) / spread @ weight + train_gold.mean(), {"penalty": penalty}


def _features(
    u: Float[np.ndarray, "P K"], v: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, "P F"]:
    """[|u - v|, u * v], in float64."""
    u, v = u.astype(np.float64), v.astype(np.float64)
    return np.hstack([np.abs(u - v), u * v])


METRIC = replace(
    CORRELATION,
    name="regression",
    compared="a trained regressor's prediction",
    compare=predicted_gold,
    learns=True,
)
