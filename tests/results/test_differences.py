"""Differences: each word and the test that it rests on, Holm's procedure."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import FakeConfig
from fakes import registry as fake_registry
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.results.differences import (
    ITEMS,
    SEEDS_ALONE,
    SEEDS_AND_ITEMS,
    Contrast,
    Difference,
    Outcome,
    corrected,
    differences_of_rows,
    holm,
    measured,
    with_test,
)
from harness.results.index import Results, SeedScores, mean_over_tasks
from harness.results.scorings import SIMCSE
from harness.results.verdict import welch_half_width

PAIR = Contrast("some", "other", (("toy", ("spearman", "all")),))
REGISTRY = fake_registry(FakeConfig())


def one(score: float | None) -> SeedScores:
    return SeedScores({0: score})


def seeds(*scores: float | None) -> SeedScores:
    return SeedScores(dict(enumerate(scores)), seeded=True)


def difference(first: SeedScores, second: SeedScores, stored=None) -> Difference:
    """The difference as the only test of its question."""
    [(task, path)] = PAIR.scores
    sides = {("some", task, path): first, ("other", task, path): second}
    [found] = corrected(
        [with_test(measured(PAIR, Results({}), REGISTRY, sides), stored)]
    )
    assert found.sides == (first, second)
    return found


def stored(points: float, low: float, high: float, p: float, by: str = ITEMS):
    return Difference(contrast=PAIR, points=points, low=low, high=high, p=p, by=by)


FIVE = st.lists(st.floats(-90, 90).map(lambda x: round(x, 3)), min_size=5, max_size=8)
SIDES = st.one_of(st.floats(-90, 90).map(one), FIVE.map(lambda s: seeds(*s)))
OPPOSITE = {Outcome.HIGHER: Outcome.LOWER, Outcome.LOWER: Outcome.HIGHER}


@settings(max_examples=40)
@given(SIDES, SIDES)
def test_the_methods_the_other_way_round_get_the_opposite_word(a, b):
    there, back = difference(a, b), difference(b, a)
    assert back.outcome == OPPOSITE.get(there.outcome, there.outcome)
    assert (back.points, back.by) == (-there.points, there.by)
    if there.low is not None:
        assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
        assert there.low <= there.points <= there.high


@settings(max_examples=40)
@given(FIVE, FIVE)
def test_interval_and_p_over_seeds_are_welchs(a, b):
    if np.std(a) + np.std(b) < 1e-6:
        return
    found = difference(seeds(*a), seeds(*b))
    test = stats.ttest_ind(a, b, equal_var=False)
    wanted = test.confidence_interval()
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
    assert found.p == pytest.approx(test.pvalue, abs=1e-9)


STEPS = (-0.2, -0.1, 0.0, 0.1, 0.2)
H = welch_half_width((float(np.std(STEPS, ddof=1)), len(STEPS)))
AROUND_60 = seeds(*(60 + step for step in STEPS))
HOLE = SeedScores({})


@pytest.mark.parametrize(
    ("first", "second", "known", "outcome", "by"),
    [
        (one(60.0), one(59.0), None, "undecided", "no interval"),
        (one(60.0), one(59.0), stored(1.0, 0.1, 1.9, 0.05), "higher", "items"),
        (one(60.0), one(59.0), stored(1.0, -0.1, 2.1, 0.051), "undecided", "items"),
        (one(59.0), one(60.0), stored(-1.02, -1.9, -1, 0.01), "undecided", "no interval"),
        (one(60 + H + 0.01), AROUND_60, None, "higher", SEEDS_ALONE),
        (one(60 + H - 0.01), AROUND_60, None, "undecided", SEEDS_ALONE),
        (
            one(60 + H + 0.01),
            AROUND_60,
            stored(H, -0.1, 2.0, 0.06, SEEDS_AND_ITEMS),
            "undecided",
            SEEDS_AND_ITEMS,
        ),
        (seeds(*[60.0] * 5), seeds(*[59.99] * 5), None, "higher", SEEDS_ALONE),
        (seeds(*[90.0] * 4), one(10.0), stored(80, 79, 81, 0), "undecided", "too few seeds"),
        (one(None), one(10.0), None, "undecided", "undefined"),
        (HOLE, one(10.0), None, "not measured", ""),
    ],
)  # fmt: skip
def test_each_word_and_what_it_rests_on(first, second, known, outcome, by):
    found = difference(first, second, known)
    assert (str(found.outcome), found.by) == (outcome, by)


def test_an_interval_of_seeds_that_were_fitted_anew_is_shifted_to_their_difference():
    def found(points: float, p: float) -> Difference:
        known = stored(1.0, 0.4, 1.6, p, SEEDS_AND_ITEMS)
        return difference(seeds(*[50 + points] * 5), one(50.0), known)

    near = found(1.05, 0.001)
    assert (near.low, near.high) == pytest.approx((0.45, 1.65))
    wanted = 2 * stats.norm.sf(1.05 / (0.6 / stats.norm.ppf(0.975)))
    assert near.p == pytest.approx(max(0.001, wanted))
    assert found(0.95, 0.02).p == 0.02
    assert (found(1.005, 0.001).low, found(1.005, 0.001).high) == (0.4, 1.6)
    assert found(1.2, 0.001).by == SEEDS_ALONE


def test_an_average_of_seeds_pairs_them_by_number():
    mean = mean_over_tasks(
        [
            SeedScores({0: 10.0, 1: 20.0, 2: 30.0}, True),
            SeedScores({1: 40.0, 2: 60.0, 3: 0.0}, True),
        ]
    )
    assert (mean.scores, mean.seeded) == ({1: 30.0, 2: 45.0}, True)
    assert mean_over_tasks([one(10.0), one(None)]).value.mean is None


# Several tests


@given(st.lists(st.floats(0, 1), max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_what_the_step_down_procedure_rejects(p, level):
    rejected: list[float] = []
    for i, value in enumerate(sorted(p)):
        if (len(p) - i) * value > level:
            break
        rejected.append(value)
    adjusted = zip(p, holm(p), strict=True)
    assert sorted(x for x, new in adjusted if new <= level) == rejected


# Rows of a table


def test_rows_are_compared_if_every_pair_of_neighbours_has_a_difference_of_its_averages():
    averages = {"a": 70.0, "b": 69.0, "c": 68.5}
    known = {}
    for above, below, points in (("a", "b", 1.0), ("b", "c", 0.5)):
        contrast = Contrast(above, below, SIMCSE.task_scores)
        tested = stored(points, 0.1, 2.0, 0.03)
        known[contrast] = replace(tested, contrast=contrast)
    found = differences_of_rows(averages, SIMCSE, known)
    assert [each.contrast.second for each in found] == ["b", "c"]
    assert [each.p_holm for each in found] == [0.06, 0.06]
    for others in ({**averages, "c": 68.4}, {**averages, "d": 1.0}):
        assert differences_of_rows(others, SIMCSE, known) == []
