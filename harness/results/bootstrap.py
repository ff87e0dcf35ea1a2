"""Method against method: the paired bootstrap over test items and seeds, and Holm's correction.

Both methods saw the same items, so both are scored on the same resamples of them and
the differences are what counts. Where a method was measured with several seeds, each of
them is scored on the resample, and their mean is drawn as well. (A published number
against a measured one is another question; see `harness.results.verdict`.)

A resample is kept as counts: how often it holds each item. Weighted mid-ranks are then
sums of counts over the items in one fixed order, so nothing is ever sorted again, and
they are whole numbers, so rank scores are exact and do not depend on how the work is
cut into blocks.

Axis letters, in addition to those of `harness.core.types`: M methods, S seeds, R
resamples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.core.arrays import Bool, Float, Float64, Int64, Num, UInt8
from harness.core.errors import ScoreError
from harness.core.metrics import TIE_DECIMALS

# A column in resamples that are given as counts: its centred values or ranks.
InResamples = Callable[[Int64[np.ndarray, "P B"]], Num[np.ndarray, "P B"]]

ResampledMetric = Literal["spearman", "pearson", "accuracy", "auc"]

SIGNIFICANCE_LEVEL = 0.05  # of a test: what has a smaller p differs

COUNTS_IN_BLOCK = 2**17  # one block (1 MB) and its ranks stay in a core's cache

# A column whose spread in a resample is below this share of its own is constant there,
# and what is left of its variance is rounding noise.
SMALLEST_SPREAD = 1e-9


@dataclass(frozen=True)
class PairedComparison:
    """One method minus another, in points: 95 % interval and two-sided p over `resamples`.

    `resamples` counts those in which both scores are defined; a constant column has no
    rank correlation, and the resamples that hold one are left out.
    """

    low: float
    high: float
    p: float
    resamples: int


def draw_counts(
    items: Sequence[str], resamples: int, seed: int
) -> UInt8[np.ndarray, "P R"]:
    """How often each resample holds each item: a Poisson distribution of mean 1.

    Every distinct item has a generator of its own, seeded by its text. So an item that
    several tasks share, or one holds twice, is in a resample equally often everywhere,
    and an average over tasks varies as much as it does; and tasks that were resampled
    apart pair as well.
    """
    if not items or resamples < 1:
        raise ScoreError(
            "a bootstrap needs an item and a resample; "
            f"found {len(items)} items and {resamples} resamples"
        )
    rows: dict[str, UInt8[np.ndarray, " R"]] = {}
    for item in dict.fromkeys(items):
        rows[item] = (
            generator_of(item, seed).poisson(1.0, size=resamples).astype(np.uint8)
        )
    return np.stack([rows[item] for item in items])


def generator_of(text: str, seed: int) -> np.random.Generator:
    """The generator of an item, or of whatever else the text names."""
    digest = hashlib.sha256(f"{seed} {text}".encode()).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest[:16], "big")))


def bootstrap_scores(
    columns: Float[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    group: Sequence[str],
    counts: UInt8[np.ndarray, "P R"],
    *,
    metric: ResampledMetric = "spearman",
    aggregate: Literal["all", "wmean"] = "all",
) -> Float64[np.ndarray, "M R"]:
    """The score, in points, of every method's cosines (or classes) on every resample of the items.

    `counts` are those of `draw_counts`. `all` scores the whole set, as if it had no
    groups; `wmean` scores each group, whose size (and so its weight) is fixed by
    design. A score that is undefined is NaN. A method's scores are the same whatever
    methods are scored with it.
    """
    sizes = columns.shape[-1], len(gold), len(group), len(counts)
    if len({*sizes}) != 1 or not gold.size:
        raise ScoreError(
            "a bootstrap needs one cosine, gold, group and row of counts a pair; found "
            f"{sizes[0]}, {sizes[1]}, {sizes[2]} and {sizes[3]}"
        )
    if not (np.isfinite(columns).all() and np.isfinite(gold).all()):
        raise ScoreError("a cosine or gold to resample is not a finite number")
    columns = columns.astype(np.float64)
    if metric == "spearman":  # equal pairs tie in ranks
        columns = np.round(columns, TIE_DECIMALS)
    if aggregate == "all":
        return _one_group(columns, gold, metric, counts)
    labels, total = np.array(group), np.zeros((len(columns), counts.shape[1]))
    for name in dict.fromkeys(group):
        chosen = labels == name
        scores = _one_group(columns[:, chosen], gold[chosen], metric, counts[chosen])
        total += chosen.sum() * scores
    return total / len(gold)


def seed_weights(
    seeds: int, resamples: int, rng: np.random.Generator
) -> Float64[np.ndarray, "S R"]:
    """Weights of the seeds in the mean of each resample, by which it varies as Student's t says.

    With one seed the weight is 1. Of more, the weights of a resample sum to 1, and over
    fixed items the weighted mean is the mean plus t(S - 1) standard errors. (To draw
    few seeds with replacement would make intervals too narrow: by more than a third of
    five seeds.)
    """
    if seeds == 1:
        return np.ones((1, resamples))
    normal = rng.normal(size=(resamples, seeds)).T
    spread = np.sqrt(rng.chisquare(seeds - 1, size=resamples) / (seeds - 1))
    return 1 / seeds + (normal - normal.mean(axis=0)) / (
        math.sqrt(seeds * (seeds - 1)) * spread
    )


def compare_resamples(
    a: Float64[np.ndarray, " R"], b: Float64[np.ndarray, " R"]
) -> PairedComparison:
    """Is a other than b? Both hold scores on the same resamples.

    p is twice the smaller share of resamples on either side of 0 (a tie is on both),
    counting the observed set as one more, so it is never 0 and equal methods have 1.
    Percentile interval.
    """
    # Rounded as cosines are: what is equal but for summation noise must tie.
    difference = np.round((a - b)[~np.isnan(a - b)], TIE_DECIMALS)
    n = len(difference)
    if n == 0:
        raise ScoreError(
            "no resample in which both scores are defined: is a column constant?"
        )
    below, above = (difference <= 0).sum(), (difference >= 0).sum()
    low, high = np.quantile(difference, [0.025, 0.975])
    p = min(1.0, 2 * (1 + min(below, above)) / (1 + n))
    return PairedComparison(float(low), float(high), float(p), n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the given order: each is compared with the level as it is."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(stepped)
    return adjusted.tolist()


def _one_group(
    columns: Float64[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    metric: ResampledMetric,
    counts: UInt8[np.ndarray, "P R"],
) -> Float64[np.ndarray, "M R"]:
    blocks = _blocks(counts)
    if metric == "accuracy":
        right = (columns == gold).astype(np.float64)
        return np.hstack(
            [_divide(100 * (right @ part), part.sum(axis=0)) for part in blocks]
        )
    if metric == "auc":
        areas = [_area(column, gold == 1) for column in columns]
        return np.hstack([np.stack([area(part) for area in areas]) for part in blocks])
    centred = _values if metric == "pearson" else _ranks
    methods, truth = [centred(column) for column in columns], centred(gold)
    return np.hstack([_correlations(part, methods, truth) for part in blocks])


def _ranks(x: Float64[np.ndarray, " P"]) -> InResamples:
    """Mid-ranks in each resample, doubled and centred: whole numbers with (weighted) mean 0."""
    order = np.argsort(x, kind="stable")
    below = np.searchsorted(x[order], x)
    upto = np.searchsorted(x[order], x, "right")

    def in_resamples(counts: Int64[np.ndarray, "P B"]) -> Int64[np.ndarray, "P B"]:
        smaller = np.zeros((len(x) + 1, counts.shape[1]), dtype=np.int64)
        np.cumsum(counts[order], axis=0, out=smaller[1:])
        return smaller[below] + smaller[upto] - smaller[-1]

    return in_resamples


def _values(x: Float64[np.ndarray, " P"]) -> InResamples:
    """Centred values, standardised so that `SMALLEST_SPREAD` is a share of their own spread."""
    z = ((x - x.mean()) / (x.std() or 1.0))[:, None]
    return lambda counts: (
        z - (counts * z).sum(axis=0) / np.maximum(1, counts.sum(axis=0))
    )


def _blocks(counts: UInt8[np.ndarray, "P R"]) -> Iterator[Int64[np.ndarray, "P B"]]:
    """Blocks of resamples, side by side in memory.

    NumPy sums a block's columns row by row, and so alike for any width, unless it is
    one wide: then it sums pairwise. So no block is, where there are two resamples or
    more.
    """
    items, resamples = counts.shape
    blocks = max(1, resamples // max(2, COUNTS_IN_BLOCK // items))
    for part in np.array_split(np.arange(resamples), blocks):
        yield np.ascontiguousarray(counts[:, part[0] : part[-1] + 1], dtype=np.int64)


def _correlations(
    counts: Int64[np.ndarray, "P B"], methods: Sequence[InResamples], gold: InResamples
) -> Float64[np.ndarray, "M B"]:
    """Weighted Pearson correlation of each method's centred values (or ranks) with the gold's.

    In points; NaN where a column is constant. Sums run over items in file order (see
    `_resample`).
    """
    y = gold(counts)
    gold_spread = np.sqrt((counts * y * y).sum(axis=0))
    rows = []
    for method in methods:
        x = method(counts)
        weighted = counts * x
        spread = np.sqrt((weighted * x).sum(axis=0)) * gold_spread
        varies = spread > SMALLEST_SPREAD * len(counts)
        undefined = np.full(counts.shape[1], np.nan)
        rows.append(
            np.divide((weighted * y).sum(axis=0), spread, out=undefined, where=varies)
        )
    return 100 * np.clip(np.stack(rows), -1, 1)


def _area(
    column: Float64[np.ndarray, " P"], positive: Bool[np.ndarray, " P"]
) -> Callable[[Int64[np.ndarray, "P B"]], Float64[np.ndarray, " B"]]:
    """Area under a column's ROC curve in points, ties counting half; NaN without both classes."""
    order = np.argsort(column, kind="stable")
    below = np.searchsorted(column[order], column[positive])
    upto = np.searchsorted(column[order], column[positive], "right")

    def in_resamples(counts: Int64[np.ndarray, "P B"]) -> Float64[np.ndarray, " B"]:
        chosen, others = counts[positive], counts * ~positive[:, None]
        smaller = np.zeros((len(column) + 1, counts.shape[1]), dtype=np.int64)
        np.cumsum(others[order], axis=0, out=smaller[1:])
        won = (chosen * (smaller[below] + smaller[upto])).sum(axis=0)
        return _divide(50.0 * won, chosen.sum(axis=0) * smaller[-1])

    return in_resamples


def _divide(
    above: Float64[np.ndarray, "... B"], below: Num[np.ndarray, " B"]
) -> Float64[np.ndarray, "... B"]:
    """Quotients; NaN where nothing is divided by."""
    undefined = np.full(above.shape, np.nan)
    return np.divide(above, below, out=undefined, where=below > 0)
