"""A results folder, and what its numbers say together: a results folder as pages show it.

What people wrote about numbers (claims, causes, threads, traps, references) is read from
the folder that holds the published tables, each file once, when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.conclusions import conformance
from harness.conclusions.atlas import Atlas, GeometryPoint, atlases_of, geometry_of
from harness.conclusions.causes import Causes, read_causes
from harness.conclusions.claims import ClaimResult, Claims, claim_result, read_claims
from harness.conclusions.diagnosis import Diagnosis, diagnose, with_effects
from harness.conclusions.effects import EffectsOfAccidents
from harness.conclusions.encoder_sizes import EncoderSize, in_groups, sizes_of_encoders
from harness.conclusions.explain import Explanation, explain, protocol_of_task
from harness.conclusions.findings import (
    FoundProtocol,
    Misprint,
    found_protocols,
    misprints_of,
)
from harness.conclusions.measured_rows import measured_readings
from harness.conclusions.noise import Leads, Spreads, leads_of
from harness.conclusions.numbers import (
    Neighbourhoods,
    PublishedRow,
    ReportedNumber,
    published_numbers,
    published_rows,
    reported_numbers,
    row_and_column,
)
from harness.conclusions.owners import (
    AVERAGE,
    Origin,
    column_of,
    numbers_by_row,
    origin_of,
)
from harness.conclusions.pasted import read_pasted, values_of_row
from harness.conclusions.standings import Standings, standings_of
from harness.conclusions.threads import Thread, read_threads
from harness.conclusions.training_data import TrainingData, read_training_data
from harness.conclusions.traps import Trap
from harness.core.arrays import Float
from harness.core.hardware import base_name
from harness.core.toml import read_rows
from harness.registry import look_up
from harness.results.differences import Floors, read_floors
from harness.results.folder import ResultsFolder
from harness.results.index import Results, encoder_of_method
from harness.results.layout import QUESTIONS
from harness.results.published import PublishedNumber
from harness.results.records import Cell
from harness.results.reproduction import Reproduction

# The reader's numbers for which the effects of other choices are looked at, which takes
# longer than all else. A choice has to fit all of them, since some choice fits any one.
NUMBERS_WITH_EFFECTS = 2


class Conclusions(ResultsFolder):
    """A results folder with what is concluded from its numbers, when it is first asked for.

    The arguments are those of `ResultsFolder`.
    """

    def reopen(self, path: Path) -> Conclusions:
        """A folder whose files are read anew, with the published tables of this one."""
        return Conclusions(path, self.registry, self.papers)

    @property
    def questions(self) -> Path:
        """The folder of what people wrote about numbers."""
        return self.papers.parent / QUESTIONS

    # What people wrote: claims, references, causes

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
    def traps(self) -> Sequence[Trap]:
        """What papers have confused."""
        path = self.questions / "traps.toml"
        return read_rows(Trap, path, "trap") if path.exists() else ()

    @cached_property
    def training_data(self) -> TrainingData:
        """The tasks that models of published tables were trained on."""
        return read_training_data(self.questions / "training_data.toml")

    # Published numbers among each other

    @cached_property
    def published_numbers(self) -> Mapping[str, PublishedNumber]:
        """Every published score, by id."""
        return published_numbers(self.tables)

    @cached_property
    def published_rows(self) -> Sequence[PublishedRow]:
        """The published scores by row, metric and split."""
        return published_rows(self.published_numbers.values())

    @cached_property
    def neighbourhoods(self) -> Neighbourhoods:
        """The published scores, in which those that differ in one choice are looked for."""
        return Neighbourhoods(self.published_numbers.values())

    @cached_property
    def numbers_by_row(self) -> Mapping[str, Mapping[str, PublishedNumber]]:
        """The published scores of one run, by row and the plain name of the column."""
        return numbers_by_row(self.published_numbers.values())

    @cached_property
    def published_columns(self) -> frozenset[str]:
        """The plain names of all columns with published scores, and what else they are called."""
        columns = {
            column_of(number): number for number in self.published_numbers.values()
        }
        return frozenset({*columns, AVERAGE})

    @cached_property
    def standings(self) -> Standings:
        """What published numbers say of each other, by id."""
        return standings_of(self.published_numbers.values(), self.published_rows)

    @cached_property
    def spreads(self) -> Spreads:
        """The published spreads over seeds."""
        return Spreads(self.published_numbers.values())

    @cached_property
    def leads(self) -> Leads:
        """The best number of each column, backbone and supervision, against the runner-up."""
        return leads_of(
            self.published_numbers.values(), self.spreads, self.similarities_of
        )

    def similarities_of(self, method: str, task: str) -> Float[np.ndarray, " P"] | None:
        """The similarities of a method's pairs on a task, under seed 0; None without any."""
        return self.similarities(Cell(method, task, 0))

    # Claims and references against the records

    @cached_property
    def reproductions_by_id(self) -> Mapping[str, Reproduction]:
        """Every published number against the records, by its id."""
        return {each.number.id: each for each in self.all_reproductions}

    @cached_property
    def misprints(self) -> tuple[Misprint, ...]:
        """The published numbers in whose place something else is printed."""
        return misprints_of(self.tables, self.reproductions_by_id, self.standings)

    @cached_property
    def found_protocols(self) -> tuple[FoundProtocol, ...]:
        """The rows whose protocol was found by measuring."""
        return found_protocols(self.tables, self.reproductions_by_id)

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
    def atlases(self) -> tuple[Atlas, ...]:
        """The atlas of each encoder with scores over layers or k, the largest models first."""
        by_name = {atlas.encoder: atlas for atlas in atlases_of(self.records)}
        groups = in_groups(by_name, self.encoder_sizes)
        return tuple(by_name[name] for names in groups.values() for name in names)

    @cached_property
    def geometry(self) -> Sequence[GeometryPoint]:
        """Alignment and uniformity of every method on STS-B, the best score first."""
        return geometry_of(self.records)

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

    # Whose numbers a reader has

    def origins(self, mine: str, table: str = "") -> Sequence[Origin]:
        """The published rows that print the figures of each row of a reader's text.

        Args:
            mine: A text or the name of a file, as `read_pasted` takes it.
            table: The only table whose rows are looked at; empty for all.

        Raises:
            UsageError: The text has no named numbers, or there is no such table.
            DataError: The file has none.
        """
        rows = self.numbers_by_row
        if table:
            table_id = self.table(table).id
            rows = {
                row_id: numbers
                for row_id, numbers in rows.items()
                if row_id.startswith(f"{table_id}/")
            }
        pasted = read_pasted(mine, self.published_columns)
        return [origin_of(row, rows, is_of_table=bool(table)) for row in pasted]

    # A row and a reader's numbers for it

    def numbers_of(self, row_id: str, column: str = "") -> Sequence[PublishedNumber]:
        """The published numbers of a row, or of one of its columns.

        Raises UsageError if there is no such row or column.
        """
        if column:
            return (self.published_number(f"{row_id}/{column}"),)
        table = self.table(row_id.partition("/")[0])
        by_row = {each.row_id: each.row for each in table.numbers}
        row = look_up("row", row_id, by_row)
        return [each for each in table.numbers if each.row == row]

    def reported(self, place: str, mine: str) -> Sequence[ReportedNumber]:
        """A reader's numbers for a row, or for one of its columns.

        The arguments and errors are those of `diagnose`.
        """
        row_id, column = row_and_column(place)
        columns = [*self.numbers_by_row.get(row_id, ())]
        values = values_of_row(mine, self.published_columns, column, columns)
        return reported_numbers(row_id, values, self.tables)[0]

    # Why a number is what it is

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
            mine: `47.29`, or a row of named numbers as `read_pasted` takes it.

        Raises:
            UsageError: There is no such row or column, or `mine` has no such numbers.
            DataError: The file of the numbers has none.
        """
        row_id, column = row_and_column(place)
        columns = [*self.numbers_by_row.get(row_id, ())]
        values = values_of_row(mine, self.published_columns, column, columns)
        numbers, unknown_columns = reported_numbers(row_id, values, self.tables)
        encoder = numbers[0].published.protocol.encoder
        records = self._records_of_encoder(encoder)
        measured = measured_readings(numbers, records, self.registry)
        diagnosis = diagnose(
            numbers, self.published_rows, self.causes, measured, unknown_columns
        )
        if diagnosis.is_sure or encoder in self.measured_encoders:
            return diagnosis
        largest_first = sorted(diagnosis.rest, key=lambda number: -abs(number.gap))
        if len(largest_first) < NUMBERS_WITH_EFFECTS:
            return diagnosis
        explained = []
        for number in largest_first[:NUMBERS_WITH_EFFECTS]:
            protocol = protocol_of_task(number.published)
            if protocol is None:
                return diagnosis
            explained.append((number, protocol))
        return with_effects(diagnosis, explained, self.effects_of_accidents)

    @cached_property
    def measured_encoders(self) -> frozenset[str]:
        """The encoders that have records, without a maximum length."""
        return frozenset(
            base_name(encoder_of_method(method)) for method in self.measured_methods
        )

    def _records_of_encoder(self, encoder: str) -> Results:
        """The records of an encoder's methods, of any length; all where all are read already."""
        if "records" in vars(self):
            return self.records
        return self.records_of_methods([f"{encoder}.*", f"{encoder}:*"])

    @cached_property
    def effects_of_accidents(self) -> EffectsOfAccidents:
        """What accidental choices were measured to do to the scores of a protocol."""
        return EffectsOfAccidents(self.records, self.registry)
