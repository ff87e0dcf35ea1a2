"""The names of aggregations stand once, and whoever computes or words them has the same."""

import numpy as np

from harness.core.metrics.correlation import aggregations, spearman
from harness.core.types import AGGREGATIONS, LeaderboardColumn, Pairs
from harness.report.sentences import AGGREGATION_WORDS


def test_a_correlation_has_every_aggregation_and_each_has_its_words():
    pairs = Pairs(("a",) * 4, ("b",) * 4, np.arange(4.0), ("x", "x", "y", "y"))
    found = aggregations(spearman, np.arange(4.0), pairs)
    assert set(found) == {*AGGREGATIONS, "groups"}
    assert set(AGGREGATION_WORDS) == {*AGGREGATIONS}


def test_a_legend_names_the_scores_that_it_shows():
    column = LeaderboardColumn("other", "x", legend="{first} and {second}, but {first}.")
    assert set(column.legend_scores) == {"first", "second"}
    assert LeaderboardColumn("other", "x").legend_scores == ()
