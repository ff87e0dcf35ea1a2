"""The paired bootstrap: scores on resamples are the oracles', and tests hold their level."""

import numpy as np
import pytest
import scipy.stats

from harness.core.errors import ScoreError
from harness.core.metrics.auc import roc_auc
from harness.evaluation import bootstrap
from harness.evaluation.bootstrap import (
    PairedTest,
    bootstrap_scores,
    compare_resamples,
    draw_counts,
    seed_weights,
)

METRICS = ("spearman", "pearson")
SEED = 5


def generator(seed: int = SEED) -> np.random.Generator:
    return np.random.default_rng(seed)


def items(pairs: int = 60, methods: int = 2, ties: bool = True):
    """Cosines of a few methods and the gold they follow, both with many ties."""
    rng = generator(pairs)
    gold = rng.integers(6, size=pairs).astype(float)
    cosines = gold / 10 + rng.normal(scale=0.3, size=(methods, pairs))
    return (np.round(cosines, 1) if ties else cosines), gold, ("",) * pairs


def texts(count: int) -> list[str]:
    return [f"item {number}" for number in range(count)]


def counts(pairs: int, resamples: int, seed: int = SEED) -> np.ndarray:
    return draw_counts(texts(pairs), resamples, seed)


def drawn(pairs: int, resamples: int) -> list[np.ndarray]:
    """The rows that each resample holds."""
    return [
        np.repeat(np.arange(pairs), column) for column in counts(pairs, resamples).T
    ]


def oracle(metric: str, x: np.ndarray, gold: np.ndarray) -> float:
    return 100 * getattr(scipy.stats, metric + "r")(x, gold).statistic


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("metric", METRICS)
def test_each_score_is_the_oracles_on_the_drawn_items(metric, ties):
    cosines, gold, group = items(ties=ties)
    scores = bootstrap_scores(cosines, gold, group, counts(60, 40), metric=metric)
    compared = (
        np.round(cosines, 10) if metric == "spearman" else cosines
    )  # ranks alone tie
    expected = [
        [oracle(metric, x[i], gold[i]) for i in drawn(60, 40)] for x in compared
    ]
    # points, so 1e-10 is 1e-12 of a correlation
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_means_over_groups_keep_the_weight_of_each_group():
    cosines, gold, _ = items(pairs=70)
    group = np.array(["b"] * 20 + ["a"] * 40 + ["b"] * 10)
    expected = np.zeros(30)
    for number, rows in enumerate(drawn(70, 30)):
        for name, size in (("b", 30), ("a", 40)):
            i = rows[group[rows] == name]
            expected[number] += size / 70 * oracle("spearman", cosines[0][i], gold[i])
    scores = bootstrap_scores(
        cosines, gold, (*group,), counts(70, 30), aggregate="wmean"
    )
    np.testing.assert_allclose(scores[0], expected, rtol=0, atol=1e-10)  # as above


def test_an_accuracy_is_the_share_of_right_classes_in_every_resample():
    gold = np.array([0.0, 1.0, 1.0, 0.0, 2.0])
    columns = np.array([gold, 1 - gold, [0.0, 1.0, 0.0, 0.0, 2.0]])
    scores = bootstrap_scores(
        columns, gold, ("g",) * 5, counts(5, 50), metric="accuracy"
    )
    right = [100 * (columns[2] == gold)[rows].mean() for rows in drawn(5, 50)]
    np.testing.assert_allclose(scores[2], right)
    assert (scores[0] == 100).all()
    assert (scores[1] == 0).all()


def test_an_area_under_the_curve_is_the_oracles_on_the_drawn_items():
    cosines, gold, group = items()
    positive = (gold > 2).astype(float)
    scores = bootstrap_scores(cosines, positive, group, counts(60, 40), metric="auc")
    expected = [
        [roc_auc(np.round(x, 10)[i], positive[i]) for i in drawn(60, 40)]
        for x in cosines
    ]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)
    alone = bootstrap_scores(cosines, np.ones(60), group, counts(60, 9), metric="auc")
    assert np.isnan(alone).all()


def test_an_item_that_tasks_share_is_drawn_once():
    """So the mean over a task and its copy varies as the task does, not less."""
    cosines, gold, group = items(pairs=300, ties=False)
    once = draw_counts(texts(300), 2000, SEED)
    again = draw_counts(texts(300)[::-1], 2000, SEED)[::-1]
    np.testing.assert_array_equal(once, again)
    others = draw_counts([f"another {number}" for number in range(300)], 2000, SEED)
    of_task, of_copy, of_other = (
        bootstrap_scores(cosines, gold, group, drawn_items)[0]
        for drawn_items in (once, again, others)
    )
    assert np.std((of_task + of_copy) / 2) == pytest.approx(np.std(of_task))
    # Independent tasks: 1 / sqrt(2) = 0.71; a standard deviation of 2,000 draws is good
    # to 2 %.
    assert np.std((of_task + of_other) / 2) / np.std(of_task) == pytest.approx(
        0.71, abs=0.05
    )


def test_counts_are_poissons_and_a_doubled_item_has_them_twice():
    once = draw_counts(["a", "b", "a"], 20_000, SEED)
    np.testing.assert_array_equal(once[0], once[2])
    # Mean and variance are 1; their standard errors here are 0.007 and 0.012.
    assert once[:2].mean(axis=1) == pytest.approx([1, 1], abs=0.03)
    assert once[:2].var(axis=1) == pytest.approx([1, 1], abs=0.05)
    assert abs(np.corrcoef(once[0], once[1])[0, 1]) < 0.03


@pytest.mark.parametrize("seeds", [2, 5, 8])
def test_the_mean_over_seeds_varies_as_students_t(seeds):
    scores = generator().normal(size=seeds)
    weights = seed_weights(seeds, 200_000, generator())
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    error = scores.std(ddof=1) / np.sqrt(seeds)
    found = np.quantile((scores @ weights - scores.mean()) / error, [0.025, 0.5, 0.975])
    t = scipy.stats.t.ppf(0.975, seeds - 1)
    assert found == pytest.approx([-t, 0, t], rel=0.03, abs=0.02)
    np.testing.assert_array_equal(seed_weights(1, 3, generator()), np.ones((1, 3)))


def test_an_interval_over_seeds_and_items_holds_the_truth_in_95_of_100():
    """Scores are of five seeds and 80 items, both drawn anew: an accuracy with effects of each.

    The interval over seeds alone holds it less often than it says.
    """
    rng, trials, held, held_alone = generator(), 300, 0, 0
    drawn_items = counts(80, 999)
    for _ in range(trials):
        ability = 0.8 * rng.normal(size=(5, 1)) + rng.normal(size=80)
        right = (ability + rng.normal(size=(5, 80)) > 0).astype(float)  # 50 % in truth
        scores = bootstrap_scores(
            right, np.ones(80), ("",) * 80, drawn_items, metric="accuracy"
        )
        weights = seed_weights(5, 999, rng)
        low, high = np.quantile((weights * scores).sum(axis=0), [0.025, 0.975])
        held += low <= 50 <= high
        own = 100 * right.mean(axis=1)
        held_alone += abs(own.mean() - 50) <= 2.776 * own.std(ddof=1) / np.sqrt(5)
    # Three standard errors of a share of .95 among 300 are 0.038. Seeds that differ in
    # what they make of the same items are counted twice, which widens it.
    assert held / trials >= 0.912
    assert held_alone < held


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block", [1, 130, 1000, 60 * 100])
def test_a_score_depends_on_no_block_and_no_other_method(monkeypatch, metric, block):
    cosines, gold, group = items(ties=False)
    expected = bootstrap_scores(cosines, gold, group, counts(60, 101), metric=metric)
    monkeypatch.setattr(bootstrap, "COUNTS_IN_BLOCK", block)
    scores = bootstrap_scores(cosines, gold, group, counts(60, 101), metric=metric)
    np.testing.assert_array_equal(scores, expected)
    # Nor on the methods beside it.
    alone = bootstrap_scores(cosines[1:], gold, group, counts(60, 101), metric=metric)
    np.testing.assert_array_equal(alone[0], expected[1])


def test_cosines_that_differ_by_rounding_alone_tie():
    cosines, gold, group = items()
    noisy = cosines * (1 + generator().uniform(-1e-12, 1e-12, size=cosines.shape))
    both = [bootstrap_scores(x, gold, group, counts(60, 20)) for x in (cosines, noisy)]
    np.testing.assert_array_equal(*both)


def test_equal_methods_have_p_one_and_no_difference():
    same = compare_resamples(np.arange(99.0), np.arange(99.0))
    assert same == PairedTest(low=0.0, high=0.0, p=1.0)


def test_p_and_interval_by_hand():
    a = np.array([3.0] * 36 + [0.0] + [-1.0] * 2)
    test = compare_resamples(a, np.zeros(39))
    assert test.p == 2 * (1 + 3) / 40
    assert (test.low, test.high) == (-1, 3)  # rank .95 of 38 lies between two -1


def test_equally_good_methods_differ_in_5_of_100_trials():
    rng, trials, rejected = generator(), 400, 0
    drawn_items = counts(150, 299)
    for _ in range(trials):
        gold = rng.normal(size=150)
        columns = gold + rng.normal(size=(2, 150))
        scores = bootstrap_scores(columns, gold, ("",) * 150, drawn_items)
        rejected += compare_resamples(*scores).p <= 0.05
    # three standard errors of a share of .05 among 400 are 0.033
    assert rejected / trials == pytest.approx(0.05, abs=0.033)


@pytest.mark.parametrize("metric", METRICS)
def test_a_resample_with_a_constant_column_is_left_out_and_counted(metric):
    gold = np.array(
        [0.0] * 60 + [1.0]
    )  # many sums are inexact: a constant leaves noise
    cosines = generator().normal(size=(2, 61))
    scores = bootstrap_scores(
        cosines, gold, ("",) * 61, counts(61, 2000), metric=metric
    )
    constant = counts(61, 2000)[60] == 0
    assert 600 < constant.sum() < 900  # 1/e
    np.testing.assert_array_equal(np.isnan(scores), [constant, constant])
    defined = scores[:, ~constant]
    assert compare_resamples(*scores) == compare_resamples(*defined)


@pytest.mark.parametrize("metric", METRICS)
def test_a_constant_method_has_no_score_and_a_constant_subset_leaves_no_mean(metric):
    cosines, gold, group = items(ties=False)
    cosines[1] = 0.7
    scores = bootstrap_scores(cosines, gold, group, counts(60, 20), metric=metric)
    assert np.isnan(scores[1]).all()
    with pytest.raises(ScoreError, match="constant"):
        compare_resamples(*scores)
    gold[:20] = 3
    subsets = ("flat",) * 20 + ("b",) * 40
    scores = bootstrap_scores(
        cosines, gold, subsets, counts(60, 9), aggregate="wmean", metric=metric
    )
    assert np.isnan(scores).all()


def test_what_is_no_number_never_yields_a_score():
    cosines, gold, group = items()
    for arguments in ((cosines * np.nan, gold), (cosines, gold * np.nan)):
        with pytest.raises(ScoreError, match="finite"):
            bootstrap_scores(*arguments, group, counts(60, 5))
