"""Student's t against SciPy's."""

import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from harness.results.student import student_p, student_quantile

DEGREES = st.floats(1, 10_000)


@given(DEGREES)
def test_the_95_percent_interval_is_scipys(df):
    assert student_quantile(df) == pytest.approx(
        scipy.special.stdtrit(df, 0.975), rel=1e-10
    )


@given(st.floats(-1e3, 1e3), DEGREES)
def test_the_p_of_a_t_is_scipys(t, df):
    # abs: SciPy itself loses digits of a p that is next to none
    wanted = 2 * scipy.special.stdtr(df, -abs(t))
    assert student_p(t, df) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


def test_a_difference_beyond_all_numbers_is_certain():
    assert (student_p(0.0, 3.0), student_p(1e300, 3.0)) == (1.0, 0.0)
