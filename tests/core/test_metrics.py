"""Scores: parity with scipy, scikit-learn, torch and plain loops; what may not matter."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from nltk import edit_distance
from scipy.stats import pearsonr, spearmanr

from harness.contracts.samples import rows
from harness.core.errors import ScoreError
from harness.core.metrics import cosine, geometry, score
from harness.core.metrics.correlation import pearson, spearman
from harness.core.metrics.edit_distance import token_distances
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


def task_of(metric: str) -> Task:
    return Task("t", lambda *_: None, ("dev", "test"), ("test",), metric, "none", "raw")


def scored(rows_of_pairs) -> tuple[np.ndarray, Pairs]:
    cosines, gold, group = zip(*rows_of_pairs, strict=True)
    texts = tuple(f"text {number}" for number in range(len(gold)))
    return np.array(cosines), Pairs(
        texts, texts[::-1], np.array(gold, dtype=np.float64), group
    )


def values_in_order(scores) -> list:
    if isinstance(scores, dict):
        return [
            value for key in sorted(scores) for value in values_in_order(scores[key])
        ]
    return [np.nan if scores is None else scores]


# --- cosine --------------------------------------------------------------------------------------
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
@pytest.mark.parametrize("other", [0.0, 1.0])
def test_a_vector_that_is_not_finite_is_refused_by_number(value, other):
    a, b = np.ones((3, 2)), np.full((3, 2), other)
    a[1, 0] = value
    with pytest.raises(ScoreError, match=r"^pair 2: .* not finite"):
        cosine(a, b)


# --- correlations and areas, whose parity tests/trust/test_numbers.py holds ----------------------


def scored_as(gold: np.ndarray) -> Pairs:
    texts = ("x",) * len(gold)
    return Pairs(texts, texts, gold, texts)


def test_a_score_that_is_undefined_is_none():
    for gold in (np.zeros(3), np.ones(3), np.zeros(0)):
        assert score(task_of("auc"), gold, scored_as(gold)) == {"auc": None}
    constant, varied = np.full(4, 0.3), np.arange(4.0)
    undefined = (
        (constant, varied),
        (varied, constant),
        (varied[:1],) * 2,
        (varied[:0],) * 2,
    )
    assert {f(x, y) for f in (spearman, pearson) for x, y in undefined} == {None}
    scores = score(task_of("correlation"), varied[:0], scored_as(varied[:0]))[
        "spearman"
    ]
    assert scores == {"all": None, "mean": None, "wmean": None, "groups": {}}


# --- aggregations --------------------------------------------------------------------------------
@given(SCORED)
def test_aggregations_are_a_plain_loop_over_the_subsets(rows_of_pairs):
    cosines, pairs = scored(rows_of_pairs)
    scores = score(task_of("correlation"), cosines, pairs)["spearman"]
    subsets = {}
    for x, y, group in rows_of_pairs:
        subsets.setdefault(group, []).append((x, y))
    groups = {name: spearman(*np.array(subset).T) for name, subset in subsets.items()}
    values = np.array(list(groups.values()), dtype=np.float64)  # None is not a number
    wanted = {
        "all": spearman(cosines, pairs.gold),
        "mean": values.mean(),
        "wmean": np.average(values, weights=list(map(len, subsets.values()))),
        "groups": groups,
    }
    assert list(scores["groups"]) == list(groups)
    np.testing.assert_allclose(
        values_in_order(scores), values_in_order(wanted), atol=DIGITS
    )


def test_the_three_aggregations_differ_where_the_papers_do():
    """Two subsets in perfect order each, on scales that do not meet: SBERT sees disorder."""
    low = [(x, 5 + x, "low") for x in (0.1, 0.2, 0.3, 0.4)]
    high = [(x, x, "high") for x in (0.7, 0.8)] + [(0.9, -1.0, "high")]
    scores = score(task_of("correlation"), *scored(low + high))["spearman"]
    assert scores.pop("groups") == pytest.approx({"low": 100, "high": -50})
    x, y, _ = zip(*low, *high, strict=True)
    together = 100 * spearmanr(x, y).statistic
    wanted = {"all": together, "mean": 25, "wmean": (4 * 100 - 3 * 50) / 7}
    assert scores == pytest.approx(wanted)


@given(SCORED, st.randoms(use_true_random=False))
def test_rounding_noise_in_cosines_does_not_break_ties(rows_of_pairs, random):
    cosines, pairs = scored(rows_of_pairs)
    noise = np.array([random.uniform(-4e-11, 4e-11) for _ in cosines])
    binary = replace(pairs, gold=(pairs.gold > 2).astype(np.float64))
    for metric, items in (("correlation", pairs), ("auc", binary)):
        scores = (
            values_in_order(score(task_of(metric), x, items))
            for x in (cosines, cosines * (1 + noise))
        )
        np.testing.assert_allclose(*scores, atol=DIGITS)


def test_pearson_of_nearly_equal_similarities_is_that_of_the_similarities():
    """Rounding to ten decimals, which ranks need, would move it by hundredths of a point."""
    rng = np.random.default_rng(0)
    gold = rng.uniform(0, 5, 200)
    cosines = 1 - 1e-8 * (0.2 * gold + rng.uniform(0, 1, 200))
    pairs = Pairs(("a",) * 200, ("b",) * 200, gold, ("g",) * 200)
    found = score(task_of("correlation"), cosines, pairs)["pearson"]["all"]
    exact = 100 * pearsonr((cosines - 1) * 1e8, gold).statistic
    rounded = 100 * pearsonr(np.round(cosines, 10), gold).statistic
    assert found == pytest.approx(exact, abs=1e-5)  # float64 holds 1e-16 of 1e-8
    assert abs(rounded - exact) > 1e-3


def test_similarities_that_differ_by_rounding_alone_have_no_pearson():
    pairs = Pairs(("a",) * 3, ("b",) * 3, np.arange(3.0), ("g",) * 3)
    cosines = np.array([1.0, 1.0 - 1e-16, 1.0 - 2e-16])
    scores = score(task_of("correlation"), cosines, pairs)
    assert (scores["pearson"]["all"], scores["spearman"]["all"]) == (None, None)


# --- edit distance -------------------------------------------------------------------------------
def plain_distances(pairs: Pairs) -> list[int]:
    return [
        edit_distance(a.split(), b.split())
        for a, b in zip(pairs.a, pairs.b, strict=True)
    ]


SENTENCES = st.lists(
    st.sampled_from(["a", "man", "dog", "sleeps", "."]), max_size=8
).map(" ".join)


@given(
    st.lists(st.tuples(SENTENCES, SENTENCES, COSINES, GRADES), min_size=1, max_size=20)
)
def test_lexical_scores_are_spearmans_of_similarity_and_distance(rows_of_pairs):
    a, b, cosines, gold = zip(*rows_of_pairs, strict=True)
    pairs = Pairs(a, b, np.array(gold), ("g",) * len(a))
    cosines, distance = (
        np.array(cosines),
        np.array(plain_distances(pairs), dtype=np.float64),
    )
    near = distance <= 4
    assert token_distances(pairs).tolist() == distance.tolist()
    assert score(task_of("edit-distance"), cosines, pairs) == {
        "edit_distance": spearman(cosines, distance),
        "edit_distance_near": spearman(cosines[near], distance[near]),
        "gold_edit_distance": spearman(pairs.gold, distance),
        "gold_edit_distance_near": spearman(pairs.gold[near], distance[near]),
        "gold_similarity": spearman(cosines, pairs.gold),
    }


# --- alignment and uniformity --------------------------------------------------------------------
def wang_isola(
    x: np.ndarray, y: np.ndarray, positive: np.ndarray
) -> tuple[float, float]:
    """The authors' code (Wang & Isola 2020, arXiv 2005.10242), alpha = 2 and t = 2."""
    x, y = (
        torch.nn.functional.normalize(torch.tensor(v, dtype=torch.float64))
        for v in (x, y)
    )
    align = (x[positive] - y[positive]).norm(dim=1).pow(2).mean()
    every = torch.cat([x, y])
    return float(align), float(
        torch.pdist(every, p=2).pow(2).mul(-2).exp().mean().log()
    )


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
    assert (
        alignment_uniformity(vectors, a, b, np.array([False, False]))["alignment"]
        is None
    )
    assert (
        alignment_uniformity(vectors, a[:0], b[:0], np.array([], bool))["uniformity"]
        is None
    )
    vectors[1] = 0
    undefined = {"alignment": None, "uniformity": None}
    assert alignment_uniformity(vectors, a, b, np.array([True, True])) == undefined


# --- metrics as plug-ins -------------------------------------------------------------------------
