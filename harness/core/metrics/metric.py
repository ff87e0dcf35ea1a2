"""The parts of a metric: how vectors become one value a pair, and values and gold become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from harness.core.arrays import Float, Float64, Int
from harness.core.errors import ScoreError
from harness.core.metrics.similarity import pair_cosines
from harness.core.types import Pairs


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs as rows of a matrix of vectors, with their gold; of single sentences `b` is empty."""

    a: Int[np.ndarray, " P"]
    b: Int[np.ndarray, " Q"]
    gold: Float64[np.ndarray, " P"]


# Vectors, the scored pairs and the labelled ones -> a value for each scored pair, and facts worth
# recording.
Compare = Callable[
    [Float[np.ndarray, "N K"], PairRows, Sequence[PairRows]],
    tuple[Float64[np.ndarray, " P"], dict[str, Any]],
]


def cosines(
    vectors: Float[np.ndarray, "N K"],
    scored: PairRows,
    labelled: Sequence[PairRows],  # noqa: ARG001 - cosines learn nothing from labels
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The cosine of each pair, and the number of pairs with a zero vector."""
    if len(scored.b) != len(scored.a):
        raise ScoreError("wanted pairs to compare, found single sentences; these are classified")
    values, zero_vector_pairs = pair_cosines(vectors, scored.a, scored.b)
    return values, {"zero_vector_pairs": zero_vector_pairs}


@dataclass(frozen=True)
class Metric:
    """A way to score a task, registered by the module that ends with it.

    Attributes:
        name: The name that `Task.metric` holds.
        score: The scores, in points, of one value a pair (P,) and the pairs with their gold; None
            where a score is undefined. Values that differ by rounding alone were made equal.
        main_score: Where the scores hold the one by which a cell is known.
        words: Of each score that a page names, how it is called; `{}` stands for `compared`.
        compared: The name of the values that are scored.
        compare: The values, from vectors.
        further_scores: Facts of `compare` that are scores, beside those of the values.
        learns: Whether `compare` learns from the labels of the splits that are not scored.
        direction: Which way is better; `toward gold` where gold's own score is the aim.
    """

    name: str
    score: Callable[[Float64[np.ndarray, " P"], Pairs], dict[str, Any]]
    main_score: tuple[str, ...]
    words: Mapping[str, str]
    compared: str = "cosine"
    compare: Compare = cosines
    further_scores: tuple[str, ...] = ()
    learns: bool = False
    direction: Literal["higher", "toward gold"] = "higher"
