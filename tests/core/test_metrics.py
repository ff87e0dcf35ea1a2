"""Scores: parity with scipy, scikit-learn, nltk and authors' code; what may not matter."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from nltk import edit_distance
from refusals import refused
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import (
    paired_euclidean_distances,
    paired_manhattan_distances,
)

from harness.contracts.samples import rows
from harness.core.errors import HarnessError, ScoreError
from harness.core.metrics import (
    PairRows,
    add_metric,
    cosine,
    cosines,
    finite_scores,
    geometry,
    labelled_splits,
    metrics,
    score,
    undefined_reason,
    unit_rows,
)
from harness.core.metrics.correlation import (
    CORRELATION_SCORES,
    METRIC,
    PAIRS_AT_A_TIME,
    of_other_similarities,
    pearson,
    score_name,
)
from harness.core.metrics.geometry import alignment_uniformity
from harness.core.pairs import Pairs
from harness.core.types import Task

# A hundredth of a point on a coarse grid: hypothesis then finds ties and constant
# columns.
COSINES = st.integers(-100, 100).map(lambda hundredths: hundredths / 100)
GRADES = st.integers(0, 10).map(lambda halves: halves / 2)
GROUPS = st.sampled_from(["images", "headlines", "news"])
SCORED = st.lists(st.tuples(COSINES, GRADES, GROUPS), min_size=1, max_size=30)
# Parity is to the last digits of float64, on scores of up to 100.
DIGITS = 1e-9
CORRELATIONS = {"spearman": spearmanr, "pearson": pearsonr}


def task_of(metric):
    return Task("t", lambda *_: None, ("dev", "test"), ("test",), metric, "none", "raw")


def scores_of(metric, values, pairs):
    return score(task_of(metric), values, pairs)


def pairs_with(gold, group=None):
    texts = tuple(f"text {number}" for number in range(len(gold)))
    gold = np.array(gold, dtype=np.float64)
    return Pairs(texts, texts[::-1], gold, group or ("g",) * len(gold))


def values_in_order(scores):
    if isinstance(scores, dict):
        return [
            value for key in sorted(scores) for value in values_in_order(scores[key])
        ]
    return [np.nan if scores is None else scores]


def undefined_or(statistic, x, y):
    """A statistic of another program, x100; NaN where it is undefined."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return 100 * statistic(x, y)[0]


def plain_aggregations(statistic, x, pairs):
    """SentEval's STSEval: each subset, their means, and all together."""
    group = np.array(pairs.group)
    subsets = [group == name for name in dict.fromkeys(pairs.group)]
    groups = [undefined_or(statistic, x[rows], pairs.gold[rows]) for rows in subsets]
    return {
        "all": undefined_or(statistic, x, pairs.gold),
        "mean": np.mean(groups),
        "wmean": np.average(groups, weights=[rows.sum() for rows in subsets]),
        "groups": dict(zip(dict.fromkeys(pairs.group), groups, strict=True)),
    }


# Cosine

VECTORS = arrays(np.float32, (4, 3), elements=st.integers(-9, 9).map(np.float32))


@given(VECTORS, VECTORS, st.sampled_from([1e-6, 0.5, 1.0, 3.0, 1e6]))
def test_a_cosine_is_the_product_of_unit_vectors_and_0_for_a_zero_vector(a, b, factor):
    a, b = a.astype(np.float64), b.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    wanted = np.divide((a * b).sum(axis=1), norms, out=np.zeros(4), where=norms > 0)
    values, zero_pairs = cosine(a * factor, b)
    np.testing.assert_allclose(values, wanted, atol=1e-12)
    assert (np.abs(values) <= 1).all()
    assert zero_pairs == (norms == 0).sum()
    np.testing.assert_array_equal(cosine(b, a * factor)[0], values)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused_by_number(value):
    for other in (0.0, 1.0):
        a, b = np.ones((3, 2)), np.full((3, 2), other)
        a[1, 0] = value
        with refused(ScoreError, r"^pair 2: .* not finite"):
            cosine(a, b)


# Correlations and areas


@given(SCORED)
def test_scores_are_scipys_and_scikit_learns_under_every_aggregation(rows_of_pairs):
    x, gold, group = zip(*rows_of_pairs, strict=True)
    x, pairs = np.array(x), pairs_with(gold, group)
    scores = scores_of("correlation", x, pairs)
    for name, statistic in CORRELATIONS.items():
        wanted = plain_aggregations(statistic, x, pairs)
        assert list(scores[name]["groups"]) == list(wanted["groups"])
        found, wanted = values_in_order(scores[name]), values_in_order(wanted)
        np.testing.assert_allclose(found, wanted, atol=DIGITS)
    classes = (pairs.gold > 2).astype(np.float64)
    area = scores_of("auc", x, replace(pairs, gold=classes))["auc"]
    if len({*classes}) < 2:
        assert area is None
    else:
        assert area == pytest.approx(100 * roc_auc_score(classes, x), abs=DIGITS)


@given(SCORED, st.randoms(use_true_random=False))
def test_rounding_noise_in_cosines_does_not_break_ties(rows_of_pairs, random):
    x, gold, group = zip(*rows_of_pairs, strict=True)
    x, pairs = np.array(x), pairs_with(gold, group)
    noise = np.array([random.uniform(-4e-11, 4e-11) for _ in x])
    binary = replace(pairs, gold=(pairs.gold > 2).astype(np.float64))
    for metric, items in (("correlation", pairs), ("auc", binary)):
        plain, noisy = (scores_of(metric, y, items) for y in (x, x * (1 + noise)))
        # Pearson's correlation moves by the noise itself, of a hundred points.
        np.testing.assert_allclose(
            values_in_order(noisy), values_in_order(plain), atol=10 * DIGITS
        )


def test_an_area_is_of_gold_0_and_1_and_another_one_is_told_by_its_pair():
    with refused(ScoreError, "^pair 3: wanted gold 0 or 1, found 2"):
        scores_of("auc", np.array([0.1, 0.2, 0.3, 0.4]), pairs_with([0, 1, 2, 3]))


def test_pearson_of_nearly_equal_similarities_is_that_of_the_similarities():
    """Rounding to ten digits, which ranks need, would move it by hundredths of a point."""
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 200)
    cosines = 1 - 1e-8 * (0.2 * gold + rng.uniform(0, 1, 200))
    found = scores_of("correlation", cosines, pairs_with(gold))["pearson"]["all"]
    exact = 100 * pearsonr((cosines - 1) * 1e8, gold).statistic
    assert found == pytest.approx(exact, abs=1e-5)  # float64 holds 1e-16 of 1e-8
    equal = np.array([1.0, 1.0 - 1e-16, 1.0 - 2e-16])  # but for rounding
    scores = scores_of("correlation", equal, pairs_with(range(3)))
    assert (scores["pearson"]["all"], scores["spearman"]["all"]) == (None, None)


@pytest.mark.parametrize(
    ("values", "gold", "group", "reason"),
    [
        ([], [], "", "fewer than two pairs"),
        ([0.1], [1], "a", "fewer than two pairs"),
        ([0.1, 0.1 + 1e-15], [1, 2], "aa", "all similarities are equal"),
        ([0.1, 0.2], [1, 1], "aa", "all gold scores are equal"),
        ([0.1, 0.2], [1, 2], "aa", None),
    ],
)
def test_why_there_is_no_score_is_said(values, gold, group, reason):
    task = task_of("correlation")
    pairs, values = pairs_with(gold, tuple(group)), np.array(values)
    scores = score(task, values, pairs)
    assert undefined_reason(task, scores, values, pairs) == reason


@pytest.mark.parametrize(
    "values", [[0.1, 0.2], 0.1, np.array([0.1]), np.array([0.1, np.nan])]
)
def test_a_metric_scores_an_array_of_a_finite_number_for_each_pair(values):
    pairs = pairs_with([1, 2])
    with refused(ScoreError, "wanted an array of a finite number for each of 2 pairs"):
        score(task_of("correlation"), values, pairs)


def test_the_scores_of_a_metric_are_finite_floats_and_have_the_main_one():
    metric = metrics()["auc"]
    found = finite_scores(metric, {"auc": np.float32(50), "of": {"a": None, "b": 1}})
    assert found == {"auc": 50.0, "of": {"a": None, "b": 1.0}}
    assert isinstance(found["auc"], float)
    with refused(ScoreError, "metric auc, of, a: wanted a finite number as score"):
        finite_scores(metric, {"auc": 50.0, "of": {"a": np.nan}})
    with refused(ScoreError, "wanted its main score auc, found pearson"):
        finite_scores(metric, {"pearson": 50.0})


def test_pearson_of_the_largest_and_smallest_numbers_is_that_of_others():
    """Whose squares are beyond a float."""
    x, y = np.random.default_rng(0).random((2, 30))
    for unit in (1e-200, 1e200):
        found = pearson(unit * x, y / unit)
        assert found == pytest.approx(pearson(x, y), rel=1e-12)


def test_a_metric_that_learns_reads_the_splits_that_are_not_scored():
    splits = {"splits": ("train", "dev", "test"), "scored": ("test",)}
    for metric, labelled in (("classification", ("train", "dev")), ("correlation", ())):
        assert labelled_splits(replace(task_of(metric), **splits)) == labelled


def test_a_metric_of_a_plug_in_is_found_by_its_name_which_no_other_has():
    mine = replace(metrics()["auc"], name="mine")
    with patch.dict(metrics()):
        for _ in range(2):  # a file may be read twice
            add_metric(mine)
        assert metrics()["mine"] is mine
        with refused(HarnessError, "another file registers the metric 'mine'"):
            add_metric(replace(mine, compared="distance"))


def test_single_sentences_have_no_cosine():
    sentences = PairRows(np.arange(2), np.arange(0), np.ones(2))
    with refused(ScoreError, "wanted pairs to compare, found single sentences"):
        cosines(rows(2, 3), sentences, ())
    assert (unit_rows(np.array([[0.0, 0.0], [3.0, 4.0]])) == [[0, 0], [0.6, 0.8]]).all()


def test_a_mean_over_subsets_is_undefined_where_a_subset_has_no_score():
    values, pairs = np.array([0.1, 0.2, 0.3]), pairs_with([1, 2, 2], tuple("abb"))
    scores = score(task_of("correlation"), values, pairs)["spearman"]
    assert scores["all"] == pytest.approx(100 * spearmanr(values, pairs.gold)[0])
    assert (scores["mean"], scores["wmean"]) == (None, None)
    assert scores["groups"] == {"a": None, "b": None}


# Other similarity functions

COUNT = PAIRS_AT_A_TIME + 7  # more than one block
A, B = rows(COUNT, 6), rows(COUNT, 6, 1)
RNG = np.random.default_rng(7)
PAIRS = pairs_with(
    RNG.integers(0, 11, COUNT) / 2, tuple(RNG.choice(["images", "news"], COUNT))
)
THEIRS = {
    "dot": lambda a, b: np.sum(a * b, axis=1),
    "euclidean": lambda a, b: -paired_euclidean_distances(a, b),
    "manhattan": lambda a, b: -paired_manhattan_distances(a, b),
}


@pytest.mark.parametrize("longest", [1.0, 1e5])
def test_scores_of_other_similarities_are_those_of_scikit_learns(longest):
    """Also where a few vectors are much longer, which must not make the others tie."""
    a, b = A.astype(np.float64), B.astype(np.float64)
    a[::40] *= longest
    b[::40] *= longest
    scored = PairRows(np.arange(COUNT), np.arange(COUNT, 2 * COUNT), PAIRS.gold)
    found = of_other_similarities(np.concatenate([a, b]), scored, PAIRS)
    assert found.keys() | {*CORRELATIONS} == CORRELATION_SCORES.keys()
    assert METRIC.words.keys() == CORRELATION_SCORES.keys()
    for similarity, theirs in THEIRS.items():
        for correlation, statistic in CORRELATIONS.items():
            wanted = plain_aggregations(statistic, theirs(a, b), PAIRS)
            del wanted["groups"]
            assert found[score_name(similarity, correlation)] == pytest.approx(wanted)


# Edit distance

SENTENCES = st.lists(
    st.sampled_from(["a", "man", "dog", "sleeps", "."]), max_size=8
).map(" ".join)


@given(
    st.lists(st.tuples(SENTENCES, SENTENCES, COSINES, GRADES), min_size=1, max_size=20)
)
def test_lexical_scores_are_spearmans_of_similarity_and_distance(rows_of_pairs):
    a, b, x, gold = zip(*rows_of_pairs, strict=True)
    pairs = replace(pairs_with(gold), a=a, b=b)
    x, gold = np.array(x), pairs.gold
    tokens = ((left.split(), right.split()) for left, right in zip(a, b, strict=True))
    distance = np.array([edit_distance(*pair) for pair in tokens], dtype=np.float64)
    near = distance <= 4
    wanted = {
        "edit_distance": (x, distance),
        "edit_distance_near": (x[near], distance[near]),
        "gold_edit_distance": (gold, distance),
        "gold_edit_distance_near": (gold[near], distance[near]),
        "gold_similarity": (x, gold),
    }
    found = scores_of("edit-distance", x, pairs)
    assert list(found) == list(wanted)
    values = [undefined_or(spearmanr, *columns) for columns in wanted.values()]
    np.testing.assert_allclose(
        np.array(list(found.values()), float), values, atol=DIGITS
    )


# Alignment and uniformity


def wang_isola(x, y, positive):
    """The authors' code (Wang & Isola 2020, arXiv 2005.10242), alpha = 2 and t = 2."""
    x, y = (
        torch.nn.functional.normalize(torch.tensor(v, dtype=torch.float64))
        for v in (x, y)
    )
    align = (x[positive] - y[positive]).norm(dim=1).pow(2).mean()
    distances = torch.pdist(torch.cat([x, y]), p=2)
    return float(align), float(distances.pow(2).mul(-2).exp().mean().log())


@given(
    st.integers(2, 12),
    st.integers(1, 20),
    st.integers(0, 1000),
    st.sampled_from([1, 3, 100]),
)
def test_alignment_and_uniformity_are_the_authors_with_repeated_sentences(
    sentences, pairs, seed, block
):
    rng = np.random.default_rng(seed)
    vectors = rows(sentences, 5, seed)
    a, b = rng.integers(0, sentences, (2, pairs))
    positive = rng.random(pairs) < 0.5
    positive[0] = True
    align, uniform = wang_isola(vectors[a], vectors[b], positive)
    with patch.object(geometry, "PRODUCT_ROWS", block):
        scores = alignment_uniformity(vectors, a, b, positive)
    assert scores["alignment"] == pytest.approx(align, abs=1e-12)
    # Uniformity sums exponentials of float32 products.
    assert np.exp(scores["uniformity"]) == pytest.approx(np.exp(uniform), abs=1e-6)


def test_alignment_and_uniformity_are_none_where_undefined():
    vectors, a, b = rows(4, 3), np.arange(2), np.arange(2, 4)
    no_positives, no_pairs = np.array([False, False]), np.array([], bool)
    assert alignment_uniformity(vectors, a, b, no_positives)["alignment"] is None
    scores = alignment_uniformity(vectors, a[:0], b[:0], no_pairs)
    assert scores["uniformity"] is None
    vectors[1] = 0
    undefined = {"alignment": None, "uniformity": None}
    assert alignment_uniformity(vectors, a, b, np.array([True, True])) == undefined
