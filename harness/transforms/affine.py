"""Affine maps and the moments that they are fitted from.

SN, NATSV and whitening are three short fits that return the same thing, `(x - shift) @ weight`,
and need nothing but a mean and a covariance. Moments merge, so a corpus of any size streams
through D x D memory, and the moments behind an affine map follow from those before it: a chain of
calibrations is fitted without looking at the vectors again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from harness.core.arrays import Float, Float64, Int
from harness.core.errors import ScoreError

# A coordinate whose spread is below this share of the largest, or a direction whose variance is,
# holds rounding noise of float32 encodings and no information. MiniLM's last layer has three
# constant coordinates: dividing by their spread would move STS12 by 0.17 points.
LEAST_SPREAD = 1e-6
LEAST_VARIANCE = 1e-9

BLOCK = 512  # rows that are mapped at a time, so that they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> (x - shift) @ weight, in float64; `rank` directions of its output carry information.

    `nulled` are orthonormal directions, where the weight does nothing but take them out.
    """

    shift: Float64[np.ndarray, " D"]
    weight: Float64[np.ndarray, "D K"]
    rank: int
    nulled: Float64[np.ndarray, "D k"] | None = None

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        if self.scales is not None:
            return (x - self.shift) * self.scales
        mapped = np.empty((len(x), self.weight.shape[1]))
        for rows in (slice(start, start + BLOCK) for start in range(0, len(x), BLOCK)):
            centred = x[rows] - self.shift
            if self.nulled is None:
                np.matmul(centred, self.weight, out=mapped[rows])
            else:
                np.subtract(centred, centred @ self.nulled @ self.nulled.T, out=mapped[rows])
        return mapped

    @classmethod
    def nulling(
        cls, shift: Float64[np.ndarray, " D"], directions: Float64[np.ndarray, "D k"], rank: int
    ) -> Affine:
        """The map that takes orthonormal directions out of x - shift."""
        weight = np.eye(len(shift)) - directions @ directions.T
        return cls(shift, weight, rank, directions)

    @cached_property
    def scales(self) -> Float64[np.ndarray, " D"] | None:
        """The weight's diagonal, if nothing stands beside it: no product of matrices is needed."""
        diagonal = np.diag(self.weight)
        square = self.weight.shape == (len(diagonal), len(diagonal))
        alone = square and np.count_nonzero(self.weight) == np.count_nonzero(diagonal)
        return diagonal if alone else None


@dataclass(frozen=True, eq=False)
class Moments:
    """Row count, mean, and scatter (the sum of outer products of centred rows), in float64.

    Merging two is exact up to rounding (Chan, Golub & LeVeque 1979), in any order, so shards and
    workers may be combined freely.
    """

    count: int
    mean: Float64[np.ndarray, " D"]
    scatter: Float64[np.ndarray, "D D"]

    @classmethod
    def of(
        cls, x: Float[np.ndarray, "n D"] | Moments, repeats: Int[np.ndarray, " n"] | None = None
    ) -> Moments:
        """The moments of the rows, each counted `repeats` times (once by default).

        Raises ScoreError for no rows or a value that is not finite. Moments pass through.
        """
        if isinstance(x, Moments):
            return x
        count = len(x) if repeats is None else int(repeats.sum())
        if count == 0:
            raise ScoreError("no sentences to fit on")
        if not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise ScoreError(f"row {bad} of the vectors to fit on holds a value that is not finite")
        first = x[0].astype(np.float64)
        rows = x - first  # exact where all rows are equal
        weights = np.ones(len(x)) if repeats is None else repeats.astype(np.float64)
        gap = weights @ rows / count
        rows -= gap
        if repeats is not None:
            rows *= np.sqrt(weights)[:, None]  # a matrix by its own transpose costs half
        return cls(count, first + gap, rows.T @ rows)

    @classmethod
    def merged(cls, parts: Iterable[Moments]) -> Moments:
        """All parts as one. Raises ScoreError if there are none."""
        parts = tuple(parts)
        if not parts:
            raise ScoreError("no sentences to fit on")
        return reduce(cls.merge, parts)

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        between = np.outer(gap, gap) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)

    def after(self, affine: Affine) -> Moments:
        """The moments of the same rows behind an affine map."""
        mean = (self.mean - affine.shift) @ affine.weight
        return Moments(self.count, mean, affine.weight.T @ self.scatter @ affine.weight)

    @cached_property
    def principal(self) -> Directions:
        """The directions of the covariance; kept, since several calibrations share moments."""
        return principal_directions(self.covariance)

    @cached_property
    def principal_uncentred(self) -> Directions:
        """The directions of the rows as they are: their right singular vectors."""
        return principal_directions(self.uncentred)

    @property
    def covariance(self) -> Float64[np.ndarray, "D D"]:
        """Population covariance (1/N); cosines do not see the difference from 1/(N-1)."""
        return self.scatter / self.count

    @property
    def uncentred(self) -> Float64[np.ndarray, "D D"]:
        """Mean outer product of the rows as they are."""
        return self.covariance + np.outer(self.mean, self.mean)


@dataclass(frozen=True, eq=False)
class Directions:
    """Eigenvalues, descending, their eigenvectors as columns, and how many are not noise."""

    values: Float64[np.ndarray, " D"]
    vectors: Float64[np.ndarray, "D D"]
    rank: int


def principal_directions(symmetric: Float64[np.ndarray, "D D"]) -> Directions:
    """The directions of a covariance or second-moment matrix.

    An eigenvector's sign is arbitrary; the largest coordinate is made positive, so that the same
    moments give the same map everywhere. Raises ScoreError where there is no variance at all.
    """
    values, vectors = np.linalg.eigh(symmetric)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > LEAST_VARIANCE * values[0]).sum())
    if not values[0] > 0 or rank == 0:
        raise ScoreError("all vectors to fit on are equal: they have no direction to calibrate")
    heaviest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[heaviest, np.arange(len(values))])
    return Directions(values, vectors * signs, rank)
