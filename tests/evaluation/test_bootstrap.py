"""The paired bootstrap: scores on resamples are the oracles', and tests hold their level."""

import numpy as np
import pytest
import scipy.stats
from refusals import refused

from harness.core.errors import ScoreError
from harness.core.metrics.auc import roc_auc
from harness.core.pairs import Pairs
from harness.evaluation import bootstrap
from harness.evaluation.bootstrap import (
    bootstrap_scores,
    draw_counts,
    interval_and_p,
    item_texts,
    seed_weights,
)

SEED = 5


def items(gold, groups=()):
    """Items with these gold scores, in one group unless several are named."""
    texts = tuple(f"item {number}" for number in range(len(gold)))
    return Pairs(texts, (), gold, groups or ("",) * len(gold))


def counts(pairs, resamples):
    return draw_counts(pairs.a, resamples)


def drawn(pairs, resamples):
    """The rows that each resample holds."""
    rows = np.arange(len(pairs))
    return [np.repeat(rows, column) for column in counts(pairs, resamples).T]


def made(size=60, ties=True):
    """Similarities of two methods and the gold that they follow, both with many ties."""
    rng = np.random.default_rng(size)
    gold = rng.integers(6, size=size).astype(float)
    similarities = gold / 10 + rng.normal(scale=0.3, size=(2, size))
    return (np.round(similarities, 1) if ties else similarities), gold


def spearman(x, gold):
    return 100 * scipy.stats.spearmanr(x, gold).statistic


ORACLES = {
    ("spearman", "all"): spearman,
    ("pearson", "all"): lambda x, gold: 100 * scipy.stats.pearsonr(x, gold).statistic,
    ("auc",): roc_auc,
    ("accuracy",): lambda x, gold: 100 * np.mean(x == gold),
}


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("path", ORACLES, ids="-".join)
def test_each_score_is_the_oracles_on_the_drawn_items(path, ties, monkeypatch):
    """In several blocks of resamples, the last of which is smaller."""
    monkeypatch.setattr(bootstrap, "COUNTS_IN_BLOCK", 60 * 7)
    columns, gold = made(ties=ties)
    oracle = ORACLES[path]
    if path in (("auc",), ("accuracy",)):
        gold = (gold > 2).astype(float)
    if path == ("accuracy",):
        columns = (columns > 0.3).astype(float)
    pairs = items(gold)
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 40))
    expected = [[oracle(x[i], gold[i]) for i in drawn(pairs, 40)] for x in columns]
    # points, so 1e-10 is 1e-12 of a correlation
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_means_over_groups_keep_the_weight_of_each_group():
    columns, gold = made(size=70)
    group = np.array(["b"] * 20 + ["a"] * 40 + ["b"] * 10)
    pairs, path = items(gold, tuple(group)), ("spearman", "wmean")
    expected = np.zeros(30)
    for number, rows in enumerate(drawn(pairs, 30)):
        for name, size in (("b", 30), ("a", 40)):
            i = rows[group[rows] == name]
            expected[number] += size / 70 * spearman(columns[0][i], gold[i])
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 30))
    np.testing.assert_allclose(scores[0], expected, rtol=0, atol=1e-10)  # as above


@pytest.mark.parametrize(
    "path", [("spearman", "all"), ("pearson", "all"), ("pearson", "wmean"), ("auc",)]
)
def test_a_resample_with_a_constant_column_is_left_out(path):
    """Many sums are inexact, so that a constant column leaves noise."""
    gold = np.array([0.0] * 60 + [1.0])
    pairs = items(gold)
    columns = np.random.default_rng(SEED).normal(size=(2, 61))
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 2000))
    constant = counts(pairs, 2000)[60] == 0
    assert 600 < constant.sum() < 900  # 1/e
    np.testing.assert_array_equal(np.isnan(scores), [constant, constant])
    assert interval_and_p(*scores) == interval_and_p(*scores[:, ~constant])
    with refused(ScoreError, "constant"):
        interval_and_p(*scores[:, constant])


# What is drawn


def test_counts_are_poissons_and_an_item_that_tasks_share_is_drawn_once():
    once = draw_counts(["a", "b", "a"], 20_000)
    np.testing.assert_array_equal(once[0], once[2])
    np.testing.assert_array_equal(once[1:], draw_counts(["b", "a"], 20_000))
    # Mean and variance are 1; their standard errors here are 0.007 and 0.012.
    assert once[:2].mean(axis=1) == pytest.approx([1, 1], abs=0.03)
    assert once[:2].var(axis=1) == pytest.approx([1, 1], abs=0.05)
    assert abs(np.corrcoef(once[0], once[1])[0, 1]) < 0.03


def test_pairs_are_the_same_item_in_either_order_and_in_any_text_form():
    raw = Pairs(("A man's dog.", "Two"), ("“Yes!”", "three"), np.zeros(2), ("", ""))
    tokenised = Pairs(
        ("`` yes ! ''", "three"), ("A man 's dog .", "four"), np.zeros(2), ("", "")
    )
    first, second = item_texts(raw), item_texts(tokenised)
    assert first[0] == second[0]
    assert len({*first, *second}) == 3
    single = Pairs(("Two", "two ."), (), np.zeros(2), ("", ""))
    assert item_texts(single) == ["two", "two"]


@pytest.mark.parametrize("seeds", [2, 5, 8])
def test_the_mean_over_seeds_varies_as_students_t(seeds):
    rng = np.random.default_rng(SEED)
    scores = rng.normal(size=seeds)
    weights = seed_weights(seeds, 200_000, rng)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    error = scores.std(ddof=1) / np.sqrt(seeds)
    found = np.quantile((scores @ weights - scores.mean()) / error, [0.025, 0.5, 0.975])
    t = scipy.stats.t.ppf(0.975, seeds - 1)
    assert found == pytest.approx([-t, 0, t], rel=0.03, abs=0.02)
    np.testing.assert_array_equal(seed_weights(1, 3, rng), np.ones((1, 3)))


# Intervals and p


def test_interval_and_p_by_hand():
    a = np.array([3.0] * 36 + [0.0] + [-1.0] * 2)
    low, high, p = interval_and_p(a, np.zeros(39))
    assert p == 2 * (1 + 3) / 40
    assert (low, high) == (-1, 3)  # rank .95 of 38 lies between two -1
    assert interval_and_p(a, a + 1e-13) == (0.0, 0.0, 1.0)  # but for rounding


def test_an_interval_over_seeds_and_items_holds_the_truth_in_95_of_100():
    """Scores are of five seeds and 80 items, both drawn anew: an accuracy with effects of each."""
    rng, trials, held = np.random.default_rng(SEED), 300, 0
    pairs = items(np.ones(80))
    drawn_items = counts(pairs, 999)
    for _ in range(trials):
        ability = 0.8 * rng.normal(size=(5, 1)) + rng.normal(size=80)
        right = (ability + rng.normal(size=(5, 80)) > 0).astype(float)  # 50 % in truth
        scores = bootstrap_scores(right, pairs, ("accuracy",), drawn_items)
        mean = (seed_weights(5, 999, rng) * scores).sum(axis=0)
        low, high, _ = interval_and_p(mean, np.zeros(999))
        held += low <= 50 <= high
    # Three standard errors of a share of .95 among 300 are 0.038. Seeds that differ in
    # what they make of the same items are counted twice, which widens it.
    assert held / trials >= 0.912
