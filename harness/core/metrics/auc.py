"""Area under the ROC curve: does similarity tell positive pairs (gold 1) from the others (0)?"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Float64
from harness.core.metrics import Metric


def roc_auc(x: Float64[np.ndarray, " P"], positive: Float64[np.ndarray, " P"]) -> float | None:
    """Area under the ROC curve of x for gold 1 against 0, x100 (Mann-Whitney, ties count half)."""
    from scipy.stats import rankdata

    chosen = positive == 1
    n, m = int(chosen.sum()), int((~chosen).sum())
    if n == 0 or m == 0:
        return None
    return float(100 * (rankdata(x)[chosen].sum() - n * (n + 1) / 2) / (n * m))


METRIC = Metric(
    name="auc",
    score=lambda values, pairs: {"auc": roc_auc(values, pairs.gold)},
    main_score=("auc",),
    words={"auc": "area under the ROC curve x100 of {}"},
)
