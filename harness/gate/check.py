"""Whether a run agrees with the committed results, and if not, which part moved.

`Gate.cells_to_check` selects cells, and `Gate.check` compares them: first the golden
vectors of their encoders, then the cells themselves. The part that moved is the input,
the encoder (then its golden vectors moved), or the scorer, which is everything after the
encoder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.provenance import code_digest
from harness.core.types import Record
from harness.gate.drift import compare_record, most_moved, moved_part
from harness.gate.failures import golden_failure, read_failures
from harness.gate.golden_vectors import (
    GoldenVectors,
    check_encoder,
    golden_name,
    golden_path,
    read_golden_vectors,
)
from harness.gate.outcome import (
    MEASURE_AGAIN,
    PROMOTE,
    CheckResult,
    PairMove,
    Report,
    State,
)
from harness.gate.quick_set import committed_similarities
from harness.gate.rules import Rules, read_rules
from harness.registry import Registry, is_glob, load_registry, look_up
from harness.results.folder import ResultsFolder
from harness.results.layout import GATE
from harness.results.records import Cell, cell_of
from harness.results.store import sidecar_metadata
from harness.tasks.loader import TaskLoader


@dataclass(frozen=True)
class Gate:
    """A run, and the committed results that it is compared with; each file is read once.

    Attributes:
        runs: The results folder of the run, without packaged records.
        committed: The results folder with the committed records, without packaged ones.
        plugins: The digests of plug-ins as they are now, by name.
        data_dir: Where data sets are, for the sentences of pairs.
    """

    runs: ResultsFolder
    committed: ResultsFolder
    plugins: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None

    @classmethod
    def open(
        cls,
        runs: Path,
        committed: Path,
        *,
        registry: Registry | None = None,
        plugins: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
    ) -> Gate:
        """The gate of two folders."""
        registry = registry or load_registry()
        return cls(
            runs=ResultsFolder(runs, registry, folders=[runs]),
            committed=ResultsFolder(committed, registry, folders=[committed]),
            plugins=plugins or {},
            data_dir=data_dir,
        )

    @cached_property
    def rules(self) -> Rules:
        """The quick set and the overrides of the committed results."""
        return read_rules(self.committed.path)

    @cached_property
    def records(self) -> Mapping[Cell, Record]:
        """The records of the run."""
        records_by_cell: dict[Cell, Record] = {}
        for records in self.runs.records.by_cell.values():
            for record in records:
                records_by_cell[cell_of(record)] = record
        return records_by_cell

    @cached_property
    def failures(self) -> Mapping[str, str]:
        """Why cells and golden vectors are missing in the run, by their names."""
        return read_failures(self.runs.path)

    def cells_to_check(
        self, methods: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> tuple[Cell, ...]:
        """The cells of the quick set and of the run that patterns select.

        Without patterns all are selected. A method and a task that are given by their ids
        are selected even where there is no record of them.

        Args:
            methods: Ids or patterns of methods.
            tasks: Names or patterns of tasks.

        Raises:
            UsageError: No cell is selected, or a task is not known.
        """
        cells = list(dict.fromkeys((*self.rules.quick_cells, *self.records)))
        named_methods = [method for method in methods if not is_glob(method)]
        named_tasks = [task for task in tasks if not is_glob(task)]
        self._require_tasks(named_tasks, cells)
        names_of_cells = {(cell.method, cell.task) for cell in cells}
        for method, task in product(named_methods, named_tasks):
            if (method, task) not in names_of_cells:
                cells.append(Cell(method, task))
        selected_cells = [
            cell
            for cell in cells
            if _matches(cell.method, methods) and _matches(cell.task, tasks)
        ]
        if not selected_cells:
            raise UsageError(
                f"nothing to check: {self.runs.path} holds no record of it and "
                f"{self.committed.path / GATE} names none; harness run --gate measures"
            )
        return tuple(selected_cells)

    def _require_tasks(self, tasks: Sequence[str], cells: Sequence[Cell]) -> None:
        """Raise UsageError for a task that is neither registered nor one of a cell."""
        known_tasks: dict[str, object] = dict(self.committed.registry.tasks_by_name)
        known_tasks.update(dict.fromkeys(cell.task for cell in cells))
        for task in tasks:
            look_up("task", task, known_tasks)

    def check(self, cells: Sequence[Cell]) -> Report:
        """Compare cells of the run with the committed ones, and their encoders' golden vectors.

        Args:
            cells: The cells that are checked.

        Returns:
            A check of each encoder and of each cell. Pairs that moved have their
            sentences where these are embedded, or in the data folder.

        Raises:
            DataError: An override is of a cell that has no committed record.
        """
        self._require_overrides_of_records()
        cells_by_encoder: dict[str, list[Cell]] = {}
        for cell in cells:
            cells_by_encoder.setdefault(golden_name(cell.method), []).append(cell)
        encoder_checks = {
            name: self._check_encoder(name, encoder_cells)
            for name, encoder_cells in cells_by_encoder.items()
        }
        cell_checks = [
            self._check_cell(cell, encoder_checks[golden_name(cell.method)])
            for cell in cells
        ]
        return Report(
            encoders=tuple(check for check in encoder_checks.values() if check),
            cells=tuple(cell_checks),
        )

    def _require_overrides_of_records(self) -> None:
        """Raise DataError for an override of no record: a misspelt one loosens nothing."""
        for method, task in self.rules.override_of_cell:
            if not self.committed.records.records(method, task):
                raise DataError(
                    f"{self.committed.path / GATE}: wanted overrides of committed cells, found one "
                    f"of {method} on {task}, which has no record; correct it, or remove it"
                )

    # Encoders

    def _check_encoder(self, name: str, cells: Sequence[Cell]) -> CheckResult | None:
        """The check of an encoder's golden vectors; None where there are none on either side.

        Args:
            name: The name of the golden vectors.
            cells: The cells that the encoder encoded sentences for.
        """
        encoding_keys: set[str | None] = set()
        for cell in cells:
            if cell in self.records:
                encoding_keys.add(self.records[cell].digests.get("encoding"))
        return self._check_golden_vectors(name, encoding_keys)

    def _check_golden_vectors(
        self, name: str, encoding_keys: Collection[str | None]
    ) -> CheckResult | None:
        """The golden vectors of a run against the committed ones; None without any.

        Args:
            name: The name of the golden vectors.
            encoding_keys: The keys of the encodings that the cells of the run were
                measured with.
        """
        committed = read_golden_vectors(self.committed.path, name)
        measured = read_golden_vectors(self.runs.path, name)
        failure = self.failures.get(golden_failure(name), "")
        path = golden_path(self.runs.path, name)
        if committed is None and measured is None and not failure:
            return None
        if committed is None:
            why = f"{golden_path(self.committed.path, name)} is missing; {PROMOTE}"
            return CheckResult(name=name, state=State.NO_BASELINE, why=why)
        if measured is None:
            why = failure or f"{path} is missing; {MEASURE_AGAIN}"
            return CheckResult(name=name, state=State.COULD_NOT_RUN, why=why)
        if not _is_current(measured, encoding_keys):
            state = State.COULD_NOT_RUN if failure else State.NOT_MEASURED_AGAIN
            why = failure or f"{path} is of an earlier run; {MEASURE_AGAIN}"
            return CheckResult(name=name, state=state, why=why)
        return check_encoder(committed, measured)

    # Cells

    def _check_cell(self, cell: Cell, encoder: CheckResult | None) -> CheckResult:
        """The check of a cell, given the check of its encoder."""
        failure = self.failures.get(str(cell), "")
        if not failure and cell not in self.records:
            failure = f"{self.runs.path} holds no record"
        if failure:
            return self._unmeasured(cell, State.COULD_NOT_RUN, failure)
        change = self.change_since(cell)
        if change:
            return self._unmeasured(cell, State.NOT_MEASURED_AGAIN, change)

        record = self.records[cell]
        check = compare_record(record, self.committed.records, self.rules)
        check = replace(check, state=moved_part(check, encoder))
        similarities = self.runs.similarities(cell)
        if check.state is State.AGREES or similarities is None:
            return check
        return replace(check, pairs=self._moved_pairs(record, similarities))

    def _unmeasured(self, cell: Cell, state: State, why: str) -> CheckResult:
        """The check of a cell that the run did not measure; a missing baseline comes first."""
        if self.committed.records.records(cell.method, cell.task):
            return CheckResult(name=str(cell), state=state, why=why)
        no_baseline = f"there is no committed record; {PROMOTE}; here, {why}"
        return CheckResult(name=str(cell), state=State.NO_BASELINE, why=no_baseline)

    def change_since(self, cell: Cell) -> str:
        """What has changed since a cell was measured: the code or a plug-in.

        It is empty if nothing has. A record from before a change does not tell whether
        the change moved a score.
        """
        record = self.records[cell]
        arguments = f"-m {cell.method} -t {cell.task} measures again"
        sidecar = self.runs.store.path(cell).with_suffix(".safetensors")
        metadata = sidecar_metadata(sidecar)
        if metadata.get("code", code_digest()) != code_digest():
            return f"its record is of an earlier run, by other code; {MEASURE_AGAIN}"
        for name, sha256 in self.plugins.items():
            if record.digests.get(f"plugin {name}", sha256) != sha256:
                command = f"harness run {arguments}"
                return f"its plug-in {name} has changed since its record; {command}"
        return ""

    # Pairs

    @cached_property
    def _loader(self) -> TaskLoader:
        return TaskLoader(Places(cache=Path(), data_dir=self.data_dir), {})

    def _moved_pairs(
        self, record: Record, similarities: Float[np.ndarray, " P"]
    ) -> tuple[PairMove, ...]:
        """The pairs whose rank moved most, where similarities of the same pairs are committed.

        They have their sentences, if these are at hand and are those that were scored.
        """
        committed = committed_similarities(self.committed.store, cell_of(record))
        if committed is None or len(committed) != len(similarities):
            return ()
        moves = most_moved(committed, similarities)
        task = self.committed.registry.tasks.get(record.task)
        if task is None:
            return moves
        try:
            texts = self._loader.texts(task)
        except HarnessError:  # the data are not here, or are damaged
            return moves
        if texts.digests["data"] != record.digests.get("data"):
            return moves
        moves_with_sentences = []
        for move in moves:
            row = move.pair - 1  # pairs are numbered from 1
            sentences = (texts.pairs.a[row], texts.pairs.b[row])
            moves_with_sentences.append(replace(move, texts=sentences))
        return tuple(moves_with_sentences)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of the patterns; without patterns every name does."""
    if not patterns:
        return True
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_current(golden: GoldenVectors, encoding_keys: Collection[str | None]) -> bool:
    """Whether golden vectors were made by this code, with an encoder of the run's records.

    Older files do not say by which code they were made.

    Args:
        golden: The golden vectors of the run.
        encoding_keys: The keys of the encodings of its records; without records any
            encoder will do.
    """
    if golden.code not in ("", code_digest()):
        return False
    return not encoding_keys or golden.key in encoding_keys
