import math
from decimal import Decimal

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import ScoreError
from harness.results.verdict import (
    CellState,
    Measured,
    Published,
    Verdict,
    Welch,
    agreement,
    verdict,
    welch_test,
)


def deterministic(published: str, measured: float) -> CellState:
    return verdict(Published(published), Measured((measured,))).state


def seeded(published: Published, *scores: float | None) -> Verdict:
    return verdict(published, Measured(scores, seeded=True))


STEPS = {
    "0": "exact",
    "0.005": "exact",
    "0.0051": "match",
    "0.05": "match",
    "0.0501": "close",
    "0.5": "close",
    "0.5001": "differs",
    "40": "differs",
}


@pytest.mark.parametrize("published", ["58.40", "-24.61", "0.00", "70.07", "99.99"])
def test_boundaries_are_decimal_and_two_sided(published):
    for step, state in STEPS.items():
        for sign in (1, -1):
            measured = Decimal(published) + sign * Decimal(step)
            assert deterministic(published, float(measured)) == state


@pytest.mark.parametrize(
    ("published", "measured", "state"),
    [
        ("63.6", 63.65, "exact"),
        ("63.6", 63.55, "exact"),
        ("63.6", 63.6501, "close"),
        ("64", 64.5, "exact"),
        ("64", 64.51, "differs"),
        ("82.03247283076371", 82.03247, "exact"),
        ("82.03247283076371", 82.0385, "match"),
    ],
)
def test_a_number_with_other_decimals_is_as_exact_as_it_is_printed(
    published, measured, state
):
    assert deterministic(published, measured) == state


@pytest.mark.parametrize("hole", [None, math.nan, math.inf, -math.inf])
def test_a_missing_score_is_undefined_and_never_skipped(hole):
    assert verdict(Published("50.00"), Measured((hole,))) == Verdict(
        CellState.UNDEFINED
    )
    assert seeded(Published("50.00"), *[50.0] * 5, hole) == Verdict(CellState.UNDEFINED)


def test_four_seeds_are_too_few_and_five_are_not():
    scores = (49.5, 50.0, 50.5, 50.0, 50.0)
    four = seeded(Published("50.00"), *scores[:4])
    assert (four.state, four.k, four.difference) == (CellState.TOO_FEW_SEEDS, 4, 0.0)
    assert four.sd == pytest.approx(math.sqrt(0.5 / 3), abs=1e-12)  # rounding
    of_mean = seeded(Published("50.00", 0.5, 10), *scores[:4])
    assert of_mean.state is CellState.TOO_FEW_SEEDS
    assert seeded(Published("50.00"), *scores).state is CellState.CONSISTENT
    two = seeded(Published("50.00"), 49.5, 50.5)
    assert two.sd == pytest.approx(math.sqrt(0.5))
    one = seeded(Published("50.00"), 49.5)
    assert one == Verdict(CellState.TOO_FEW_SEEDS, difference=-0.5, k=1)


def test_the_seeded_rule_at_its_boundaries():
    scores = np.array([-1.0, 1.0, 0.0, 0.0, 0.0])  # sd = sqrt(1/2)
    h = (
        2.7764451052 * math.sqrt(1 / 2) * math.sqrt(1 + 1 / 5)
    )  # t(.975, 4) from the tables
    assert seeded(Published("50.00"), *(50 + scores)).half_width == pytest.approx(
        h, abs=1e-9
    )

    def state(d: float, spread: float) -> CellState:
        return seeded(Published("50.00"), *(50 + d + spread / h * scores)).state

    assert state(1.499, spread=1.5) is state(-1.499, spread=1.5) is CellState.CONSISTENT
    assert state(1.501, spread=1.5) is state(-1.501, spread=1.5) is CellState.DIFFERS
    assert state(0.0, spread=1.999) is CellState.CONSISTENT
    assert (
        state(0.0, spread=2.001) is state(9.0, spread=2.001) is CellState.INCONCLUSIVE
    )
    assert state(0.05, spread=0.0) is state(-0.05, spread=0.0) is CellState.CONSISTENT
    assert state(0.0501, spread=0.0) is CellState.DIFFERS
    # The ends of an interval are in it, and one of 2 points tells something.
    assert state(1.5, spread=1.5) is state(2.0, spread=2.0) is CellState.CONSISTENT


def test_the_rule_for_a_published_mean_at_its_boundaries():
    published = Published("50.00", sd=0.0, n=10)  # so h depends on our five runs alone
    scores = np.array([-1.0, 1.0, 0.0, 0.0, 0.0])
    h = 2.7764451052 * math.sqrt(1 / 2) / math.sqrt(5)

    def state(d: float, spread: float) -> CellState:
        return seeded(published, *(50 + d + spread / h * scores)).state

    assert state(0.599, spread=0.4) is state(-0.599, spread=0.4) is CellState.CONSISTENT
    assert state(0.601, spread=0.4) is state(-0.601, spread=0.4) is CellState.DIFFERS
    assert (
        state(0.301, spread=0.7) is state(0.699, spread=0.7) is CellState.INCONCLUSIVE
    )
    assert state(0.0, spread=1.001) is CellState.INCONCLUSIVE
    assert state(-1.002, spread=1.001) is CellState.DIFFERS
    assert state(1.0, spread=0.0) is CellState.CONSISTENT
    assert state(0.6, spread=0.4) is state(0.3, spread=0.7) is CellState.CONSISTENT
    assert state(1.0001, spread=0.0) is CellState.DIFFERS


@given(
    st.lists(st.floats(-3, 3), min_size=5, max_size=12),
    st.lists(st.floats(-3, 3), min_size=2, max_size=12),
)
def test_the_interval_against_a_published_mean_is_welchs(ours, theirs):
    if np.std(ours) < 1e-3 or np.std(theirs) < 1e-3:
        return  # scipy warns of lost precision
    published = Published("0.00", sd=float(np.std(theirs, ddof=1)), n=len(theirs))
    oracle = scipy.stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    # 1e-8: the half-width is rounded to 1e-9
    expected = (oracle.high - oracle.low) / 2
    assert seeded(published, *ours).half_width == pytest.approx(expected, abs=1e-8)
    samples = [(float(np.std(x, ddof=1)), len(x)) for x in (ours, theirs)]
    p = welch_test(float(np.mean(ours) - np.mean(theirs)), *samples).p
    expected_p = scipy.stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    assert p == pytest.approx(expected_p, rel=1e-6, abs=1e-12)


def test_a_difference_of_means_that_do_not_vary_is_certain():
    never = ((0.0, 5), (0.0, 3))
    assert welch_test(0.1, *never) == Welch(half=0.0, p=0.0)
    assert welch_test(0.0, *never) == Welch(half=0.0, p=1.0)


def test_two_means_differ_where_welchs_interval_is_without_zero():
    scores = (49.0, 50.0, 51.0, 50.0, 50.0)

    def at(distance: float) -> Verdict:
        return seeded(Published(f"{50 - distance:.9f}", sd=0.9, n=4), *scores)

    half_width = at(0.0).half_width
    assert half_width > 0.5  # else such a difference is consistent
    # An interval that ends at 0 has it.
    assert at(half_width).state is CellState.INCONCLUSIVE
    assert at(half_width + 1e-9).state is CellState.DIFFERS


@pytest.mark.parametrize(
    ("first", "second", "agreed"),
    [
        ("39.70", "39.70", "same digits"),
        ("39.70", "39.71", "same to rounding"),
        ("39.70", "39.72", "different"),
        # The digits of the one that has fewer.
        ("63.6", "63.65", "same digits"),
        ("63.6", "63.66", "same to rounding"),
        ("63.6", "63.75", "same to rounding"),
        ("63.6", "63.76", "different"),
        ("72.37", "72.3690", "same digits"),
        ("72.38", "72.3690", "same to rounding"),
        ("72.39", "72.3690", "different"),
        ("30.49", "30.495", "same digits"),  # whose floats are further apart
        # Unrounded numbers.
        ("72.3690", "72.3740", "same digits"),
        ("72.3690", "72.3741", "same to rounding"),
        ("72.3690", "72.4190", "same to rounding"),
        ("72.3690", "72.4191", "different"),
        ("72.369", "72.419", "same to rounding"),
        ("72.369", "72.420", "different"),
        ("-4.93", "4.93", "different"),
    ],
)
def test_two_numbers_have_the_same_digits_or_not(first, second, agreed):
    for numbers in ((first, second), (second, first)):
        assert agreement(*map(Published, numbers)) == agreed


@pytest.mark.parametrize(
    "value", ["", "n/a", "nan", "inf", "58,40", "1e2", " 58.40", "58.", "−1.0"]
)
def test_what_is_not_a_printed_number_is_refused(value):
    with pytest.raises(ScoreError, match=r"like 58\.40"):
        Published(value)


@pytest.mark.parametrize(
    ("sd", "n", "told"),
    [
        (0.5, None, "sd and n come together"),
        (None, 5, "sd and n come together"),
        (-0.1, 5, "0 or more; found -0.1"),
        (math.inf, 5, "a finite number"),
        (0.5, 1, "needs n >= 2 runs, found n 1"),
    ],
)
def test_a_spread_that_is_none_is_refused(sd, n, told):
    with pytest.raises(ScoreError, match=told):
        Published("50.00", sd, n)
    assert Published("50.00", 0.0, 2).n == 2


def test_a_cell_has_one_score_or_one_a_seed():
    for scores, is_seeded in (((), False), ((), True), ((1.0, 2.0), False)):
        with pytest.raises(ScoreError, match="one score, or one a seed"):
            Measured(scores, is_seeded)
    assert Measured((1.0,), seeded=True).scores == (1.0,)


def test_plain_numbers_are_told_what_is_wanted():
    right = Published("82.05"), Measured((82.03,))
    for numbers in ((0.82, 82.03), (0.82, right[1]), (right[0], 82.03)):
        with pytest.raises(
            ScoreError, match=r"verdict\(Published\('82.05'\), Measured"
        ):
            verdict(*numbers)
