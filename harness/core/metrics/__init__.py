"""Metrics: from the vectors of pairs to scores in points (x100).

Each module of this folder registers a metric by a constant, METRIC. All scores of a
metric are computed together, since they cost next to nothing; a published number is
compared with one of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from numbers import Real
from pkgutil import iter_modules
from typing import Any, Literal, NoReturn, cast

import numpy as np

from harness.core.arrays import (
    Float,
    Float64,
    Int,
    is_plain_array,
    read_only,
    read_only_view,
)
from harness.core.errors import HarnessError, ScoreError, UsageError
from harness.core.pairs import Pairs
from harness.core.scores import ScorePath, score_at
from harness.core.texts import text_fault
from harness.core.types import Task

# The decimals to which cosines are rounded before they are ranked, so that pairs tie
# whose cosines differ by rounding alone: STS12 holds 61 identical and 194 repeated pairs.
TIE_DECIMALS = 10

PRODUCT_ROWS = 512  # rows of a product of all pairs at a time


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


def directions(vectors: Float[np.ndarray, "... K"]) -> Float64[np.ndarray, "... K"]:
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
        rounded: Whether `score` is given the values rounded to ten decimals, so that
            equal pairs tie in ranks. A metric without this rounds them where it ranks.
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
    rounded: bool = True
    direction: Literal["higher", "toward gold"] = "higher"

    def __post_init__(self) -> None:
        for name in ("main_score", "further_scores"):
            self._require_names(name, getattr(self, name))
        if not self.main_score:
            self._refuse("main_score", "the path of a score")
        if not isinstance(self.words, Mapping):
            self._refuse("words", "a dictionary of descriptions")
        directions = ("higher", "toward gold")
        if self.direction not in directions:
            self._refuse("direction", " or ".join(map(repr, directions)))

    def _require_names(self, attribute: str, names: Any) -> None:
        """Raise UsageError unless an attribute is a tuple of texts."""
        if not isinstance(names, tuple) or any(text_fault(name) for name in names):
            self._refuse(attribute, "a tuple of names, as in ('spearman', 'all')")

    def _refuse(self, attribute: str, wanted: str) -> NoReturn:
        """Raise UsageError for an attribute that is not what is wanted."""
        raise UsageError(
            f"the metric {self.name!r}: {attribute}: wanted {wanted}, found "
            f"{getattr(self, attribute)!r:.60}; mend its METRIC"
        )


@cache
def metrics() -> Mapping[str, Metric]:
    """Every registered metric by its name."""
    registered: dict[str, Metric] = {}
    for module_info in iter_modules(__path__):
        module = import_module(f"{__name__}.{module_info.name}")
        for metric in vars(module).values():
            if not isinstance(metric, Metric):
                continue
            if registered.get(metric.name, metric) is not metric:
                raise HarnessError(
                    f"two files register the metric {metric.name!r}: rename one of them"
                )
            registered[metric.name] = metric
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
    """All scores of a task; a score that is undefined, as of a constant column, is None.

    `values` are those that the metric's `compare` returns. Raises ScoreError unless
    they are a finite number for each pair, and each score a finite number or None.
    """
    metric = metric_of(task)
    wanted = (
        f"metric {metric.name}: wanted a finite number for each of {len(pairs)} pairs"
    )
    remedy = "let compare return an array of them"
    if not is_plain_array(values):
        raise ScoreError(f"{wanted}, found {type(values).__name__}; {remedy}")
    if values.dtype.kind not in "fiub":
        raise ScoreError(f"{wanted}, found an array of {values.dtype}; {remedy}")
    if values.shape != (len(pairs),):
        raise ScoreError(f"{wanted}, found an array of shape {values.shape}; {remedy}")
    is_finite = np.isfinite(values)
    if not is_finite.all():
        index = int(is_finite.argmin())
        raise ScoreError(
            f"{wanted}, found {values[index]} for pair {index + 1}; {remedy}"
        )
    if metric.rounded:
        values = np.round(values, TIE_DECIMALS)
    return plain_scores(metric, metric.score(read_only_view(values), pairs))


def compared(
    metric: Metric,
    vectors: Float[np.ndarray, "N K"],
    scored: PairRows,
    labelled: Sequence[PairRows],
) -> tuple[Any, dict[str, Any]]:
    """What the metric's `compare` returns: values, which `score` checks, and facts.

    Raises ScoreError unless the facts are a dictionary that JSON can hold, with the
    further scores of the metric.
    """
    answer = metric.compare(vectors, scored, labelled)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ScoreError(
            f"metric {metric.name}: wanted values and a dictionary of facts from compare, found "
            f"{type(answer).__name__}; return both, as in (values, {{}})"
        )
    values, facts = answer
    if not isinstance(facts, dict) or not facts.keys() >= set(metric.further_scores):
        raise ScoreError(
            f"metric {metric.name}: wanted a dictionary of facts from compare, with its further "
            f"scores ({', '.join(metric.further_scores) or 'none'}), found {facts!r:.60}; add them"
        )
    try:
        json.dumps(facts, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ScoreError(
            f"metric {metric.name}: wanted facts that JSON can hold from compare, found others "
            f"({error}); convert numbers of NumPy, as in float(x)"
        ) from None
    return values, facts


def plain_scores(metric: Metric, scores: Any) -> dict[str, Any]:
    """The scores of a metric as a record holds them: numbers of Python, or None, by name.

    Raises ScoreError for scores of another kind.
    """
    if not isinstance(scores, Mapping):
        raise ScoreError(
            f"metric {metric.name}: wanted scores by name, found {type(scores).__name__}; return a "
            f"dictionary, as in {{{metric.main_score[0]!r}: 84.2}}"
        )
    plain: dict[str, Any] = _plain(f"metric {metric.name}", scores)
    return plain


def _plain(place: str, score: Any) -> Any:
    """A score, or the scores of a mapping, as a record holds them."""
    if score is None:
        return None
    if isinstance(score, Mapping):
        for name in score:
            fault = text_fault(name)
            if fault is not None:
                raise ScoreError(
                    f"{place}: wanted texts as names of scores, {fault}; rename it"
                )
        return {name: _plain(f"{place}, {name}", part) for name, part in score.items()}
    number = _finite_number(score)
    if number is None:
        raise ScoreError(
            f"{place}: wanted a finite number as score, or None where it is undefined, found "
            f"{score!r:.60}; convert it, as in float(x)"
        )
    return number


def _finite_number(value: Any) -> float | None:
    """A float for a finite real number of any library; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer, or a fraction, of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def joined_scores(metric: Metric, parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The scores of several computations by name. Raises ScoreError for a name that two have."""
    scores: dict[str, Any] = {}
    for part in parts:
        plain_part = plain_scores(metric, part)
        repeated_names = sorted(scores.keys() & plain_part.keys())
        if repeated_names:
            raise ScoreError(
                f"metric {metric.name}: wanted a name for each score, found two of the name "
                f"{repeated_names[0]}; rename one"
            )
        scores |= plain_part
    return scores


def require_main_score(metric: Metric, scores: Mapping[str, Any]) -> None:
    """Raise ScoreError if the main score of a metric is not among scores; it may be None."""
    missing = object()
    part: Any = scores
    for name in metric.main_score:
        part = part.get(name, missing) if isinstance(part, Mapping) else missing
    if part is missing or isinstance(part, Mapping):
        raise ScoreError(
            f"metric {metric.name}: wanted its main score {'.'.join(metric.main_score)}, "
            f"found {', '.join(scores) or 'none'}; name it by main_score"
        )


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
    if np.ptp(np.round(values, TIE_DECIMALS)) == 0:
        return "all similarities are equal"
    if np.ptp(pairs.gold) == 0:
        return "all gold scores are equal"
    if len(set(pairs.group)) > 1:
        return "a subset has no score"
    return "the metric gives none for these pairs"
