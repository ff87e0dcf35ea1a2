"""Affine maps, and the moments that they are fitted from.

SN, NATSV and whitening are fits of the map (x - shift) @ weight from a mean and a
covariance alone. Moments merge, so that a corpus of any size is fitted in D x D memory;
and the moments after an affine map follow from the moments before it, so that a chain
of post-processors is fitted in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import ClassVar

import numpy as np

from harness.core.arrays import Float, Float64, Int, read_only
from harness.core.errors import ScoreError

# Shares of the largest standard deviation of a coordinate, and of the largest variance of
# a direction. What is below holds rounding noise of float32 encodings. MiniLM's last layer
# has three constant coordinates: dividing by their standard deviation would move STS12 by
# 0.17 points.
LEAST_SPREAD = 1e-6
LEAST_VARIANCE = 1e-9

# Rows that are mapped at a time, so that they stay in the processor's cache.
CACHED_ROWS = 512


class FromMoments:
    """The base of post-processors that draw nothing and need a mean and a covariance alone.

    A post-processor that inherits it is a frozen dataclass with a `name` and a `fit`, which
    gets rows (n, D) or their `Moments` and returns an `Affine`.

    Attributes:
        from_moments: That it is fitted on `Moments`, so that any corpus streams.
        deterministic: That it draws nothing: one seed is enough.
        share: The share of a corpus that a fit sees, from 0 to 1.
        dropout: Whether it is fitted on encodings with dropout.

    Examples:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> from harness import Affine, FromMoments, Moments
        >>> @dataclass(frozen=True)
        ... class Centre(FromMoments):
        ...     name = "centre"
        ...
        ...     def fit(self, x, rng):
        ...         mean = Moments.of(x).mean
        ...         return Affine(mean, np.eye(len(mean)), rank=len(mean))
        >>> x = np.array([[1.0, 2.0], [3.0, 2.0]])
        >>> Centre().fit(x, np.random.default_rng(0))(x).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """

    from_moments: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    share: ClassVar[float] = 1.0
    dropout: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class Affine:
    """The map x -> (x - shift) @ weight, in float64; its arrays are read-only copies.

    Attributes:
        shift: (D,), subtracted from each row.
        weight: (D, K).
        rank: The number of output directions that carry information.
        nulled: (D, k) orthonormal columns V where weight = I - V V^T, which is then
            applied as x - (x V) V^T at less cost.

    Examples:
        >>> import numpy as np
        >>> from harness import Affine
        >>> shrink = Affine(np.array([1.0, 1.0]), np.array([[0.5], [0.0]]), rank=1)
        >>> shrink(np.array([[3.0, 7.0], [1.0, 7.0]])).tolist()
        [[1.0], [0.0]]
    """

    shift: Float64[np.ndarray, " D"]
    weight: Float64[np.ndarray, "D K"]
    rank: int
    nulled: Float64[np.ndarray, "D k"] | None = None

    def __post_init__(self) -> None:
        for name in ("shift", "weight", "nulled"):
            x = getattr(self, name)
            if x is not None:
                object.__setattr__(self, name, read_only(np.array(x)))

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        if self.scales is not None:
            return (x - self.shift) * self.scales
        mapped = np.empty((len(x), self.weight.shape[1]))
        for start in range(0, len(x), CACHED_ROWS):
            rows = slice(start, start + CACHED_ROWS)
            centred = x[rows] - self.shift
            if self.nulled is None:
                np.matmul(centred, self.weight, out=mapped[rows])
            else:
                projection = centred @ self.nulled @ self.nulled.T
                np.subtract(centred, projection, out=mapped[rows])
        return mapped

    @classmethod
    def nulling(
        cls,
        shift: Float64[np.ndarray, " D"],
        directions: Float64[np.ndarray, "D k"],
        rank: int,
    ) -> Affine:
        """The projection of x - shift onto the complement of orthonormal directions."""
        weight = np.eye(len(shift)) - directions @ directions.T
        return cls(shift, weight, rank, directions)

    @cached_property
    def scales(self) -> Float64[np.ndarray, " D"] | None:
        """The diagonal of a diagonal weight, which needs no matrix product; else None."""
        diagonal = np.diag(self.weight)
        if self.weight.shape != (len(diagonal), len(diagonal)):
            return None
        if np.count_nonzero(self.weight) != np.count_nonzero(diagonal):
            return None
        return diagonal


class OfFirstSentence(Affine):
    """An affine map of the first sentence of each pair; the second one stays as it is.

    It is an error of a program, which forgets the second sentence, and is here to repeat
    published numbers of such a program. A sentence by itself has no such map.
    """


@dataclass(frozen=True, eq=False)
class Moments:
    """The first two moments of rows, in float64.

    All post-processors that are fitted on the same rows share them: the arrays, and
    what follows from them, are read-only.

    Attributes:
        count: The number of rows.
        mean: Their mean.
        scatter: The sum of outer products of centred rows.

    Examples:
        >>> import numpy as np
        >>> from harness import Moments
        >>> moments = Moments.of(np.array([[0.0, 0.0], [2.0, 4.0]]))
        >>> moments.count, moments.mean.tolist(), moments.covariance.tolist()
        (2, [1.0, 2.0], [[1.0, 2.0], [2.0, 4.0]])
        >>> half = Moments.of(np.array([[0.0, 0.0]]))
        >>> half.merge(Moments.of(np.array([[2.0, 4.0]]))).scatter.tolist()
        [[2.0, 4.0], [4.0, 8.0]]
    """

    count: int
    mean: Float64[np.ndarray, " D"]
    scatter: Float64[np.ndarray, "D D"]

    def __post_init__(self) -> None:
        for name in ("mean", "scatter"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name))))

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "n D"] | Moments,
        repeats: Int[np.ndarray, " n"] | None = None,
    ) -> Moments:
        """The moments of rows, each counted `repeats` times (once by default).

        Args:
            x: (n, D) rows, or Moments, which are returned as they are.
            repeats: (n,) how often each row counts.

        Raises:
            ScoreError: for no rows, and for a value that is not finite.
        """
        if isinstance(x, Moments):
            return x
        count = len(x) if repeats is None else int(repeats.sum())
        if count == 0:
            raise ScoreError("no sentences to fit on")
        if not np.isfinite(x).all():
            row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise ScoreError(
                f"row {row} of the vectors to fit on holds a value that is not finite"
            )
        # Rows are taken relative to the first row, which is exact where all are equal.
        first_row = x[0].astype(np.float64)
        rows = x - first_row
        weights = np.ones(len(x)) if repeats is None else repeats.astype(np.float64)
        mean_offset = weights @ rows / count
        rows -= mean_offset
        if repeats is not None:
            # By square roots, since a matrix times its own transpose costs half.
            rows *= np.sqrt(weights)[:, None]
        return cls(count, first_row + mean_offset, rows.T @ rows)

    @classmethod
    def merged(cls, parts: Iterable[Moments]) -> Moments:
        """The moments of the rows of all parts. Raises ScoreError for no parts."""
        parts = tuple(parts)
        if not parts:
            raise ScoreError("no sentences to fit on")
        return reduce(cls.merge, parts)

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together, in any order up to rounding.

        With d the difference of the means, S = S_a + S_b + d d^T n_a n_b / (n_a + n_b):
        Chan, Golub & LeVeque 1979, Stanford report STAN-CS-79-773.
        """
        count = self.count + other.count
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.count / count)
        between = np.outer(gap, gap) * (self.count * other.count / count)
        return Moments(count, mean, self.scatter + other.scatter + between)

    def after(self, affine: Affine) -> Moments:
        """The moments of the mapped rows: mean (m - shift) W, scatter W^T S W."""
        mean = (self.mean - affine.shift) @ affine.weight
        return Moments(self.count, mean, affine.weight.T @ self.scatter @ affine.weight)

    @cached_property
    def principal(self) -> Directions:
        """The eigenvectors of the covariance; cached, since several post-processors share them."""
        return principal_directions(self.covariance)

    @cached_property
    def principal_uncentred(self) -> Directions:
        """The right singular vectors of the uncentred rows."""
        return principal_directions(self.uncentred)

    @property
    def covariance(self) -> Float64[np.ndarray, "D D"]:
        """The population covariance (1/N); 1/(N - 1) would change no cosine."""
        return read_only(self.scatter / self.count)

    @property
    def uncentred(self) -> Float64[np.ndarray, "D D"]:
        """The second moment: the mean outer product of the uncentred rows."""
        return read_only(self.covariance + np.outer(self.mean, self.mean))


@dataclass(frozen=True, eq=False)
class Directions:
    """Eigenvalues, descending, their eigenvectors as columns, and how many are above noise."""

    values: Float64[np.ndarray, " D"]
    vectors: Float64[np.ndarray, "D D"]
    rank: int


def principal_directions(symmetric: Float64[np.ndarray, "D D"]) -> Directions:
    """The eigendecomposition of a covariance or second-moment matrix.

    An eigenvector's sign is arbitrary; its largest coordinate is made positive, so that
    equal moments give equal maps on every machine. Raises ScoreError where there is no
    variance.
    """
    values, vectors = np.linalg.eigh(symmetric)
    values, vectors = values[::-1], vectors[:, ::-1]
    if not values[0] > 0:
        raise ScoreError(
            "all vectors to fit on are equal: they have no direction to calibrate"
        )
    rank = int((values > LEAST_VARIANCE * values[0]).sum())
    heaviest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[heaviest, np.arange(len(values))])
    return Directions(read_only(values), read_only(vectors * signs), rank)
