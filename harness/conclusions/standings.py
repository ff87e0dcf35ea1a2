"""The standing of published numbers: which others print the same score, and agree or do not.

A standing is computed from the published tables alone, by joining their numbers with each
other. Whether two numbers agree is said by `harness.results.verdict.agreement`:

* `confirmed`: another work prints the same score with the same digits. A work is all tables
  with one citation, unless they say who else measured; a quotation, or another table of
  the same work, confirms nothing.
* `same run`: another work has the score with equal digits beyond those that are ever
  rounded, as a card and a result file that its authors sent in. It is one source.
* `same to rounding`: another table prints the score with a last digit that differs by one,
  or an unrounded score within 0.05 points.
* `contradicted`: another table prints the same score with other digits.
* `another training`: so it does, and the method is trained, so that both may be right.
* `quoted`: the row is a quotation, and another work's row has its digits. A number of it
  with other digits is a misprint, and `contradicted` whatever the difference.
* `same figures`: three or more figures of the row are those of another model.

The same score means the same method, tasks with their text form and split, metric and
aggregation. Numbers over several runs have no standing, nor have rows that no method
here reproduces, unless they are quotations: whether they are the same score is not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.conclusions.numbers import COLUMNS_OF_A_MODEL, PublishedRow
from harness.results.published import PublishedNumber
from harness.results.verdict import MOST_ROUNDED, Agreement, agreement

# The share of the common columns in which a quotation and its source are equal, at least.
# Quotations have misprints.
QUOTED_SHARE = 2 / 3


class StandingKind(StrEnum):
    """What another published number says of one, the surest first."""

    CONFIRMED = "confirmed"
    SAME_RUN = "same run"
    ROUNDING = "same to rounding"
    CONTRADICTED = "contradicted"
    OTHER_TRAINING = "another training"
    QUOTED = "quoted"
    SAME_FIGURES = "same figures"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What another published number says of one.

    Attributes:
        kind: What it says.
        other: The other number.
        difference: The other number minus this one, in points.
    """

    kind: StandingKind
    other: PublishedNumber
    difference: float


# The standings of numbers by their ids, of each number the surest first.
Standings = Mapping[str, Sequence[Standing]]


def standings_of(
    published_numbers: Iterable[PublishedNumber], published_rows: Iterable[PublishedRow]
) -> Standings:
    """The standings of all numbers that have one, from these numbers and the rows of them."""
    scores = [number for number in published_numbers if _is_of_a_model(number)]
    rows = [row for row in published_rows if _is_of_a_model(row.first)]
    found: dict[str, list[Standing]] = defaultdict(list)
    for joined in (
        _of_same_cells(scores),
        _of_quotations(rows),
        _of_other_models(rows),
    ):
        for number, standing in joined:
            found[number.id].append(standing)
    return dict(found)


def _is_of_a_model(number: PublishedNumber) -> bool:
    """Whether a number, as all of its row, is the score of one run of a model."""
    return number.is_of_one_run and not number.row.model_free


def have_same_digits(first: PublishedNumber, second: PublishedNumber) -> bool:
    """Whether two published scores have the same digits."""
    return agreement(first.printed, second.printed) is Agreement.SAME


def _standing(
    kind: StandingKind, number: PublishedNumber, other: PublishedNumber
) -> tuple[PublishedNumber, Standing]:
    """A number with what another one says of it."""
    difference = round(other.score - number.score, 9)
    return number, Standing(kind=kind, other=other, difference=difference)


def work_of(number: PublishedNumber) -> str:
    """The work that a number is of: who measured it, or the citation of its table."""
    return number.table.work or number.table.cite


# The same score in several tables


def _of_same_cells(
    numbers: Iterable[PublishedNumber],
) -> Iterator[tuple[PublishedNumber, Standing]]:
    """Numbers that another table confirms or contradicts.

    Quotations are left out, since they say nothing of their own. Of several tables of
    another work the first counts.
    """
    cells: dict[tuple[object, ...], list[PublishedNumber]] = defaultdict(list)
    for number in numbers:
        if number.method and not number.row.quoted:
            aggregation = number.protocol.aggregation
            key = (number.method, number.tasks, number.metric, aggregation)
            cells[key].append(number)
    for same_cell in cells.values():
        for number in same_cell:
            yield from _of_others(number, same_cell)


def _of_others(
    number: PublishedNumber, same_cell: Iterable[PublishedNumber]
) -> Iterator[tuple[PublishedNumber, Standing]]:
    """What other tables say of a number, the surest first.

    The same digits are told once for each work, other digits once for each work and score.
    """
    # By what they say, their work and their score.
    found: dict[tuple[StandingKind, str, float | None], PublishedNumber] = {}
    for other in same_cell:
        kind = _kind_of(number, other)
        if kind is not None and other.row_id != number.row_id:
            has_same_digits = kind in (StandingKind.CONFIRMED, StandingKind.SAME_RUN)
            score = None if has_same_digits else other.score
            found.setdefault((kind, work_of(other), score), other)
    order = list(StandingKind)
    for key in sorted(found, key=lambda key: order.index(key[0])):
        yield _standing(key[0], number, found[key])


def _kind_of(number: PublishedNumber, other: PublishedNumber) -> StandingKind | None:
    """What another number of the same score says of one; None for one of the same work."""
    agreed = agreement(number.printed, other.printed)
    if agreed is Agreement.ROUNDING:
        return StandingKind.ROUNDING
    if agreed is Agreement.DIFFERENT:
        is_trained = number.table.registry.parse(str(number.method)).seeded
        return StandingKind.OTHER_TRAINING if is_trained else StandingKind.CONTRADICTED
    if work_of(number) == work_of(other):
        return None
    return (
        StandingKind.SAME_RUN
        if _are_of_one_run(number, other)
        else StandingKind.CONFIRMED
    )


def _are_of_one_run(number: PublishedNumber, other: PublishedNumber) -> bool:
    """Whether two scores are equal in all digits that both have, and have more than are rounded.

    No two programs agree so far: two runs of mteb differ by 4e-5 points.
    """
    fewest = min(number.decimals, other.decimals)
    half_unit = max(number.half_unit, other.half_unit)
    distance = abs(round(number.score - other.score, 9))
    return fewest > MOST_ROUNDED and distance <= half_unit


# Quotations


def _of_quotations(
    rows: Sequence[PublishedRow],
) -> Iterator[tuple[PublishedNumber, Standing]]:
    """The numbers of quotations, with those of the row that they are quoted from."""
    rows = _whole_rows(rows)
    originals = [row for row in rows if not row.first.row.quoted]
    places_by_figure: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(list)
    for place, original in enumerate(originals):
        for tasks, number in original.numbers.items():
            for points in _near_points(number):
                places_by_figure[tasks, points].append(place)
    for row in rows:
        if not row.first.row.quoted:
            continue
        near_figures: Counter[int] = Counter()  # of each original
        for tasks, number in row.numbers.items():
            near_figures.update(places_by_figure.get((tasks, round(number.score)), ()))
        least = min(COLUMNS_OF_A_MODEL, len(row.numbers))
        places = sorted(place for place in near_figures if near_figures[place] >= least)
        source = _source_of_quotation(row, [originals[place] for place in places])
        if source is None:
            continue
        for tasks, number in row.numbers.items():
            original_number = source.numbers.get(tasks)
            if original_number is None:
                continue
            is_misprint = not have_same_digits(number, original_number)
            kind = StandingKind.CONTRADICTED if is_misprint else StandingKind.QUOTED
            yield _standing(kind, number, original_number)


def _whole_rows(rows: Iterable[PublishedRow]) -> list[PublishedRow]:
    """The rows as they are printed: with all splits, where each data set has one.

    A row's test sets and development sets are quoted together, so that a misprint is one of
    all its columns.
    """
    parts: dict[tuple[str, str], list[PublishedRow]] = defaultdict(list)
    for row in rows:
        parts[row.id, row.first.metric].append(row)
    whole_rows = []
    for parts_of_row in parts.values():
        whole = PublishedRow(
            {
                data_sets: number
                for part in parts_of_row
                for data_sets, number in part.numbers.items()
            }
        )
        is_whole = len(whole.numbers) == sum(len(part.numbers) for part in parts_of_row)
        whole_rows += [whole] if is_whole else parts_of_row
    return whole_rows


def _near_points(number: PublishedNumber) -> tuple[int, int, int]:
    """The whole points to which a number is rounded that is equal to this one."""
    points = round(number.score)
    return points - 1, points, points + 1


def _source_of_quotation(
    row: PublishedRow, originals: Iterable[PublishedRow]
) -> PublishedRow | None:
    """The row of another work that has most of a quotation's digits; None without one.

    A quotation has a few misprints, but three equal columns, or all that it has.
    """
    best_row, most_equal = None, 0
    for original in originals:
        if work_of(original.first) == work_of(row.first):
            continue
        common = row.numbers.keys() & original.numbers.keys()
        equal = sum(
            have_same_digits(row.numbers[tasks], original.numbers[tasks])
            for tasks in common
        )
        least = min(COLUMNS_OF_A_MODEL, len(row.numbers))
        is_quoted = equal >= max(QUOTED_SHARE * len(common), least)
        if is_quoted and equal > most_equal:
            best_row, most_equal = original, equal
    return best_row


# Figures of another model


def _of_other_models(
    rows: Sequence[PublishedRow],
) -> Iterator[tuple[PublishedNumber, Standing]]:
    """The numbers of rows that have three or more figures of another model.

    Both rows have a method here, so that they are known to be of two encoders, and have two
    decimals or more.
    """
    rows_by_figure: dict[tuple[object, ...], list[int]] = defaultdict(list)
    named_by: list[list[PublishedNumber]] = []  # the numbers by which a row is found
    for place, row in enumerate(rows):
        named_by.append([])
        if row.first.method and not row.first.row.quoted:
            for number in row.numbers.values():
                if number.decimals >= 2 and not number.is_average:
                    named_by[place].append(number)
                    rows_by_figure[_figure(number)].append(place)
    for place, row in enumerate(rows):
        equal_columns: Counter[int] = Counter()
        for number in named_by[place]:
            equal_columns.update(
                other_place
                for step in (-1, 0, 1)
                for other_place in rows_by_figure.get(_figure(number, step), ())
            )
        for other_place, count in sorted(equal_columns.items()):
            other_row = rows[other_place]
            if count < COLUMNS_OF_A_MODEL or row.first.is_of_encoder(other_row.first):
                continue
            yield from _same_figures(row, other_row)


def _figure(number: PublishedNumber, step: int = 0) -> tuple[object, ...]:
    """A figure to look for: equal ones are at most a hundredth apart when they are rounded."""
    return number.data_sets, number.metric, round(number.score * 100) + step


def _same_figures(
    row: PublishedRow, other_row: PublishedRow
) -> Iterator[tuple[PublishedNumber, Standing]]:
    """The numbers of a row that are equal to another's, if they are three or more."""
    equal = []
    for tasks, number in row.numbers.items():
        other = other_row.numbers.get(tasks)
        if other is None or number.is_average:
            continue
        if have_same_digits(number, other):
            equal.append((number, other))
    if len(equal) >= COLUMNS_OF_A_MODEL:
        for number, other in equal:
            yield _standing(StandingKind.SAME_FIGURES, number, other)
