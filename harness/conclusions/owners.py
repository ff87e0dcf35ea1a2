"""Whose numbers are these: the published rows that print a reader's numbers.

The numbers are typed, or read from a model's card, a result file of mteb or a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.conclusions.card_statements import FORMS_OF_NUMBERS, statements_of_file
from harness.conclusions.cards import parse_metric
from harness.conclusions.numbers import COLUMNS_OF_A_MODEL, Figure, columns_and_numbers
from harness.core.errors import DataError, UsageError
from harness.results.published import PublishedNumber
from harness.results.published_tables import plain_name
from harness.results.verdict import Agreement, readings_in_points

SHARE_OF_AN_OWNER = 2 / 3  # of the reader's numbers that a row has to print
TEST_SPLITS = ("", "test")

# A reader's numbers, whose model is not known, by the plain names of their columns.
Figures = Mapping[str, Figure]


@dataclass(frozen=True)
class Owner:
    """A published row that prints most of a reader's numbers.

    Attributes:
        first: The first number of the row.
        equal: The columns in which it prints them.
        near: The columns in which it prints them to rounding.
        misfits: The columns in which it prints others, or none.
    """

    first: PublishedNumber
    equal: tuple[str, ...]
    near: tuple[str, ...]
    misfits: tuple[str, ...]


def read_figures(text: str) -> Figures:
    """A reader's numbers from `sts12=72.37,sts13=80.60`, or from the file of that name.

    Raises:
        UsageError: The text is no such list, or two of its columns are the same.
        DataError: The file has no such numbers.
    """
    path = Path(text)
    figures: dict[str, Figure] = {}
    if "=" not in text and path.is_file():
        for column, figure in _figures_of_file(path):
            figures.setdefault(plain_name(column), figure)
        if not figures:
            raise DataError(
                f"{path}: wanted Spearman correlations in {FORMS_OF_NUMBERS}; found none"
            )
        return figures
    for column, number in columns_and_numbers(text):
        if plain_name(column) in figures:
            raise UsageError(f"--mine {text}: wanted one number a column, found two")
        figures[plain_name(column)] = Figure.parse(number)
    return figures


def _figures_of_file(path: Path) -> Iterator[tuple[str, Figure]]:
    """The columns and numbers of the test sets that a file states."""
    for statement in statements_of_file(path):
        is_cosine = parse_metric(statement.metric) == ("cosine", "spearman")
        readings = readings_in_points(statement.value)
        if is_cosine and readings and statement.split in TEST_SPLITS:
            figure = Figure(given=readings[0], is_fraction=len(readings) > 1)
            yield statement.data_set.removeprefix("MTEB "), figure


def owners_of(
    figures: Figures, published_numbers: Iterable[PublishedNumber]
) -> list[Owner]:
    """The rows that print two thirds of the numbers or more, those that print most first.

    Numbers that a row prints to rounding count, if it prints three or more in all.
    """
    # The numbers of each row, by the plain names of their columns.
    rows: dict[str, dict[str, PublishedNumber]] = {}
    for number in published_numbers:
        if number.is_of_one_run:
            row = rows.setdefault(number.row_id, {})
            row[plain_name(number.column.id)] = number
    owners = []
    for row in rows.values():
        agreements = {
            column: figure.agreement_with(row[column])
            for column, figure in figures.items()
            if column in row
        }
        equal = tuple(c for c in agreements if agreements[c] is Agreement.SAME)
        near = tuple(c for c in agreements if agreements[c] is Agreement.ROUNDING)
        if len(equal + near) < COLUMNS_OF_A_MODEL:
            near = ()
        misfits = tuple(c for c in figures if c not in equal + near)
        printed = len(equal + near)
        if printed and printed >= SHARE_OF_AN_OWNER * len(figures):
            first = next(iter(row.values()))
            owners.append(Owner(first, equal=equal, near=near, misfits=misfits))
    owners.sort(key=lambda owner: len(owner.equal), reverse=True)
    return sorted(owners, key=lambda owner: len(owner.misfits))
