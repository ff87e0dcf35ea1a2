"""Whether a run agrees with the committed results, and if not, which part moved.

The part is the input, the encoder (then its golden vectors moved), or what comes after
the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import Float
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.provenance import code_digest
from harness.core.types import Record
from harness.gate.current_encoders import CurrentEncoders
from harness.gate.drift import compare_record, most_moved, moved_part, with_margin
from harness.gate.failures import golden_failure, read_failures
from harness.gate.golden_vectors import (
    Golden,
    check_encoder,
    golden_path,
    read_golden,
    subject,
)
from harness.gate.outcome import (
    MEASURE_AGAIN,
    PROMOTE,
    Checked,
    PairMove,
    Report,
    State,
)
from harness.gate.quick_set import committed_similarities
from harness.gate.rules import Rules, read_rules
from harness.registry import Registry, is_glob, load_registry, look_up
from harness.results.folder import ResultsFolder
from harness.results.layout import GATE
from harness.results.records import Cell, cell_of, sidecar_metadata
from harness.tasks.loader import TaskLoader


@dataclass(frozen=True)
class Gate:
    """A run, and the committed results that it is compared with; each file is read once.

    Attributes:
        runs: The results folder of the run, alone.
        committed: The results folder with the committed records, alone.
        encoders: The encoders of cells as their files are now; None: files are not
            compared.
        plugins: The digests of plug-ins as they are now, by name.
        data_dir: Where data sets are, for the sentences of pairs.
    """

    runs: ResultsFolder
    committed: ResultsFolder
    encoders: CurrentEncoders | None = None
    plugins: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path | None = None

    @classmethod
    def open(
        cls,
        runs: Path,
        committed: Path,
        *,
        registry: Registry | None = None,
        encoders: CurrentEncoders | None = None,
        plugins: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
    ) -> Gate:
        """The gate of two folders."""
        registry = registry or load_registry()
        return cls(
            runs=ResultsFolder(runs, registry, folders=[runs]),
            committed=ResultsFolder(committed, registry, folders=[committed]),
            encoders=encoders,
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
        by_cell = self.runs.records.by_cell
        return {
            cell_of(record): record
            for records in by_cell.values()
            for record in records
        }

    @cached_property
    def failures(self) -> Mapping[str, str]:
        """Why cells and golden vectors are missing in the run, by their names."""
        return read_failures(self.runs.path)

    def wanted(
        self, methods: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> tuple[Cell, ...]:
        """The quick set and whatever the run holds, or what patterns select of it.

        A method and a task given by their ids are wanted even where there is no record
        of them.
        """
        cells = list(dict.fromkeys((*self.rules.quick_cells, *self.records)))
        self._require_tasks([task for task in tasks if not is_glob(task)], cells)
        names = {(cell.method, cell.task) for cell in cells}
        for method in (method for method in methods if not is_glob(method)):
            for task in (task for task in tasks if not is_glob(task)):
                if (method, task) not in names:
                    cells.append(Cell(method, task))
        chosen = [
            cell
            for cell in cells
            if any(fnmatchcase(cell.method, pattern) for pattern in methods or ("*",))
            and any(fnmatchcase(cell.task, pattern) for pattern in tasks or ("*",))
        ]
        if not chosen:
            raise UsageError(
                f"nothing to check: {self.runs.path} holds no record of it and "
                f"{self.committed.path / GATE} names none; harness run --gate measures"
            )
        return tuple(chosen)

    def _require_tasks(self, tasks: Sequence[str], cells: Sequence[Cell]) -> None:
        """Raise UsageError for a task that is neither registered nor one of a cell."""
        recorded = {cell.task: None for cell in cells}
        known = {**self.committed.registry.tasks_by_name, **recorded}
        for task in tasks:
            look_up("task", task, known)

    def check(self, cells: Sequence[Cell], margin: float | None = None) -> Report:
        """Compare cells of the run with the committed ones, and their encoders' golden vectors.

        Args:
            cells: What is checked.
            margin: With a margin, in points, a cell may move as it likes, but for a
                fall beyond it or beyond its own tolerance.

        Returns:
            A check of each encoder and of each cell. Pairs that moved have their
            sentences where these are embedded, or in the data folder.

        Raises:
            UsageError: The margin is no number of points.
            DataError: An override is of a cell that has no committed record.
        """
        if margin is not None and not 0 <= margin < math.inf:
            raise UsageError(f"--fail-below {margin}: wanted 0 points or more, as 0.5")
        self._require_overrides_of_records()
        cells_by_subject: dict[str, list[Cell]] = {}
        for cell in cells:
            cells_by_subject.setdefault(subject(cell.method), []).append(cell)
        encoders = {
            name: self._check_encoder(name, encoded, margin)
            for name, encoded in cells_by_subject.items()
        }
        checks = [
            self._check_cell(cell, encoders[subject(cell.method)], margin)
            for cell in cells
        ]
        return Report(
            encoders=tuple(filter(None, encoders.values())), cells=tuple(checks)
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

    def _check_encoder(
        self, name: str, cells: Sequence[Cell], margin: float | None
    ) -> Checked | None:
        """The check of an encoder's golden vectors; None where there are none on either side."""
        recorded = [self.records[cell] for cell in cells if cell in self.records]
        keys = {record.digests.get("encoding") for record in recorded}
        check = self._check_golden(name, keys)
        if check is None:
            return None
        if keys and self.encoders is not None:
            current = filter(None, map(self.encoders.of_cell, cells))
            changed = [encoder for encoder in current if encoder.key not in keys]
            if changed:
                again = f"harness run --gate {changed[-1].options}measures again"
                return Checked(
                    name=name,
                    state=State.NOT_MEASURED_AGAIN,
                    why=f"its files have changed since the run; {again}",
                )
        if check.moved and margin is not None:
            return replace(check, counts=False)
        return check

    def _check_golden(self, name: str, keys: Collection[str | None]) -> Checked | None:
        """The golden vectors of a run against the committed ones.

        `keys` are the keys of the encodings that the cells of the run were measured
        with.
        """
        committed = read_golden(self.committed.path, name)
        measured = read_golden(self.runs.path, name)
        failure = self.failures.get(golden_failure(name), "")
        path = golden_path(self.runs.path, name)
        if committed is None and measured is None and not failure:
            return None
        if committed is None:
            missing = f"{golden_path(self.committed.path, name)} is missing; {PROMOTE}"
            return Checked(name=name, state=State.NO_BASELINE, why=missing)
        if measured is None:
            why = failure or f"{path} is missing; {MEASURE_AGAIN}"
            return Checked(name=name, state=State.COULD_NOT_RUN, why=why)
        if not _is_current(measured, keys):
            state = State.COULD_NOT_RUN if failure else State.NOT_MEASURED_AGAIN
            why = failure or f"{path} is of an earlier run; {MEASURE_AGAIN}"
            return Checked(name=name, state=state, why=why)
        return check_encoder(committed, measured)

    # Cells

    def _check_cell(
        self, cell: Cell, encoder: Checked | None, margin: float | None
    ) -> Checked:
        """The check of a cell, given the check of its encoder."""
        missing = "" if cell in self.records else f"{self.runs.path} holds no record"
        failure = self.failures.get(str(cell), missing)
        if failure:
            return self._without_answer(cell, State.COULD_NOT_RUN, failure)
        change = self.change_since(cell)
        if change:
            return self._without_answer(cell, State.NOT_MEASURED_AGAIN, change)

        record = self.records[cell]
        check = compare_record(record, self.committed.records, self.rules)
        if margin is None:
            check = replace(check, state=moved_part(check, encoder))
        else:
            override = self.rules.override_of_cell.get((cell.method, cell.task))
            check = with_margin(check, override.tolerance if override else margin)
        similarities = self.runs.similarities(cell)  # DataError where they were changed
        if check.state is State.AGREES or similarities is None:
            return check
        return replace(check, pairs=self._moved_pairs(record, similarities))

    def _without_answer(self, cell: Cell, state: State, why: str) -> Checked:
        """The check of a cell that the run has no answer for; without a baseline, that is said."""
        if self.committed.records.records(cell.method, cell.task):
            return Checked(name=str(cell), state=state, why=why)
        missing = f"there is no committed record; {PROMOTE}; here, {why}"
        return Checked(name=str(cell), state=State.NO_BASELINE, why=missing)

    def change_since(self, cell: Cell) -> str:
        """Why the record is of other code, another plug-in or another encoder; empty if it is not.

        What was measured before a change is no answer to whether the change moved it.
        """
        record = self.records[cell]
        encoder = None if self.encoders is None else self.encoders.of_cell(cell)
        options = encoder.options if encoder else ""
        again = f"-m {cell.method} -t {cell.task} measures again"
        sidecar = self.runs.store.path(cell).with_suffix(".safetensors")
        measured = sidecar_metadata(sidecar)
        if measured.get("code", code_digest()) != code_digest():
            run = f"harness run --gate {options}measures again"
            return f"its record is of an earlier run, by other code; {run}"
        for name, sha256 in self.plugins.items():
            if record.digests.get(f"plugin {name}", sha256) != sha256:
                return f"its plug-in {name} has changed since its record; harness run {again}"
        if encoder is not None and encoder.key != record.digests.get("encoding"):
            why = "its encoder's files have changed since its record"
            return f"{why}; harness run {options}{again}"
        return ""

    # Pairs

    @cached_property
    def _loader(self) -> TaskLoader:
        return TaskLoader(Places(cache=Path(), data_dir=self.data_dir), {})

    def _moved_pairs(
        self, record: Record, similarities: Float[np.ndarray, " P"]
    ) -> tuple[PairMove, ...]:
        """The pairs whose rank moved most, where similarities of the same pairs are committed.

        With their sentences, if these are at hand and the very ones that were scored.
        """
        committed = committed_similarities(self.committed.store, cell_of(record))
        if committed is None or len(committed) != len(similarities):
            return ()
        moves = most_moved(committed, similarities)
        task = self.committed.registry.tasks.get(record.task)
        if task is None:
            return moves
        try:
            inputs = self._loader.texts(task)
        except HarnessError:
            return moves
        if inputs.digests["data"] != record.digests.get("data"):
            return moves
        first, second = inputs.pairs.a, inputs.pairs.b
        return tuple(
            replace(move, texts=(first[move.pair - 1], second[move.pair - 1]))
            for move in moves
        )


def _is_current(golden: Golden, keys: Collection[str | None]) -> bool:
    """Whether golden vectors are by this code and of the encodings of the run's records.

    Older files do not say by which code they were made.
    """
    return golden.code in ("", code_digest()) and (not keys or golden.key in keys)
