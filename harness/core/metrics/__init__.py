"""Metrics: from the vectors of pairs to scores in points (x100).

Each module of this folder registers a metric by a constant, METRIC. All scores of a
metric are computed together, since they cost next to nothing; a published number is
compared with one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Real
from pkgutil import iter_modules
from typing import Any, Literal, cast

import numpy as np

from harness.core.arrays import Float, Float64, Int, read_only, read_only_view
from harness.core.errors import HarnessError, ScoreError, UsageError
from harness.core.pairs import Pairs
from harness.core.types import ScorePath, Task, score_at, score_paths

# Values are ranked by so many significant digits.
TIE_DIGITS = 10


def tie_rounded(values: Float[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """The values to ten significant digits, so that those tie that differ by rounding alone.

    STS12 holds 61 identical and 194 repeated pairs. Each value is rounded by its own
    exponent (of two), so that neither its unit nor a much larger value matters.

    Example:
        >>> tie_rounded(np.array([1 - 1e-13, 1.0, 1e-20, 2e-20])).tolist()
        [1.0, 1.0, 1e-20, 2e-20]
    """
    fractions, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    return np.asarray(np.ldexp(np.round(fractions, TIE_DIGITS), exponents))


@dataclass(frozen=True, eq=False)
class PairRows:
    """The rows of P pairs in a matrix of vectors, and their gold. The arrays are read-only.

    Attributes:
        a: The rows of the first sentences.
        b: The rows of the second sentences (Q = P); empty for single sentences (Q = 0).
        gold: The gold scores or classes.
    """

    a: Int[np.ndarray, " P"]
    b: Int[np.ndarray, " Q"]
    gold: Float64[np.ndarray, " P"]

    def __post_init__(self) -> None:
        for array in (self.a, self.b, self.gold):
            read_only(array)


def cosine(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """The cosine of each pair, in float64, and the number of pairs with a zero vector.

    A zero vector has no direction; its cosine counts as 0, as in SentEval. Raises
    ScoreError for a value that is not finite.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # refused below, with the pair
        squares = np.einsum("pk,pk->p", a, a) * np.einsum("pk,pk->p", b, b)
        products = np.einsum("pk,pk->p", a, b)
    norms = np.sqrt(squares)
    is_finite = np.isfinite(norms)
    if not is_finite.all():
        pair = int(is_finite.argmin()) + 1
        raise ScoreError(
            f"pair {pair}: wanted vectors of finite length, found one with a number that is not "
            "finite, or too large to square; mend or scale the vectors"
        )
    is_zero = norms == 0
    values = products / np.where(is_zero, 1.0, norms)
    return np.where(is_zero, 0.0, np.clip(values, -1.0, 1.0)), int(is_zero.sum())


def unit_rows(vectors: Float[np.ndarray, "... K"]) -> Float64[np.ndarray, "... K"]:
    """The vectors scaled to length 1, in float64; a zero vector stays zero."""
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


# From vectors, the scored pairs and the labelled ones to a value for each scored pair,
# and facts for the record.
Compare = Callable[
    [Float[np.ndarray, "N K"], PairRows, Sequence[PairRows]],
    tuple[Float64[np.ndarray, " P"], dict[str, Any]],
]

# From vectors, the rows of the scored pairs, and the pairs to scores by name, as a
# record holds them.
VectorScore = Callable[[Float[np.ndarray, "N K"], PairRows, Pairs], dict[str, Any]]


@dataclass(frozen=True)
class Metric:
    """A way to score a task.

    Attributes:
        name: The name that `Task.metric` holds.
        score: Computes the scores, in points, from one value a pair (P,) and the pairs
            with their gold; None where a score is undefined. Both are read-only.
        main_score: The path of the main score among the scores.
        words: The description of each score that a page names; `{}` is replaced by
            `compared`.
        compared: The name of the values that are scored.
        compare: Computes the values from vectors.
        further_scores: The names of the facts of `compare` that are scores, too.
        of_vectors: Computes further scores from the vectors themselves.
        learns: Whether `compare` learns from the labels of the splits that are not
            scored.
        direction: Which scores are better: higher ones, or those closer to the score
            of gold itself.
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
    direction: Literal["higher", "toward gold"] = "higher"


@cache
def metrics() -> Mapping[str, Metric]:
    """Every registered metric by its name."""
    registered: dict[str, Metric] = {}
    for module_info in iter_modules(__path__):
        module = import_module(f"{__name__}.{module_info.name}")
        if hasattr(module, "METRIC"):
            registered[module.METRIC.name] = module.METRIC
    return registered


def add_metric(metric: Metric) -> None:
    """Register the metric of a plug-in, in the mapping that `metrics` returns.

    Raises HarnessError for a name that another metric has.
    """
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
    """The splits whose labels the task's metric learns from: those that are not scored.

    None for a metric that does not learn.
    """
    if not metric_of(task).learns:
        return ()
    return tuple(split for split in task.splits if split not in task.scored)


def score(task: Task, values: Any, pairs: Pairs) -> dict[str, Any]:
    """The scores of a task from the values that the metric's `compare` returns.

    A score that is undefined, as of a constant column, is None. Raises ScoreError
    unless the values are a finite number for each pair.
    """
    metric = metric_of(task)
    is_column = isinstance(values, np.ndarray) and values.shape == (len(pairs),)
    if not is_column or not np.isfinite(values).all():
        raise ScoreError(
            f"metric {metric.name}: wanted an array of a finite number for each of "
            f"{len(pairs)} pairs from compare, found {values!r:.60}"
        )
    return metric.score(read_only_view(values), pairs)


def finite_scores(metric: Metric, scores: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of a metric as a record holds them: floats, or None where undefined.

    Raises ScoreError for a score that is no finite number, or without the main score.
    """
    plain = _floats(f"metric {metric.name}", scores)
    if metric.main_score not in score_paths(plain):
        raise ScoreError(
            f"metric {metric.name}: wanted its main score {'.'.join(metric.main_score)}, "
            f"found {', '.join(plain) or 'none'}; name it by main_score"
        )
    return plain


def _floats(place: str, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores by name, at any depth, as floats; `place` names them in an error."""
    plain: dict[str, Any] = {}
    for name, score in scores.items():
        if isinstance(score, Mapping):
            plain[name] = _floats(f"{place}, {name}", score)
        elif score is None:
            plain[name] = None
        elif isinstance(score, Real) and math.isfinite(score):
            plain[name] = float(score)
        else:
            raise ScoreError(
                f"{place}, {name}: wanted a finite number as score, or None where it is "
                f"undefined, found {score!r:.60}; convert it, as in float(x)"
            )
    return plain


def undefined_reason(
    task: Task,
    scores: Mapping[str, Any],
    values: Float64[np.ndarray, " P"],
    pairs: Pairs,
) -> str | None:
    """The reason why a task's main score is undefined; None where it is defined."""
    if score_at(scores, metric_of(task).main_score) is not None:
        return None
    if len(values) < 2:
        return "fewer than two pairs"
    if np.ptp(tie_rounded(values)) == 0:
        return "all similarities are equal"
    if np.ptp(pairs.gold) == 0:
        return "all gold scores are equal"
    if len(set(pairs.group)) > 1:
        return "a subset has no score"
    return "the metric gives none for these pairs"
