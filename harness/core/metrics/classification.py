"""Logistic regression on vectors by Adam, with early stopping: the classifier of SentEval.

It is the released classifier without a hidden layer, number for number up to rounding:
torch's initial weights, its Adam with weight decay on weights and bias, the mean
cross-entropy of each batch. Regressions that differ in their penalty alone see the same
batches, so that they are trained together: one matrix product a batch serves all of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32, Float64, Int
from harness.core.errors import ScoreError
from harness.core.metrics import Metric, PairRows
from harness.core.types import Pairs

SEED = 1111
FOLDS = 10
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
HELD_OUT = (
    0.05  # share of the training data that decides when to stop, without a dev split
)
BATCH = 64
EPOCHS = 4  # between two evaluations on the held-out data
TENACITY = 5  # evaluations without a gain after which the next one is the last
MOST_EPOCHS = 200  # after these, no further evaluation begins
RATE, FIRST, SECOND, EPSILON = 1e-3, 0.9, 0.999, 1e-8  # Adam's defaults


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Vectors with their classes, counted from 0; `x` ends with a column of ones for the bias."""

    x: Float32[np.ndarray, "n D"]
    y: Int[np.ndarray, " n"]
    classes: int

    def select(self, rows: Int[np.ndarray, " m"]) -> LabelledRows:
        """Some of the rows, in this order."""
        return LabelledRows(self.x[rows], self.y[rows], self.classes)


# Predicted classes, the accuracy on held-out data in points, and the penalty that was
# best there.
Prediction = tuple[Int[np.ndarray, " n"], float, float]


def predicted_classes(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The predicted class of each scored sentence or pair, the held-out accuracy, the penalties."""
    *learned, test = (labelled_rows(vectors, rows) for rows in (*labelled, scored))
    for part in learned[:1] or [test]:
        if len(np.unique(part.y)) < 2:
            raise ScoreError(
                f"wanted two classes or more to learn from, found {len(np.unique(part.y))}: "
                "a classifier that knows one is always right"
            )
    if learned:
        train, *dev = learned
        prediction = by_dev(train, dev[0], test) if dev else by_folds(train, test)
        classes, accuracy, penalty = prediction
        return classes.astype(np.float64), {
            "dev_accuracy": accuracy,
            "penalties": [penalty],
        }
    values = np.empty(len(test.y))
    accuracies, penalties = [], []
    for learned_rows, fold in folds(test.y):
        learned_part, fold_part = test.select(learned_rows), test.select(fold)
        values[fold], accuracy, penalty = by_folds(learned_part, fold_part)
        accuracies.append(accuracy)
        penalties.append(penalty)
    return values, {
        "dev_accuracy": round(float(np.mean(accuracies)), 2),
        "penalties": penalties,
    }


def labelled_rows(vectors: Float[np.ndarray, "N K"], rows: PairRows) -> LabelledRows:
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
    x = np.column_stack([x, np.ones(len(x), np.float32)])
    return LabelledRows(x, classes, int(classes.max(initial=0)) + 1)


def folds(
    y: Int[np.ndarray, " n"],
) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " k"]]]:
    """The rows to learn from and those left out, ten times; classes spread evenly over folds."""
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    _, class_sizes = np.unique(y, return_counts=True)
    smallest = int(class_sizes.min(initial=len(y)))
    if smallest < FOLDS:
        raise ScoreError(
            f"wanted {FOLDS} of every class to learn from, found {smallest} of one"
        )
    yield from StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(y, y)


def by_dev(learned: LabelledRows, dev: LabelledRows, test: LabelledRows) -> Prediction:
    """Train on all rows; the dev split decides when to stop and which penalty is best."""
    order = np.random.RandomState(SEED)
    weights, shares = train_regressions(learned, dev, PENALTIES, order)
    best, accuracy = _best(shares)
    return predict(weights, test.x)[best], accuracy, PENALTIES[best]


def by_folds(learned: LabelledRows, test: LabelledRows) -> Prediction:
    """Choose the penalty by ten folds; a random twentieth of the rows then decides when to stop."""
    shares = []
    for learned_rows, fold in folds(learned.y):
        order = np.random.RandomState(SEED)
        learned_part, fold_part = learned.select(learned_rows), learned.select(fold)
        _, fold_shares = train_regressions(learned_part, fold_part, PENALTIES, order)
        shares.append(fold_shares)
    best, accuracy = _best(np.mean(shares, axis=0))
    order = np.random.RandomState(SEED)
    rows = order.permutation(len(learned.y))
    held_out = int(HELD_OUT * len(rows))
    parts = learned.select(rows[held_out:]), learned.select(rows[:held_out])
    weights, _ = train_regressions(*parts, (PENALTIES[best],), order)
    return predict(weights, test.x)[0], accuracy, PENALTIES[best]


def _best(shares: Float64[np.ndarray, " R"]) -> tuple[int, float]:
    """The place of the best accuracy, which SentEval rounds, and the accuracy in points."""
    points = [round(100 * float(share), 2) for share in shares]
    return int(np.argmax(points)), max(points)


def predict(
    weights: Float32[np.ndarray, "R C D"], x: Float32[np.ndarray, "n D"]
) -> Int[np.ndarray, "R n"]:
    """The class of every row, by each regression."""
    return np.stack(
        [np.argmax(x @ class_weights.T, axis=1) for class_weights in weights]
    )


def train_regressions(
    data: LabelledRows,
    held_out: LabelledRows,
    penalties: tuple[float, ...],
    order: np.random.RandomState,
) -> tuple[Float32[np.ndarray, "R C D"], Float64[np.ndarray, " R"]]:
    """Train a regression for each penalty, and keep each where its held-out accuracy was best.

    `order` draws the order of the rows in every epoch. Returns the weights, and the
    accuracies on the held-out data (0 to 1).
    """
    optimiser = _Adam(initial_weights(data.classes, data.x.shape[1]), penalties)
    best = optimiser.weights.copy()
    accuracy, waited = np.full(len(penalties), -1.0), np.zeros(len(penalties), int)
    for _ in range(0, MOST_EPOCHS + 1, EPOCHS):
        for _ in range(EPOCHS):
            rows = order.permutation(len(data.y))
            for start in range(0, len(rows), BATCH):
                optimiser.step(data.select(rows[start : start + BATCH]))
        now = (predict(optimiser.weights, held_out.x) == held_out.y).mean(axis=1)
        running = waited <= TENACITY
        better = running & (now > accuracy)
        best[better], accuracy[better] = optimiser.weights[better], now[better]
        waited += running & ~better
        if (waited > TENACITY).all():
            break
    return best, accuracy


def initial_weights(classes: int, width: int) -> Float32[np.ndarray, "C D"]:
    """The weights of torch's new linear layer under SentEval's seed; the last column is the bias.

    Uniform between plus and minus one over the root of the number of inputs: 24 bits of
    each draw of a Mersenne Twister, weights before biases.
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
        self, start: Float32[np.ndarray, "C D"], penalties: tuple[float, ...]
    ) -> None:
        self.weights = np.repeat(start[None], len(penalties), axis=0)
        self.penalties = np.array(penalties, np.float32)[:, None, None]
        self.first, self.second = (
            np.zeros_like(self.weights),
            np.zeros_like(self.weights),
        )
        self.steps = 0

    def step(self, batch: LabelledRows) -> None:
        """One step of Adam on the mean cross-entropy of a batch, the penalty in the gradient."""
        regressions, classes, width = self.weights.shape
        rows = len(batch.y)
        # Rows last: maxima and sums over a few classes are then made for many rows at a
        # time.
        scores = (self.weights.reshape(-1, width) @ batch.x.T).reshape(
            regressions, classes, rows
        )
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[:, batch.y, np.arange(rows)] -= 1
        scores /= rows
        gradient = (scores.reshape(-1, rows) @ batch.x).reshape(self.weights.shape)
        gradient += self.penalties * self.weights
        self.steps += 1
        self.first += np.float32(1 - FIRST) * (gradient - self.first)
        self.second *= np.float32(SECOND)
        self.second += np.float32(1 - SECOND) * gradient * gradient
        spread = np.sqrt(self.second)
        spread /= np.float32(np.sqrt(1 - SECOND**self.steps))
        spread += np.float32(EPSILON)
        self.weights -= np.float32(RATE / (1 - FIRST**self.steps)) * self.first / spread


def shares_right(
    values: Float64[np.ndarray, " P"], pairs: Pairs
) -> dict[str, float | None]:
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
    compare=predicted_classes,
    further_scores=("dev_accuracy",),
    learns=True,
)
