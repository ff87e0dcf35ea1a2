"""Records on disk, one a cell: a method on a task with a seed.

A run's record is a file of its own. The committed records of a method are one file of
JSON lines: of each cell its heading, its record and empty lines, and at the end a line
that tells a whole file from a cut one.

    {"cell": "minilm.mean on sts-b, seed 0"} {"schema": 2, "method": "minilm.mean",
    "task": "sts-b", "seed": 0, ..., "sha256": "5f0c..."}



    {"end": "minilm.mean"}

A record depends on no other line, and its last field is the sha256 of all others. So
the records of two branches merge line by line. Git takes two changes for one if three
lines or fewer are between them: headings and empty lines keep records apart. Where both
branches add records in one place, it keeps the lines of both, as `.gitattributes` says.
A reader takes lines in any order.

The module begins with what others use: `Cell` and `Store`. The format of a run's file
follows, then the format of a committed file, and last the comparison of two records.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import DataError
from harness.core.files import file_name, rewrite, write_atomically
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import OTHER_SCORES
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Record
from harness.results.layout import QUICK, RECORDS

SCHEMA = 2
# Records of schema 1 hold the method's `repr` in the place of its identity, and are
# still read.
FIRST_SCHEMA = 1
FORMER_IDENTITY = "repr"

# In points. Two runs of the same code, weights and data agree this far on one platform.
SAME_PLATFORM = 1e-3

ENCODERS = "encoders.json"  # of a run: where the files of encoders given by hand were

SEAL = "sha256"  # the last field of a record on disk: the digest of all other fields
LINE_SEAL = f', "{SEAL}": "'  # between the other fields and the digest, in a line
CELL = "cell"  # in a sidecar: the name of the cell whose similarities it holds

HEADING = '{"cell": '  # how the line before a committed record begins
EMPTY_LINES = 3
GIT_ATTRIBUTES = ".gitattributes"  # in the folder of the records
MERGE_RULES = "*.jsonl merge=union\n"  # a merge keeps the lines of both sides
# Lines that git puts around the two sides of a merge that it could not make.
CONFLICT_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")

RESTORE = "restore the file, or delete the line and measure its cell again"

# What reading a damaged file raises.
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class Cell:
    """The address of one number: method id, task name, seed."""

    method: str
    task: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.method} on {self.task}, seed {self.seed}"

    @property
    def encoder(self) -> str:
        """The encoder that the method's id names."""
        return self.method.partition(".")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The folders and the file of a run's record; records are sorted by them."""
        folders = [file_name(name) for name in (self.encoder, self.method, self.task)]
        return (*folders, f"seed-{self.seed}.json")


def cell_of(record: Record) -> Cell:
    """A record's address."""
    return Cell(record.method, record.task, record.seed)


# Reading and writing records


@dataclass(frozen=True)
class RecordLine:
    """A record, its line of JSON as digests take it, and where that line is in its file.

    The file of a run has one value a line: there, `text` is what `encode` gives.
    """

    record: Record
    text: bytes
    line_number: int = 1


@dataclass(frozen=True)
class Store:
    """The records of a results folder: those of runs, and those that are committed.

    A record of a run has a sidecar, a file next to it that holds the similarities of
    the pairs. Reading never writes.
    """

    folder: Path

    def path(self, cell: Cell) -> Path:
        """The path of a run's record of the cell."""
        return self.folder.joinpath(RECORDS, *cell.names)

    def quick_path(self, cell: Cell) -> Path:
        """The path of the committed similarities of a cell of the quick set."""
        return self.folder.joinpath(RECORDS, QUICK, *cell.names).with_suffix(
            ".safetensors"
        )

    def committed_path(self, method: str) -> Path:
        """The path of the committed records of a method."""
        encoder_folder, method_folder, *_ = Cell(method, "").names
        return self.folder / RECORDS / encoder_folder / f"{method_folder}.jsonl"

    def read(self, cell: Cell) -> Record | None:
        """The cell's record, or None. Raises DataError for a file that holds something else."""
        path = self.path(cell)
        if path.exists():
            return self._own_record(path)
        _require_no_former(self.folder / RECORDS / f"{file_name(cell.encoder)}.jsonl")
        return read_committed(self.committed_path(cell.method)).get(cell)

    def _own_record(self, path: Path) -> Record:
        """The record of a run in a file that is its cell's. DataError for another cell's record."""
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

    def lines(self) -> Iterator[RecordLine]:
        """Every record with its line, in the order of a run's paths."""
        folder = self.folder / RECORDS
        lines: dict[Cell, RecordLine] = {}
        for path in folder.glob("*.jsonl"):
            _require_no_former(path)
        for path in folder.glob("*/*.jsonl"):
            lines |= _committed_lines(path)
        for path in folder.rglob("seed-*.json"):
            record = self._own_record(path)
            cell = cell_of(record)
            if cell in lines:
                raise DataError(f"{path}: {cell} has another record here; delete one")
            lines[cell] = RecordLine(record, encode(record))
        for cell in sorted(lines, key=lambda cell: cell.names):
            yield lines[cell]

    def write(
        self,
        record: Record,
        cosines: Float[np.ndarray, " P"],
        identity: Mapping[str, str],
    ) -> bool:
        """Store a record and its sidecar; True if the record is new or its scores moved.

        If the stored record has the same scores, its file is left as it is, byte for
        byte. Only a run's own file is written again if it lacks scores that were not
        computed when it was written.
        """
        cell = cell_of(record)
        path, stored = self.path(cell), self.read(cell)
        is_committed = stored is not None and not path.exists()
        has_moved = stored is None or not same_measurement(stored, record)
        lacks_scores = (
            stored is not None and stored.scores.keys() < record.scores.keys()
        )
        if is_committed:
            if has_moved:
                self.commit([record])
        elif has_moved or lacks_scores:
            write_atomically(path, seal(record))
        sidecar = path.with_suffix(".safetensors")
        metadata = {**identity, CELL: str(cell)}
        write_tensors(sidecar, {"cosine": cosines.astype(np.float32)}, metadata)
        return has_moved

    def promote(self, records: Iterable[Record]) -> int:
        """Commit records that are new or whose scores moved; how many these are."""
        stored = {cell_of(record): record for record in self.records()}
        changed = []
        for record in records:
            cell = cell_of(record)
            if cell not in stored or not same_measurement(stored[cell], record):
                changed.append(record)
        self.commit(changed)
        return len(changed)

    def commit(self, records: Iterable[Record]) -> None:
        """Put records into the files of their methods, in the place of those that are there."""
        by_method: dict[str, dict[Cell, Record]] = {}
        for record in records:
            by_method.setdefault(record.method, {})[cell_of(record)] = record
        for method, new in by_method.items():
            self._commit_method(method, new)
        attributes = self.folder / RECORDS / GIT_ATTRIBUTES
        if by_method and not attributes.exists():
            write_atomically(attributes, MERGE_RULES.encode())

    def _commit_method(self, method: str, new: dict[Cell, Record]) -> None:
        """Put records into their method's file, while nobody else writes one."""
        path = self.committed_path(method)

        def content() -> bytes:
            """The file's records, but for the cells that have a new one."""
            records = {**read_committed(path), **new}
            return encode_committed(method, records.values())

        rewrite(path, content)
        for cell in new:
            self.path(cell).unlink(missing_ok=True)

    def is_done(self, cell: Cell, identity: Mapping[str, str]) -> bool:
        """Whether this very identity (data, weights, configuration, code) was measured here.

        A cell is not done if its similarities were changed or cut, or belong to another
        record. Raises DataError for a file that holds another cell's record.
        """
        path = self.path(cell)
        if not path.exists():
            return False
        record = self._own_record(path)
        sidecar = TensorFile.parse(path.with_suffix(".safetensors"))
        if sidecar is None or sidecar.metadata != {**identity, CELL: str(cell)}:
            return False
        # The record may be from older code: it is left as it is where a later
        # measurement has the same scores.
        inputs = {**identity}
        inputs.pop("method", None)
        inputs.pop("code", None)
        return (
            inputs.items() <= record.digests.items()
            and sidecar.read("cosine") is not None
        )

    def note_encoder(self, name: str, path: Path) -> None:
        """Remember where an encoder given by hand is, for a later check of its files.

        If it is next to this folder, its path is noted relative to this folder, so that
        both can be moved together; otherwise its absolute path is.
        """
        folder = self.folder.absolute()
        is_neighbour = path.is_relative_to(folder.parent)
        noted_path = os.path.relpath(path, folder) if is_neighbour else str(path)

        def content() -> bytes:
            """The paths that are noted when the file is written, and this one."""
            paths = {**self._noted_paths(), name: noted_path}
            text = json.dumps(dict(sorted(paths.items())), indent=1)
            return f"{text}\n".encode()

        if self._noted_paths().get(name) != noted_path:
            rewrite(self.folder / ENCODERS, content)

    def encoders(self) -> Mapping[str, Path]:
        """Where encoders given by hand were in the last run with them. DataError for other text."""
        paths = {}
        for name, noted_path in self._noted_paths().items():
            paths[name] = Path(os.path.normpath(self.folder / noted_path))
        return paths

    def _noted_paths(self) -> dict[str, str]:
        """The paths of encoders as they are noted: absolute, or relative to this folder."""
        path = self.folder / ENCODERS
        if not path.exists():
            return {}
        try:
            paths = parse_json(path.read_text())
            return {name: str(Path(noted)) for name, noted in paths.items()}
        except PARSE_ERRORS as error:
            raise DataError(
                f"{path} is no list of folders ({error}); delete it"
            ) from None

    def cosines(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The per-pair similarities of a cell, of a run or of the quick set; None without any."""
        sidecar = self.path(cell).with_suffix(".safetensors")
        for path in (sidecar, self.quick_path(cell)):
            if path.exists():
                return read_similarities(path, cell)
        return None


def read_similarities(path: Path, cell: Cell) -> Float[np.ndarray, " P"]:
    """The similarities in a sidecar. DataError names one that has changed, or is another cell's."""
    file = TensorFile.parse(path)
    cosines = file.read("cosine") if file else None
    if file is None or cosines is None:
        raise DataError(f"{path} was changed or cut; delete it and run again")
    if file.metadata.get(CELL) != str(cell):
        found = file.metadata.get(CELL, "a cell that it does not name")
        raise DataError(
            f"{path}: wanted the similarities of {cell}, found the similarities of {found}; "
            "delete it and run again"
        )
    return cosines


def sidecar_metadata(path: Path) -> Mapping[str, str]:
    """The identity in a sidecar's header; empty if there is no sidecar, or a damaged one."""
    file = TensorFile.parse(path)
    return {} if file is None else file.metadata


# A run's record: a file of its own


def encode(record: Record) -> bytes:
    """A record as a line of JSON, as digests take it: stable field order, no NaN."""
    return f"{_json(_stored(record))}\n".encode()


def seal(record: Record) -> bytes:
    """A run's file: the record, one value a line, and as its last field the sha256 of `encode`."""
    sealed = {**_stored(record), SEAL: hashlib.sha256(encode(record)).hexdigest()}
    return (json.dumps(sealed, indent=1, allow_nan=False) + "\n").encode()


def read_record(path: Path) -> Record:
    """Read a run's record. Raises DataError naming the file."""
    remedy = "delete it and run again"
    try:
        fields = parse_json(path.read_bytes())
        wanted = fields.pop(SEAL)
        record = record_of_fields(path, fields, remedy)
        if hashlib.sha256(encode(record)).hexdigest() != wanted:
            raise DataError(
                f"{path}: wanted content with sha256 {wanted}, found other; {remedy}"
            )
    except PARSE_ERRORS as error:
        raise DataError(f"{path} is no record ({error!r}); {remedy}") from None
    return record


def _stored(record: Record) -> dict[str, Any]:
    """The fields of a record by the names that its schema has for them."""
    fields = dict(vars(record))
    if record.schema == FIRST_SCHEMA:
        return _renamed(fields, "identity", FORMER_IDENTITY)
    return fields


def record_of_fields(place: object, fields: Any, remedy: str) -> Record:
    """The record of fields as they are stored. Raises DataError, naming the place."""
    if isinstance(fields, dict) and fields.get("schema") == FIRST_SCHEMA:
        fields = _renamed(fields, FORMER_IDENTITY, "identity")
    try:
        record = Record(**fields)
    except TypeError as error:
        first_line = str(error).splitlines()[0]
        raise DataError(f"{place} is no record ({first_line}); {remedy}") from None
    if record.schema not in (FIRST_SCHEMA, SCHEMA):
        raise DataError(
            f"{place}: wanted schema {FIRST_SCHEMA} or {SCHEMA}, found {record.schema}; run it "
            "again, or read it with the version that wrote it"
        )
    return record


def _renamed(fields: Mapping[str, Any], name: str, new_name: str) -> dict[str, Any]:
    """Fields in their order, one of them under another name."""
    renamed = {}
    for field_name, value in fields.items():
        renamed[new_name if field_name == name else field_name] = value
    return renamed


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


# Committed records: a file of lines for each method


def encode_committed(method: str, records: Iterable[Record]) -> bytes:
    """The committed file of a method, whatever order its records come in."""
    lines = []
    for record in sorted(records, key=lambda record: cell_of(record).names):
        lines.append(_heading(cell_of(record)))
        lines.append(_line(record))
        lines += [""] * EMPTY_LINES
    lines.append(_end(method))
    return "".join(f"{line}\n" for line in lines).encode()


def read_committed(path: Path) -> dict[Cell, Record]:
    """The records of a committed file, none without one. DataError names a bad line."""
    return {cell: line.record for cell, line in _committed_lines(path).items()}


def _committed_lines(path: Path) -> dict[Cell, RecordLine]:
    """The records of a committed file with their lines; else as `read_committed`."""
    if not path.exists():
        return {}
    lines_of_cells: dict[Cell, RecordLine] = {}
    numbers_of_headings: dict[str, int] = {}  # the number of the line of each heading
    lines = path.read_bytes().splitlines()
    end = _end(unquote(path.stem)).encode()
    for number, line in enumerate(lines, start=1):
        if line.startswith(HEADING.encode()):
            numbers_of_headings[line.decode(errors="replace")] = number
        elif line not in (b"", end):
            record_line = _read_line(path, number, line)
            cell = cell_of(record_line.record)
            if cell in lines_of_cells:
                record_line = _one_of_two(path, lines_of_cells[cell], record_line)
            lines_of_cells[cell] = record_line
    _require_cells(path, lines_of_cells, numbers_of_headings)
    if lines[-1:] != [end]:
        raise DataError(
            f"{path}:{len(lines)}: wanted {end.decode()} as the last line, found another; the file "
            f"was cut or a line appended: {RESTORE}"
        )
    return lines_of_cells


def _require_no_former(path: Path) -> None:
    """Raise DataError for committed records in a file an encoder, as they were until 0.3.0."""
    if path.exists():
        raise DataError(
            f"{path}: wanted a file for each method, found the records of an encoder in one file, "
            "as version 0.3.0 wrote them; to write them anew, run "
            f"python -m harness.results.former_records {path}"
        )


def _heading(cell: Cell) -> str:
    return f"{HEADING}{_json(str(cell))}}}"


def _line(record: Record) -> str:
    """A record with its digest."""
    text = encode(record)
    digest = hashlib.sha256(text).hexdigest()
    fields = text.decode().removesuffix("}\n")
    return f'{fields}{LINE_SEAL}{digest}"}}'


def _end(method: str) -> str:
    return _json({"end": method})


def _read_line(path: Path, line_number: int, line: bytes) -> RecordLine:
    """The record of a line. DataError, naming the place, for any other line."""
    place = f"{path}:{line_number}"
    if line.startswith(CONFLICT_MARKERS):
        raise DataError(
            f"{place}: wanted the lines of a merged file, found a conflict marker of git; delete "
            "the markers and keep the lines of both sides"
        )
    try:
        fields, _, seal = line.rpartition(LINE_SEAL.encode())
        text = fields + b"}\n"
        if seal.decode() != f'{hashlib.sha256(text).hexdigest()}"}}':
            raise ValueError("its content has another digest than it states")
        content = parse_json(text)
    except PARSE_ERRORS as error:
        raise DataError(f"{place} is damaged ({error!r}); {RESTORE}") from None
    record = record_of_fields(place, content, RESTORE)
    return RecordLine(record, text, line_number)


def _one_of_two(path: Path, first: RecordLine, second: RecordLine) -> RecordLine:
    """One of two records of a cell that say the same. DataError for two that differ.

    Both sides of a merge may have measured a cell. The records then differ in their
    timings, and the one that is taken does not depend on the order of the lines.
    """
    same_inputs = _inputs(first.record) == _inputs(second.record)
    if not same_inputs or first.record.scores != second.record.scores:
        raise DataError(
            f"{path}:{second.line_number}: {cell_of(second.record)} has another record in line "
            f"{first.line_number}, as after a merge of two branches that both measured it; "
            "delete one of the two lines"
        )
    return min(first, second, key=lambda line: line.text)


def _require_cells(
    path: Path, lines: Mapping[Cell, RecordLine], numbers_of_headings: Mapping[str, int]
) -> None:
    """Raise DataError for a cell of another method, or without its heading or its record."""
    headings_without_record = dict(numbers_of_headings)
    method_name, encoder_name = path.stem, path.parent.name
    for cell, line in lines.items():
        place, heading = f"{path}:{line.line_number}", _heading(cell)
        is_of_method = file_name(cell.method) == method_name
        is_of_encoder = file_name(cell.encoder) == encoder_name
        if not (is_of_method and is_of_encoder):
            raise DataError(f"{place}: {cell} belongs to another file; {RESTORE}")
        if heading not in numbers_of_headings:
            raise DataError(
                f"{place}: wanted the line {heading} before this record, found none; add it, or "
                f"{RESTORE}"
            )
        del headings_without_record[heading]
    for heading, number in headings_without_record.items():
        raise DataError(
            f"{path}:{number}: wanted a record of {heading}, found none; {RESTORE}"
        )


# Two records of a cell


def same_measurement(old: Record, new: Record) -> bool:
    """Whether two records say the same of the same data, weights and configuration."""
    return (
        _inputs(old) == _inputs(new)
        and largest_move_of_scores(old, new) <= SAME_PLATFORM
    )


def _inputs(record: Record) -> tuple[Any, ...]:
    """Everything that a record was measured from but the code: identity, pairs and digests."""
    return record.identity, record.pairs, {**record.digests, "code": ""}


def largest_move_of_scores(old: Record, new: Record) -> float:
    """The largest difference between the scores of two records; infinite where one lacks a score.

    An old record may lack the correlations of similarities other than the cosine, which
    were not computed then. That moves nothing.
    """
    new_scores = dict(new.scores)
    for name in OTHER_SCORES:
        if name not in old.scores:
            new_scores.pop(name, None)
    return largest_move(old.scores, new_scores)


def largest_move(old: Any, new: Any) -> float:
    """The largest difference between two trees of scores; infinite where their shapes differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.keys() != new.keys():
            return float("inf")
        return max((largest_move(old[key], new[key]) for key in old), default=0.0)
    if isinstance(old, int | float) and isinstance(new, int | float):
        return float(abs(old - new))
    if old is None and new is None:
        return 0.0
    return float("inf")
