"""Logistic regression on vectors by Adam, with early stopping: the classifier of SentEval.

It is the released classifier without a hidden layer, number for number up to rounding: torch's
initial weights, its Adam with weight decay on weights and bias, the mean cross-entropy of each
batch. Regressions that differ in their penalty alone see the same batches, so that they are trained
together: one matrix product a batch serves all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Float32, Float64, Int

BATCH = 64
EPOCHS = 4  # between two looks at the held-out data
TENACITY = 5  # looks without a gain after which the next one is the last
MOST_EPOCHS = 200  # no further look begins after these
RATE, FIRST, SECOND, EPSILON = 1e-3, 0.9, 0.999, 1e-8  # Adam's defaults


@dataclass(frozen=True, eq=False)
class Labelled:
    """Vectors with their classes, counted from 0; `x` ends with a column of ones for the bias."""

    x: Float32[np.ndarray, "n D"]
    y: Int[np.ndarray, " n"]

    def at(self, rows: Int[np.ndarray, " m"]) -> Labelled:
        """Some of the rows, in this order."""
        return Labelled(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class Regressions:
    """Trained regressions, one a penalty, and each one's accuracy on the held-out data (0 to 1)."""

    weights: Float32[np.ndarray, "R C D"]
    accuracy: Float64[np.ndarray, " R"]

    def predict(self, x: Float32[np.ndarray, "n D"]) -> Int[np.ndarray, "R n"]:
        """The class of every row, by each regression."""
        return np.stack([np.argmax(x @ weights.T, axis=1) for weights in self.weights])


def train(
    data: Labelled,
    held_out: Labelled,
    classes: int,
    penalties: tuple[float, ...],
    seed: int,
    order: np.random.RandomState,
) -> Regressions:
    """Train a regression for each penalty, and keep each where its held-out accuracy was best.

    `seed` draws the initial weights, `order` the order of the rows in every epoch.
    """
    optimiser = _Adam(initial_weights(classes, data.x.shape[1], seed), penalties)
    best = optimiser.weights.copy()
    accuracy, waited = np.full(len(penalties), -1.0), np.zeros(len(penalties), int)
    for _ in range(0, MOST_EPOCHS + 1, EPOCHS):
        for _ in range(EPOCHS):
            rows = order.permutation(len(data.y))
            for start in range(0, len(rows), BATCH):
                optimiser.step(data.at(rows[start : start + BATCH]))
        now = Regressions(optimiser.weights, accuracy).predict(held_out.x) == held_out.y
        running = waited <= TENACITY
        better = running & (now.mean(axis=1) > accuracy)
        best[better], accuracy[better] = optimiser.weights[better], now.mean(axis=1)[better]
        waited += running & ~better
        if (waited > TENACITY).all():
            break
    return Regressions(best, accuracy)


def initial_weights(classes: int, width: int, seed: int) -> Float32[np.ndarray, "C D"]:
    """The weights of torch's new linear layer under a seed; the last column is the bias.

    Uniform between plus and minus one over the root of the number of inputs: 24 bits of each draw
    of a Mersenne Twister, weights before biases.
    """
    bound = np.float32(1 / np.sqrt(width - 1))
    draws = np.random.RandomState(seed).randint(0, 2**32, classes * width, dtype=np.uint32)
    unit = (draws & (2**24 - 1)) / 2**24
    values = (unit * np.float64(bound + bound) - np.float64(bound)).astype(np.float32)
    weights = values[: classes * (width - 1)].reshape(classes, width - 1)
    return np.column_stack([weights, values[classes * (width - 1) :]])


class _Adam:
    """Regressions on their way: weights (R, C, D) and the two moments of their gradients."""

    def __init__(self, start: Float32[np.ndarray, "C D"], penalties: tuple[float, ...]) -> None:
        self.weights = np.repeat(start[None], len(penalties), axis=0)
        self.penalties = np.array(penalties, np.float32)[:, None, None]
        self.first, self.second = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self.steps = 0

    def step(self, batch: Labelled) -> None:
        """One step of Adam on the mean cross-entropy of a batch, the penalty in the gradient."""
        regressions, classes, width = self.weights.shape
        rows = len(batch.y)
        # Rows last: maxima and sums over a few classes are then made for many rows at a time.
        scores = (self.weights.reshape(-1, width) @ batch.x.T).reshape(regressions, classes, rows)
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
