"""Metrics, from vectors of pairs to scores in points (x100).

A module in this folder registers a metric by a constant, METRIC. Every score of a
metric is computed at once, since that is free; a published number then picks its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, cast

import numpy as np

from harness.core.arrays import Float, Float64, Int, read_only, read_only_view
from harness.core.errors import HarnessError, ScoreError, UsageError
from harness.core.scores import ScorePath
from harness.core.types import Pairs, Task

# Cosines that differ by rounding alone must tie: STS12 holds 61 identical and 194
# repeated pairs.
TIE_DECIMALS = 10

PRODUCT_ROWS = 512  # rows of a product of all pairs at a time


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs as rows of a matrix of vectors, with their gold; of single sentences `b` is empty.

    The arrays are read-only from then on.
    """

    a: Int[np.ndarray, " P"]
    b: Int[np.ndarray, " Q"]
    gold: Float64[np.ndarray, " P"]

    def __post_init__(self) -> None:
        for x in (self.a, self.b, self.gold):
            read_only(x)


def cosine(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """Cosine of each pair, in float64, and how many pairs hold a zero vector.

    A zero vector has no direction; its cosine counts as 0, as in SentEval, and is
    reported. Raises ScoreError for a value that is not finite.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # refused below, by number
        squares = np.einsum("pk,pk->p", a, a) * np.einsum("pk,pk->p", b, b)
        products = np.einsum("pk,pk->p", a, b)
    norms = np.sqrt(squares)
    if not np.isfinite(norms).all():
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise ScoreError(f"pair {bad + 1}: a vector to score is not finite")
    zero = norms == 0
    values = products / np.where(zero, 1.0, norms)
    return np.where(zero, 0.0, np.clip(values, -1.0, 1.0)), int(zero.sum())


def directions(vectors: Float[np.ndarray, "... K"]) -> Float64[np.ndarray, "... K"]:
    """Vectors of length 1 in float64; a zero vector has no direction and stays."""
    vectors = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(norms == 0, 1.0, norms)


def cosines(
    vectors: Float[np.ndarray, "N K"],
    scored: PairRows,
    labelled: Sequence[PairRows],  # noqa: ARG001 - cosines learn nothing from labels
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The cosine of each pair, and the number of pairs with a zero vector."""
    if len(scored.b) != len(scored.a):
        raise ScoreError(
            "wanted pairs to compare, found single sentences; these are classified"
        )
    values, zero_vector_pairs = cosine(vectors[scored.a], vectors[scored.b])
    return values, {"zero_vector_pairs": zero_vector_pairs}


# Vectors, the scored pairs and the labelled ones -> a value for each scored pair, and
# facts worth recording.
Compare = Callable[
    [Float[np.ndarray, "N K"], PairRows, Sequence[PairRows]],
    tuple[Float64[np.ndarray, " P"], dict[str, Any]],
]

# Vectors, the rows of the scored pairs, and the pairs -> scores by name, as a record
# holds them.
VectorScore = Callable[[Float[np.ndarray, "N K"], PairRows, Pairs], dict[str, Any]]


@dataclass(frozen=True)
class Metric:
    """A way to score a task, registered by the module that ends with it.

    Attributes:
        name: The name that `Task.metric` holds.
        score: The scores, in points, of one value a pair (P,) and the pairs with their
            gold; None where a score is undefined. Neither can be written into.
        main_score: Where the scores hold the one by which a cell is known.
        words: Of each score that a page names, how it is called; `{}` stands for
            `compared`.
        compared: The name of the values that are scored.
        compare: The values, from vectors.
        further_scores: Facts of `compare` that are scores, besides those of the values.
        of_vectors: Further scores, of the vectors and the rows of the scored pairs.
        learns: Whether `compare` learns from the labels of the splits that are not
            scored.
        rounded: Whether `score` is given the values rounded to ten decimals, so that
            equal pairs tie in ranks; without it, it rounds them itself where it ranks.
        direction: Which way is better; `toward gold` where gold's own score is the aim.
    """

    name: str
    score: Callable[[Float64[np.ndarray, " P"], Pairs], dict[str, Any]]
    main_score: ScorePath
    words: Mapping[str, str]
    compared: str = "cosine"
    compare: Compare = cosines
    further_scores: tuple[str, ...] = ()
    of_vectors: VectorScore | None = None
    learns: bool = False
    rounded: bool = True
    direction: Literal["higher", "toward gold"] = "higher"


@cache
def metrics() -> Mapping[str, Metric]:
    """Every registered metric by its name."""
    registered: dict[str, Metric] = {}
    for module in iter_modules(__path__):
        for metric in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(metric, Metric) and metric is not registered.setdefault(
                metric.name, metric
            ):
                raise HarnessError(
                    f"two files register the metric {metric.name!r}: rename one of them"
                )
    return registered


def add_metric(metric: Metric) -> None:
    """Register the metric of a plug-in. Raises HarnessError for a name that another has."""
    if metrics().get(metric.name, metric) != metric:
        raise HarnessError(
            f"another file registers the metric {metric.name!r}: rename one of them"
        )
    cast(dict[str, Metric], metrics())[metric.name] = metric


def metric_of(task: Task) -> Metric:
    """The metric of a task. Raises UsageError for a name that no module registers."""
    if task.metric not in metrics():
        raise UsageError(
            f"{task.name}: unknown metric {task.metric!r}: known are {', '.join(metrics())}"
        )
    return metrics()[task.metric]


def labelled_splits(task: Task) -> tuple[str, ...]:
    """The splits whose labels the task's metric learns from: those that are not scored, or none."""
    learns = metric_of(task).learns
    return tuple(split for split in task.splits if learns and split not in task.scored)


def score(task: Task, values: Any, pairs: Pairs) -> dict[str, Any]:
    """All scores of one task; a score that is undefined (a constant column) is None.

    Raises ScoreError unless `values`, as a metric compares them, are a finite number a
    pair.
    """
    if not (isinstance(values, np.ndarray) and values.dtype.kind in "fiub"):
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise ScoreError(f"wanted an array of real numbers to score, found {kind}")
    if values.shape != (len(pairs),):
        raise ScoreError(
            f"wanted a value for each of {len(pairs)} pairs, found {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ScoreError("a similarity to score is not finite")
    metric = metric_of(task)
    given = np.round(values, TIE_DECIMALS) if metric.rounded else values
    return metric.score(read_only_view(given), pairs)


def why_undefined(
    task: Task,
    scores: Mapping[str, Any],
    values: Float64[np.ndarray, " P"],
    pairs: Pairs,
) -> str | None:
    """The reason why a task's main score is undefined; None where it is defined."""
    main: Any = scores
    for name in metric_of(task).main_score:
        main = main[name]
    if main is not None:
        return None
    if len(values) < 2:
        return "fewer than two pairs"
    if np.ptp(np.round(values, TIE_DECIMALS)) == 0:
        return "all similarities are equal"
    return (
        "all gold scores are equal"
        if np.ptp(pairs.gold) == 0
        else "a subset has no score"
    )
