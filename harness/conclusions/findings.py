"""What measuring found out about published numbers: misprints, and protocols.

A misprint is told by its neighbours: the other numbers of its row are measured as they
are printed, and it is not. That of a quotation is told by the number that it quotes, if
this one is measured to the digit. A protocol is found by measuring if one choice gives all
printed digits of a row, and the choice that its paper states does not; such rows have the
evidence `measured`. Who quotes a misprint, and which averages inherit it, follows from
the published numbers alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.conclusions.standings import StandingKind, Standings
from harness.results.published import PublishedNumber, Row, Table
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

MEASURED = "measured"  # the evidence of a row whose protocol was found by measuring
# Verdicts of a number that is measured as it is printed, but for rounding.
AS_PRINTED = frozenset({CellState.EXACT, CellState.MATCH})


@dataclass(frozen=True, kw_only=True)
class Misprint:
    """A published number in whose place something else is printed.

    Attributes:
        reproduction: The number, and what was measured for it.
        neighbours: The other numbers of its row that are no average and were measured.
        quoted_by: The numbers of other tables that quote it.
        source: The number that it quotes, and what was measured for that one; None
            where it quotes none.
        averages: The averages of its row, and of the rows that quote it, that are the
            mean of columns with the misprint.
    """

    reproduction: Reproduction
    neighbours: Sequence[Reproduction]
    quoted_by: Sequence[PublishedNumber]
    averages: Sequence[PublishedNumber]
    source: Reproduction | None = None

    @property
    def number(self) -> PublishedNumber:
        """The published number."""
        return self.reproduction.number

    @property
    def neighbours_as_printed(self) -> int:
        """How many neighbours are measured as they are printed."""
        return sum(each.state in AS_PRINTED for each in self.neighbours)

    @property
    def is_measured(self) -> bool:
        """Whether it was measured, and what is printed in its place is wrong."""
        if self.source is not None and self.source.state is CellState.EXACT:
            return self.reproduction.state is not CellState.EXACT
        return (
            bool(self.reproduction.scores)
            and self.reproduction.state not in AS_PRINTED
            and self.neighbours_as_printed == len(self.neighbours) > 0
        )


def misprints_of(
    tables: Iterable[Table],
    reproductions: Mapping[str, Reproduction],
    standings: Standings,
) -> tuple[Misprint, ...]:
    """Every misprint of the tables, in their order; quotations stand with what they quote.

    Args:
        tables: The published tables.
        reproductions: The numbers against the records, by their ids.
        standings: What published numbers say of each other, by their ids.
    """
    numbers_by_row: dict[str, list[PublishedNumber]] = defaultdict(list)
    for table in tables:
        for number in table.numbers:
            numbers_by_row[number.row_id].append(number)
    numbers = [number for row in numbers_by_row.values() for number in row]
    quoting: dict[str, list[PublishedNumber]] = defaultdict(list)
    for number in numbers:
        for standing in standings.get(number.id, ()):
            is_equal = number.points == standing.other.points
            if standing.kind is StandingKind.QUOTED and is_equal:
                quoting[standing.other.id].append(number)
    misprints = []
    quotations = {
        quotation.id
        for number in numbers
        if number.is_misprint
        for quotation in quoting[number.id]
    }
    for number in numbers:
        if not number.is_misprint or number.id in quotations:
            continue
        row = numbers_by_row[number.row_id]
        neighbours = [
            reproductions[other.id]
            for other in row
            if not (other.is_misprint or other.is_average)
        ]
        inheriting = []
        for holder in (number, *quoting[number.id]):
            inheriting += averages_with(holder, numbers_by_row[holder.row_id])
        misprints.append(
            Misprint(
                reproduction=reproductions[number.id],
                neighbours=[each for each in neighbours if each.scores],
                quoted_by=tuple(quoting[number.id]),
                averages=tuple(inheriting),
                source=_source_of(
                    number, row, numbers_by_row, reproductions, standings
                ),
            )
        )
    return tuple(misprints)


def _source_of(
    number: PublishedNumber,
    row: Sequence[PublishedNumber],
    numbers_by_row: Mapping[str, Sequence[PublishedNumber]],
    reproductions: Mapping[str, Reproduction],
    standings: Standings,
) -> Reproduction | None:
    """The number of the same data set in the row that the neighbours are quoted from."""
    for neighbour in row:
        for standing in standings.get(neighbour.id, ()):
            if standing.kind is not StandingKind.QUOTED:
                continue
            for other in numbers_by_row[standing.other.row_id]:
                if other.data_sets == number.data_sets and not other.is_average:
                    return reproductions[other.id]
    return None


def averages_with(
    number: PublishedNumber, row: Sequence[PublishedNumber]
) -> list[PublishedNumber]:
    """The printed averages of a row that are the mean of columns with this number."""
    points = {other.column.id: other.points for other in row}
    averages = []
    for average in row:
        columns = average.column.average_of
        printed = [points.get(column) for column in columns]
        if number.column.id not in columns or average.points is None:
            continue
        summands = [point for point in printed if point is not None]
        if len(summands) < len(columns):
            continue
        # The mean is rounded, and so is the average.
        if abs(fmean(summands) - average.points) <= 1.01 * average.half_unit:
            averages.append(average)
    return averages


@dataclass(frozen=True, kw_only=True)
class FoundProtocol:
    """A row whose protocol was found by measuring.

    Attributes:
        table: Its table.
        row: The row.
        reproductions: Its numbers that were measured, averages and misprints left out.
    """

    table: Table
    row: Row
    reproductions: Sequence[Reproduction]

    @property
    def as_printed(self) -> int:
        """How many of its numbers are measured as they are printed."""
        return sum(each.state in AS_PRINTED for each in self.reproductions)


def found_protocols(
    tables: Iterable[Table], reproductions: Mapping[str, Reproduction]
) -> tuple[FoundProtocol, ...]:
    """Every row with the evidence `measured` that is no quotation, in the order of the tables."""
    found = []
    for table in tables:
        for row in table.rows:
            if row.quoted or (row.evidence or table.evidence) != MEASURED:
                continue
            numbers = [
                reproductions[number.id]
                for number in table.numbers
                if number.row is row
                and not number.is_average
                and not number.is_misprint
            ]
            measured = [each for each in numbers if each.scores]
            found.append(FoundProtocol(table=table, row=row, reproductions=measured))
    return tuple(found)
