"""Moments and affine maps; SN, NATSV and whitening against the authors' formulas in plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import pooled_pairs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refusals import refused

from baselines.natsv import Natsv
from baselines.sn import SN
from baselines.whitening import Whitening
from harness.contracts.samples import rows, with_constants
from harness.core.errors import ScoreError
from harness.evaluation.fits import fit
from harness.transforms.affine import Affine, Moments, principal_directions

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


# Moments


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


def test_no_rows_and_values_that_are_not_finite_are_refused():
    for parts in ([], iter(())):
        with refused(ScoreError, "^no sentences to fit on"):
            Moments.merged(parts)
    x = rows(3, 2)
    for empty, repeats in ((x[:0], None), (x, np.zeros(3, np.int64))):
        with refused(ScoreError, "^no sentences to fit on"):
            Moments.of(empty, repeats)
    x[1, 0] = x[2, 1] = np.nan
    with refused(ScoreError, "^row 1 of the vectors .* not finite"):
        Moments.of(x)


# Principal directions


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_rank_counts_what_is_above_the_floor_at_any_scale(scale):
    # A direction needs more than 1e-9 of the largest variance.
    spectrum = np.array([1.0, 2e-9, 0.5e-9, 0.0])
    turn, _ = np.linalg.qr(rows(4, 4).astype(np.float64))
    for matrix in (np.diag(spectrum), (turn * spectrum) @ turn.T):
        assert principal_directions(scale * matrix).rank == 2


def test_directions_are_sorted_and_their_largest_coordinates_are_positive():
    """So that equal moments give equal maps, whatever sign an eigenvector comes with."""
    for sign in (1, -1):
        moments = Moments.of(rows(30, 6).astype(np.float64) * sign)
        found = moments.principal
        assert found.rank == 6
        assert (np.diff(found.values) < 0).all()
        largest = np.abs(found.vectors).argmax(axis=0)
        assert (found.vectors[largest, np.arange(6)] > 0).all()
        again = (found.vectors * found.values) @ found.vectors.T
        np.testing.assert_allclose(again, moments.covariance, atol=1e-12)
    assert principal_directions(np.diag([0.0, 4.0, 0.0])).rank == 1
    with refused(ScoreError, "^all vectors to fit on are equal"):
        principal_directions(np.zeros((3, 3)))


SEEDS = st.integers(0, 10_000)
# float64 rounding, amplified by the specimens' spread of variances, about 400 to 1.
CLOSE = 1e-9
NEVER_DRAWN = np.random.default_rng(0)


def calibrated(x, *posts):
    """The rows behind post-processors that were fitted on them in the written order."""
    for post in posts:
        x = post.fit(x, NEVER_DRAWN)(x)
    return x


def cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


# The authors' formulas


def plain_sn(x):
    """Li et al. 2020: (u - mean) / standard deviation."""
    x = x.astype(np.float64)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def plain_natsv(x, k, centred=False):
    """Arora et al. 2017 (SIF_embedding.py): X - X V V'; Mu & Viswanath 2018 centre first."""
    x = x.astype(np.float64)
    x = x - x.mean(axis=0) if centred else x
    _, _, vh = np.linalg.svd(x, full_matrices=False)
    return x - x @ vh[:k].T @ vh[:k]


def plain_whitening(x, k=None):
    """Su et al. 2021: compute_kernel_bias, then transform_and_normalize up to its norm."""
    x = x.astype(np.float64)
    u, s, _ = np.linalg.svd(np.cov(x.T))
    weight = (u @ np.diag(1 / np.sqrt(s)))[:, :k]
    return (x - x.mean(axis=0, keepdims=True)) @ weight


@given(SEEDS, st.integers(1, 5), st.booleans())
def test_sn_is_the_z_score_and_natsv_is_what_singular_vectors_leave(seed, k, centred):
    """A constant coordinate, whose z-score is 0 / 0, becomes 0."""
    x = rows(30, 6, seed)
    standardised = calibrated(with_constants(x), SN())
    np.testing.assert_allclose(standardised[:, :6], plain_sn(x), atol=CLOSE)
    assert not standardised[:, 6:].any()
    nulled = calibrated(x, Natsv(k, centred))
    np.testing.assert_allclose(nulled, plain_natsv(x, k, centred), atol=CLOSE)


@given(SEEDS, st.none() | st.integers(1, 6), st.booleans())
def test_whitening_has_the_authors_cosines_on_what_varies(seed, k, constants):
    """Of three constant coordinates the authors' formula would make columns of amplified noise."""
    x = rows(30, 6, seed)
    whitened = calibrated(with_constants(x) if constants else x, Whitening(k))
    plain = plain_whitening(x, k)
    assert whitened.shape == plain.shape
    np.testing.assert_allclose(cosines(whitened), cosines(plain), atol=CLOSE)


CHAINS = [
    ((SN(), Natsv(2)), lambda x: plain_natsv(plain_sn(x), 2)),
    ((Natsv(2), Whitening(3)), lambda x: plain_whitening(plain_natsv(x, 2), 3)),
    (
        (Natsv(1, True), SN(), Natsv(2)),
        lambda x: plain_natsv(plain_sn(plain_natsv(x, 1, True)), 2),
    ),
]


@pytest.mark.parametrize(("posts", "plain"), CHAINS)
@pytest.mark.parametrize("streamed", [True, False], ids=["moments", "rows"])
def test_a_chain_applies_the_formulas_in_the_written_order(posts, plain, streamed):
    view, pairs = pooled_pairs(rows(30, 6))
    moments, _ = view.moments(pairs.sentences)
    data = moments if streamed else view.matrix[view.rows(pairs.sentences)]
    found = view.matrix
    for transform in fit(posts, data, NEVER_DRAWN):
        found = transform(found)
    np.testing.assert_allclose(cosines(found), cosines(plain(view.matrix)), atol=CLOSE)


# What each promises


def test_a_diagonal_weight_is_applied_by_its_scales_alone():
    x, scales = rows(5, 3), np.array([2.0, 0.0, -1.0])
    diagonal = Affine(np.ones(3), np.diag(scales), rank=2)
    assert np.array_equal(diagonal.scales, scales)
    assert np.allclose(diagonal(x), (x - 1) * scales)
    for weight in (np.eye(3)[:, :2], np.eye(3)[:2], np.ones((3, 3))):
        assert Affine(np.zeros(len(weight)), weight, rank=1).scales is None


@pytest.mark.parametrize(
    ("post", "shape", "span"),
    [(post, (30, 6), 6) for post in (Natsv(6), Natsv(7), Natsv(6, True), Whitening(7))]
    + [
        (Natsv(5), (5, 20), 5),
        (Natsv(4, True), (5, 20), 4),
        (Whitening(5), (5, 20), 4),
    ],
)
def test_more_directions_than_there_are_is_refused(post, shape, span):
    why = rf"span only {span} of {shape[1]} dimensions \({shape[0]} rows\).*smaller k$"
    with refused(ScoreError, f"^{post.name} .* {why}"):
        post.fit(rows(*shape), NEVER_DRAWN)
    assert np.isfinite(calibrated(rows(*shape), replace(post, k=span - 1))).all()
