"""Whose numbers are these: the published rows that print a reader's numbers.

The numbers are typed, or read from a model's card, a result file of mteb or a CSV file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.results.card_statements import statements_of_file
from harness.results.cards import parse_metric, parse_points
from harness.results.numbers import (
    PublishedRow,
    columns_and_numbers,
    equal_as_printed,
    points_and_decimals,
    published_rows,
)
from harness.results.published import PublishedCell
from harness.results.published_tables import plain_name

SHARE_OF_AN_OWNER = 2 / 3  # of the reader's numbers that a row has to print
TEST_SPLITS = ("", "test")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number of a reader, whose model is not known.

    Attributes:
        column: The name of its task or column, as `plain_name` has it.
        points: The number in points.
        decimals: The decimals of a point that are given.
    """

    column: str
    points: float
    decimals: int


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A published row that prints most of a reader's numbers.

    Attributes:
        row: The row.
        equal: The columns in which it prints them.
        misfits: The columns in which it prints others, or none.
    """

    row: PublishedRow
    equal: tuple[str, ...]
    misfits: tuple[str, ...]


def read_figures(text: str) -> tuple[Figure, ...]:
    """A reader's numbers from `sts12=72.37,sts13=80.60`, or from the file of that name.

    Raises:
        UsageError: The text is no such list, or two of its columns are the same.
        DataError: The file has no such numbers.
    """
    path = Path(text)
    if "=" not in text and path.is_file():
        figures = _figures_of_file(path)
        if not figures:
            raise DataError(
                f"{path}: wanted the Spearman correlations of a card, a result file of mteb, or "
                "a CSV file with names of tasks above numbers; found none"
            )
        return figures
    figures = tuple(
        _figure(column, number) for column, number in columns_and_numbers(text)
    )
    columns = [figure.column for figure in figures]
    if len(set(columns)) < len(columns):
        raise UsageError(f"--mine {text}: wanted one number a column, found two")
    return figures


def _figure(column: str, text: str) -> Figure:
    """A typed number. Raises UsageError for a text that is none."""
    points, decimals, _ = points_and_decimals(text, may_be_fraction=True)
    return Figure(column=plain_name(column), points=points, decimals=decimals)


def _figures_of_file(path: Path) -> tuple[Figure, ...]:
    """The numbers of a card, a result file of mteb or a CSV file, the first of each task."""
    figures: dict[str, Figure] = {}
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            for column, number in next(csv.DictReader(file), {}).items():
                if column and number and parse_points(number):
                    figure = _figure(column, number)
                    figures.setdefault(figure.column, figure)
        return tuple(figures.values())
    for statement in statements_of_file(path):
        is_cosine = parse_metric(statement.metric) == ("cosine", "spearman")
        readings = parse_points(statement.value)
        if is_cosine and readings and statement.split in TEST_SPLITS:
            column = plain_name(statement.data_set.removeprefix("MTEB "))
            figure = Figure(
                column=column,
                points=float(readings[0]),
                decimals=len(readings[0].partition(".")[2]),
            )
            figures.setdefault(column, figure)
    return tuple(figures.values())


def owners_of(
    figures: Sequence[Figure], published_numbers: Iterable[PublishedCell]
) -> list[Owner]:
    """The rows that print two thirds of the numbers or more, those that print most first."""
    owners = []
    for row in published_rows(published_numbers):
        if not row.first.is_of_one_run:
            continue
        numbers = {
            plain_name(number.column.id): number for number in row.numbers.values()
        }
        equal = [figure.column for figure in figures if _is_printed(figure, numbers)]
        if equal and len(equal) >= SHARE_OF_AN_OWNER * len(figures):
            misfits = [each.column for each in figures if each.column not in equal]
            owners.append(Owner(row=row, equal=tuple(equal), misfits=tuple(misfits)))
    return sorted(owners, key=lambda owner: -len(owner.equal))


def _is_printed(figure: Figure, numbers: Mapping[str, PublishedCell]) -> bool:
    """Whether one of a row's numbers, by their columns, is the reader's."""
    number = numbers.get(figure.column)
    return number is not None and equal_as_printed(
        figure.points, figure.decimals, number
    )
