"""Published cells and tables by their names, `TABLE/ROW/COLUMN`, and what is offered for a slip."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.errors import UsageError
from harness.registry import known, nearest
from harness.results.published import PublishedCell, Table


def published_cell(name: str, tables: Sequence[Table]) -> PublishedCell:
    """The cell of that name. Raises UsageError, which looks inside the named table first."""
    of, _, rest = name.partition("/")
    table = published_table(of, tables)
    cells = {cell.id: cell for cell in table.cells()}
    if name in cells:
        return cells[name]
    row, _, column = rest.partition("/")
    own = {cell.column.id: cell.id for cell in cells.values() if cell.row.id == row}
    rows = {cell.row.id for cell in cells.values()}
    near = nearest(column, own) if own else nearest(row, rows) or nearest(name, cells)
    missing = f"it has no row {row!r}" if row else "wanted TABLE/ROW/COLUMN"
    missing = f"row {row!r} has no column {column!r}" if own else missing
    raise UsageError(
        f"unknown published cell {name!r}: {missing}; {near + ' ' if near else ''}"
        f"harness list cells {table.id} shows all"
    )


def published_table(name: str, tables: Sequence[Table]) -> Table:
    """The table of that name. Raises UsageError, which offers the nearest ones."""
    return known("published table", name, {table.id: table for table in tables})
