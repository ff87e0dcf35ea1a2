import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import harness.results.comparisons
from harness.core.errors import ScoreError
from harness.results.comparisons import PairedComparison, bootstrap_scores, compare_resamples, holm

METRICS = ("spearman", "pearson")
p_values = st.lists(st.floats(0, 1), max_size=12)


def generator(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def items(pairs: int = 60, methods: int = 2, ties: bool = True):
    """Cosines of a few methods and the gold they follow, both with many ties."""
    rng = generator(pairs)
    gold = rng.integers(6, size=pairs).astype(float)
    cosines = gold / 10 + rng.normal(scale=0.3, size=(methods, pairs))
    return (np.round(cosines, 1) if ties else cosines), gold, ("",) * pairs


def oracle(metric: str, x: np.ndarray, gold: np.ndarray) -> float:
    return 100 * getattr(scipy.stats, metric + "r")(x, gold).statistic


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("metric", METRICS)
def test_each_score_is_the_oracles_on_the_drawn_items(metric, ties):
    cosines, gold, group = items(ties=ties)
    scores = bootstrap_scores(cosines, gold, group, metric=metric, resamples=40, rng=generator())
    drawn = generator().integers(len(gold), size=(40, len(gold)))
    compared = np.round(cosines, 10) if metric == "spearman" else cosines  # ranks alone tie
    expected = [[oracle(metric, x[i], gold[i]) for i in drawn] for x in compared]
    # points, so 1e-10 is 1e-12 of a correlation
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_means_over_groups_resample_within_each_group():
    cosines, gold, _ = items(pairs=70)
    group = ("b",) * 20 + ("a",) * 40 + ("b",) * 10
    rng, expected = generator(), np.zeros(30)
    for name, size in (("b", 30), ("a", 40)):  # in order of first appearance
        x, y = (column[np.array(group) == name] for column in (cosines[0], gold))
        drawn = rng.integers(size, size=(30, size))
        expected += [size / 70 * oracle("spearman", x[i], y[i]) for i in drawn]
    scores = bootstrap_scores(
        cosines, gold, group, aggregate="wmean", resamples=30, rng=generator()
    )
    np.testing.assert_allclose(scores[0], expected, rtol=0, atol=1e-10)  # as above


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block", [1, 130, 1000, 60 * 100])
def test_the_answer_does_not_depend_on_the_block_size(monkeypatch, metric, block):
    cosines, gold, group = items(ties=False)
    how = {"metric": metric, "resamples": 101}
    expected = bootstrap_scores(cosines, gold, group, **how, rng=generator())
    monkeypatch.setattr(harness.results.comparisons, "BLOCK", block)
    scores = bootstrap_scores(cosines, gold, group, **how, rng=generator())
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("metric", METRICS)
def test_a_method_scores_the_same_whoever_stands_beside_it(metric):
    cosines, gold, group = items(methods=4, ties=False)
    how = {"metric": metric, "resamples": 50}
    together = bootstrap_scores(cosines, gold, group, **how, rng=generator())
    alone = bootstrap_scores(cosines[2:3], gold, group, **how, rng=generator())
    np.testing.assert_array_equal(together[2], alone[0])


def test_cosines_that_differ_by_rounding_alone_tie():
    cosines, gold, group = items()
    noisy = cosines + generator().uniform(-1e-12, 1e-12, size=cosines.shape)
    both = [
        bootstrap_scores(x, gold, group, resamples=20, rng=generator()) for x in (cosines, noisy)
    ]
    np.testing.assert_array_equal(*both)


def test_equal_methods_have_p_one_and_no_difference():
    same = compare_resamples(np.arange(99.0), np.arange(99.0))
    assert same == PairedComparison(low=0.0, high=0.0, p=1.0, resamples=99)


def test_p_and_interval_by_hand():
    a = np.array([3.0] * 36 + [0.0] + [-1.0] * 2)
    test = compare_resamples(a, np.zeros(39))
    assert test.p == 2 * (1 + 3) / 40
    assert (test.low, test.high) == (-1, 3)  # rank .95 of 38 lies between two -1


def test_equally_good_methods_differ_in_5_of_100_trials():
    rng, trials, rejected = generator(), 400, 0
    for _ in range(trials):
        gold = rng.normal(size=150)
        columns = gold + rng.normal(size=(2, 150))
        scores = bootstrap_scores(columns, gold, ("",) * 150, resamples=299, rng=rng)
        rejected += compare_resamples(*scores).p <= 0.05
    # three standard errors of a share of .05 among 400 are 0.033
    assert rejected / trials == pytest.approx(0.05, abs=0.033)


@pytest.mark.parametrize("metric", METRICS)
def test_a_resample_with_a_constant_column_is_left_out_and_counted(metric):
    gold = np.array([0.0] * 60 + [1.0])  # many sums are inexact: a constant leaves noise
    cosines = generator().normal(size=(2, 61))
    scores = bootstrap_scores(
        cosines, gold, ("",) * 61, metric=metric, resamples=2000, rng=generator()
    )
    drawn = generator().integers(61, size=(2000, 61))
    constant = gold[drawn].min(axis=1) == gold[drawn].max(axis=1)
    assert 600 < constant.sum() < 900  # (60/61)^61 is about 1/e
    np.testing.assert_array_equal(np.isnan(scores), [constant, constant])
    assert compare_resamples(*scores).resamples == 2000 - constant.sum()


@pytest.mark.parametrize("metric", METRICS)
def test_a_constant_method_has_no_score_and_a_constant_subset_leaves_no_mean(metric):
    cosines, gold, group = items(ties=False)
    cosines[1] = 0.7
    scores = bootstrap_scores(cosines, gold, group, metric=metric, resamples=20, rng=generator())
    assert np.isnan(scores[1]).all()
    with pytest.raises(ScoreError, match="constant"):
        compare_resamples(*scores)
    gold[:20] = 3
    subsets = ("flat",) * 20 + ("b",) * 40
    scores = bootstrap_scores(
        cosines, gold, subsets, aggregate="wmean", metric=metric, resamples=9, rng=generator()
    )
    assert np.isnan(scores).all()


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-15)
    assert holm([0.2, 0.9, 0.2]) == pytest.approx([0.6, 0.9, 0.6], abs=1e-15)
    assert holm([]) == []


@given(p_values, st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_what_the_step_down_procedure_rejects(p, level):
    rejected: list[float] = []
    for i, value in enumerate(sorted(p)):
        if (len(p) - i) * value > level:
            break
        rejected.append(value)
    assert sorted(x for x, new in zip(p, holm(p), strict=True) if new <= level) == rejected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cosines, gold, group: (cosines * np.nan, gold, group, 5), "finite"),
        (lambda cosines, gold, group: (cosines, gold * np.nan, group, 5), "finite"),
        (lambda cosines, gold, group: (cosines, gold, group[1:], 5), "found 60, 60, 59 and 5"),
        (lambda cosines, gold, group: (cosines[:, :0], gold[:0], (), 5), "found 0, 0, 0 and 5"),
        (lambda cosines, gold, group: (cosines, gold, group, 0), "found 60, 60, 60 and 0"),
    ],
)
def test_what_has_no_score_never_yields_a_number(change, message):
    *arguments, resamples = change(*items())
    with pytest.raises(ScoreError, match=message):
        bootstrap_scores(*arguments, resamples=resamples, rng=generator())
