"""The classifier of transfer tasks: SentEval's training, its folds, and what it never sees."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.metrics import f1_score

from harness.core.errors import ScoreError
from harness.core.metrics import PairRows, classification, metrics
from harness.core.metrics.classification import (
    FOLDS,
    PENALTIES,
    SEED,
    folds,
    learn_and_predict,
    predicted_classes,
    train_regressions,
)
from harness.core.pairs import Pairs

NO_ROWS = np.zeros(0, np.int64)


def blobs(count, width=6, classes=2, apart=1.0, seed=0):
    """Vectors around one centre a class, and the class of each."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(count) % classes)
    centres = apart * np.eye(classes, width)
    return (centres[y] + rng.normal(size=(count, width))).astype(np.float32), y


def items(y, first=0):
    """Single sentences, whose vectors are the rows of a matrix from `first` on."""
    return PairRows(np.arange(first, first + len(y)), NO_ROWS, y.astype(np.float64))


def labelled(count, width, classes):
    x, y = blobs(count, width, classes, seed=count)
    return classification.labelled_rows(x, items(y))


def in_torch(data, dev, penalty, most_epochs=200):
    """One regression by torch's own layer, loss and optimiser, as SentEval trains it."""
    torch.manual_seed(SEED)
    layer = torch.nn.Linear(data.x.shape[1] - 1, data.classes)
    optimiser = torch.optim.Adam(layer.parameters(), weight_decay=penalty)
    order, best, kept, waited, epochs = np.random.RandomState(SEED), -1.0, None, 0, 0
    x, y = torch.from_numpy(data.x[:, :-1]), torch.from_numpy(data.y)
    while epochs <= most_epochs and waited <= 5:
        for _ in range(4):
            for rows in np.split(order.permutation(len(y)), range(64, len(y), 64)):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(layer(x[rows]), y[rows]).backward()
                optimiser.step()
        epochs += 4
        with torch.no_grad():
            now = float(
                (
                    layer(torch.from_numpy(dev.x[:, :-1])).numpy().argmax(1) == dev.y
                ).mean()
            )
        if now > best:
            weights = (
                torch.column_stack([layer.weight, layer.bias]).detach().numpy().copy()
            )
            best, kept = now, weights
        else:
            waited += 1
    return kept, best


# Training


@pytest.mark.parametrize(("classes", "width"), [(2, 6), (3, 1), (6, 50)])
def test_training_is_torchs_number_for_number(classes, width):
    data, dev = (labelled(n, width, classes) for n in (150, 60))
    trained = train_regressions(data, dev, PENALTIES, np.random.RandomState(SEED))
    for *regression, penalty in zip(*trained, PENALTIES, strict=True):
        weights, accuracy = in_torch(data, dev, penalty)
        np.testing.assert_allclose(regression[0], weights, atol=1e-5)
        assert regression[1] == pytest.approx(accuracy)


def test_a_regression_starts_as_a_layer_of_torch():
    torch.manual_seed(SEED)
    layer = torch.nn.Linear(50, 3)
    wanted = torch.column_stack([layer.weight, layer.bias]).detach().numpy()
    np.testing.assert_array_equal(classification.initial_weights(3, 51), wanted)


@pytest.mark.parametrize("most_epochs", [7, 8])
def test_no_evaluation_begins_after_the_last_epoch(most_epochs, monkeypatch):
    monkeypatch.setattr(classification, "MAX_EPOCHS", most_epochs)
    data, dev = (labelled(count, 6, 2) for count in (150, 60))
    order = np.random.RandomState(SEED)
    [weights], [accuracy] = train_regressions(data, dev, (1e-5,), order)
    wanted, best = in_torch(data, dev, 1e-5, most_epochs)
    np.testing.assert_allclose(weights, wanted, atol=1e-5)
    assert accuracy == pytest.approx(best)
    # So many epochs were drawn: 8 after 4, and 12 after 8.
    fresh = np.random.RandomState(SEED)
    for _ in range(8 if most_epochs < 8 else 12):
        fresh.permutation(150)
    assert order.randint(2**30) == fresh.randint(2**30)


def test_a_regression_that_has_stopped_does_not_stop_the_others():
    """A large penalty is at its best at once; the small one learns its rows by heart."""
    data = labelled(150, 50, 6)
    order = np.random.RandomState(SEED)
    both, accuracies = train_regressions(data, data, (30.0, 1e-5), order)
    [alone], _ = train_regressions(data, data, (1e-5,), np.random.RandomState(SEED))
    np.testing.assert_allclose(both[1], alone, atol=1e-5)
    assert accuracies[1] > accuracies[0]


def test_long_vectors_overflow_nothing():
    data, dev = (labelled(count, 6, 2) for count in (150, 60))
    data, dev = (replace(each, x=each.x * np.float32(1e5)) for each in (data, dev))
    weights, _ = train_regressions(data, dev, (1e-5,), np.random.RandomState(SEED))
    assert np.isfinite(weights).all()


# The protocol


def test_without_other_splits_every_fold_is_predicted_by_the_nine_others():
    vectors, y = blobs(60, apart=8.0)
    classes, facts = predicted_classes(vectors, items(y), [])
    assert len(facts["penalties"]) == FOLDS
    for left, fold in folds(y):
        learned, scored = (
            replace(items(y), a=rows, gold=y[rows].astype(float))
            for rows in (left, fold)
        )
        found, _ = predicted_classes(vectors, scored, [learned])
        np.testing.assert_array_equal(found, classes[fold])


@pytest.fixture
def penalties(monkeypatch):
    """Penalties that differ more than SentEval's, so that few rows show which is chosen."""
    monkeypatch.setattr(classification, "PENALTIES", (1e-5, 0.1, 1.0))
    return classification.PENALTIES


def test_a_dev_split_chooses_the_penalty_and_when_to_stop(penalties):
    data, dev, scored = (labelled(count, 30, 3) for count in (90, 61, 62))
    rng = np.random.RandomState(SEED)
    weights, accuracies = train_regressions(data, dev, penalties, rng)
    points = [round(100 * accuracy, 2) for accuracy in accuracies]
    best = points.index(max(points))
    classes, accuracy, penalty = learn_and_predict(data, dev, scored)
    assert (accuracy, penalty) == (points[best], penalties[best])
    parts = [blobs(count, 30, 3, seed=count) for count in (62, 90, 61)]
    vectors = np.concatenate([x for x, _ in parts])
    splits = [
        items(y, first) for (_, y), first in zip(parts, (0, 62, 152), strict=True)
    ]
    predicted, facts = predicted_classes(vectors, splits[0], splits[1:])
    assert facts == {"dev_accuracy": accuracy, "penalties": [penalty]}
    np.testing.assert_array_equal(predicted, classes)
    wanted = (scored.x @ weights[best].T).argmax(axis=1)
    np.testing.assert_array_equal(classes, wanted)
    # Another penalty than the first, and another prediction, or nothing was chosen here.
    assert best > 0
    assert any(
        ((scored.x @ each.T).argmax(axis=1) != wanted).any()
        for each in np.delete(weights, best, axis=0)
    )


def test_without_a_dev_split_folds_choose_and_a_twentieth_decides_when_to_stop(
    penalties, monkeypatch
):
    data, scored = (labelled(count, 30, 3) for count in (105, 62))
    of_folds = []
    for left, fold in folds(data.y):
        rng = np.random.RandomState(SEED)
        _, accuracies = train_regressions(
            data.select(left), data.select(fold), penalties, rng
        )
        of_folds.append(accuracies)
    points = [round(100 * mean, 2) for mean in np.mean(of_folds, axis=0)]
    best = points.index(max(points))
    rng = np.random.RandomState(SEED)
    held_out, left = np.split(rng.permutation(105), [5])
    [weights], _ = train_regressions(
        data.select(left), data.select(held_out), (penalties[best],), rng
    )
    sizes = []

    def train(data, held_out, *rest):
        sizes.append((len(data.y), len(held_out.y)))
        return train_regressions(data, held_out, *rest)

    monkeypatch.setattr(classification, "train_regressions", train)
    classes, accuracy, penalty = learn_and_predict(data, None, scored)
    assert len(sizes) == FOLDS + 1
    assert sizes[-1] == (100, 5)
    assert (accuracy, penalty) == (points[best], penalties[best])
    np.testing.assert_array_equal(classes, (scored.x @ weights.T).argmax(axis=1))
    assert best > 0
    # The facts of a task are those of the classifier, or of ten.
    vectors, y = blobs(105, 30, 3, seed=105)
    _, facts = predicted_classes(vectors, items(y), [items(y)])
    assert facts == {"dev_accuracy": accuracy, "penalties": [penalty]}


def test_the_accuracy_of_ten_classifiers_is_their_mean():
    vectors, y = blobs(100, 10, 2)
    _, facts = predicted_classes(vectors, items(y), [])
    accuracies = []
    for left, fold in folds(y):
        learned, scored = (
            replace(items(y), a=rows, gold=y[rows].astype(float))
            for rows in (left, fold)
        )
        _, one = predicted_classes(vectors, scored, [learned])
        accuracies.append(one["dev_accuracy"])
    assert facts["dev_accuracy"] == round(float(np.mean(accuracies)), 2)


@pytest.mark.parametrize("splits", [0, 1, 2])
def test_labels_of_what_is_scored_are_never_learned_from(splits):
    """More dimensions than rows and labels by chance: whoever saw them would know them all."""
    rng = np.random.default_rng(0)
    vectors = 10 * rng.normal(size=(180, 200)).astype(np.float32)
    parts = [items(rng.integers(0, 2, 60), start) for start in (0, 60, 120)]
    classes, _ = predicted_classes(vectors, parts[-1], parts[:splits])
    assert 30 <= 100 * np.mean(classes == parts[-1].gold) <= 70


def test_a_pair_is_its_difference_and_its_product():
    vectors = np.array([[1, 2], [4, -1]], np.float32)
    pair = PairRows(np.array([0]), np.array([1]), np.array([1.0]))
    assert classification.labelled_rows(vectors, pair).x.tolist() == [[3, 3, 4, -2, 1]]


def test_what_cannot_be_classified_is_refused():
    vectors, y = blobs(120)
    graded, few = items(y + 0.5), items(np.arange(120) < 9)
    negative = items(np.where(np.arange(120) == 2, -1, y))
    alone = items(np.zeros(120))
    for rows, refusal in (
        (graded, "item 1: wanted a class as gold .* found [01].5"),
        (items(np.where(np.arange(120) == 4, 0.5, y)), "item 5: .* found 0.5"),
        (negative, "item 3: wanted a class as gold .* found -1"),
        (alone, "wanted two classes or more to learn from, found 1"),
        (few, "wanted 10 of every class to learn from, found 9"),
    ):
        with refused(ScoreError, refusal):
            predicted_classes(vectors, items(y), [rows])
    with refused(ScoreError, "wanted two classes or more to learn from, found 1"):
        predicted_classes(vectors, items(y), [alone, items(y)])
    assert len([*folds((np.arange(120) < FOLDS).astype(int))]) == FOLDS


# Scores


def scores(values, gold):
    texts = ("a sentence",) * len(gold)
    return metrics()["classification"].score(values, Pairs(texts, (), gold, texts))


def test_accuracy_and_f1_are_scikit_learns():
    gold, values = np.random.default_rng(0).integers(0, 2, (2, 50)).astype(float)
    wanted = {
        "accuracy": 100 * np.mean(gold == values),
        "f1": 100 * f1_score(gold, values),
    }
    assert scores(values, gold) == pytest.approx(wanted)
    assert "f1" not in scores(np.arange(3.0), np.arange(3.0))
    assert scores(np.zeros(2), np.array([0.0, 1.0])) == {"accuracy": 50.0, "f1": 0.0}
    assert scores(np.zeros(2), np.zeros(2)) == {"accuracy": 100.0, "f1": None}
