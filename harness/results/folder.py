"""A results folder as one object, which reads each of its files once, when it is first used.

Records and differences are read from the folder itself. The literature (published
tables) is read from the folder that holds the published tables. The two folders differ
where a run is compared with the tables that come with the harness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.core.arrays import Float
from harness.core.toml import read_typed
from harness.registry import Registry, load_registry, matches
from harness.results.differences import Differences, read_differences
from harness.results.index import Results
from harness.results.layout import REHEARSAL, is_packaged, papers_of, reading_order
from harness.results.published import PublishedNumber, Table
from harness.results.published_tables import (
    load_tables,
    published_number,
    published_table,
)
from harness.results.records import Cell, CellName
from harness.results.reproduction import (
    Rehearsal,
    Reproduction,
    reproductions,
    stale_cells,
)
from harness.results.store import Store


class ResultsFolder:
    """The content of a results folder; each file is read at most once, when it is first used.

    Args:
        path: The folder.
        registry: Methods and tasks; by default those that come with the harness.
        papers: The folder of the published tables; by default `papers` of the results
            folder, or the tables that come with the harness where it has none.
        folders: The folders whose records are read, by default the `reading_order` of
            the folder. The records of a method on a task, of all seeds, are read from
            the first folder that has one.
    """

    def __init__(
        self,
        path: Path,
        registry: Registry | None = None,
        papers: Path | None = None,
        *,
        folders: Sequence[Path] | None = None,
    ) -> None:
        self.path = path
        self.registry = registry or load_registry()
        self.folders = tuple(reading_order(path) if folders is None else folders)
        self.papers = papers or papers_of(path)
        self.store = Store(path)
        self._reproductions: dict[str, Mapping[str, Reproduction]] = {}
        self._records_of_methods: dict[tuple[str, ...], Results] = {}

    # Records

    @cached_property
    def records(self) -> Results:
        """The records of all folders, a cell from the first folder that has it."""
        return self._read(())

    def records_of_methods(self, methods: Sequence[str]) -> Results:
        """The records of some methods, by ids and globs; the files of others are not opened."""
        if "records" in vars(self) or not methods:
            return self.records.select(
                cell
                for cell in self.records.by_cell
                if not methods or matches(cell[0], methods)
            )
        names = tuple(methods)
        if names not in self._records_of_methods:
            self._records_of_methods[names] = self._read(names)
        return self._records_of_methods[names]

    @property
    def measured_methods(self) -> Collection[str]:
        """The methods that have records, whose files need not be opened for it."""
        if "records" in vars(self):
            return self.records.methods
        return {name for path in self.folders for name in Store(path).methods()}

    def _read(self, methods: Sequence[str]) -> Results:
        """The records of these methods; none are all."""
        results = Results.read(*map(Store, self.folders), methods=methods)
        packaged = frozenset[str]()
        if len(self.folders) > 1:  # what one folder holds is shown as its own
            own_folders = [path for path in self.folders if not is_packaged(path)]
            packaged = frozenset(results.methods) - {
                method
                for (method, _), path in results.folders.items()
                if path in own_folders
            }
        stale = stale_cells(results, self.registry)
        return replace(results, packaged=packaged, stale=stale)

    def is_packaged(self, method: str, task: str) -> bool:
        """Whether the records of a cell are among those that come with the harness."""
        folder = self.records.folders.get((method, task))
        return folder is not None and is_packaged(folder)

    def similarities(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The similarities of a cell's pairs, from the folder of its record; None without any."""
        if not any(Store(path).has_cosines(cell) for path in self.folders):
            return None
        records = self.records_of_methods([cell.method])
        folder = records.folders.get((cell.method, cell.task))
        return None if folder is None else Store(folder).cosines(cell)

    # Published tables, against the records

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The published tables."""
        return load_tables(self.papers, self.registry)

    def table(self, name: str) -> Table:
        """The published table of that id. Raises UsageError, which offers the nearest ones."""
        return published_table(name, self.tables)

    def published_number(self, name: str) -> PublishedNumber:
        """The number TABLE/ROW/COLUMN. Raises UsageError, which offers the nearest ones."""
        return published_number(name, self.tables)

    @cached_property
    def rehearsal(self) -> Rehearsal | None:
        """What the last rehearsal of the published cells could run; None where there was none."""
        path = self.papers.parent / REHEARSAL
        return read_typed(Rehearsal, path) if path.exists() else None

    def reproductions(self, table: Table) -> Mapping[str, Reproduction]:
        """Every number of a published table against the records, by its id."""
        if table.id not in self._reproductions:
            self._reproductions[table.id] = reproductions(
                table, self.records, self.registry
            )
        return self._reproductions[table.id]

    def records_of_table(self, table: Table) -> Results:
        """The records that the numbers of a published table are compared with."""
        cells: list[CellName] = []
        for published in table.numbers:
            cells += published.measured_cells
        return self.records.select(cells)

    @cached_property
    def all_reproductions(self) -> tuple[Reproduction, ...]:
        """Every published number against the records."""
        cells: list[Reproduction] = []
        for table in self.tables:
            cells += self.reproductions(table).values()
        return tuple(cells)

    @cached_property
    def differences(self) -> Differences:
        """The stored differences of methods, which claims and ties of tables rest on."""
        return read_differences(self.path)
