"""A results folder as one object, which reads each of its files once, when it is first used.

Records, intervals and comparisons are read from the folder itself. The literature
(published tables, questions, references) is read from the folder that holds the
published tables. The two folders differ where a run is compared with the tables that
come with the harness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.core.arrays import Float
from harness.core.toml import read_rows, read_typed
from harness.registry import Registry, load_registry
from harness.results import conformance
from harness.results.causes import Causes, read_causes
from harness.results.claims import ClaimResult, Claims, claim_result, read_claims
from harness.results.diagnosis import Diagnosis, diagnose, with_effects
from harness.results.differences import (
    Differences,
    Floors,
    read_differences,
    read_floors,
)
from harness.results.effects import ACCIDENTS, Effect, measured_effects, measured_scores
from harness.results.encoder_sizes import EncoderSize, sizes_of_encoders
from harness.results.explain import Explanation, explain, protocol_of_task
from harness.results.index import CellName, Results
from harness.results.layout import (
    QUESTIONS,
    REHEARSAL,
    is_packaged,
    papers_of,
    reading_order,
)
from harness.results.numbers import (
    PublishedRow,
    ReportedNumber,
    published_numbers,
    published_rows,
    reported_numbers,
)
from harness.results.published import PublishedNumber, Table
from harness.results.published_tables import (
    load_tables,
    published_number,
    published_table,
)
from harness.results.records import Cell
from harness.results.reproduction import (
    Rehearsal,
    Reproduction,
    reproductions,
    stale_cells,
)
from harness.results.searches import Search, read_searches
from harness.results.standings import Standings, standings_of
from harness.results.store import Store
from harness.results.threads import Thread, read_threads
from harness.results.traps import Trap

# The reader's numbers for which the effects of other choices are looked at, which takes
# longer than all else.
NUMBERS_WITH_EFFECTS = 2


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
        self.questions = self.papers.parent / QUESTIONS
        self.store = Store(path)
        self._reproductions: dict[str, Mapping[str, Reproduction]] = {}

    def reopen(self, path: Path) -> ResultsFolder:
        """A folder whose files are read anew, with the published tables of this one."""
        return ResultsFolder(path, self.registry, self.papers)

    # Records

    @cached_property
    def records(self) -> Results:
        """The records of all folders, a cell from the first folder that has it."""
        results = Results.read(*map(Store, self.folders))
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

    def records_of(self, folder: Path) -> Results:
        """The records that are read from one of the folders."""
        folders = self.records.folders
        return self.records.select(
            cell for cell in self.records.by_cell if folders[cell] == folder
        )

    def is_packaged(self, method: str, task: str) -> bool:
        """Whether the records of a cell are among those that come with the harness."""
        folder = self.records.folders.get((method, task))
        return folder is not None and is_packaged(folder)

    def similarities(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The similarities of a cell's pairs, from the folder of its record; None without any."""
        folder = self.records.folders.get((cell.method, cell.task))
        return None if folder is None else Store(folder).cosines(cell)

    # What people wrote: published tables, claims, references, questions of pages

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
    def claims(self) -> Claims | None:
        """The claims of the papers; None where none are written."""
        path = self.questions / "claims.toml"
        return read_claims(path, self.tables) if path.exists() else None

    @cached_property
    def references(self) -> tuple[conformance.Reference, ...]:
        """The scores that other programs gave, by file name."""
        return conformance.read_references(self.papers.parent)

    @cached_property
    def trials(self) -> conformance.Trials:
        """The trainings that were measured here for references, by command."""
        return conformance.read_trials(self.papers.parent)

    @cached_property
    def causes(self) -> Causes:
        """The curated causes of different numbers."""
        return read_causes(self.questions / "causes.toml")

    @cached_property
    def threads(self) -> Sequence[Thread]:
        """Public threads of people who could not reproduce a number."""
        return read_threads(self.questions / "threads.toml")

    @cached_property
    def searches(self) -> tuple[Search, ...]:
        """The searches for hyper-parameters, by file name."""
        return read_searches(self.questions / "searches")

    @cached_property
    def traps(self) -> Sequence[Trap]:
        """What papers have confused."""
        path = self.questions / "traps.toml"
        return read_rows(Trap, path, "trap") if path.exists() else ()

    @cached_property
    def rehearsal(self) -> Rehearsal | None:
        """What the last rehearsal of the published cells could run; None where there was none."""
        path = self.papers.parent / REHEARSAL
        return read_typed(Rehearsal, path) if path.exists() else None

    # Published numbers and claims against the records

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

    @cached_property
    def floors(self) -> Floors:
        """The scores of flows with another floor of narrow coordinates."""
        return read_floors(self.path)

    @cached_property
    def claim_results(self) -> tuple[ClaimResult, ...]:
        """Every claim, tested; none where none are written."""
        if self.claims is None:
            return ()
        return tuple(
            claim_result(
                claim, self.records, self.registry, self.differences, self.floors
            )
            for claim in self.claims.resolved
        )

    @cached_property
    def encoder_sizes(self) -> Mapping[str, EncoderSize]:
        """The size of every measured encoder against the papers' encoders."""
        return sizes_of_encoders(self.records, self.registry)

    @cached_property
    def compared_references(
        self,
    ) -> Sequence[tuple[conformance.Reference, Sequence[conformance.ReferenceScore]]]:
        """The scores of each reference with ours."""
        return tuple(
            (
                reference,
                conformance.compare_reference(
                    reference, self.records, self.trials, self.registry
                ),
            )
            for reference in self.references
        )

    @cached_property
    def confirmations(self) -> conformance.Confirmations:
        """The procedures that references confirm."""
        scores = [score for _, scores in self.compared_references for score in scores]
        return conformance.find_confirmations(scores, self.records, self.registry)

    def explain(self, name: str) -> Explanation:
        """A published number, and the effects of other choices on its score.

        Args:
            name: `TABLE/ROW/COLUMN`.

        Raises:
            UsageError: There is no such number.
        """
        return explain(
            self.published_number(name),
            self.records,
            self.registry,
            self.confirmations,
            self.traps,
        )

    def diagnose(self, place: str, mine: str) -> Diagnosis:
        """Why a reader's numbers differ from the numbers of a published row.

        The effects that were measured here are looked at only if nothing surer explains
        the difference, and for the two largest differences alone, since they take long
        to compute.

        Args:
            place: `TABLE/ROW/COLUMN`, or `TABLE/ROW` for numbers of several columns.
            mine: `47.29`, or `sts12=45.09,sts13=64.30`.

        Raises:
            UsageError: There is no such row or column, or `mine` has no such numbers.
        """
        numbers, unknown_columns = reported_numbers(place, mine, self.tables)
        diagnosis = diagnose(numbers, self.published_rows, self.causes, unknown_columns)
        if diagnosis.is_sure:
            return diagnosis
        largest_first = sorted(numbers, key=lambda number: -abs(number.gap))
        effects = [
            (number, self._effects_of_accidents(number))
            for number in largest_first[:NUMBERS_WITH_EFFECTS]
        ]
        return with_effects(diagnosis, effects)

    def _effects_of_accidents(self, number: ReportedNumber) -> Sequence[Effect]:
        """The effects of accidental choices on the protocol of a reader's number."""
        protocol = protocol_of_task(number.published)
        if protocol is None:
            return ()
        scores = measured_scores(self.records, self.registry, protocol)
        return measured_effects(protocol, scores, self.registry, choices=ACCIDENTS)

    @cached_property
    def published_numbers(self) -> Mapping[str, PublishedNumber]:
        """Every published score, by id."""
        return published_numbers(self.tables)

    @cached_property
    def published_rows(self) -> Sequence[PublishedRow]:
        """The published scores by row, metric and split."""
        return published_rows(self.published_numbers.values())

    @cached_property
    def standings(self) -> Standings:
        """What published numbers say of each other, by id."""
        return standings_of(self.published_numbers.values(), self.published_rows)
