"""The best number of a column, and whether it is better than its runner-up by more than noise.

A `Lead` is the best of the numbers that one table prints for the same score, backbone
and supervision, with the second best. Its difference is compared with two widths:

* `items`: with other test pairs the difference would have been another one
  (`harness.conclusions.widths`). How far the similarities of the two systems correlate
  is measured where both are here, and else assumed to be in a stated range.
* `seeds`: with another seed each system would have had another score. Its spread over
  seeds is the one that is published for it, or for its nearest relative.

Both are half of a 95 % interval, for one comparison that was planned beforehand; the best
of many rows is luckier than that.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from harness.conclusions.widths import (
    ASSUMED_BETWEEN,
    LEVEL_95,
    TaskScores,
    pairs_of_task,
    standard_error,
)
from harness.core.arrays import Float
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.results.published import DataSets, PublishedNumber
from harness.results.reproduction import compose_method

# What a row prints of several runs that is no score which a reader compares.
NOT_COMPARED = ("sd", "min", "max")

# The words by which the data of an encoder are those of its backbone alone.
PRETRAINED_ALONE = re.compile(r"\(MLM|tokens$|^$")


class LeadKind(StrEnum):
    """Whether the best number of a column is better than the runner-up by more than noise."""

    BEYOND_ITEMS = "beyond items"
    WITHIN_ITEMS = "within items"
    WITHIN_SEEDS = "within seeds"
    UNKNOWN = "unknown"


# Similarities of two systems

# The similarities of a method's pairs on a task; None where they are not here.
Similarities = Callable[[str, str], Float[np.ndarray, " P"] | None]


def between_of(
    first: Float[np.ndarray, " P"], second: Float[np.ndarray, " P"], correlation: str
) -> float:
    """How far the similarities of two systems correlate, from -1 to 1.

    Args:
        first: The first system's similarities of the pairs.
        second: The second's.
        correlation: `spearman` or `pearson`.
    """
    columns = [first, second]
    if correlation == "spearman":
        columns = [_mid_ranks(column) for column in columns]
    return float(np.corrcoef(columns)[0, 1])


def _mid_ranks(values: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """The ranks of values; those that tie have the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


# Spreads over seeds


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The spread of a number over seeds.

    Attributes:
        number: The number whose spread it is.
        source: The published number that has the deviation; `number` itself, or a
            relative. None where no other seed gives another score.
        deviation: The standard deviation of one run, in points.
    """

    number: PublishedNumber
    source: PublishedNumber | None
    deviation: float

    @property
    def variance(self) -> float:
        """The variance of the number, which may be a mean over runs."""
        return self.deviation**2 / (self.number.row.n or 1)


def has_training_seed(number: PublishedNumber) -> bool:
    """Whether its encoder was trained beyond its backbone, so that another seed is another one."""
    row = number.row
    method = compose_method(number.method, number.table.registry)
    trained_on = row.trained_on or ""
    if method is not None and not trained_on:
        trained_on = method.encoder.trained_on
    is_pretrained_alone = bool(PRETRAINED_ALONE.search(trained_on))
    return row.supervision not in ("none", "n/a") or not is_pretrained_alone


def has_fit_seed(number: PublishedNumber) -> bool:
    """Whether a post-processor is fitted from random values, as a flow is."""
    method = compose_method(number.method, number.table.registry)
    if method is None:
        return "flow" in number.row.label.lower()
    return any(not post.deterministic for post in method.post)


class Spreads:
    """The published spreads over seeds, by what they are spreads of.

    Args:
        numbers: All published numbers.
    """

    def __init__(self, numbers: Iterable[PublishedNumber]) -> None:
        self._by_kind: dict[object, list[PublishedNumber]] = defaultdict(list)
        for number in numbers:
            if number.sd is not None and number.row.n is not None:
                self._by_kind[_kind(number)].append(number)

    def of(self, number: PublishedNumber) -> Spread | None:
        """The spread of a number; None where none is published for it or a relative.

        A relative is a number of the same score whose encoder was trained from the same
        checkpoint under the same supervision. The nearest one was trained on the same
        data, and of several, the one over most seeds is taken.
        """
        if number.sd is not None:
            return Spread(number=number, source=number, deviation=number.sd)
        if not has_training_seed(number) and not has_fit_seed(number):
            return Spread(number=number, source=None, deviation=0.0)
        relatives = self._by_kind.get(_kind(number), [])
        if not relatives:
            return None
        data = number.row.trained_on
        nearest = max(
            relatives,
            key=lambda other: (other.row.trained_on == data, other.row.n or 0),
        )
        return Spread(number=number, source=nearest, deviation=nearest.sd or 0.0)


def _kind(number: PublishedNumber) -> object:
    """What two numbers have in common whose spreads over seeds are related."""
    return (
        number.data_sets,
        number.metric,
        number.start.removesuffix("-uncased"),
        number.row.supervision,
        has_training_seed(number),
        has_fit_seed(number),
    )


# Leads


@dataclass(frozen=True, kw_only=True)
class Lead:
    """The best number of a column, in its backbone and supervision, and the runner-up.

    Attributes:
        best: The best number.
        runner_up: The second best.
        items: The difference that would be beyond the choice of pairs, in points: for
            the narrow and the wide end of `between`. None where the number of pairs is
            not known, or the score is no correlation.
        between: The correlations of the similarities of both that `items` are for.
        is_measured: Whether `between` was measured.
        spreads: The spreads over seeds of both; None where no spread is published.
    """

    best: PublishedNumber
    runner_up: PublishedNumber
    items: tuple[float, float] | None
    between: tuple[float, float]
    is_measured: bool
    spreads: tuple[Spread | None, Spread | None]

    @property
    def points(self) -> float:
        """By how many points the best is above the runner-up."""
        return round(self.best.score - self.runner_up.score, 9)

    @cached_property
    def seeds(self) -> float | None:
        """The difference that would be beyond seeds; None where a spread is not known."""
        variances = [spread.variance for spread in self.spreads if spread is not None]
        if len(variances) < len(self.spreads):
            return None
        return LEVEL_95 * math.sqrt(sum(variances))

    @property
    def kind(self) -> LeadKind:
        """Whether it is beyond noise.

        The surest statement comes first: `within items` holds wherever in its range the
        correlation of the similarities is, and so does `beyond items`.
        """
        if self.items is None:
            return LeadKind.UNKNOWN
        narrow, wide = self.items
        if self.points < narrow:
            return LeadKind.WITHIN_ITEMS
        if self.seeds is not None and self.points < self.seeds:
            return LeadKind.WITHIN_SEEDS
        return LeadKind.BEYOND_ITEMS if self.points >= wide else LeadKind.UNKNOWN


# The leads of published numbers by the id of the best number.
Leads = Mapping[str, Lead]


def leads_of(
    numbers: Iterable[PublishedNumber], spreads: Spreads, similarities: Similarities
) -> Leads:
    """The best number of each column, backbone and supervision, by its id.

    Of equal numbers the first in its table is the best one, and the next the runner-up.
    A number that no other can be compared with is not among them.

    Args:
        numbers: Published numbers, of any number of tables.
        spreads: The published spreads over seeds.
        similarities: The similarities of a method on a task, as far as they are here.
    """
    rivals: dict[object, list[PublishedNumber]] = defaultdict(list)
    for number in numbers:
        row = number.row
        if row.statistic not in NOT_COMPARED and not row.model_free:
            rivals[_rivals_of(number)].append(number)
    leads = {}
    for group in rivals.values():
        best, *others = sorted(group, key=lambda number: -number.score)
        if others:
            leads[best.id] = lead(best, others[0], spreads, similarities)
    return leads


def _rivals_of(number: PublishedNumber) -> object:
    """What numbers have in common that are compared for the best of a column."""
    return (
        number.table.id,
        number.column.id,
        number.start,
        number.row.supervision,
        number.metric,
        number.aggregation,
    )


def lead(
    best: PublishedNumber,
    runner_up: PublishedNumber,
    spreads: Spreads,
    similarities: Similarities,
) -> Lead:
    """Two numbers of one score with the widths of their difference."""
    measured = _measured_between(best, runner_up, similarities)
    assumed = ASSUMED_BETWEEN if not measured else (max(measured), min(measured))
    narrow, wide = (
        least_difference(best, runner_up, measured or [between] * len(best.tasks))
        for between in ASSUMED_BETWEEN
    )
    return Lead(
        best=best,
        runner_up=runner_up,
        items=None if narrow is None or wide is None else (narrow, wide),
        between=assumed,
        is_measured=bool(measured),
        spreads=(spreads.of(best), spreads.of(runner_up)),
    )


def least_difference(
    first: PublishedNumber, second: PublishedNumber, between: Sequence[float]
) -> float | None:
    """The least difference of two numbers that is beyond the choice of pairs, in points.

    Args:
        first: A number.
        second: Another number of the same score.
        between: The correlation of the similarities of both on each of its tasks.

    Returns:
        Half of the 95 % interval; None where the pairs of a task are not known, or the
        score is no correlation.
    """
    if first.metric not in CORRELATION_SCORES or not first.tasks:
        return None
    scores = []
    for task, of_first, of_second, correlation in zip(
        first.tasks,
        _scores_by_task(first),
        _scores_by_task(second),
        between,
        strict=True,
    ):
        pairs = pairs_of_task(task)
        if pairs is None:
            return None
        scores.append(
            TaskScores(
                pairs, of_first, of_second, correlation, first.aggregation or "all"
            )
        )
    _, correlation_kind = CORRELATION_SCORES[first.metric]
    return LEVEL_95 * standard_error(scores, correlation_kind)


def _scores_by_task(number: PublishedNumber) -> Iterator[float]:
    """The score on each task of a number; the average itself where its row does not print it."""
    row, table = number.row, number.table
    for name in number.column.average_of or (number.column.id,):
        column = next(column for column in table.columns if column.id == name)
        yield table.score(row, column) if name in row.values else number.score


def _measured_between(
    first: PublishedNumber, second: PublishedNumber, similarities: Similarities
) -> list[float]:
    """How far the similarities of two numbers correlate on each task; empty unless all are here."""
    if first.method is None or second.method is None:
        return []
    measured = []
    for task in first.tasks:
        columns = [
            similarities(method, task) for method in (first.method, second.method)
        ]
        if (
            columns[0] is None
            or columns[1] is None
            or len(columns[0]) != len(columns[1])
        ):
            return []
        _, correlation = CORRELATION_SCORES.get(first.metric, ("", "spearman"))
        measured.append(between_of(columns[0], columns[1], correlation))
    return measured


# The best number of each work


def chain_of(
    numbers: Iterable[PublishedNumber], start: str, supervision: str, tasks: DataSets
) -> list[PublishedNumber]:
    """The best average of each work that trained a backbone, the lowest first.

    A work is all tables with one citation. Quotations are left out, and what was not
    trained.

    Args:
        numbers: Published numbers.
        start: The backbone, without its organisation: `bert-base-uncased`.
        supervision: The kind of data that the encoders were trained on.
        tasks: The data sets of the average. It is Spearman's correlation, with the
            subsets of a year concatenated.
    """
    best: dict[str, PublishedNumber] = {}
    for number in numbers:
        row = number.row
        is_of_chain = (
            number.data_sets == tasks
            and (number.start, row.supervision) == (start, supervision)
            and (number.metric, number.aggregation) == ("spearman", "all")
            and row.statistic not in NOT_COMPARED
            and not row.quoted
            and has_training_seed(number)
        )
        work = number.table.cite
        if is_of_chain and (work not in best or number.score > best[work].score):
            best[work] = number
    return sorted(best.values(), key=lambda number: number.score)
