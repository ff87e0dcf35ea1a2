"""Relatedness as a supervised regression, SentEval's default for STS-B and SICK-R.

None of the reproduced papers uses it (they take the cosine), but such numbers are
sometimes compared with theirs. SentEval trains a small network on [|u - v|, u * v].
Here it is a ridge regression on the same features, whose penalty is chosen on the dev
split: it has no randomness, and also shows what a score gains by training on labels.
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

# A feature is left out if its standard deviation is below this share of the largest one,
# since it then holds only rounding errors of float32.
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
            "regression: wanted a train and a dev split in addition to the scored one"
        )
    train_pairs, dev_pairs = labelled
    train = _features(vectors, train_pairs)
    mean = train.mean(axis=0)
    spread = train.std(axis=0)
    spread[spread <= LEAST_SPREAD * spread.max()] = np.inf  # becomes 0 when scaled
    scaled_train = (train - mean) / spread
    scaled_dev = (_features(vectors, dev_pairs) - mean) / spread
    scaled_test = (_features(vectors, scored) - mean) / spread

    mean_gold = train_pairs.gold.mean()
    gram = scaled_train.T @ scaled_train
    moment = scaled_train.T @ (train_pairs.gold - mean_gold)
    best_correlation = -np.inf
    best_penalty = best_weight = None
    for penalty in RIDGE_PENALTIES:
        weight = np.linalg.solve(gram + penalty * np.eye(len(gram)), moment)
        correlation = pearson(scaled_dev @ weight, dev_pairs.gold)
        if correlation is not None and correlation > best_correlation:
            best_correlation = correlation
            best_penalty = penalty
            best_weight = weight
    if best_weight is None:
        raise ScoreError(
            "regression: no penalty gives a prediction that varies over dev"
        )
    return scaled_test @ best_weight + mean_gold, {"penalty": best_penalty}


def _features(
    vectors: Float[np.ndarray, "N K"], pairs: PairRows
) -> Float64[np.ndarray, "P F"]:
    """The features [|u - v|, u * v] of pairs of vectors u and v, in float64."""
    u = vectors[pairs.a].astype(np.float64)
    v = vectors[pairs.b].astype(np.float64)
    return np.hstack([np.abs(u - v), u * v])


METRIC = replace(
    CORRELATION,
    name="regression",
    compared="a trained regressor's prediction",
    compare=predicted_gold,
    learns=True,
)
