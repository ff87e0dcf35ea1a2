"""Whose numbers are these: the published rows that print a reader's figures.

One figure is a hint, since many published numbers lie near any other; three tell a model
from all others. Of a row with a misprint the other figures tell the source, and the source
tells the misprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.conclusions.numbers import COLUMNS_OF_A_MODEL, Figure
from harness.conclusions.pasted import PastedRow
from harness.conclusions.wrong_figures import (
    AverageFault,
    WrongFigure,
    average_fault,
    mended_column,
    wrong_figures,
)
from harness.core.errors import UsageError
from harness.results.published import PublishedNumber
from harness.results.published_tables import plain_name
from harness.results.verdict import Agreement, readings_in_points

SHARE_OF_AN_OWNER = 2 / 3  # of the reader's numbers that a row has to print
NEAR = 0.5  # points within which other published numbers of a column are counted

AVERAGE = "avg"
TRANSFER_AVERAGE = "transfer"

# A reader's figures by the plain names of their columns.
Figures = Mapping[str, Figure]


def figures_of(row: PastedRow) -> Figures:
    """The figures of a pasted row, where averages of STS and of transfer tasks are two columns.

    Raises UsageError for a value that is no score.
    """
    readings = [readings_in_points(value) for value in row.values.values()]
    are_fractions = all(len(each) > 1 for each in readings)
    figures: dict[str, Figure] = {}
    for name, value in row.values.items():
        column = plain_name(name)
        if column == AVERAGE and row.is_transfer:
            column = TRANSFER_AVERAGE
        if column in figures:
            raise UsageError("--mine: wanted one number a column, found two")
        figures[column] = Figure.parse(value, may_be_fraction=are_fractions)
    return figures


def column_of(number: PublishedNumber) -> str:
    """The plain name of a published number's column, as `figures_of` has it."""
    column = plain_name(number.column.id)
    is_of_transfer = column == AVERAGE and number.data_sets[0] == "mr"
    return TRANSFER_AVERAGE if is_of_transfer else column


@dataclass(frozen=True)
class Owner:
    """A published row that prints most of a reader's figures.

    Attributes:
        first: The first number of the row.
        equal: The columns in which it prints them.
        near: Those among them in which it prints them to rounding; none of fewer than three.
        wrong: The others, with what happened to each.
        moved: The columns of the row that print the figures, by the reader's columns, where
            all stand in other columns than the reader's; none otherwise.
    """

    first: PublishedNumber
    equal: tuple[str, ...]
    near: tuple[str, ...] = ()
    wrong: tuple[WrongFigure, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()

    @property
    def misfits(self) -> tuple[str, ...]:
        """The columns in which the row prints another number, or none."""
        return tuple(each.column for each in self.wrong)

    @property
    def found(self) -> int:
        """How many figures stand in the row, exchanged and moved ones among them."""
        exchanged = sum(each.is_exchange for each in self.wrong)
        return len(self.equal) + exchanged + len(self.moved)


@dataclass(frozen=True)
class Origin:
    """Where the figures of one row of a reader come from.

    Attributes:
        row: The reader's row.
        figures: Its figures.
        owners: The published rows that print most of them, the likeliest first.
        rest: A row of the same encoder that prints the figures that the first owner does
            not, under another protocol; None if there is none.
        average: What is wrong with the average; None where nothing is, or there is none.
        mended: The column, and the number in it, that would make the average right.
        near: How many published numbers lie within half a point of a single figure.
        nearest: The rows of the reader's table that are nearest to the figures, with the
            mean difference in points, where none prints them; none without a table.
    """

    row: PastedRow
    figures: Figures
    owners: Sequence[Owner]
    rest: Owner | None = None
    average: AverageFault | None = None
    mended: tuple[str, float] | None = None
    near: int = 0
    nearest: Sequence[tuple[str, float]] = ()

    @property
    def is_hint(self) -> bool:
        """Whether too few figures are equal to tell one model from all others."""
        return not self.owners or self.owners[0].found < COLUMNS_OF_A_MODEL


def numbers_by_row(
    numbers: Iterable[PublishedNumber],
) -> Mapping[str, Mapping[str, PublishedNumber]]:
    """The published numbers of one run, by row and column."""
    rows: dict[str, dict[str, PublishedNumber]] = {}
    for number in numbers:
        if number.is_of_one_run:
            rows.setdefault(number.row_id, {})[column_of(number)] = number
    return rows


def origin_of(
    row: PastedRow,
    rows: Mapping[str, Mapping[str, PublishedNumber]],
    *,
    is_of_table: bool = False,
) -> Origin:
    """The published rows that print a reader's row, and what is wrong with it.

    Args:
        row: The reader's row.
        rows: The published numbers, by row and column.
        is_of_table: Whether they are the rows of a table that the reader named, so that
            the nearest are told where none prints the figures.
    """
    figures = figures_of(row)
    owners = owners_of(figures, rows)
    printed = rows[owners[0].first.row_id] if owners else {}
    average, mended = None, None
    columns = averaged_columns(figures)
    for name in (AVERAGE, TRANSFER_AVERAGE):
        if name in figures and columns:
            average = average_fault((name, figures[name]), columns)
    if average is not None:
        mended = mended_column(average, columns, printed)
    rest = None
    near = 0
    if owners and len(owners[0].wrong) > 1 and not owners[0].moved:
        unknown = {each.column: each.given for each in owners[0].wrong if not each.how}
        if len(unknown) > 1:
            rest = _row_of_the_rest(unknown, owners[0], rows)
    if len(figures) == 1:
        [(column, figure)] = figures.items()
        near = sum(
            column in numbers and abs(numbers[column].score - figure.points) <= NEAR
            for numbers in rows.values()
        )
    nearest = _nearest_rows(figures, rows) if is_of_table and not owners else ()
    return Origin(row, figures, owners, rest, average, mended, near, nearest)


NEAREST_SHOWN = 3


def _nearest_rows(
    figures: Figures, rows: Mapping[str, Mapping[str, PublishedNumber]]
) -> Sequence[tuple[str, float]]:
    """The rows with all the columns of the figures that are nearest, and how far they are."""
    distances = []
    for row_id, numbers in rows.items():
        if figures.keys() <= numbers.keys():
            gaps = [
                abs(numbers[column].score - figure.points)
                for column, figure in figures.items()
            ]
            distances.append((row_id, fmean(gaps)))
    return sorted(distances, key=lambda each: each[1])[:NEAREST_SHOWN]


STS_COLUMNS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
TRANSFER_TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")


def averaged_columns(figures: Figures) -> Figures:
    """The columns that the papers average, where all of them are there; none otherwise."""
    for names in (STS_COLUMNS, TRANSFER_TASKS):
        if all(name in figures for name in names):
            return {name: figures[name] for name in names}
    return {}


def owners_of(
    figures: Figures, rows: Mapping[str, Mapping[str, PublishedNumber]]
) -> list[Owner]:
    """The rows that print two thirds of the figures or more, those that print most first.

    Figures that a row prints to rounding count, if it prints three or more in all.
    """
    owners = []
    for numbers in rows.values():
        first = next(iter(numbers.values()))
        equal = tuple(
            column
            for column, figure in figures.items()
            if column in numbers and figure.has_digits_of(numbers[column])
        )
        near = tuple(
            column
            for column in equal
            if figures[column].agreement_with(numbers[column]) is Agreement.ROUNDING
        )
        if len(equal) < COLUMNS_OF_A_MODEL:
            equal = tuple(column for column in equal if column not in near)
            near = ()
        owner = None
        if equal and 3 * len(equal) >= len(figures):
            wrong = wrong_figures(figures, numbers)
            owner = Owner(first, equal=equal, near=near, wrong=tuple(wrong))
        if owner is None or owner.found < SHARE_OF_AN_OWNER * len(figures):
            owner = _owner_of_moved(figures, numbers)
        if owner is not None:
            owners.append(owner)

    def order(owner: Owner) -> tuple[int, int, int, bool]:
        """By what a row prints; of rows that print as much, a quotation comes last."""
        exact = len(owner.equal) - len(owner.near)
        return -len(owner.equal), -owner.found, -exact, owner.first.row.quoted

    return sorted(owners, key=order)


def _owner_of_moved(
    figures: Figures, numbers: Mapping[str, PublishedNumber]
) -> Owner | None:
    """A row that prints the figures in other columns, as after a cell that was left out."""
    moved = []
    for column, figure in figures.items():
        places = [
            name for name, number in numbers.items() if figure.has_digits_of(number)
        ]
        if places:
            moved.append((column, places[0]))
    is_most = len(moved) >= SHARE_OF_AN_OWNER * len(figures)
    if len(moved) < COLUMNS_OF_A_MODEL or not is_most:
        return None
    first = next(iter(numbers.values()))
    return Owner(first, equal=(), moved=tuple(moved))


def _row_of_the_rest(
    figures: Figures, owner: Owner, rows: Mapping[str, Mapping[str, PublishedNumber]]
) -> Owner | None:
    """A row of the owner's encoder, under another protocol, that prints these figures."""
    for numbers in rows.values():
        first = next(iter(numbers.values()))
        equal = [
            column
            for column, figure in figures.items()
            if column in numbers and figure.has_digits_of(numbers[column])
        ]
        if len(equal) == len(figures) and first.is_of_encoder(owner.first):
            return Owner(first, equal=tuple(equal))
    return None
