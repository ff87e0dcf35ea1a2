"""Scoring: a paired bootstrap within its limit, and ranks that cost what sorting costs."""

import math

import numpy as np
import pytest

from harness.core.metrics.correlation import spearman
from harness.results.bootstrap import (
    PairedComparison,
    bootstrap_scores,
    compare_resamples,
    draw_counts,
)

PAIRS, RESAMPLES = 1379, 10_000  # STS-B test
LIMIT = 2.0  # seconds, on two cores
MANY, FEWER = 10**7, 10**6  # pairs whose rank correlation is taken
# n log n is what sorting takes where every access costs the same. Ten million numbers
# fit in no cache; what is quadratic would come to 0.12.
SLACK = 0.5


@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_bootstrap_of_two_methods_on_sts_b(side_by_side, metric):
    rng = np.random.default_rng(0)
    pairs, resamples = (PAIRS, RESAMPLES) if side_by_side.on else (60, 50)
    gold = np.round(rng.uniform(0, 5, size=pairs), 1)
    columns = gold / 10 + rng.normal(scale=0.2, size=(2, pairs))
    items = [f"item {number}" for number in range(pairs)]

    def compared() -> PairedComparison:
        counts = draw_counts(items, resamples, 0)
        scores = bootstrap_scores(columns, gold, ("",) * pairs, counts, metric=metric)
        return compare_resamples(*scores)

    side_by_side.run(compared, {})
    facts = {"pairs": pairs, "resamples": resamples}
    side_by_side.require(
        f"bootstrap-{metric}", side_by_side.within(LIMIT), 1.0, **facts
    )


def test_spearman_takes_what_sorting_takes(side_by_side):
    many, fewer = (MANY, FEWER) if side_by_side.on else (1000, 100)
    rng = np.random.default_rng(0)
    x = rng.normal(size=many)
    y = x + rng.normal(size=many)
    side_by_side.run(
        lambda: spearman(x, y),
        {"fewer": lambda: spearman(x[:fewer], y[:fewer])},
        warm=False,
    )
    growth = many * math.log(many) / (fewer * math.log(fewer))
    shares = side_by_side.ratios("fewer", growth) if side_by_side.on else [1.0]
    side_by_side.require("spearman-growth", shares, SLACK, pairs=many, of=fewer)
