"""Moments and affine maps: what they equal, what they survive, what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.contracts.samples import rows, with_constants
from harness.transforms.affine import (
    LEAST_VARIANCE,
    Affine,
    Moments,
    principal_directions,
)

WIDTH = 3
# A grid of eighths, so that hypothesis finds equal rows and constant columns, and
# shrinks well.
GRID = st.integers(-800, 800).map(lambda eighths: np.float32(eighths / 8))
ROWS = arrays(np.float32, st.tuples(st.integers(1, 12), st.just(WIDTH)), elements=GRID)


def assert_same(one, other):
    """Up to rounding: sums of 1e5 and less, in float64, in another order."""
    assert one.count == other.count
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-10)
    np.testing.assert_allclose(one.scatter, other.scatter, atol=1e-7)


# --- moments -------------------------------------------------------------------------------------


@given(ROWS)
def test_moments_are_the_mean_and_the_population_covariance(x):
    moments = Moments.of(x)
    np.testing.assert_allclose(
        moments.mean, x.mean(axis=0, dtype=np.float64), atol=1e-10
    )
    np.testing.assert_allclose(moments.covariance, np.cov(x.T, ddof=0), atol=1e-8)
    np.testing.assert_allclose(
        moments.uncentred, x.T.astype(float) @ x / len(x), atol=1e-8
    )


@given(st.lists(ROWS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_moments_of_shards_are_those_of_the_whole_in_any_order(shards, random):
    whole = Moments.of(np.concatenate(shards))
    random.shuffle(shards)
    assert_same(Moments.merged(map(Moments.of, shards)), whole)


@given(ROWS, st.data())
def test_a_count_is_as_good_as_a_repetition(x, data):
    repeats = data.draw(arrays(np.int64, len(x), elements=st.integers(1, 4)))
    assert_same(Moments.of(x, repeats), Moments.of(np.repeat(x, repeats, axis=0)))


@given(ROWS, st.randoms(use_true_random=False))
def test_moments_behind_a_map_are_the_moments_of_mapped_rows(x, random):
    rng = np.random.default_rng(random.getrandbits(32))
    affine = Affine(rng.normal(size=WIDTH), rng.normal(size=(WIDTH, 2)), rank=2)
    assert_same(Moments.of(x).after(affine), Moments.of(affine(x)))


def test_a_far_away_cloud_keeps_its_shape():
    """The textbook formula E[xx'] - E[x]E[x]' would lose every digit here."""
    x = rows(50, 4).astype(np.float64)
    near, far = Moments.of(x), Moments.of(x + 1e8)
    shards = Moments.merged(Moments.of(part) for part in np.split(x + 1e8, 5))
    # x + 1e8 keeps about 8 digits of x.
    np.testing.assert_allclose(far.covariance, near.covariance, atol=1e-6)
    np.testing.assert_allclose(shards.covariance, near.covariance, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 7, 10, 1000])
def test_a_constant_coordinate_has_no_variance_at_all(count):
    """Not even the ulp by which a sum of equal float64 numbers misses their multiple."""
    x = with_constants(rows(count, 4)).astype(np.float64) * np.pi
    parts = Moments.merged(map(Moments.of, np.array_split(x, min(3, count))))
    weighted = Moments.of(x, np.arange(3, 3 + count))
    for moments in (Moments.of(x), weighted, parts):
        assert not moments.scatter[-3:].any()


# --- principal directions ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_rank_counts_what_is_above_the_floor_at_any_scale(scale):
    spectrum = np.array([1.0, 2 * LEAST_VARIANCE, 0.5 * LEAST_VARIANCE, 0.0])
    turn, _ = np.linalg.qr(rows(4, 4).astype(np.float64))
    for matrix in (np.diag(spectrum), (turn * spectrum) @ turn.T):
        assert principal_directions(scale * matrix).rank == 2
