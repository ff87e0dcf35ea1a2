"""Published numbers by row, and a reader's numbers next to them.

A reader's numbers belong to published ones, or are looked for among all rows.
`harness.conclusions.standings` joins the published numbers with each other,
`harness.conclusions.diagnosis` a reader's numbers with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from statistics import fmean

from harness.core.errors import UsageError
from harness.results.protocols import UNKNOWN, Protocol
from harness.results.published import DataSets, PublishedNumber, Table
from harness.results.published_tables import published_number
from harness.results.verdict import (
    MOST_ROUNDED,
    Agreement,
    Published,
    agreement,
    readings_in_points,
)

# Columns that tell a model from all others: of the published rows, three figures with two
# decimals are equal for copies and reruns of one model alone.
COLUMNS_OF_A_MODEL = 3


@dataclass(frozen=True)
class PublishedRow:
    """The numbers of one row of a table with the same metric and split, by their data sets."""

    numbers: Mapping[DataSets, PublishedNumber]

    @cached_property
    def first(self) -> PublishedNumber:
        """Its first number, which has the encoder and the method of all."""
        return next(iter(self.numbers.values()))

    @property
    def id(self) -> str:
        """Its id, as TABLE/ROW."""
        return self.first.row_id


def published_numbers(tables: Iterable[Table]) -> dict[str, PublishedNumber]:
    """Every published score, by its id."""
    numbers = {}
    for table in tables:
        for number in table.numbers:
            if number.points is not None:
                numbers[number.id] = number
    return numbers


def published_rows(numbers: Iterable[PublishedNumber]) -> list[PublishedRow]:
    """Published numbers by row, metric and split."""
    rows: dict[tuple[str, ...], dict[DataSets, PublishedNumber]] = {}
    for number in numbers:
        split = "" if number.is_average else number.protocol.split
        key = (number.row_id, number.metric, split)
        rows.setdefault(key, {})[number.data_sets] = number
    return [PublishedRow(numbers_of_row) for numbers_of_row in rows.values()]


# Choices that are made by accident, the most frequent first.
ACCIDENTAL_CHOICES = (
    "aggregation",
    "split",
    "metric",
    "pooling",
    "text",
    "scored_by",
    "max_length",
)


def accident_rank(choice: str) -> int:
    """The index of a choice in `ACCIDENTAL_CHOICES`; one more than the last for any other."""
    if choice in ACCIDENTAL_CHOICES:
        return ACCIDENTAL_CHOICES.index(choice)
    return len(ACCIDENTAL_CHOICES)


NEIGHBOURS_SHOWN = 8  # published numbers that differ in one choice

Recipe = tuple[str, str, str]  # `PublishedNumber.recipe`
# The numbers of each protocol by score, with their places among all numbers.
NumbersByProtocol = dict[Protocol, dict[float, tuple[int, PublishedNumber]]]


class Neighbourhoods:
    """Published numbers of one run by encoder and tasks, in which neighbours are looked for.

    Neighbours are other published numbers of the encoder on the same tasks that differ in
    one choice. They depend on a number's protocol and recipe alone, so they are looked for
    once for all numbers that share both.

    Args:
        numbers: All published numbers. Of equal ones with the same change, the first is
            taken.
    """

    def __init__(self, numbers: Iterable[PublishedNumber]) -> None:
        # By tasks and encoder; by tasks and recipe, those whose encoder is stated nowhere,
        # and all of them: such a number is compared by recipe.
        self._of_encoder: dict[tuple[str, str], NumbersByProtocol] = {}
        self._of_recipe: dict[tuple[str, Recipe], NumbersByProtocol] = {}
        self._of_recipe_alone: dict[tuple[str, Recipe], NumbersByProtocol] = {}
        self._found: dict[tuple[Protocol, Recipe], Sequence[PublishedNumber]] = {}
        for position, number in enumerate(numbers):
            if not number.is_of_one_run:
                continue
            protocol = number.protocol
            groups = [self._of_recipe.setdefault((protocol.task, number.recipe), {})]
            if protocol.encoder == UNKNOWN:
                key = (protocol.task, number.recipe)
                groups.append(self._of_recipe_alone.setdefault(key, {}))
            else:
                place = (protocol.task, protocol.encoder)
                groups.append(self._of_encoder.setdefault(place, {}))
            for group in groups:
                scores = group.setdefault(protocol, {})
                scores.setdefault(number.score, (position, number))

    def of(self, number: PublishedNumber) -> Sequence[PublishedNumber]:
        """The neighbours of a number, in the order of `ACCIDENTAL_CHOICES`, then the others."""
        key = (number.protocol, number.recipe)
        if key not in self._found:
            self._found[key] = self._look_for(number.protocol, number.recipe)
        return self._found[key]

    def _look_for(
        self, protocol: Protocol, recipe: Recipe
    ) -> Sequence[PublishedNumber]:
        """The neighbours of the numbers with a protocol and a recipe."""
        of_recipe = (protocol.task, recipe)
        groups = [self._of_recipe.get(of_recipe, {})]
        if protocol.encoder != UNKNOWN:
            groups = [
                self._of_encoder.get((protocol.task, protocol.encoder), {}),
                self._of_recipe_alone.get(of_recipe, {}),
            ]
        candidates = []
        for group in groups:
            for other, scores in group.items():
                changes = protocol.changes(other)
                if len(changes) != 1:
                    continue
                [change] = changes.items()
                candidates += [
                    (place, change, number) for place, number in scores.values()
                ]
        # By the changed choice, its value and the score.
        neighbours: dict[tuple[str, str, float], PublishedNumber] = {}
        for _, (choice, value), number in sorted(candidates, key=itemgetter(0)):
            neighbours.setdefault((choice, value, number.score), number)
        keys_in_order = sorted(neighbours, key=lambda key: accident_rank(key[0]))
        return [neighbours[key] for key in keys_in_order[:NEIGHBOURS_SHOWN]]


# A reader's numbers


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A score as a reader gives it.

    Attributes:
        given: The score in points, with the digits that were given.
        is_fraction: Whether it was given as a fraction, 0.4729 for 47.29.
    """

    given: Published
    is_fraction: bool = False

    @classmethod
    def parse(cls, text: str, *, may_be_fraction: bool = True) -> Figure:
        """Read points (x100), or a fraction with two decimals or more.

        Raises UsageError for a text that is no number from -100 to 100.
        """
        readings = readings_in_points(text)
        if not readings:
            raise UsageError(
                f"--mine {text}: wanted a score x100 such as 47.29, from -100 to 100"
            )
        as_given = readings[-1]
        if may_be_fraction and len(readings) > 1 and as_given.decimals >= 2:
            return cls(given=readings[0], is_fraction=True)
        return cls(given=as_given)

    @property
    def points(self) -> float:
        """The score in points."""
        return self.given.points

    def agreement_with(self, number: PublishedNumber) -> Agreement:
        """Whether a published number has its digits.

        A number without decimals is that of no row: too many are within half a point.
        """
        if not self.given.decimals:
            return Agreement.DIFFERENT
        return agreement(self.given, number.printed)

    def has_digits_of(self, number: PublishedNumber) -> bool:
        """Whether a published number is the same, to rounding where both have two decimals."""
        agreed = self.agreement_with(number)
        decimals = min(self.given.decimals, number.decimals)
        is_rounded = agreed is Agreement.ROUNDING and decimals >= MOST_ROUNDED
        return agreed is Agreement.SAME or is_rounded


@dataclass(frozen=True, kw_only=True)
class ReportedNumber(Figure):
    """A reader's number for a published one, which is its `cell`."""

    published: PublishedNumber

    @property
    def gap(self) -> float:
        """By how many points the reader's number is above the published one."""
        return self.points - self.published.score


SMALLEST_SCORE = 5.0  # points; a reader's 0.61 for a higher score is 61


def row_and_column(place: str) -> tuple[str, str]:
    """`TABLE/ROW` and the column of `TABLE/ROW/COLUMN`, which is empty without one."""
    parts = place.split("/")
    return "/".join(parts[:2]), "/".join(parts[2:])


def reported_numbers(
    row_id: str, values: Mapping[str, str], tables: Sequence[Table]
) -> tuple[tuple[ReportedNumber, ...], tuple[str, ...]]:
    """A reader's numbers for a published row.

    Args:
        row_id: `TABLE/ROW`.
        values: The numbers as they are written, by column.
        tables: All published tables.

    Returns:
        The numbers, and the names of columns that the row does not have.

    Raises:
        UsageError: There is no such row, none of its columns is named, or a value is no
            score.
    """
    numbers, unknown_columns = [], []
    fault: UsageError | None = None
    for column, value in values.items():
        try:
            published = published_number(f"{row_id}/{column}", tables)
        except UsageError as error:
            fault = error
            unknown_columns.append(column)
        else:
            numbers.append(_reported_number(published, value))
    if not numbers and fault is not None:
        raise fault
    return tuple(numbers), tuple(unknown_columns)


def _reported_number(published: PublishedNumber, text: str) -> ReportedNumber:
    """Read a reader's number for a published one.

    Raises:
        UsageError: The text is no number, or not a possible score of the cell's metric.
    """
    is_large = abs(published.points or 0.0) > SMALLEST_SCORE
    figure = Figure.parse(text, may_be_fraction=is_large)
    if published.points is None:
        raise UsageError(f"--mine: {published.id} is no score; choose another column")
    if figure.points < 0 and published.metric in ("accuracy", "auc"):
        raise UsageError(f"--mine {text}: wanted a score x100, from 0 to 100")
    return ReportedNumber(published=published, **vars(figure))


# A reader's numbers next to another row


@dataclass(frozen=True, kw_only=True)
class NumberPair:
    """A reader's number, and the number that another row has for the same data sets.

    Attributes:
        reported: The reader's number.
        other: The number of the other row.
    """

    reported: ReportedNumber
    other: PublishedNumber

    @cached_property
    def is_equal(self) -> bool:
        """Whether the other row prints the reader's number."""
        return self.reported.agreement_with(self.other) is Agreement.SAME


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """A published row next to a reader's numbers, as far as it has their tasks."""

    row: PublishedRow
    pairs: tuple[NumberPair, ...]

    @property
    def changes(self) -> Mapping[str, str]:
        """The choices in which the row differs from the row that the reader asks about.

        Those that are made by accident come first.
        """
        changes: dict[str, str] = {}
        for pair in self.pairs:
            changes |= pair.reported.published.protocol.changes(pair.other.protocol)
        names = sorted(changes, key=accident_rank)
        return {name: changes[name] for name in names}

    @cached_property
    def equal(self) -> int:
        """How many of the reader's numbers it prints."""
        return sum(pair.is_equal for pair in self.pairs)

    @property
    def prints_most(self) -> bool:
        """Whether it prints more than half of them."""
        return 2 * self.equal > len(self.pairs)

    @property
    def misfits(self) -> tuple[str, ...]:
        """The columns in which it does not print the reader's number."""
        return tuple(
            pair.reported.published.column.id
            for pair in self.pairs
            if not pair.is_equal
        )

    @property
    def unexplained(self) -> float:
        """The mean difference of the reader's numbers from it, in points."""
        return fmean(
            abs(pair.reported.points - pair.other.score) for pair in self.pairs
        )

    @property
    def least_decimals(self) -> int:
        """The fewest decimals of a point among the numbers that are equal."""
        return min(
            min(pair.reported.given.decimals, pair.other.decimals)
            for pair in self.pairs
            if pair.is_equal
        )


def compared_rows(
    numbers: Sequence[ReportedNumber], rows: Iterable[PublishedRow]
) -> Iterator[ComparedRow]:
    """The rows of one run that have at least half of a reader's tasks, next to his numbers."""
    for row in rows:
        pairs = []
        for number in numbers:
            other = row.numbers.get(number.published.data_sets)
            if other is not None:
                pairs.append(NumberPair(reported=number, other=other))
        if pairs and 2 * len(pairs) >= len(numbers) and row.first.is_of_one_run:
            yield ComparedRow(row=row, pairs=tuple(pairs))
