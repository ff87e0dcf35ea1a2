"""SN, NATSV and whitening against the authors' formulas in plain NumPy, alone and in chains."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import pooled_pairs
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from baselines.natsv import Natsv
from baselines.sn import SN
from baselines.whitening import Whitening
from harness.contracts.samples import rows, with_constants
from harness.core.errors import ScoreError
from harness.evaluation.cell import fit

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


# --- the authors' formulas -----------------------------------------------------------------------


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
    moments, _ = view.moments("target", pairs.sentences)
    data = moments if streamed else view.matrix[view.rows(pairs.sentences)]
    found = view.matrix
    for transform in fit(posts, data, NEVER_DRAWN):
        found = transform(found)
    np.testing.assert_allclose(cosines(found), cosines(plain(view.matrix)), atol=CLOSE)


# --- what each promises --------------------------------------------------------------------------


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


# --- on text and weights -------------------------------------------------------------------------
