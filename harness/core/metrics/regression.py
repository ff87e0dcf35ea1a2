"""Relatedness as a supervised regression, as SentEval scores STS-B and SICK-R by default.

None of the papers of the matrix uses it (they take the raw cosine), but numbers made with it are
quoted beside theirs. SentEval trains a small network on [|u - v|, u * v]; here a ridge regression
on the same features, its penalty chosen on the development split, makes the point without
randomness: labels were seen, so the score is another thing than a cosine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import ScoreError
from harness.core.metrics.correlation import METRIC as CORRELATION
from harness.core.metrics.correlation import pearson
from harness.core.metrics.metric import PairRows

PENALTIES = tuple(10.0**power for power in range(-1, 6))

# Features whose spread is below this share of the largest hold rounding noise of float32 alone.
LEAST_SPREAD = 1e-6


def predictions(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The predicted gold of each pair, and the penalty."""
    train, dev, test = (
        features(vectors[pairs.a], vectors[pairs.b]) for pairs in (*labelled, scored)
    )
    train_gold, dev_gold = (pairs.gold for pairs in labelled)
    values, penalty = regress((train, train_gold), (dev, dev_gold), test)
    return values, {"penalty": penalty}


def features(
    u: Float[np.ndarray, "P K"], v: Float[np.ndarray, "P K"]
) -> Float64[np.ndarray, "P F"]:
    """[|u - v|, u * v], in float64."""
    u, v = u.astype(np.float64), v.astype(np.float64)
    return np.hstack([np.abs(u - v), u * v])


def regress(
    train: tuple[Float64[np.ndarray, "n F"], Float64[np.ndarray, " n"]],
    dev: tuple[Float64[np.ndarray, "m F"], Float64[np.ndarray, " m"]],
    test: Float64[np.ndarray, "P F"],
) -> tuple[Float64[np.ndarray, " P"], float]:
    """Predictions for the test features, and the penalty with the best Pearson on dev.

    Features are standardised on the training split. Raises ScoreError if no penalty gives a
    prediction that varies.
    """
    x, y = train
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread <= LEAST_SPREAD * spread.max()] = np.inf  # a constant says nothing
    scaled = (x - mean) / spread
    gram, moment = scaled.T @ scaled, scaled.T @ (y - y.mean())
    best: tuple[float, float, Float64[np.ndarray, " F"]] | None = None
    for penalty in PENALTIES:
        weight = np.linalg.solve(gram + penalty * np.eye(len(gram)), moment)
        correlation = pearson((dev[0] - mean) / spread @ weight, dev[1])
        if correlation is not None and (best is None or correlation > best[0]):
            best = correlation, penalty, weight
    if best is None:
        raise ScoreError("regression: no penalty gives a prediction that varies over dev")
    return (test - mean) / spread @ best[2] + y.mean(), best[1]


METRIC = replace(
    CORRELATION,
    name="regression",
    compared="a trained regressor's prediction",
    compare=predictions,
    learns=True,
)
