"""The paired bootstrap over test items and seeds: scores on resamples, and their difference.

Two methods were measured on the same items. So both are scored on the same resamples of
the items, and the differences of their scores are compared with 0. Where a method was
measured with several seeds, each of them is scored on a resample, and their mean is
drawn with `seed_weights`. (`harness.results.verdict` compares a published number with a
measured one, which is another question.)

A resample is stored as counts: how often it holds each item. Weighted mid-ranks are then
sums of counts over the items in one fixed order, so that no resample is sorted. They are
whole numbers, so that rank scores are exact.

Axis letters, in addition to those of `harness.core.types`: M methods, S seeds, R
resamples, B resamples of one block.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from harness.core.arrays import Float, Float64, Int64, UInt8
from harness.core.errors import ScoreError
from harness.core.metrics import TIE_DIGITS
from harness.core.metrics.edit_distance import token_distances
from harness.core.pairs import Pairs
from harness.core.types import ScorePath

ResampledMetric = Literal["spearman", "pearson", "accuracy", "auc"]

# The scores that a resample can compute again, and the metric that computes each of them
# from the similarities or predicted classes of the pairs.
RESAMPLED: Mapping[ScorePath, ResampledMetric] = {
    ("accuracy",): "accuracy",
    ("auc",): "auc",
    ("edit_distance",): "spearman",
    ("gold_similarity",): "spearman",
    ("spearman", "all"): "spearman",
    ("spearman", "wmean"): "spearman",
    ("pearson", "all"): "pearson",
    ("pearson", "wmean"): "pearson",
}

# The ranks or values of a column in each resample of a block, minus their weighted mean;
# and what gives them for how often the resamples hold each item.
Centred = Int64[np.ndarray, "P B"] | Float64[np.ndarray, "P B"]
Centring = Callable[[Int64[np.ndarray, "P B"]], Centred]

RESAMPLING_SEED = 0
COUNTS_IN_BLOCK = 2**17  # a block of 1 MB and its ranks fit into a core's cache

# A column is constant in a resample if its spread there is below this share of its spread
# over all items: the rest is rounding noise.
SMALLEST_SPREAD = 1e-9


# Resamples


def item_texts(pairs: Pairs) -> list[str]:
    """The text of each item, by which items are drawn.

    A pair has the same text in either order and in any text form, so tasks that share
    pairs draw the same ones: STS-B took 1,007 of its 1,379 test pairs from STS12 to
    STS16, and SST-2 most of its sentences from MR; raw and tokenised text differ in
    spaces and punctuation.
    """
    texts = []
    for sentences in zip(*pairs.columns, strict=True):
        letters = sorted(_letters_and_digits(sentence) for sentence in sentences)
        texts.append(" ".join(letters))
    return texts


def _letters_and_digits(text: str) -> str:
    """The letters and digits of a text, without case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def draw_counts(items: Sequence[str], resamples: int) -> UInt8[np.ndarray, "P R"]:
    """How often each resample holds each item: a Poisson distribution of mean 1.

    Every distinct item has a generator of its own, seeded by its text. So an item that
    is in several tasks, or twice in one, is drawn equally often at each place, and tasks
    can be resampled one by one for an average over them.

    Args:
        items: The text of each item; P is their number.
        resamples: The number of resamples, R.
    """
    rows: dict[str, UInt8[np.ndarray, " R"]] = {}
    for item in dict.fromkeys(items):
        draws = generator_of(item).poisson(1.0, size=resamples)
        rows[item] = draws.astype(np.uint8)
    return np.stack([rows[item] for item in items])


def generator_of(text: str) -> np.random.Generator:
    """The generator for an item, or for anything else that a text names."""
    digest = hashlib.sha256(f"{RESAMPLING_SEED} {text}".encode()).digest()
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


def interval_and_p(
    a: Float64[np.ndarray, " R"], b: Float64[np.ndarray, " R"]
) -> tuple[float, float, float]:
    """The difference of a and b, the scores of two methods on the same resamples.

    Resamples in which a score is undefined are left out: a constant column has no
    correlation.

    Returns:
        The ends of the 95 % percentile interval, and the two-sided p of no difference.
        It is twice the smaller share of the resamples with a difference of at most 0, or
        of at least 0. The observed items count as one more resample, so that p is never
        0; for equal methods it is 1.

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
    return float(low), float(high), float(p)


# Scores on resamples


def bootstrap_scores(
    columns: Float[np.ndarray, "M P"],
    pairs: Pairs,
    path: ScorePath,
    counts: UInt8[np.ndarray, "P R"],
) -> Float64[np.ndarray, "M R"]:
    """The score, in points, of every method on every resample of the items.

    Similarities are stored in float32, in which equal pairs tie: nothing is rounded before
    they are ranked. A method's scores do not depend on the other methods. They are NaN
    where a score is undefined. The mean over groups is weighted by the sizes of the
    groups, which are not resampled.

    Args:
        columns: The similarities of each method's pairs, or its predicted classes.
        pairs: The items, with their gold and groups.
        path: The path of the score in records, one of `RESAMPLED`.
        counts: How often each resample holds each item, from `draw_counts`.
    """
    metric = RESAMPLED[path]
    columns = columns.astype(np.float64)
    gold = token_distances(pairs) if path == ("edit_distance",) else pairs.gold
    if path[-1] != "wmean":
        return _scores_of_group(columns, gold, metric, counts)
    groups = np.array(pairs.group)
    total = np.zeros((len(columns), counts.shape[1]))
    for name in dict.fromkeys(pairs.group):
        in_group = groups == name
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
    items, resamples = counts.shape
    scores = np.empty((len(columns), resamples))
    width = max(1, COUNTS_IN_BLOCK // items)
    is_right = (columns == gold).astype(np.float64)
    centring = _centring_of_values if metric == "pearson" else _centring_of_ranks
    centre_gold, *centrings = [centring(values) for values in (gold, *columns)]
    for start in range(0, resamples, width):
        block = slice(start, start + width)
        drawn = np.ascontiguousarray(counts[:, block], dtype=np.int64)
        if metric == "accuracy":
            with np.errstate(invalid="ignore"):  # NaN of an empty resample
                scores[:, block] = 100 * (is_right @ drawn) / drawn.sum(axis=0)
            continue
        y = centre_gold(drawn)
        for method, centre in enumerate(centrings):
            scores[method, block] = _score_of_centred(centre(drawn), y, drawn, metric)
    return scores


def _score_of_centred(
    x: Centred, y: Centred, drawn: Int64[np.ndarray, "P B"], metric: ResampledMetric
) -> Float64[np.ndarray, " B"]:
    """The score, in points, of a method's centred ranks or values x and those of gold, y.

    Spearman's and Pearson's correlation are the weighted correlation of x and y. The area
    under the ROC curve is 50 plus half the slope of x on y, in ranks: of two classes, y
    is the size of the other class, and so the slope is the share of pairs won minus the
    share of pairs lost.
    """
    weighted_x = drawn * x
    xy = (weighted_x * y).sum(axis=0)
    yy = (drawn * y * y).sum(axis=0)
    if metric == "auc":
        with np.errstate(invalid="ignore"):  # NaN where gold has one class
            return 50 + 50 * xy / yy
    spread = np.sqrt((weighted_x * x).sum(axis=0)) * np.sqrt(yy)
    spread[spread <= SMALLEST_SPREAD * len(x)] = np.nan  # a column is constant
    return 100 * np.clip(xy / spread, -1, 1)


def _centring_of_ranks(values: Float[np.ndarray, " P"]) -> Centring:
    """Gives the mid-ranks of a column in a block, doubled and centred: whole numbers."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    smaller = np.searchsorted(in_order, values)  # how many items have a smaller value,
    up_to = np.searchsorted(in_order, values, "right")  # or the same one

    def centre(drawn: Int64[np.ndarray, "P B"]) -> Int64[np.ndarray, "P B"]:
        # The number of draws of the first 0, 1, ... P items of the order.
        first = np.zeros((len(values) + 1, drawn.shape[1]), dtype=np.int64)
        np.cumsum(drawn[order], axis=0, out=first[1:])
        return first[smaller] + first[up_to] - first[-1]

    return centre


def _centring_of_values(values: Float[np.ndarray, " P"]) -> Centring:
    """Gives the values of a column, standardised over all items and centred in a block."""
    spread = values.std() or 1.0  # so that `SMALLEST_SPREAD` is a share of the spread
    standardised = ((values - values.mean()) / spread).astype(np.float64)[:, None]

    def centre(drawn: Int64[np.ndarray, "P B"]) -> Float64[np.ndarray, "P B"]:
        sizes = np.maximum(1, drawn.sum(axis=0))  # an empty resample has the mean 0
        return standardised - (drawn * standardised).sum(axis=0) / sizes

    return centre
