"""Method against method: the paired bootstrap over test items, and Holm's correction.

Both methods saw the same items, so both are scored on the same resamples of them and the
differences are what counts. (A published number against a measured one is another question; see
`harness.results.verdict`.)

A resample is kept as counts: how often it holds each item. Weighted mid-ranks are then sums of
counts over the items in one fixed order, so nothing is ever sorted again, and they are whole
numbers, so rank scores are exact and do not depend on how the work is cut into blocks.

Axis letters beside those of `harness.core.types`: M methods, R resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from harness.core.arrays import Float, Float64, Int, Int64, Num
from harness.core.errors import ScoreError
from harness.core.metrics import TIE_DECIMALS
from harness.core.scores import Aggregation

BLOCK = 2**17  # counts at a time: one block (1 MB) and its ranks stay in a core's cache

# A column whose spread in a resample is below this share of its own is constant there, and what
# is left of its variance is rounding noise.
LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Comparison:
    """One method minus another, in points: 95 % interval and two-sided p over `resamples`.

    `resamples` counts those in which both scores are defined; a constant column has no rank
    correlation, and the resamples that hold one are left out.
    """

    low: float
    high: float
    p: float
    resamples: int


def bootstrap_scores(
    columns: Float[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    group: Sequence[str],
    *,
    metric: Literal["spearman", "pearson", "auc"] = "spearman",
    aggregate: Aggregation = "all",
    resamples: int = 10_000,
    rng: np.random.Generator,
) -> Float64[np.ndarray, "M R"]:
    """The score, in points, of every method's cosines on every resample of the items.

    `all` resamples the whole set, as if it had no groups; `mean` and `wmean` resample within each
    group, whose size (and so its weight) is fixed by design. A score that is undefined is NaN. The
    resamples depend on the generator and the group sizes alone: a method's scores are the same
    whoever stands beside it, so methods scored in separate calls pair as well.
    """
    _check(columns, gold, group, metric, resamples)
    columns = np.round(columns.astype(np.float64), TIE_DECIMALS)
    labels = np.zeros(len(gold)) if aggregate == "all" else np.array(group)
    total, weight = np.zeros((len(columns), resamples)), 0.0
    for name in dict.fromkeys(labels.tolist()):
        chosen = labels == name
        share = float(chosen.sum()) if aggregate == "wmean" else 1.0
        total += share * _one_group(columns[:, chosen], gold[chosen], metric, resamples, rng)
        weight += share
    return total / weight


def compare(a: Float64[np.ndarray, " R"], b: Float64[np.ndarray, " R"]) -> Comparison:
    """Is a other than b? Both hold scores on the same resamples.

    p is twice the smaller share of resamples on either side of 0 (a tie is on both), counting the
    observed set as one more, so it is never 0 and equal methods have 1. Percentile interval.
    """
    if a.shape != b.shape:
        raise ScoreError(f"scores to compare share their resamples; found {len(a)} and {len(b)}")
    # Rounded as cosines are: what is equal but for summation noise must tie.
    difference = np.round((a - b)[~np.isnan(a - b)], TIE_DECIMALS)
    n = len(difference)
    if n == 0:
        raise ScoreError("no resample in which both scores are defined: is a column constant?")
    below, above = (difference <= 0).sum(), (difference >= 0).sum()
    low, high = np.quantile(difference, [0.025, 0.975])
    p = min(1.0, 2 * (1 + min(below, above)) / (1 + n))
    return Comparison(float(low), float(high), float(p), n)


def paired_bootstrap(
    a: Float[np.ndarray, " P"],
    b: Float[np.ndarray, " P"],
    gold: Float[np.ndarray, " P"],
    group: Sequence[str],
    **how: Any,
) -> Comparison:
    """Compare two methods' cosines; `how` is what `bootstrap_scores` takes."""
    return compare(*bootstrap_scores(np.stack([a, b]), gold, group, **how))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the given order: each is compared with the level as it is."""
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ScoreError(f"p-values lie between 0 and 1; found {list(p_values)}")
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(stepped)
    return [float(value) for value in adjusted]


@dataclass(frozen=True, eq=False)
class _Ranks:
    """A column as its order: of each item, how many items lie below it, and how many up to it."""

    order: Int[np.ndarray, " P"]
    below: Int[np.ndarray, " P"]
    upto: Int[np.ndarray, " P"]

    @classmethod
    def of(cls, x: Float64[np.ndarray, " P"]) -> _Ranks:
        order = np.argsort(x, kind="stable")
        ordered = x[order]
        return cls(order, np.searchsorted(ordered, x), np.searchsorted(ordered, x, "right"))

    def __call__(self, counts: Int64[np.ndarray, "P B"]) -> Int64[np.ndarray, "P B"]:
        """Mid-ranks in each resample, doubled and centred: whole numbers with (weighted) mean 0."""
        items = len(counts)
        smaller = np.zeros((items + 1, counts.shape[1]), dtype=np.int64)
        np.cumsum(counts[self.order], axis=0, out=smaller[1:])
        return smaller[self.below] + smaller[self.upto] - items


@dataclass(frozen=True, eq=False)
class _Values:
    """A column as it is, standardised so that `LEAST_SPREAD` is a share of its own spread."""

    z: Float64[np.ndarray, " P"]

    @classmethod
    def of(cls, x: Float64[np.ndarray, " P"]) -> _Values:
        return cls((x - x.mean()) / (x.std() or 1.0))

    def __call__(self, counts: Int64[np.ndarray, "P B"]) -> Float64[np.ndarray, "P B"]:
        z = self.z[:, None]
        return z - (counts * z).sum(axis=0) / len(counts)


def _one_group(
    columns: Float64[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    metric: str,
    resamples: int,
    rng: np.random.Generator,
) -> Float64[np.ndarray, "M R"]:
    blocks = _resample(len(gold), resamples, rng)
    read: Any = _Values.of if metric == "pearson" else _Ranks.of
    methods = [read(column) for column in columns]
    if metric == "auc":
        return np.hstack([_auc(counts, methods, gold == 1) for counts in blocks])
    truth = read(gold)
    return np.hstack([_correlations(counts, methods, truth) for counts in blocks])


def _resample(
    items: int, resamples: int, rng: np.random.Generator
) -> Iterator[Int64[np.ndarray, "P B"]]:
    """Blocks of resamples, drawn with replacement; resamples lie side by side in memory.

    NumPy sums a block's columns row by row, and so alike for any width, unless it is one wide:
    then it sums pairwise. So no block is, where there are two resamples or more.
    """
    blocks = max(1, resamples // max(2, BLOCK // items))
    for part in np.array_split(np.arange(resamples), blocks):
        b = len(part)
        cells = rng.integers(items, size=(b, items)) * b + np.arange(b)[:, None]
        yield np.bincount(cells.ravel(), minlength=items * b).reshape(items, b)


def _correlations(
    counts: Int64[np.ndarray, "P B"], methods: Sequence[Any], gold: Any
) -> Float64[np.ndarray, "M B"]:
    """Weighted Pearson correlation of each method's centred values (or ranks) with the gold's."""
    y = gold(counts)
    gold_spread = np.sqrt(_dot(counts * y, y))
    rows = []
    for method in methods:
        x = method(counts)
        weighted = counts * x
        spread = np.sqrt(_dot(weighted, x)) * gold_spread
        rows.append(_ratio(_dot(weighted, y), spread, LEAST_SPREAD * len(counts)))
    return np.stack(rows)


def _auc(
    counts: Int64[np.ndarray, "P B"], methods: Sequence[_Ranks], positive: Any
) -> Float64[np.ndarray, "M B"]:
    """Mann-Whitney: positives' doubled centred mid-ranks sum to P N (2 auc - 1)."""
    chosen = counts[positive]
    positives = chosen.sum(axis=0)
    pairs = positives * (len(counts) - positives)
    sums = (_dot(chosen, method(counts)[positive]) for method in methods)
    return np.stack([50 + _ratio(total, pairs, 0.0) / 2 for total in sums])


def _ratio(
    over: Num[np.ndarray, " B"], under: Num[np.ndarray, " B"], least: float
) -> Float64[np.ndarray, " B"]:
    """100 x over / under within [-100, 100]; NaN where `under` is no more than `least`."""
    undefined = np.full(len(over), np.nan)
    return 100 * np.clip(np.divide(over, under, out=undefined, where=under > least), -1, 1)


def _dot(x: Num[np.ndarray, "P B"], y: Num[np.ndarray, "P B"]) -> Num[np.ndarray, " B"]:
    """Sum over items of each resample's products, in file order (see `_resample`)."""
    total: Num[np.ndarray, " B"] = (x * y).sum(axis=0)
    return total


def _check(columns: Any, gold: Any, group: Sequence[str], metric: str, resamples: int) -> None:
    """Refuse what would yield a number that means nothing."""
    sizes = {columns.shape[-1], len(gold), len(group)}
    if len(sizes) != 1 or sizes == {0} or resamples < 1:
        raise ScoreError(
            "a bootstrap needs one cosine, gold and group a pair, and a resample; found "
            f"{columns.shape[-1]}, {len(gold)}, {len(group)} and {resamples}"
        )
    if not (np.isfinite(columns).all() and np.isfinite(gold).all()):
        raise ScoreError("a cosine or gold to resample is not a finite number")
    if metric == "auc" and not np.isin(gold, (0, 1)).all():
        raise ScoreError("auc needs gold 1 or 0, found another value")
