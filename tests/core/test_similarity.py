"""Similarity functions: parity with scikit-learn and SentEval's loop, and what may not matter."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics.pairwise import (
    paired_euclidean_distances,
    paired_manhattan_distances,
)

from harness.contracts.samples import rows
from harness.core.metrics import PairRows, tie_rounded
from harness.core.metrics.correlation import METRIC, of_other_similarities
from harness.core.metrics.similarity import (
    CORRELATION_SCORES,
    OTHER_SCORES,
    PAIRS_AT_A_TIME,
    SIMILARITIES,
    score_name,
    similarities,
)
from harness.core.pairs import Pairs
from harness.core.types import AGGREGATIONS

PAIRS = PAIRS_AT_A_TIME + 7  # more than one block
RNG = np.random.default_rng(7)
A, B = rows(PAIRS, 6), rows(PAIRS, 6, 1)
GOLD = RNG.integers(0, 11, PAIRS) / 2
GROUP = tuple(RNG.choice(["images", "headlines", "news"], PAIRS))
THEIRS = {
    "dot": lambda a, b: np.sum(a * b, axis=1),
    "euclidean": lambda a, b: -paired_euclidean_distances(a, b),
    "manhattan": lambda a, b: -paired_manhattan_distances(a, b),
}


def scores_of(a, b, gold=GOLD, group=GROUP):
    """The scores of pairs whose vectors are the rows of two matrices."""
    count = len(a)
    scored = PairRows(np.arange(count), np.arange(count, 2 * count), gold)
    texts = tuple(f"text {number}" for number in range(count))
    return of_other_similarities(
        np.concatenate([a, b]), scored, Pairs(texts, texts, gold, group)
    )


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_similarity_is_scikit_learns(name):
    theirs = THEIRS[name](A.astype(float), B.astype(float))
    np.testing.assert_allclose(similarities(name, A, B), theirs, rtol=1e-12)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_scores_are_those_of_sentevals_loop(name):
    """SentEval's STSEval: correlations of each subset, their means, and of all together."""
    values = THEIRS[name](A.astype(float), B.astype(float))
    subsets = [np.array(GROUP) == group for group in dict.fromkeys(GROUP)]
    found = scores_of(A, B)
    for correlation, theirs in (("spearman", spearmanr), ("pearson", pearsonr)):
        by_subset = [100 * theirs(values[rows], GOLD[rows])[0] for rows in subsets]
        wanted = {
            "all": 100 * theirs(values, GOLD)[0],
            "mean": np.mean(by_subset),
            "wmean": np.average(by_subset, weights=[rows.sum() for rows in subsets]),
        }
        assert found[score_name(name, correlation)] == pytest.approx(wanted, rel=1e-9)


def test_every_score_has_words_and_every_aggregation():
    found = scores_of(A, B)
    assert tuple(found) == OTHER_SCORES
    assert all(tuple(score) == AGGREGATIONS for score in found.values())
    assert METRIC.words.keys() == CORRELATION_SCORES.keys()


def test_values_tie_in_their_first_ten_digits_whatever_their_size():
    values = 10.0 ** np.arange(-300, 300, 20) / 3
    rounded = tie_rounded(values)
    np.testing.assert_array_equal(tie_rounded(values * (1 + 1e-13)), rounded)
    assert (tie_rounded(values * (1 + 1e-9)) > rounded).all()
    assert tie_rounded(np.array([1 - 1e-13, 1.0, 0.0])).tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_few_long_vectors_do_not_make_the_others_tie(name):
    a, b = A.astype(float), B.astype(float)
    a[::40] *= 1e5
    b[::40] *= 1e5
    wanted = 100 * spearmanr(THEIRS[name](a, b), GOLD).statistic
    assert scores_of(a, b)[f"{name}_spearman"]["all"] == pytest.approx(wanted)
