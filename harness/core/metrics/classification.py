"""Classification of frozen vectors: a logistic regression under SentEval's protocol.

SentEval (Conneau & Kiela 2018) scores sentence vectors by the accuracy of a classifier that is
trained on them. The settings are those of SimCSE's released `--mode test`: softmax regression
without a hidden layer, Adam at its defaults, batches of 64, ten folds, and of four L2 penalties the
one with the best accuracy on held-out data. The splits of a task say which data are held out:

* none but the scored one (MR, CR, SUBJ, MPQA): ten folds are scored in turn, and of the other nine
  ten folds more choose the penalty;
* train and test (TREC, MRPC): ten folds of train choose the penalty;
* train, dev and test (SST-2): dev chooses the penalty, and when to stop.

Folds, initial weights and the order of sentences are drawn as SentEval draws them, from seed 1111
in every cell, whatever the seed of its fits: the classifier adds no spread to a method's scores.
Arithmetic is NumPy's in float32, which rounds otherwise than torch's. SentEval averages the
accuracies of the ten scored folds, each rounded to two decimals; here every prediction counts
alike, which differs by less than 0.005 points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64, Int
from harness.core.errors import ScoreError
from harness.core.metrics.logistic_regression import Labelled, train
from harness.core.metrics.metric import Metric, PairRows
from harness.core.types import Pairs

SEED = 1111
FOLDS = 10
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
HELD_OUT = 0.05  # of the training data, which tells when to stop where no other data do

# Predicted classes, the accuracy on held-out data in points, and the penalty that was best there.
Outcome = tuple[Int[np.ndarray, " n"], float, float]


def predictions(
    vectors: Float[np.ndarray, "N K"],
    scored: PairRows,
    labelled: Sequence[PairRows],
    seed: int = SEED,
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The predicted class of each scored sentence or pair, the held-out accuracy, the penalties.

    Raises ScoreError for a vector that is not finite, a gold that is no class, and a class with
    fewer members than there are folds.
    """
    *learned, test = (labelled_rows(vectors, rows) for rows in (*labelled, scored))
    if learned:
        first, *dev = learned
        outcome = by_dev(first, dev[0], test, seed) if dev else by_folds(first, test, seed)
        predicted, accuracy, penalty = outcome
        facts = {"dev_accuracy": accuracy, "penalties": [penalty]}
        return predicted.astype(np.float64), facts
    values = np.empty(len(test.y))
    outcomes = []
    for left, fold in folds(test.y, seed):
        values[fold], *held_out = by_folds(test.at(left), test.at(fold), seed)
        outcomes.append(held_out)
    accuracies, penalties = zip(*outcomes, strict=True)
    return values, {
        "dev_accuracy": round(float(np.mean(accuracies)), 2),
        "penalties": list(penalties),
    }


def labelled_rows(vectors: Float[np.ndarray, "N K"], rows: PairRows) -> Labelled:
    """The vector of each sentence, of a pair [|u - v|, u * v]; then a one, for the bias."""
    classes = rows.gold.astype(np.int64)
    if (classes != rows.gold).any() or classes.min(initial=0) < 0:
        raise ScoreError("wanted classes as gold (0, 1, 2, ...), found another number")
    x = vectors[rows.a].astype(np.float32)
    if len(rows.b) > 0:
        v = vectors[rows.b].astype(np.float32)
        x = np.hstack([np.abs(x - v), x * v])
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise ScoreError(f"item {bad + 1}: a vector to classify is not finite")
    return Labelled(np.column_stack([x, np.ones(len(x), np.float32)]), classes)


def folds(
    y: Int[np.ndarray, " n"], seed: int
) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " k"]]]:
    """Ten times the rows to learn from and those left out; every class is spread over all folds."""
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    if (least := int(np.unique(y, return_counts=True)[1].min(initial=len(y)))) < FOLDS:
        raise ScoreError(f"wanted {FOLDS} of every class to learn from, found {least} of one")
    yield from StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y)


def by_dev(learned: Labelled, dev: Labelled, test: Labelled, seed: int) -> Outcome:
    """Dev tells when to stop, and which penalty is best."""
    order = np.random.RandomState(seed)
    found = train(learned, dev, _classes(learned), PENALTIES, seed, order)
    scores = [round(100 * float(accuracy), 2) for accuracy in found.accuracy]
    best = int(np.argmax(scores))
    return found.predict(test.x)[best], scores[best], PENALTIES[best]


def by_folds(learned: Labelled, test: Labelled, seed: int) -> Outcome:
    """Ten folds choose the penalty; then a twentieth of the data, drawn, tells when to stop."""
    classes, every = _classes(learned), []
    for left, fold in folds(learned.y, seed):
        order = np.random.RandomState(seed)
        found = train(learned.at(left), learned.at(fold), classes, PENALTIES, seed, order)
        every.append(found.accuracy)
    scores = [round(100 * float(accuracy), 2) for accuracy in np.mean(every, axis=0)]
    best = int(np.argmax(scores))
    order = np.random.RandomState(seed)
    rows = order.permutation(len(learned.y))
    held_out = int(HELD_OUT * len(rows))
    kept, dev = learned.at(rows[held_out:]), learned.at(rows[:held_out])
    found = train(kept, dev, classes, PENALTIES[best : best + 1], seed, order)
    return found.predict(test.x)[0], scores[best], PENALTIES[best]


def _classes(data: Labelled) -> int:
    return int(data.y.max()) + 1


def shares_right(values: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, float | None]:
    """The share of right predictions, x100, and of two classes F1 of class 1, x100.

    F1 is None where class 1 is neither predicted nor there.
    """
    if not len(values):
        return {"accuracy": None}
    right = values == pairs.gold
    scores: dict[str, float | None] = {"accuracy": float(100 * right.mean())}
    if pairs.gold.max() <= 1:
        positive = float(np.sum(values == 1) + np.sum(pairs.gold == 1))
        hits = float(np.sum(right & (values == 1)))
        scores["f1"] = 200 * hits / positive if positive else None
    return scores


METRIC = Metric(
    name="classification",
    score=shares_right,
    main_score=("accuracy",),
    words={
        "accuracy": "accuracy x100 of a logistic regression",
        "f1": "F1 x100 of a logistic regression",
        "dev_accuracy": "held-out accuracy x100 of a logistic regression",
    },
    compared="a logistic regression's prediction",
    compare=predictions,
    further_scores=("dev_accuracy",),
    learns=True,
)
