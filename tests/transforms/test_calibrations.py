"""SN, NATSV and whitening against the authors' formulas in plain NumPy, alone and in chains."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from specimens import rows, view_of, with_constants

from baselines.miniature import BERT_MINI
from baselines.natsv import Natsv
from baselines.sn import SN
from baselines.whitening import Whitening
from harness.assets.places import Places
from harness.core.errors import ScoreError, UsageError
from harness.core.types import Method
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.evaluate import FitData, fit
from harness.evaluation.runner import RunContext, execute
from harness.registry import load_registry
from harness.results.records import Store, cells
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import MEAN

SEEDS = st.integers(0, 10_000)
# float64 rounding, amplified by the specimens' spread of variances, about 400 to 1.
CLOSE = 1e-9
NEVER_DRAWN = np.random.default_rng(0)


def calibrated(x: np.ndarray, *posts) -> np.ndarray:
    """The rows behind post-processors that were fitted on them in the written order."""
    for post in posts:
        x = post.fit(x, NEVER_DRAWN)(x)
    return x


def cosines(x: np.ndarray) -> np.ndarray:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


# --- the authors' formulas -----------------------------------------------------------------------


def plain_sn(x: np.ndarray) -> np.ndarray:
    """Li et al. 2020: (u - mean) / standard deviation."""
    x = x.astype(np.float64)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def plain_natsv(x: np.ndarray, k: int, centred: bool = False) -> np.ndarray:
    """Arora et al. 2017 (SIF_embedding.py): X - X V V'; Mu & Viswanath 2018 centre first."""
    x = x.astype(np.float64)
    x = x - x.mean(axis=0) if centred else x
    _, _, vh = np.linalg.svd(x, full_matrices=False)
    return x - x @ vh[:k].T @ vh[:k]


def plain_whitening(x: np.ndarray, k: int | None = None) -> np.ndarray:
    """Su et al. 2021: compute_kernel_bias, then transform_and_normalize up to its norm."""
    x = x.astype(np.float64)
    u, s, _ = np.linalg.svd(np.cov(x.T))
    weight = (u @ np.diag(1 / np.sqrt(s)))[:, :k]
    return (x - x.mean(axis=0, keepdims=True)) @ weight


@given(SEEDS, st.integers(1, 5), st.booleans())
def test_sn_is_the_z_score_and_natsv_is_what_singular_vectors_leave(seed, k, centred):
    x = rows(30, 6, seed)
    np.testing.assert_allclose(calibrated(x, SN()), plain_sn(x), atol=CLOSE)
    nulled = calibrated(x, Natsv(k, centred))
    np.testing.assert_allclose(nulled, plain_natsv(x, k, centred), atol=CLOSE)


@given(SEEDS, st.none() | st.integers(1, 6))
def test_whitening_has_the_authors_cosines(seed, k):
    x = rows(30, 6, seed)
    whitened, plain = calibrated(x, Whitening(k)), plain_whitening(x, k)
    assert whitened.shape == plain.shape
    np.testing.assert_allclose(cosines(whitened), cosines(plain), atol=CLOSE)


@given(SEEDS)
def test_whitening_is_the_authors_on_what_varies(seed):
    """Behind three constant coordinates the authors' last three columns are amplified noise."""
    x = rows(30, 6, seed)
    found = calibrated(with_constants(x), Whitening())
    assert found.shape[1] == 6
    np.testing.assert_allclose(cosines(found), cosines(plain_whitening(x)), atol=CLOSE)


CHAINS = [
    ((SN(), Natsv(2)), lambda x: plain_natsv(plain_sn(x), 2)),
    ((Natsv(2), SN()), lambda x: plain_sn(plain_natsv(x, 2))),
    ((SN(), Whitening(4)), lambda x: plain_whitening(plain_sn(x), 4)),
    ((Natsv(2), Whitening(3)), lambda x: plain_whitening(plain_natsv(x, 2), 3)),
    ((Natsv(1, True), SN(), Natsv(2)), lambda x: plain_natsv(plain_sn(plain_natsv(x, 1, True)), 2)),
]


@pytest.mark.parametrize(("posts", "plain"), CHAINS)
@pytest.mark.parametrize("streamed", [True, False], ids=["moments", "rows"])
def test_a_chain_applies_the_formulas_in_the_written_order(posts, plain, streamed):
    view, pairs = view_of(rows(30, 6))
    moments, _ = view.moments("target", pairs.sentences)
    data = FitData(moments if streamed else view.matrix[view.rows(pairs.sentences)])
    found = view.matrix
    for transform in fit(Method(BERT_MINI, MEAN, posts, "target"), data, NEVER_DRAWN):
        found = transform(found)
    np.testing.assert_allclose(cosines(found), cosines(plain(view.matrix)), atol=CLOSE)


# --- what each promises --------------------------------------------------------------------------


@given(SEEDS)
def test_sn_gives_every_coordinate_mean_0_and_spread_1_and_constant_ones_0(seed):
    found = calibrated(with_constants(rows(30, 6, seed)), SN())
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=CLOSE)
    np.testing.assert_allclose(found[:, :6].std(axis=0), 1, atol=CLOSE)
    assert not found[:, 6:].any()


def test_sn_gives_0_where_a_coordinate_varies_by_rounding_alone():
    x = rows(30, 3).astype(np.float64)
    x[:, 2] = 1 + 1e-8 * x[:, 2]
    assert not calibrated(x, SN())[:, 2].any()


@given(SEEDS)
def test_whitening_gives_the_identity_as_covariance(seed):
    found = calibrated(with_constants(rows(30, 6, seed)), Whitening())
    np.testing.assert_allclose(np.cov(found.T, ddof=0), np.eye(6), atol=CLOSE)


@given(SEEDS)
def test_whitening_cannot_see_an_invertible_map_of_its_input(seed):
    x = rows(30, 6, seed).astype(np.float64)
    mixing = np.linalg.qr(rows(6, 6, seed + 1).astype(np.float64))[0] * [1, 2, 3, 0.5, 0.2, 7]
    mixed = x @ mixing + rows(1, 6, seed + 2)
    one, other = (cosines(calibrated(v, Whitening())) for v in (x, mixed))
    np.testing.assert_allclose(one, other, atol=1e-7)  # rounding, squared condition of the mixing


@given(SEEDS, st.sampled_from([1e-3, 1e3]))
def test_no_calibration_sees_the_unit_of_length(seed, factor):
    x = rows(30, 6, seed).astype(np.float64)
    for post in (SN(), Natsv(2), Natsv(2, centred=True), Whitening(), Whitening(3)):
        one, other = (cosines(calibrated(v, post)) for v in (x, factor * x))
        np.testing.assert_allclose(one, other, atol=CLOSE)


@given(SEEDS)
def test_only_uncentred_natsv_sees_where_zero_is(seed):
    x = rows(30, 6, seed).astype(np.float64)
    for post in (SN(), Natsv(2, centred=True), Whitening()):
        one, other = (cosines(calibrated(v, post)) for v in (x, x + 5))
        np.testing.assert_allclose(one, other, atol=1e-7)  # x + 5 loses a digit, twice
    one, other = (cosines(calibrated(v, Natsv(2))) for v in (x, x + 5))
    assert np.abs(one - other).max() > 1e-3


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("post", [Natsv(6), Natsv(7), Natsv(6, True), Whitening(7)])
def test_more_directions_than_there_are_is_refused(post):
    with pytest.raises(ScoreError, match=rf"^{post.name} .* span only 6 of 6 .*smaller k$"):
        post.fit(rows(30, 6), NEVER_DRAWN)


@pytest.mark.parametrize(("post", "span"), [(Natsv(5), 5), (Natsv(4, True), 4), (Whitening(5), 4)])
def test_fewer_rows_than_dimensions_span_fewer_directions(post, span):
    with pytest.raises(ScoreError, match=rf"span only {span} of 20 dimensions \(5 rows\)"):
        post.fit(rows(5, 20), NEVER_DRAWN)
    smaller = replace(post, k=span - 1)
    assert np.isfinite(calibrated(rows(5, 20), smaller)).all()


@pytest.mark.parametrize("k", [0, -1])
def test_a_count_below_one_is_wrong_usage(k):
    for make in (Natsv, Whitening):
        with pytest.raises(UsageError, match=f"k >= 1 directions, not {k}"):
            make(k)


# --- on text and weights -------------------------------------------------------------------------

OF_A_RUN = {
    "": lambda x: x.astype(np.float64),
    "+sn@target": plain_sn,
    "+natsv:10@target": lambda x: plain_natsv(x, 10),
    "+natsv-c:1@target": lambda x: plain_natsv(x, 1, centred=True),
    "+sn+natsv:6@target": lambda x: plain_natsv(plain_sn(x), 6),
    "+whitening@target": lambda x: plain_whitening(x, 255),  # a layer norm takes one away
    "+whitening:128@target": lambda x: plain_whitening(x, 128),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Records by method of a run over mini-STS, its pairs, and the vectors that it cached."""
    folder = tmp_path_factory.mktemp("run")
    library = TaskLoader(Places(folder / "cache"), {})
    task = replace(load_registry().tasks["mini-sts"], splits=("test",))  # which is all of @target
    methods = [load_registry().parse(f"bert-mini.mean{post}") for post in OF_A_RUN]
    outcomes = execute(cells(methods, [task], seeds=1), RunContext(library, Store(folder)))
    records = {outcome.cell.method: outcome.record for outcome in outcomes}
    key = BERT_MINI.identify(library.places.encoder(BERT_MINI)).key
    pairs = library.inputs(task).pairs
    vectors = EncoderCache.open(folder / "cache", key).read(pairs.sentences, layers=(4,))
    return records, pairs, MEAN(vectors)


@pytest.mark.slow
@pytest.mark.parametrize("post", OF_A_RUN)
def test_scores_of_a_run_are_those_of_the_formulas_on_the_same_vectors(post, run):
    records, pairs, x = run
    a, b = np.split(OF_A_RUN[post](x), 2)  # fitted on both columns, with repetitions
    plain = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    record = records[f"bert-mini.mean{post}"]
    # In points: another rounding of cosines swaps a few neighbouring ranks.
    expected = 100 * spearmanr(plain, pairs.gold).statistic
    assert record.scores["spearman"]["all"] == pytest.approx(expected, abs=1e-3)
