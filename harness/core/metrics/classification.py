"""Logistic regression on vectors by Adam, with early stopping: the classifier of SentEval.

It gives the numbers of SentEval's classifier without a hidden layer, up to rounding:
torch's initial weights, its Adam with weight decay on weights and bias, the mean
cross-entropy of each batch. R regressions that differ in their penalty alone see the
same batches, so that they are trained together, by one matrix product a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32, Float64, Int
from harness.core.errors import ScoreError
from harness.core.metrics import Metric, PairRows
from harness.core.pairs import Pairs

# SentEval's settings.
SEED = 1111
FOLDS = 10
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
# The share of the training data that decides when to stop, where there is no dev split.
HELD_OUT_SHARE = 0.05
BATCH_SIZE = 64
EPOCHS_PER_EVALUATION = 4
# Evaluations without a gain; training stops at the next one.
TENACITY = 5
# No further evaluation begins after so many epochs.
MAX_EPOCHS = 200

# Adam's defaults.
LEARNING_RATE = 1e-3
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The inputs of a classifier, one a row, with their classes.

    Attributes:
        x: The inputs; the last column is 1, for the bias.
        y: Their classes, from 0.
        classes: The number of classes.
    """

    x: Float32[np.ndarray, "n D"]
    y: Int[np.ndarray, " n"]
    classes: int

    def select(self, rows: Int[np.ndarray, " m"]) -> LabelledRows:
        """Some of the rows, in this order."""
        return LabelledRows(self.x[rows], self.y[rows], self.classes)


def predicted_classes(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The predicted class of each scored sentence or pair, and facts of the classifiers.

    Where there is a train split (the first of `labelled`), the classifier learns from
    it, and a dev split (the second) or else folds choose the penalty. Where there is
    none, each of ten folds of the scored data is predicted from the nine others.

    The facts are the accuracy on held-out data, in points, and the chosen penalties.
    """
    test = labelled_rows(vectors, scored)
    splits = [labelled_rows(vectors, rows) for rows in labelled]
    class_count = len(np.unique(splits[0].y if splits else test.y))
    if class_count < 2:
        raise ScoreError(
            f"wanted two classes or more to learn from, found {class_count}: "
            "a classifier that knows one is always right"
        )
    classes = np.empty(len(test.y))
    accuracies, penalties = [], []
    if splits:
        dev = splits[1] if len(splits) > 1 else None
        classes[:], accuracy, penalty = learn_and_predict(splits[0], dev, test)
        return classes, {"dev_accuracy": accuracy, "penalties": [penalty]}
    for learned_rows, fold_rows in folds(test.y):
        learned, fold = test.select(learned_rows), test.select(fold_rows)
        classes[fold_rows], accuracy, penalty = learn_and_predict(learned, None, fold)
        accuracies.append(accuracy)
        penalties.append(penalty)
    dev_accuracy = round(float(np.mean(accuracies)), 2)
    return classes, {"dev_accuracy": dev_accuracy, "penalties": penalties}


def labelled_rows(vectors: Float[np.ndarray, "N K"], rows: PairRows) -> LabelledRows:
    """The inputs: the vector of a sentence, or [|u - v|, u * v] of a pair; then 1.

    Raises ScoreError for gold that is no class.
    """
    classes = rows.gold.astype(np.int64)
    if (classes != rows.gold).any() or classes.min(initial=0) < 0:
        is_class = (classes == rows.gold) & (classes >= 0)
        item = int(is_class.argmin())
        raise ScoreError(
            f"item {item + 1}: wanted a class as gold (0, 1, 2, ...), found {rows.gold[item]}; "
            "number the classes from 0"
        )
    x = vectors[rows.a].astype(np.float32)
    if len(rows.b) > 0:
        v = vectors[rows.b].astype(np.float32)
        x = np.hstack([np.abs(x - v), x * v])
    x = np.column_stack([x, np.ones(len(x), np.float32)])
    return LabelledRows(x, classes, int(classes.max(initial=0)) + 1)


def folds(
    y: Int[np.ndarray, " n"],
) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " k"]]]:
    """The ten folds: for each the rows to learn from, and the rows of the fold.

    Every fold has the same share of each class. Raises ScoreError for a class with
    fewer rows than folds.
    """
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    _, class_sizes = np.unique(y, return_counts=True)
    smallest = int(class_sizes.min(initial=len(y)))
    if smallest < FOLDS:
        raise ScoreError(
            f"wanted {FOLDS} of every class to learn from, found {smallest} of one"
        )
    yield from StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(y, y)


def learn_and_predict(
    learned: LabelledRows, dev: LabelledRows | None, test: LabelledRows
) -> tuple[Int[np.ndarray, " n"], float, float]:
    """The class of each test row, the accuracy on held-out data, and the penalty.

    A dev split decides when to stop and which penalty is best. Without one, ten folds
    choose the penalty; training is then on 95 % of the rows, and the other 5 %, which
    are drawn at random, decide when to stop. Accuracies are in points, rounded as in
    SentEval; of equal ones the first is the best.
    """
    rng = np.random.RandomState(SEED)
    if dev is not None:
        weights, accuracies = train_regressions(learned, dev, PENALTIES, rng)
    else:
        fold_accuracies = []
        for learned_rows, fold_rows in folds(learned.y):
            _, accuracies = train_regressions(
                learned.select(learned_rows),
                learned.select(fold_rows),
                PENALTIES,
                np.random.RandomState(SEED),
            )
            fold_accuracies.append(accuracies)
        accuracies = np.mean(fold_accuracies, axis=0)
    points = [round(100 * float(accuracy), 2) for accuracy in accuracies]
    best = int(np.argmax(points))
    if dev is None:
        rows = rng.permutation(len(learned.y))
        held_out_count = int(HELD_OUT_SHARE * len(rows))
        weights, _ = train_regressions(
            learned.select(rows[held_out_count:]),
            learned.select(rows[:held_out_count]),
            (PENALTIES[best],),
            rng,
        )
    classes = predict(weights, test.x)[best if dev is not None else 0]
    return classes, points[best], PENALTIES[best]


def predict(
    weights: Float32[np.ndarray, "R C D"], x: Float32[np.ndarray, "n D"]
) -> Int[np.ndarray, "R n"]:
    """The class that each of R regressions predicts for every row."""
    return np.stack(
        [np.argmax(x @ class_weights.T, axis=1) for class_weights in weights]
    )


def train_regressions(
    data: LabelledRows,
    held_out: LabelledRows,
    penalties: tuple[float, ...],
    rng: np.random.RandomState,
) -> tuple[Float32[np.ndarray, "R C D"], Float64[np.ndarray, " R"]]:
    """Train a regression for each of R penalties, until none of them improves.

    Args:
        data: What to learn from.
        held_out: What decides when to stop.
        penalties: The factors of weight decay.
        rng: Draws the order of the rows in every epoch.

    Returns:
        The weights with which each regression was best on the held-out data, and its
        accuracies there (0 to 1).
    """
    optimiser = _Adam(initial_weights(data.classes, data.x.shape[1]), penalties)
    best_weights = optimiser.weights.copy()
    best_accuracies = np.full(len(penalties), -1.0)
    evaluations_without_gain = np.zeros(len(penalties), int)
    for _ in range(0, MAX_EPOCHS + 1, EPOCHS_PER_EVALUATION):
        for _ in range(EPOCHS_PER_EVALUATION):
            rows = rng.permutation(len(data.y))
            for start in range(0, len(rows), BATCH_SIZE):
                optimiser.step(data.select(rows[start : start + BATCH_SIZE]))
        predictions = predict(optimiser.weights, held_out.x)
        accuracies = (predictions == held_out.y).mean(axis=1)
        is_running = evaluations_without_gain <= TENACITY
        is_better = is_running & (accuracies > best_accuracies)
        best_weights[is_better] = optimiser.weights[is_better]
        best_accuracies[is_better] = accuracies[is_better]
        evaluations_without_gain += is_running & ~is_better
        if (evaluations_without_gain > TENACITY).all():
            break
    return best_weights, best_accuracies


def initial_weights(classes: int, width: int) -> Float32[np.ndarray, "C D"]:
    """The weights of a new linear layer of torch under SentEval's seed.

    The last column is the bias. Values are uniform in plus or minus one over the root
    of the number of inputs; torch makes each of 24 bits of a draw of a Mersenne
    Twister, first the weights, then the biases.
    """
    bound = np.float32(1 / np.sqrt(width - 1))
    draws = np.random.RandomState(SEED).randint(
        0, 2**32, classes * width, dtype=np.uint32
    )
    unit = (draws & (2**24 - 1)) / 2**24
    values = (unit * np.float64(bound + bound) - np.float64(bound)).astype(np.float32)
    weights = values[: classes * (width - 1)].reshape(classes, width - 1)
    return np.column_stack([weights, values[classes * (width - 1) :]])


class _Adam:
    """Regressions in training: weights (R, C, D) and the two moments of their gradients."""

    def __init__(
        self, initial: Float32[np.ndarray, "C D"], penalties: tuple[float, ...]
    ) -> None:
        self.weights = np.repeat(initial[None], len(penalties), axis=0)
        self.penalties = np.array(penalties, np.float32)[:, None, None]
        self.first_moment = np.zeros_like(self.weights)
        self.second_moment = np.zeros_like(self.weights)
        self.steps = 0

    def step(self, batch: LabelledRows) -> None:
        """One step of Adam on the mean cross-entropy of a batch, with weight decay."""
        regressions, classes, width = self.weights.shape
        rows = len(batch.y)
        # Rows are the last axis: the maxima and sums over a few classes are then taken
        # for many rows at a time.
        logits = self.weights.reshape(-1, width) @ batch.x.T
        probabilities = logits.reshape(regressions, classes, rows)
        probabilities -= probabilities.max(axis=1, keepdims=True)
        np.exp(probabilities, out=probabilities)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        errors = probabilities
        errors[:, batch.y, np.arange(rows)] -= 1
        errors /= rows
        gradient = (errors.reshape(-1, rows) @ batch.x).reshape(self.weights.shape)
        gradient += self.penalties * self.weights
        self.steps += 1
        self.first_moment += np.float32(1 - BETA1) * (gradient - self.first_moment)
        self.second_moment *= np.float32(BETA2)
        self.second_moment += np.float32(1 - BETA2) * gradient * gradient
        scale = np.sqrt(self.second_moment)
        scale /= np.float32(np.sqrt(1 - BETA2**self.steps))
        scale += np.float32(EPSILON)
        rate = np.float32(LEARNING_RATE / (1 - BETA1**self.steps))
        self.weights -= rate * self.first_moment / scale


def shares_right(
    values: Float64[np.ndarray, " P"], pairs: Pairs
) -> dict[str, float | None]:
    """The accuracy of predicted classes x100, and for two classes the F1 of class 1, x100.

    F1 is None where class 1 is neither predicted nor in the gold.
    """
    if not len(values):
        return {"accuracy": None}
    is_right = values == pairs.gold
    scores: dict[str, float | None] = {"accuracy": float(100 * is_right.mean())}
    if pairs.gold.max() > 1:
        return scores
    scores["f1"] = None
    true_positives = float(np.sum(is_right & (values == 1)))
    positives = float(np.sum(values == 1) + np.sum(pairs.gold == 1))
    if positives > 0:
        scores["f1"] = 200 * true_positives / positives
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
    compare=predicted_classes,
    further_scores=("dev_accuracy",),
    learns=True,
)
