"""Ridge regression on pairs, whose penalty the dev split chooses, beside scikit-learn's."""

import numpy as np
import pytest
from refusals import refused
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from harness.core.errors import ScoreError
from harness.core.metrics import PairRows
from harness.core.metrics.correlation import pearson
from harness.core.metrics.regression import RIDGE_PENALTIES, predicted_gold


def features(vectors, pairs):
    u, v = (vectors[rows].astype(float) for rows in (pairs.a, pairs.b))
    return np.hstack([np.abs(u - v), u * v])


def made(noise, sizes=(60, 40, 30), width=5, seed=0):
    """Vectors, and the pairs of a train, a dev and a scored split with gold that they explain."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(2 * sum(sizes), width)).astype(np.float32)
    truth = rng.normal(size=2 * width)
    splits, first = [], 0
    for size in sizes:
        a = np.arange(first, first + size)
        pairs = PairRows(a, a + size, np.zeros(size))
        gold = 3 + features(vectors, pairs) @ truth + noise * rng.normal(size=size)
        splits.append(PairRows(pairs.a, pairs.b, gold))
        first += 2 * size
    return vectors, *splits


@pytest.mark.parametrize("noise", [0.1, 3.0, 30.0])
def test_predictions_are_scikit_learns_with_the_penalty_that_is_best_on_dev(noise):
    vectors, train, dev, scored = made(noise)
    models = {
        penalty: make_pipeline(StandardScaler(), Ridge(alpha=penalty)).fit(
            features(vectors, train), train.gold
        )
        for penalty in RIDGE_PENALTIES
    }
    on_dev = {
        penalty: pearson(model.predict(features(vectors, dev)), dev.gold)
        for penalty, model in models.items()
    }
    best = max(on_dev, key=on_dev.get)
    predicted, facts = predicted_gold(vectors, scored, [train, dev])
    assert facts == {"penalty": best}
    wanted = models[best].predict(features(vectors, scored))
    np.testing.assert_allclose(predicted, wanted, rtol=1e-8)


def test_a_feature_that_hardly_varies_in_training_is_left_out():
    vectors, train, dev, scored = made(0.1)
    constant = np.hstack([vectors, np.full((len(vectors), 1), 2, np.float32)])
    plain, facts = predicted_gold(vectors, scored, [train, dev])
    # |u - v| and u * v of the last coordinate are constant but for a rounding error.
    constant[scored.a, -1] += 1e-5
    constant[train.a[0], -1] += 1e-6
    with_constant, other_facts = predicted_gold(constant, scored, [train, dev])
    np.testing.assert_allclose(with_constant, plain, rtol=1e-10)
    assert facts == other_facts


def test_what_no_regression_can_learn_is_refused():
    vectors, train, dev, scored = made(0.1)
    with refused(ScoreError, "wanted a train and a dev split"):
        predicted_gold(vectors, scored, [train])
    same = np.ones_like(vectors)
    with refused(ScoreError, "no penalty gives a prediction that varies"):
        predicted_gold(same, scored, [train, dev])
