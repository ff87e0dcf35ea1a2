"""Figures that were copied wrongly: which column of a row, and how.

A person who types or pastes a row exchanges two digits, exchanges two columns, repeats a
neighbour's figure, or leaves an average as it was. Each leaves an arithmetic trace, which
no protocol and no seed does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from harness.conclusions.numbers import Figure
from harness.results.published import PublishedNumber

# Points by which an average may differ from the mean of its rounded columns.
AVERAGE_TOLERANCE = 0.02
# Points by which two columns differ at least where an exchange of them is told from noise.
DISTINCT_COLUMNS = 1.0


@dataclass(frozen=True)
class WrongFigure:
    """A figure that is not the one of its row, and how it came about.

    Attributes:
        column: The column, as the reader names it.
        given: The reader's figure.
        printed: The row's number; None where it has none.
        how: What happened, in words; empty where nothing is recognised.
        with_column: The other column of an exchange or a repetition; empty without one.
        is_exchange: Whether the numbers of two columns are exchanged.
    """

    column: str
    given: Figure
    printed: PublishedNumber | None
    how: str = ""
    with_column: str = ""
    is_exchange: bool = False


def wrong_figures(
    figures: Mapping[str, Figure],
    printed: Mapping[str, PublishedNumber],
    tolerance: float = 0.0,
) -> list[WrongFigure]:
    """Every figure of a reader that a row prints otherwise, with what happened to it.

    Args:
        figures: The reader's figures by column.
        printed: The numbers of the row, by the same names.
        tolerance: Points by which a figure may differ from the number that it is taken for.
    """

    def is_number(figure: Figure, number: PublishedNumber | None) -> bool:
        if number is None:
            return False
        is_near = abs(figure.points - number.score) <= tolerance
        return is_near or figure.has_digits_of(number)

    wrong = {
        column: figure
        for column, figure in figures.items()
        if not is_number(figure, printed.get(column))
    }
    exchanged: dict[str, str] = {}
    for first, second in combinations(wrong, 2):
        numbers = printed.get(first), printed.get(second)
        if numbers[0] is None or numbers[1] is None:
            continue
        is_crossed = is_number(wrong[first], numbers[1]) and is_number(
            wrong[second], numbers[0]
        )
        if is_crossed and abs(numbers[0].score - numbers[1].score) > tolerance:
            exchanged |= {first: second, second: first}
    found = []
    for column, figure in wrong.items():
        number = printed.get(column)
        how, other = "", ""
        if column in exchanged:
            other = exchanged[column]
            names = sorted({printed[column].column.id, printed[other].column.id})
            how = f"{names[0]} and {names[1]} are exchanged"
        elif number is not None:
            how = fault_of_digits(figure.given.value, number.in_points or "")
            others = [
                name
                for name, candidate in printed.items()
                if name != column and figure.has_digits_of(candidate)
            ]
            if not how and others:
                other = others[0]
                how = f"it is the number of {printed[other].column.id}"
        is_exchange = column in exchanged
        found.append(WrongFigure(column, figure, number, how, other, is_exchange))
    return found


def fault_of_digits(given: str, printed: str) -> str:
    """How one writing of a number became another: by its digits, its sign or its scale.

    Both are written with as many decimals as the one that has fewer; what is none of
    these faults is an empty text.
    """
    decimals = min(len(given.partition(".")[2]), len(printed.partition(".")[2]))
    given, printed = (
        f"{float(text):.{decimals}f}"
        if len(text.partition(".")[2]) > decimals
        else text
        for text in (given, printed)
    )
    if given != printed and given.lstrip("-") == printed.lstrip("-"):
        return "the sign is another"
    if given.replace(".", "").strip("0") == printed.replace(".", "").strip("0"):
        return "the decimal point is elsewhere"
    width = max(len(given), len(printed))  # a zero before the others is not written
    given, printed = given.zfill(width), printed.zfill(width)
    places = [
        place
        for place, (first, second) in enumerate(zip(given, printed, strict=True))
        if first != second
    ]
    if len(places) == 1:
        return "one digit is another"
    is_exchange = len(places) == 2 and sorted(given) == sorted(printed)
    return "two digits are exchanged" if is_exchange else ""


# Averages


@dataclass(frozen=True)
class AverageFault:
    """An average that is not the mean of the reader's own columns.

    Attributes:
        column: The column of the average.
        average: The reader's average.
        mean: The mean of the columns.
        mending: For each column alone, the number with which the average would be right.
    """

    column: str
    average: float
    mean: float
    mending: Mapping[str, float]


def average_fault(
    average: tuple[str, Figure], columns: Mapping[str, Figure]
) -> AverageFault | None:
    """The average that is not the mean of these columns; None where it is their mean."""
    name, figure = average
    mean = fmean(column.points for column in columns.values())
    rounding = max(each.given.half_unit for each in (figure, *columns.values()))
    difference = figure.points - mean
    if abs(difference) <= max(AVERAGE_TOLERANCE, 2 * rounding):
        return None
    mending = {}
    for column, value in columns.items():
        mended = value.points + len(columns) * difference
        if 0 < mended <= 100:
            mending[column] = mended
    return AverageFault(name, figure.points, mean, mending)


def mended_column(
    fault: AverageFault,
    columns: Mapping[str, Figure],
    printed: Mapping[str, PublishedNumber],
) -> tuple[str, float] | None:
    """The only column that alone makes the average right, with the number that does.

    The number is that of the row, or has the reader's digits with two of them exchanged.
    """
    slack = len(columns) * 0.01  # what the rounding of an average leaves of one column
    of_row, of_digits = [], []
    for column, mended in fault.mending.items():
        number = printed.get(column)
        if number is not None and abs(number.score - mended) <= slack:
            of_row.append((column, mended))
        if _has_exchanged_digits(columns[column], mended, slack):
            of_digits.append((column, mended))
    candidates = of_row or of_digits
    return candidates[0] if len(candidates) == 1 else None


def _has_exchanged_digits(figure: Figure, mended: float, slack: float) -> bool:
    """Whether two digits of a figure, exchanged, make about another number."""
    text = figure.given.value
    places: Sequence[int] = [place for place, sign in enumerate(text) if sign.isdigit()]
    for first, second in combinations(places, 2):
        digits = list(text)
        digits[first], digits[second] = digits[second], digits[first]
        other = "".join(digits)
        if other != text and abs(float(other) - mended) <= slack:
            return True
    return False
