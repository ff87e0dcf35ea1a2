"""The store of a results folder: its records, and the similarities next to them.

A run writes each record to a file of its own, with a sidecar that holds the
similarities of the pairs. Committed records are in a file for each method.
`harness.results.records` has both formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import DataError
from harness.core.files import rewrite, write_atomically
from harness.core.tensors import TensorFile, write_tensors
from harness.core.toml import read_typed
from harness.core.types import Record
from harness.registry import is_glob, matches
from harness.results.layout import RECORDS
from harness.results.records import (
    Cell,
    RecordLine,
    cell_of,
    committed_lines,
    encode,
    encode_committed,
    encode_run,
    has_further_scores,
    read_committed,
    read_record,
    same_measurement,
)

RUN_FILE = "seed-*.json"  # the names of the files of runs' records
CELL = "cell"  # the key in a sidecar for the name of its cell


@dataclass(frozen=True)
class Store:
    """The records of a results folder: the records of runs and the committed records.

    Reading never writes.
    """

    folder: Path

    def path(self, cell: Cell) -> Path:
        """The path of a run's record of the cell."""
        return self.folder.joinpath(RECORDS, *cell.names)

    def committed_path(self, method: str) -> Path:
        """The path of the committed records of a method."""
        encoder_folder, method_folder, *_ = Cell(method, "").names
        return self.folder / RECORDS / encoder_folder / f"{method_folder}.jsonl"

    def read(self, cell: Cell) -> Record | None:
        """The cell's record; None if there is none. Raises DataError for a damaged file."""
        path = self.path(cell)
        if path.exists():
            return self._record_of_run(path)
        return read_committed(self.committed_path(cell.method)).get(cell)

    def _record_of_run(self, path: Path) -> Record:
        """The record in a run's file. DataError for one that the file is not named after."""
        record = read_record(path)
        if path != self.path(cell_of(record)):
            raise DataError(
                f"{path}: wanted the record of the cell that the file is named after, found the "
                f"record of {cell_of(record)}; delete it and run again"
            )
        return record

    def records(self) -> Iterator[Record]:
        """Every record, in the order of a run's paths."""
        for line in self.lines():
            yield line.record

    def methods(self) -> Iterator[str]:
        """The methods that have records, by the names of their files; some more than once."""
        folder = self.folder / RECORDS
        for path in folder.glob("*/*.jsonl"):
            yield unquote(path.stem)
        for path in folder.rglob(RUN_FILE):
            yield _method_of_run(path)

    def lines(self, methods: Sequence[str] = ()) -> Iterator[RecordLine]:
        """Every record with its line, in the order of a run's paths.

        `methods` are ids and globs of methods; the files of others are not opened.
        """
        lines: dict[Cell, RecordLine] = {}
        committed_files, run_files = self._files(methods)
        for path in committed_files:
            lines |= committed_lines(path)
        for path in run_files:
            record = self._record_of_run(path)
            cell = cell_of(record)
            if cell in lines:
                raise DataError(f"{path}: {cell} has another record here; delete one")
            lines[cell] = RecordLine(record, encode(record))
        for cell in sorted(lines, key=lambda cell: cell.names):
            yield lines[cell]

    def _files(self, methods: Sequence[str]) -> tuple[Iterable[Path], Iterable[Path]]:
        """The committed files and the files of runs with records of some methods, or of all.

        Those of an id are known by its name, so that a cell is shown as fast among thousands
        of methods. Only for a glob are the names of the folder read.
        """
        if methods and not any(map(is_glob, methods)):
            committed = [self.committed_path(name) for name in dict.fromkeys(methods)]
            folders = [path.with_name(path.stem) for path in committed]
            of_runs = (folder.glob(f"*/{RUN_FILE}") for folder in folders)
            return committed, chain.from_iterable(of_runs)
        folder, patterns = self.folder / RECORDS, methods or ["*"]
        every_committed, every_run = folder.glob("*/*.jsonl"), folder.rglob(RUN_FILE)
        return (
            (path for path in every_committed if matches(unquote(path.stem), patterns)),
            (path for path in every_run if matches(_method_of_run(path), patterns)),
        )

    def write(
        self,
        record: Record,
        cosines: Float[np.ndarray, " P"],
        identity: Mapping[str, str],
    ) -> bool:
        """Store a record and its sidecar; True if the record is new or its scores moved.

        If the stored record has the same scores, and no fewer, its file is left as it is,
        byte for byte.
        """
        cell = cell_of(record)
        path = self.path(cell)
        stored = self.read(cell)
        has_moved = stored is None or not same_measurement(stored, record)
        if stored is None or has_moved or has_further_scores(stored, record):
            if stored is None or path.exists():
                write_atomically(path, encode_run(record))
            else:
                self.commit([record])
        sidecar = path.with_suffix(".safetensors")
        metadata = {**identity, CELL: str(cell)}
        write_tensors(sidecar, {"cosine": cosines.astype(np.float32)}, metadata)
        return has_moved

    def promote(self, records: Iterable[Record]) -> int:
        """Commit the records that are new, moved or have further scores; return their number."""
        stored = {cell_of(record): record for record in self.records()}
        changed = []
        for record in records:
            known = stored.get(cell_of(record))
            is_same = known is not None and same_measurement(known, record)
            if known is None or not is_same or has_further_scores(known, record):
                changed.append(record)
        self.commit(changed)
        return len(changed)

    def commit(self, records: Iterable[Record]) -> None:
        """Write records into the files of their methods, in the place of earlier ones."""
        by_method: dict[str, dict[Cell, Record]] = {}
        for record in records:
            by_method.setdefault(record.method, {})[cell_of(record)] = record
        for method, new_records in by_method.items():
            self._commit_method(method, new_records)

    def _commit_method(self, method: str, new_records: Mapping[Cell, Record]) -> None:
        """Write records into their method's file, and delete the files that runs wrote of them."""
        path = self.committed_path(method)

        # `rewrite` calls this while it holds the lock of the folder, so that the records
        # of another process are kept.
        def content() -> bytes:
            records = {**read_committed(path), **new_records}
            return encode_committed(records.values())

        rewrite(path, content)
        for cell in new_records:
            self.path(cell).unlink(missing_ok=True)

    def is_done(self, cell: Cell, identity: Mapping[str, str]) -> bool:
        """Whether a run measured the cell with this identity: data, weights, settings, code.

        A cell is not done if its sidecar is damaged or belongs to another record. Raises
        DataError for a file that holds another cell's record.
        """
        path = self.path(cell)
        if not path.exists():
            return False
        record = self._record_of_run(path)
        sidecar = TensorFile.parse(path.with_suffix(".safetensors"))
        if sidecar is None or sidecar.metadata != {**identity, CELL: str(cell)}:
            return False
        # The sidecar has the identity of the last measurement. The record may be from an
        # earlier one with the same scores, by other code; its digests have no `method`.
        inputs = {**identity}
        inputs.pop("method", None)
        inputs.pop("code", None)
        return (
            inputs.items() <= record.digests.items()
            and sidecar.read("cosine") is not None
        )

    def has_cosines(self, cell: Cell) -> bool:
        """Whether a run left the similarities of a cell's pairs here."""
        return self.path(cell).with_suffix(".safetensors").exists()

    def cosines(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The similarities of a cell's pairs, from the sidecar of a run; None without any.

        Raises DataError for a damaged sidecar, or another cell's.
        """
        path = self.path(cell).with_suffix(".safetensors")
        if not path.exists():
            return None
        file = TensorFile.parse(path)
        cosines = file.read("cosine") if file else None
        if file is None or cosines is None:
            raise DataError(f"{path} was changed or cut; delete it and run again")
        if file.metadata.get(CELL) != str(cell):
            other_cell = file.metadata.get(CELL, "a cell that it does not name")
            raise DataError(
                f"{path}: wanted the similarities of {cell}, found those of {other_cell}; "
                "delete it and run again"
            )
        return cosines


def _method_of_run(path: Path) -> str:
    """The method that a run's file is named after."""
    return unquote(path.parents[1].name)


def sidecar_metadata(path: Path) -> Mapping[str, str]:
    """The identity in a sidecar's header; empty if the sidecar is missing or damaged."""
    file = TensorFile.parse(path)
    return {} if file is None else file.metadata


# What did not run: a cell that failed may have a record of an earlier run, which says
# nothing about this one. `harness check` reads the reasons.

FAILURES_FILE = "not-run.json"


def read_failures(results: Path) -> dict[str, str]:
    """The reason for each cell and encoder that did not run in its last run, by its name."""
    path = results / FAILURES_FILE
    return read_typed(dict[str, str], path) if path.exists() else {}


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Note a reason for each name; an empty one says that it ran, and removes an older reason.

    Other processes may note reasons at the same time: the file is read again while it is
    locked, so that theirs stay.
    """

    def content() -> bytes:
        every = {**read_failures(results), **reasons}
        kept = {name: reason for name, reason in every.items() if reason}
        return f"{json.dumps(kept, indent=1)}\n".encode()

    path = results / FAILURES_FILE
    if path.exists() or any(reasons.values()):
        rewrite(path, content)
