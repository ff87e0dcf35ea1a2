"""Ways to read a reader's numbers, and how sure each is.

A reading is one explanation of the differences. All of the reader's columns are weighed
for each: it fits some, and misses others. `certainty` says from that how sure it is, and
is the only place that does. The kinds of readings, the strongest first:

1. The numbers are printed elsewhere, or a method of the encoder was measured to give them.
2. The encoder is trained, and its trainings under other seeds have such numbers.
3. Columns without subsets agree, and those with subsets do not: another aggregation.
4. They are near a published row of the encoder that differs in choices made by accident.
5. A cause outside of protocols is known from public threads (`harness.conclusions.causes`).
6. Another choice was measured to move the scores of other encoders by about as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean

from harness.conclusions.causes import Cause, Causes
from harness.conclusions.numbers import (
    ACCIDENTAL_CHOICES,
    COLUMNS_OF_A_MODEL,
    ComparedRow,
    PublishedRow,
    ReportedNumber,
    accident_rank,
    compared_rows,
)
from harness.results.published import DATA_SETS_WITH_SUBSETS, DataSets, PublishedNumber

# Shares of the difference between the reader's numbers and the published ones. A row is
# suggested if it leaves at most the first unexplained, and is likely up to the second.
UNEXPLAINED_SHARE = 0.5
MISSED_SHARE = 0.25
# Points that each choice after the first counts for when rows are ranked, so that of two
# rows that are as near the one with fewer changes comes first.
FURTHER_CHOICE = 0.25
MOST_CHANGES = 3  # choices that a person makes differently at once

# Standard deviations from the mean over seeds. A score within the first is usual; a paper
# beyond the second is of another training than the one that was repeated.
SEED_DEVIATIONS = 2.0
FAR_DEVIATIONS = 3.0

# Points by which columns without subsets agree, and columns with subsets do not, where the
# aggregation is another one.
SAME_WITHOUT_SUBSETS = 0.1
OTHER_WITH_SUBSETS = 0.5
LOW_STS13 = -5.0

# Points by which a column may be out of the bounds of a cause that explains the others.
OUT_OF_BOUNDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for a reading.

    Attributes:
        kind: `digits` (the numbers are equal), `spread` (they are usual among seeds), `pattern`
            (which columns agree), `near` (a row leaves little), `bounds` (they are within
            the bounds of a known cause), `effect` (another encoder's scores moved so), or
            `arithmetic` (the reader's own numbers show it).
        fits: How many columns it explains.
        columns: How many columns it may move.
        is_strong: Whether its kind is as clear as it can be: of digits, two decimals; of a
            spread, all usual; of a near row, little is left; of bounds, they are narrow.
    """

    kind: str
    fits: int
    columns: int
    is_strong: bool = True


def certainty(evidence: Evidence) -> str:
    """How sure a reading is: `certain`, `likely` or `possible`.

    Digits of two columns or more make it certain, if no column has others. A reading that
    misses a column is likely at most where digits of three others are equal, so that no
    two readings are likely for what neither explains.
    """
    is_whole = evidence.fits == evidence.columns
    if evidence.kind == "arithmetic":
        return "certain"
    if evidence.kind == "digits":
        if is_whole and evidence.fits > 1:
            return "certain"
        is_told = evidence.fits >= COLUMNS_OF_A_MODEL or (
            is_whole and evidence.is_strong
        )
        return "likely" if is_told else "possible"
    is_clear = evidence.kind in ("spread", "pattern", "near", "bounds")
    return "likely" if is_whole and is_clear and evidence.is_strong else "possible"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One reading of the differences.

    Attributes:
        about: What differs: names of choices of a protocol, `seed`, `model`, `average`,
            `columns`, `published`, or the id of a curated cause.
        evidence: What speaks for it.
        columns: The columns that it explains.
        misfits: The columns that it does not fit.
        row: The published row that prints the reader's numbers, or is near to them.
        method: The method that was measured here to give the reader's numbers.
        changes: The other choices by name.
        spread: The spread over seeds that includes the numbers.
        cause: The curated cause.
        fault: What is wrong with the reader's or the paper's number, in a sentence.
        effects: The effect of the change on other encoders, in points by their names,
            the one that is nearest to the difference first.
    """

    about: tuple[str, ...]
    evidence: Evidence
    columns: tuple[str, ...] = ()
    misfits: tuple[str, ...] = ()
    row: ComparedRow | None = None
    method: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)
    spread: SeedSpread | None = None
    cause: Cause | None = None
    fault: str = ""
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def certainty(self) -> str:
        """How sure it is."""
        return certainty(self.evidence)

    @property
    def printed_number(self) -> PublishedNumber | None:
        """The first number of its row; None without a row."""
        return None if self.row is None else self.row.pairs[0].other

    @property
    def is_printed(self) -> bool:
        """Whether its row prints most of the reader's numbers."""
        return self.row is not None and self.row.prints_most

    @property
    def unexplained(self) -> float | None:
        """The points of the differences that its row leaves; None without a row."""
        if self.row is None:
            return None
        return 0.0 if self.is_printed else self.row.unexplained


def names(numbers: Iterable[ReportedNumber]) -> tuple[str, ...]:
    """The columns of a reader's numbers."""
    return tuple(number.published.column.id for number in numbers)


# 1. The numbers are printed elsewhere


def printed_elsewhere(rows: Iterable[ComparedRow]) -> list[Suggestion]:
    """Rows of the encoder that print most of the reader's numbers.

    Those that print more come first, and of these the ones with fewer changes.
    """
    printing_rows = [row for row in rows if row.prints_most]
    printing_rows.sort(key=lambda row: (-row.equal, len(row.changes)))
    return [
        Suggestion(
            about=tuple(row.changes) or ("no known difference",),
            evidence=_digits(row),
            columns=_equal_columns(row),
            misfits=row.misfits,
            row=row,
            changes=row.changes,
        )
        for row in printing_rows
    ]


def _digits(row: ComparedRow) -> Evidence:
    is_strong = row.least_decimals >= 2
    return Evidence(
        kind="digits", fits=row.equal, columns=len(row.pairs), is_strong=is_strong
    )


def _equal_columns(row: ComparedRow) -> tuple[str, ...]:
    return names(pair.reported for pair in row.pairs if pair.is_equal)


def other_models(
    numbers: Sequence[ReportedNumber], rows: Iterable[PublishedRow]
) -> list[Suggestion]:
    """The other model whose row prints the reader's numbers: at least three, and most of them.

    Args:
        numbers: The reader's numbers.
        rows: The published rows of other models.
    """
    # There are hundreds, of which few print any of the numbers.
    points = {number.published.data_sets: number.points for number in numbers}
    near = [row for row in rows if _near_columns(row, points) >= COLUMNS_OF_A_MODEL]
    printing_rows = []
    for row in compared_rows(numbers, near):
        is_most = 3 * row.equal >= 2 * len(row.pairs)
        if row.equal >= COLUMNS_OF_A_MODEL and is_most and row.least_decimals >= 2:
            printing_rows.append(row)
    if not printing_rows:
        return []
    row = max(printing_rows, key=lambda row: row.equal)
    suggestion = Suggestion(
        about=("model",),
        evidence=_digits(row),
        columns=_equal_columns(row),
        misfits=row.misfits,
        row=row,
    )
    return [suggestion]


def _near_columns(row: PublishedRow, points: Mapping[DataSets, float]) -> int:
    """In how many columns a row is within a point of a reader's, as where they are equal."""
    count = 0
    for data_sets, given in points.items():
        other = row.numbers.get(data_sets)
        if other is not None and abs(given - other.score) <= 1:
            count += 1
    return count


# 2. Another seed


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """A reader's number among the scores that trainings gave under different seeds.

    Attributes:
        number: The reader's number.
        seeds: How many trainings of the recipe there were.
        mean: The published number that is their mean.
        sd: Their standard deviation, in points.
        low: The lowest score; None where it is not published.
        high: The highest score.
    """

    number: ReportedNumber
    seeds: int
    mean: PublishedNumber
    sd: float
    low: float | None
    high: float | None

    def deviations(self, points: float) -> float:
        """How many standard deviations a score is above the mean."""
        return (points - self.mean.score) / self.sd

    @property
    def is_of_paper(self) -> bool:
        """Whether the published number may be of one of these trainings."""
        return abs(self.deviations(self.number.published.score)) <= FAR_DEVIATIONS

    @property
    def is_usual(self) -> bool:
        """Whether the number is between the lowest and the highest, and near the mean.

        The paper's own number is one more training.
        """
        points, paper = self.number.points, self.number.published.score
        if self.low is None or self.high is None:
            return abs(self.deviations(points)) <= SEED_DEVIATIONS
        is_within = min(self.low, paper) <= points <= max(self.high, paper)
        return is_within and abs(self.deviations(points)) <= SEED_DEVIATIONS

    @property
    def holds(self) -> bool:
        """Whether the number is at most one deviation below the lowest or above the highest."""
        points = self.number.points
        if self.low is None or self.high is None:
            return abs(self.deviations(points)) <= SEED_DEVIATIONS
        return self.low - self.sd <= points <= self.high + self.sd


def spreads(
    numbers: Sequence[ReportedNumber], rows: Iterable[PublishedRow]
) -> list[SeedSpread]:
    """The reader's numbers whose spread over seeds is published, the average first.

    There are none if a published number is far from the mean of its column: then the
    paper's training is another than the one that was repeated.
    """
    # A table has the mean, the lowest and the highest score in rows of their own.
    statistics: dict[tuple[str, str, str], dict[str, PublishedNumber]] = {}
    for row in rows:
        for published in row.numbers.values():
            name = (published.table.id, published.column.id, str(published.row.n))
            statistics.setdefault(name, {})[published.row.statistic] = published
    found = []
    for number, (name, of_column) in product(numbers, statistics.items()):
        mean, low, high = (of_column.get(which) for which in ("mean", "min", "max"))
        is_of_column = name[1] == number.published.column.id
        if is_of_column and mean is not None and mean.sd is not None:
            spread = SeedSpread(
                number=number,
                seeds=mean.row.n or 0,
                mean=mean,
                sd=mean.sd,
                low=low.points if low else None,
                high=high.points if high else None,
            )
            found.append(spread)
    if not all(spread.is_of_paper for spread in found):
        return []
    return sorted(found, key=lambda spread: not spread.number.published.average_of)


def another_seed(
    numbers: Sequence[ReportedNumber], of_numbers: Sequence[SeedSpread]
) -> list[Suggestion]:
    """The reading that the training had another seed, if no column is beyond all seeds.

    It is likely if all columns are usual among the seeds.
    """
    if not of_numbers or not all(spread.holds for spread in of_numbers):
        return []
    covered = {spread.number.published.column.id for spread in of_numbers}
    misfits = tuple(name for name in names(numbers) if name not in covered)
    if len(misfits) >= len(covered):
        return []
    furthest = max(
        of_numbers, key=lambda spread: abs(spread.deviations(spread.number.points))
    )
    is_usual = all(spread.is_usual for spread in of_numbers)
    evidence = Evidence(
        kind="spread", fits=len(covered), columns=len(numbers), is_strong=is_usual
    )
    suggestion = Suggestion(
        about=("seed",),
        evidence=evidence,
        columns=tuple(name for name in names(numbers) if name in covered),
        misfits=misfits,
        spread=of_numbers[0] if is_usual else furthest,
    )
    return [suggestion]


# 3. Another aggregation, by what does not move


def another_aggregation(numbers: Sequence[ReportedNumber]) -> list[Suggestion]:
    """The reading that subsets were taken together in another way, or one is missing.

    Columns without subsets are the paper's then, and two or more with subsets are not.
    """
    with_subsets: list[ReportedNumber] = []
    without: list[ReportedNumber] = []
    for number in numbers:
        if number.published.is_average:
            continue
        [data_set] = number.published.data_sets
        has_subsets = DATA_SETS_WITH_SUBSETS.match(data_set)
        (with_subsets if has_subsets else without).append(number)
    moved = [each for each in with_subsets if abs(each.gap) > OTHER_WITH_SUBSETS]
    if not without or len(moved) < 2:
        return []
    largest = max(abs(number.gap) for number in without)
    rounding = max(number.given.half_unit for number in without)
    is_same = largest <= max(SAME_WITHOUT_SUBSETS, rounding)
    # A mean over subsets lowers STS13 by several points, since its FNWN is small and hard.
    is_sts13_low = any(
        each.published.data_sets == ("sts13",) and each.gap <= LOW_STS13
        for each in moved
    )
    is_near = largest <= OTHER_WITH_SUBSETS and is_sts13_low
    if len(without) < 2 or not (is_same or is_near):
        return []
    evidence = Evidence(
        kind="pattern", fits=len(numbers), columns=len(numbers), is_strong=is_same
    )
    suggestion = Suggestion(
        about=("aggregation",),
        evidence=evidence,
        columns=names(moved),
        fault=(
            "another aggregation of the subsets, as their unweighted mean, or one left out: "
            f"{', '.join(names(without))} have no subsets and are about the paper's, "
            f"{', '.join(names(moved))} have, and are not"
        ),
    )
    return [suggestion]


# 4. The numbers are near another row


def near_rows(
    numbers: Sequence[ReportedNumber], rows: Iterable[ComparedRow]
) -> Iterator[Suggestion]:
    """Rows of the encoder that explain most of the differences by accidental choices.

    The row that leaves least unexplained comes first. Another fit corpus is a choice of a
    row that has one.
    """
    gap = fmean(abs(number.gap) for number in numbers)
    near = []
    for row in rows:
        changes = row.changes
        if not 1 <= len(changes) <= MOST_CHANGES:
            continue
        is_accident = all(
            choice in ACCIDENTAL_CHOICES or (choice == "fit_on" and value)
            for choice, value in changes.items()
        )
        if is_accident and row.unexplained <= UNEXPLAINED_SHARE * gap:
            near.append(row)
    near.sort(key=_cost)
    for row in near:
        is_near = row.unexplained <= MISSED_SHARE * gap
        is_strong = is_near and (len(row.changes) == 1 or len(row.pairs) > 1)
        columns = names(pair.reported for pair in row.pairs)
        # A table may print an average in another row, or none.
        single = [number for number in numbers if not number.published.is_average]
        missing = tuple(name for name in names(single) if name not in columns)
        yield Suggestion(
            about=tuple(row.changes),
            evidence=Evidence(
                kind="near",
                fits=len(columns),
                columns=len(columns) + len(missing),
                is_strong=is_strong,
            ),
            columns=columns,
            misfits=missing,
            row=row,
            changes=row.changes,
        )


def _cost(row: ComparedRow) -> tuple[float, int]:
    """Sorts rows by what they leave unexplained, with a charge for each further change."""
    further_choices = len(row.changes) - 1
    ranks = [accident_rank(choice) for choice in row.changes]
    return row.unexplained + FURTHER_CHOICE * further_choices, min(ranks)


# 5. Causes outside of protocols


def known_causes(
    numbers: Sequence[ReportedNumber], causes: Causes
) -> Iterator[Suggestion]:
    """The curated causes of the row that explain most of what they may move.

    They are in the order of the file, those that explain more columns first.
    """
    suggestions = []
    for cause in causes.causes:
        if not cause.applies_to(numbers[0].published):
            continue
        movable = [number for number in numbers if cause.may_move(number)]
        explained = [number for number in movable if cause.explains(number)]
        others = [number for number in movable if number not in explained]
        is_most = 3 * len(explained) >= 2 * len(movable) > 0
        is_near = all(cause.misses(number) <= OUT_OF_BOUNDS for number in others)
        is_there = {*cause.needs} <= {*names(explained)}
        if not (is_most and is_near and is_there and cause.has_signs(movable)):
            continue
        misfits = names(number for number in numbers if number not in explained)
        evidence = Evidence(
            kind="arithmetic" if cause.certainty == "certain" else "bounds",
            fits=len(explained),
            columns=len(numbers),
            is_strong=cause.certainty != "possible",
        )
        suggestion = Suggestion(
            about=(cause.id,),
            evidence=evidence,
            columns=names(explained),
            misfits=misfits,
            cause=cause,
        )
        suggestions.append(suggestion)
    yield from sorted(suggestions, key=lambda each: len(each.misfits))
