"""The page of findings: misprints that were measured, and protocols that measuring found."""

from __future__ import annotations

from collections.abc import Sequence

from harness.conclusions.findings import FoundProtocol, Misprint
from harness.conclusions.folder import Conclusions
from harness.report.papers import measured_cell
from harness.report.sentences import command_to_measure
from harness.report.table import ShownCell, ShownTable, rendered, row_of, table_of
from harness.results.published import PublishedNumber
from harness.results.records import CellName
from harness.results.reproduction import Reproduction


def findings_page(folder: Conclusions) -> str:
    """Every misprint with its neighbours, and every protocol that was found by measuring."""
    misprints, protocols = folder.misprints, folder.found_protocols
    if not misprints and not protocols:
        return ""
    cells: list[CellName] = []
    for misprint in misprints:
        for each in (misprint.reproduction, *misprint.neighbours):
            cells += each.number.measured_cells
    for found in protocols:
        for each in found.reproductions:
            cells += each.number.measured_cells
    return rendered(
        "findings.md",
        title="Findings",
        misprints=[
            (misprint, _table_of_misprint(misprint), _averages(misprint, folder))
            for misprint in misprints
        ],
        protocols=[(found, _table(found.reproductions)) for found in protocols],
        command_of=lambda number: command_to_measure(number, folder.registry),
        command_of_row=lambda found: _command_of_row(found, folder),
        digest=folder.records.select(cells).digest,
    )


def _table(reproductions: Sequence[Reproduction]) -> ShownTable | None:
    """A line of printed numbers above one of measured ones; None without any."""
    if not reproductions:
        return None
    head = ["", *(each.number.column.label for each in reproductions)]
    printed = [ShownCell(each.number.shown) for each in reproductions]
    measured = [measured_cell(each) for each in reproductions]
    rows = [
        row_of(["printed", *printed], "published"),
        row_of(["measured", *measured], "measured"),
    ]
    return table_of(head, rows)


def _table_of_misprint(misprint: Misprint) -> ShownTable | None:
    """The row of a misprint in the order of its columns."""
    of_row = {each.number.id: each for each in misprint.neighbours}
    of_row[misprint.number.id] = misprint.reproduction
    in_order = [
        of_row[number.id]
        for number in misprint.number.table.numbers
        if number.id in of_row
    ]
    return _table(in_order)


def _averages(
    misprint: Misprint, folder: Conclusions
) -> list[tuple[PublishedNumber, str]]:
    """Each average that inherits a misprint, with the one that was measured; empty without."""
    return [
        (average, folder.reproductions(average.table)[average.id].shown)
        for average in misprint.averages
    ]


def _command_of_row(found: FoundProtocol, folder: Conclusions) -> str:
    """The command that measures all numbers of a row."""
    tasks = [task for each in found.reproductions for task in each.number.tasks]
    if not tasks:
        return ""
    first = found.reproductions[0].number
    command = command_to_measure(first, folder.registry)
    return f"{command.rpartition(' -t ')[0]} -t {' '.join(dict.fromkeys(tasks))}"
