"""The paired bootstrap over test items and seeds: method against method.

Both methods were measured on the same items. So both are scored on the same resamples of
the items, and the differences of their scores are compared with 0. Where a method was
measured with several seeds, each of them is scored on a resample, and their mean is
drawn with `seed_weights`. (`harness.results.verdict` compares a published number with a
measured one, which is another question.)

A resample is stored as counts: how often it holds each item. Weighted mid-ranks are then
sums of counts over the items in one fixed order, so that no resample is sorted. They are
whole numbers, so that rank scores are exact and do not depend on the blocks in which
they are computed.

Axis letters, in addition to those of `harness.core.types`: M methods, S seeds, R
resamples, B resamples of one block.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from harness.core.arrays import Bool, Float, Float64, Int64, UInt8
from harness.core.errors import ScoreError
from harness.core.metrics import TIE_DIGITS, tie_rounded

ResampledMetric = Literal["spearman", "pearson", "accuracy", "auc"]

COUNTS_IN_BLOCK = 2**17  # a block of 1 MB and its ranks fit into a core's cache

# A column is constant in a resample if its spread there is below this share of its spread
# over all items: the rest is rounding noise.
SMALLEST_SPREAD = 1e-9


# Resamples


def draw_counts(
    items: Sequence[str], resamples: int, seed: int
) -> UInt8[np.ndarray, "P R"]:
    """How often each resample holds each item: a Poisson distribution of mean 1.

    Every distinct item has a generator of its own, seeded by its text. So an item that
    is in several tasks, or twice in one, is drawn equally often at each place, and tasks
    can be resampled one by one for an average over them.

    Args:
        items: The text of each item; P is their number.
        resamples: The number of resamples, R.
        seed: The seed of the bootstrap.
    """
    rows: dict[str, UInt8[np.ndarray, " R"]] = {}
    for item in dict.fromkeys(items):
        draws = generator_of(item, seed).poisson(1.0, size=resamples)
        rows[item] = draws.astype(np.uint8)
    return np.stack([rows[item] for item in items])


def generator_of(text: str, seed: int) -> np.random.Generator:
    """The generator for an item, or for anything else that a text names."""
    digest = hashlib.sha256(f"{seed} {text}".encode()).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest[:16], "big")))


def seed_weights(
    seeds: int, resamples: int, rng: np.random.Generator
) -> Float64[np.ndarray, "S R"]:
    """Weights of the seeds in the mean of each resample, by which it varies as Student's t says.

    With one seed the weight is 1. With more, the weights of a resample sum to 1, and
    over fixed items the weighted mean is the mean plus t(S - 1) standard errors. (To draw
    few seeds with replacement would make intervals too narrow, for five seeds by more
    than a third.)
    """
    if seeds == 1:
        return np.ones((1, resamples))
    normal = rng.normal(size=(resamples, seeds)).T
    spread = np.sqrt(rng.chisquare(seeds - 1, size=resamples) / (seeds - 1))
    return 1 / seeds + (normal - normal.mean(axis=0)) / (
        math.sqrt(seeds * (seeds - 1)) * spread
    )


# Two methods


class PairedTest(NamedTuple):
    """The 95 % interval of a difference in points, and the two-sided p of none."""

    low: float
    high: float
    p: float


def compare_resamples(
    a: Float64[np.ndarray, " R"], b: Float64[np.ndarray, " R"]
) -> PairedTest:
    """The difference of a and b, the scores of two methods on the same resamples.

    p is twice the smaller share of the resamples with a difference of at most 0, or of at
    least 0. The observed items count as one more resample, so that p is never 0; for
    equal methods it is 1. The interval is the percentile interval. Resamples in which a
    score is undefined are left out: a constant column has no correlation.

    Raises:
        ScoreError: There is no resample in which both scores are defined.
    """
    # Rounded, so that differences that are 0 but for rounding are ties.
    differences = np.round(a - b, TIE_DIGITS)
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if n == 0:
        raise ScoreError(
            "no resample in which both scores are defined: is a column constant?"
        )
    at_most_0, at_least_0 = (differences <= 0).sum(), (differences >= 0).sum()
    low, high = np.quantile(differences, [0.025, 0.975])
    p = min(1.0, 2 * (1 + min(at_most_0, at_least_0)) / (1 + n))
    return PairedTest(low=float(low), high=float(high), p=float(p))


# Scores on resamples


def bootstrap_scores(
    columns: Float[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    group: Sequence[str],
    counts: UInt8[np.ndarray, "P R"],
    *,
    metric: ResampledMetric = "spearman",
    aggregate: Literal["all", "wmean"] = "all",
) -> Float64[np.ndarray, "M R"]:
    """The score, in points, of every method on every resample of the items.

    A method's scores do not depend on the other methods.

    Args:
        columns: The cosines of each method's pairs, or its predicted classes.
        gold: The gold scores or classes.
        group: The group of each item.
        counts: How often each resample holds each item, from `draw_counts`.
        metric: The metric.
        aggregate: `all` scores all items together. `wmean` is the mean of the scores of
            the groups, weighted by the sizes of the groups, which are not resampled.

    Returns:
        The scores; NaN where a score is undefined.

    Raises:
        ScoreError: A number is not finite.
    """
    if not (np.isfinite(columns).all() and np.isfinite(gold).all()):
        raise ScoreError("a cosine or gold to resample is not a finite number")
    columns = columns.astype(np.float64)
    if metric == "spearman":  # equal pairs tie in ranks
        columns = tie_rounded(columns)
    if aggregate == "all":
        return _scores_of_group(columns, gold, metric, counts)
    labels = np.array(group)
    total = np.zeros((len(columns), counts.shape[1]))
    for name in dict.fromkeys(group):
        in_group = labels == name
        scores = _scores_of_group(
            columns[:, in_group], gold[in_group], metric, counts[in_group]
        )
        total += in_group.sum() * scores
    return total / len(gold)


def _scores_of_group(
    columns: Float64[np.ndarray, "M P"],
    gold: Float[np.ndarray, " P"],
    metric: ResampledMetric,
    counts: UInt8[np.ndarray, "P R"],
) -> Float64[np.ndarray, "M R"]:
    """The score, in points, of every method on every resample of one group of items."""
    if metric == "accuracy":
        is_right = (columns == gold).astype(np.float64)
        scores = [_accuracies(is_right, block) for block in _blocks(counts)]
    elif metric == "auc":
        ranked = [RankedColumn.from_values(column) for column in columns]
        scores = [_areas(ranked, gold == 1, block) for block in _blocks(counts)]
    else:
        kind = StandardisedColumn if metric == "pearson" else RankedColumn
        methods = [kind.from_values(column) for column in columns]
        gold_column = kind.from_values(gold)
        scores = [
            _correlations(methods, gold_column, block) for block in _blocks(counts)
        ]
    return np.hstack(scores)


def _blocks(counts: UInt8[np.ndarray, "P R"]) -> Iterator[Int64[np.ndarray, "P B"]]:
    """Blocks of resamples, each contiguous in memory.

    NumPy sums a block's columns row by row, with the same result for any width but one:
    a block of one column it sums pairwise. So no block has one column, unless there is
    one resample.
    """
    items, resamples = counts.shape
    width = max(2, COUNTS_IN_BLOCK // items)
    blocks = max(1, resamples // width)
    for block in np.array_split(counts, blocks, axis=1):
        yield np.ascontiguousarray(block, dtype=np.int64)


@dataclass(frozen=True)
class RankedColumn:
    """A column that is ranked anew in each resample.

    Attributes:
        order: The items, the smallest value first.
        smaller: For each item, how many items have a smaller value.
        up_to: For each item, how many items have a smaller value or the same one.
    """

    order: Int64[np.ndarray, " P"]
    smaller: Int64[np.ndarray, " P"]
    up_to: Int64[np.ndarray, " P"]

    @classmethod
    def from_values(cls, values: Float[np.ndarray, " P"]) -> RankedColumn:
        """The column of these values."""
        order = np.argsort(values, kind="stable")
        in_order = values[order]
        return cls(
            order=order,
            smaller=np.searchsorted(in_order, values),
            up_to=np.searchsorted(in_order, values, "right"),
        )

    def centred(self, counts: Int64[np.ndarray, "P B"]) -> Int64[np.ndarray, "P B"]:
        """Mid-ranks, doubled and centred: whole numbers with (weighted) mean 0."""
        # The number of draws of the first 0, 1, ... P items of the order.
        drawn = np.zeros((len(self.order) + 1, counts.shape[1]), dtype=np.int64)
        np.cumsum(counts[self.order], axis=0, out=drawn[1:])
        return drawn[self.smaller] + drawn[self.up_to] - drawn[-1]


@dataclass(frozen=True)
class StandardisedColumn:
    """A column whose mean is subtracted anew in each resample.

    Its values are standardised, so that `SMALLEST_SPREAD` is a share of their spread.
    """

    values: Float64[np.ndarray, "P 1"]

    @classmethod
    def from_values(cls, values: Float[np.ndarray, " P"]) -> StandardisedColumn:
        """The column of these values; those of a constant one are 0."""
        spread = values.std() or 1.0
        return cls(((values - values.mean()) / spread).astype(np.float64)[:, None])

    def centred(self, counts: Int64[np.ndarray, "P B"]) -> Float64[np.ndarray, "P B"]:
        """The values minus their (weighted) mean; an empty resample has the mean 0."""
        sizes = np.maximum(1, counts.sum(axis=0))
        return self.values - (counts * self.values).sum(axis=0) / sizes


def _accuracies(
    is_right: Float64[np.ndarray, "M P"], counts: Int64[np.ndarray, "P B"]
) -> Float64[np.ndarray, "M B"]:
    """The accuracy of each method on each resample, in points; NaN on an empty one."""
    with np.errstate(invalid="ignore"):
        return 100 * (is_right @ counts) / counts.sum(axis=0)


def _areas(
    methods: Sequence[RankedColumn],
    is_positive: Bool[np.ndarray, " P"],
    counts: Int64[np.ndarray, "P B"],
) -> Float64[np.ndarray, "M B"]:
    """The area under each method's ROC curve, in points; NaN without both classes.

    It is the share of the pairs of a positive and a negative item in which the positive
    item has the higher value; a pair with equal values counts half. With the doubled
    ranks of the positive items, less those among themselves, these pairs are counted
    twice.
    """
    positives = counts[is_positive]
    pairs = positives.sum(axis=0) * (counts.sum(axis=0) - positives.sum(axis=0))
    areas = []
    for method in methods:
        ranks = method.centred(counts)[is_positive]
        won_twice = (positives * ranks).sum(axis=0) + pairs
        with np.errstate(invalid="ignore"):
            areas.append(50.0 * won_twice / pairs)
    return np.stack(areas)


def _correlations(
    methods: Sequence[RankedColumn | StandardisedColumn],
    gold: RankedColumn | StandardisedColumn,
    counts: Int64[np.ndarray, "P B"],
) -> Float64[np.ndarray, "M B"]:
    """Weighted Pearson correlation of each method's centred values (or ranks) with the gold's.

    In points; NaN where a column is constant. Sums run over items in file order (see
    `_blocks`).
    """
    y = gold.centred(counts)
    y_spread = np.sqrt((counts * y * y).sum(axis=0))
    correlations = []
    for method in methods:
        x = method.centred(counts)
        weighted_x = counts * x
        spread = np.sqrt((weighted_x * x).sum(axis=0)) * y_spread
        spread[spread <= SMALLEST_SPREAD * len(counts)] = np.nan
        correlations.append((weighted_x * y).sum(axis=0) / spread)
    return 100 * np.clip(np.stack(correlations), -1, 1)
