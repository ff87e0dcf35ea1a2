"""Area under the ROC curve: does similarity tell positive pairs (gold 1) from the others (0)?"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import ScoreError
from harness.core.metrics import Metric, tie_rounded
from harness.core.pairs import Pairs


def roc_auc(
    x: Float64[np.ndarray, " P"], positive: Float64[np.ndarray, " P"]
) -> float | None:
    """The area under the ROC curve of x for gold 1 against 0, x100.

    It is U / (n m), where U is the statistic of Mann and Whitney for n positive and m
    other pairs, in which ties count half. None where gold has one class.
    """
    from scipy.stats import rankdata

    is_positive = positive == 1
    n = int(is_positive.sum())
    m = int((~is_positive).sum())
    if n == 0 or m == 0:
        return None
    rank_sum = rankdata(x)[is_positive].sum()
    return float(100 * (rank_sum - n * (n + 1) / 2) / (n * m))


def area(values: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, float | None]:
    """The area under the ROC curve of the values. Raises ScoreError for other gold than 0 and 1."""
    is_class = np.isin(pairs.gold, (0, 1))
    if not is_class.all():
        index = int(is_class.argmin())
        raise ScoreError(
            f"pair {index + 1}: wanted gold 0 or 1, found {pairs.gold[index]}"
        )
    return {"auc": roc_auc(tie_rounded(values), pairs.gold)}


METRIC = Metric(
    name="auc",
    score=area,
    main_score=("auc",),
    words={"auc": "area under the ROC curve x100 of {}"},
)
