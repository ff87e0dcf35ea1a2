"""Records on disk, one a cell: a method on a task with a seed.

A run's record is a file of its own. The committed records of a method are one file of
JSON lines: of each cell its heading, its record and empty lines, and at the end a line
that tells a whole file from a cut one.

    {"cell": "minilm.mean on sts-b, seed 0"} {"schema": 2, "method": "minilm.mean",
    "task": "sts-b", "seed": 0, ..., "sha256": "5f0c..."}



    {"end": "minilm.mean"}

A record depends on no other line, and its last field is the sha256 of all others. So
the records of two branches merge line by line. Git takes changes for one change where
three lines or fewer are between them, which is what headings and empty lines are for.
Where both branches add records in one place, it keeps the lines of both, as
`.gitattributes` says. A reader takes lines in any order.
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
CELL = "cell"  # of a sidecar: the cell that its similarities are of

HEADING = '{"cell": '  # how the line before a committed record begins
EMPTY_LINES = 3
GIT_ATTRIBUTES = ".gitattributes"  # in the folder of the records
MERGE_RULES = "*.jsonl merge=union\n"  # a merge keeps the lines of both sides
CONFLICT_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")  # of a merge by git

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
        """Folders and file of a run's record; records are in their order."""
        names = (file_name(name) for name in (self.encoder, self.method, self.task))
        return (*names, f"seed-{self.seed}.json")


def cell_of(record: Record) -> Cell:
    """A record's address."""
    return Cell(record.method, record.task, record.seed)


@dataclass(frozen=True)
class Store:
    """The records of a results folder. Reading never writes."""

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
                f"{path}: wanted the record of the cell that this file is of, found that of "
                f"{cell_of(record)}; delete it and run again"
            )
        return record

    def records(self) -> Iterator[Record]:
        """Every record, in the order of a run's paths."""
        folder = self.folder / RECORDS
        records: dict[Cell, Record] = {}
        for path in folder.glob("*.jsonl"):
            _require_no_former(path)
        for path in folder.glob("*/*.jsonl"):
            records |= read_committed(path)
        for path in folder.rglob("seed-*.json"):
            record = self._own_record(path)
            if records.setdefault(cell_of(record), record) is not record:
                raise DataError(
                    f"{path}: {cell_of(record)} has another record here; delete one"
                )
        for cell in sorted(records, key=lambda cell: cell.names):
            yield records[cell]

    def write(
        self,
        record: Record,
        cosines: Float[np.ndarray, " P"],
        identity: Mapping[str, str],
    ) -> bool:
        """Store a record and its sidecar; True if the record is new or its scores moved.

        A record whose scores agree with the stored one's leaves that file
        byte-identical, but for a run's own file that lacks scores which are computed
        since.
        """
        cell = cell_of(record)
        path, stored = self.path(cell), self.read(cell)
        moved = stored is None or not same_measurement(stored, record)
        lacks_scores = (
            stored is not None and stored.scores.keys() < record.scores.keys()
        )
        if moved and stored is not None and not path.exists():
            self.commit([record])  # a cell stays in its file
        elif moved or (lacks_scores and path.exists()):
            write_atomically(path, seal(record))
        sidecar = path.with_suffix(".safetensors")
        metadata = {**identity, CELL: str(cell)}
        write_tensors(sidecar, {"cosine": cosines.astype(np.float32)}, metadata)
        return moved

    def promote(self, records: Iterable[Record]) -> int:
        """Commit records; how many were new or moved. Those that agree stay as they are."""
        stored = {cell_of(old): old for old in self.records()}
        moved = []
        for record in records:
            cell = cell_of(record)
            if cell not in stored or not same_measurement(stored[cell], record):
                moved.append(record)
        self.commit(moved)
        return len(moved)

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
        rewrite(
            path,
            lambda: encode_committed(method, (read_committed(path) | new).values()),
        )
        for cell in new:
            self.path(cell).unlink(missing_ok=True)

    def done(self, cell: Cell, identity: Mapping[str, str]) -> bool:
        """Whether this very identity (data, weights, configuration, code) was measured here.

        A cell whose similarities were changed or cut, or are not those of its record,
        is not done, and is measured again. Raises DataError for a file that holds
        another cell's record.
        """
        path = self.path(cell)
        record = self._own_record(path) if path.exists() else None
        file = TensorFile.parse(path.with_suffix(".safetensors"))
        if (
            record is None
            or file is None
            or file.metadata != {**identity, CELL: str(cell)}
        ):
            return False
        # A record that agreed with a later measurement was left as it is, with the code
        # before.
        inputs = {
            name: identity[name] for name in identity if name not in ("method", "code")
        }
        return (
            inputs.items() <= record.digests.items() and file.read("cosine") is not None
        )

    def note_encoder(self, name: str, path: Path) -> None:
        """Remember where an encoder given by hand is, for a later check of its files.

        By its path from this folder if both are in one folder, which may be moved; else
        by its absolute path.
        """
        folder = self.folder.absolute()
        is_neighbour = path.is_relative_to(folder.parent)
        place = os.path.relpath(path, folder) if is_neighbour else str(path)

        def with_place() -> bytes:
            """The places that are noted now, and this one."""
            places = dict(sorted({**self._encoders, name: place}.items()))
            return f"{json.dumps(places, indent=1)}\n".encode()

        if self._encoders.get(name) != place:
            rewrite(self.folder / ENCODERS, with_place)

    def encoders(self) -> Mapping[str, Path]:
        """Where encoders given by hand were in the last run with them. DataError for other text."""
        places = self._encoders.items()
        return {
            name: Path(os.path.normpath(self.folder / place)) for name, place in places
        }

    @property
    def _encoders(self) -> Mapping[str, str]:
        path = self.folder / ENCODERS
        if not path.exists():
            return {}
        try:
            return {
                name: str(Path(place))
                for name, place in parse_json(path.read_text()).items()
            }
        except PARSE_ERRORS as error:
            raise DataError(
                f"{path} is no list of folders ({error}); delete it"
            ) from None

    def cosines(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The per-pair similarities of a cell, of a run or of the quick set; None without any."""
        sidecar = self.path(cell).with_suffix(".safetensors")
        return next(
            (
                read_similarities(path, cell)
                for path in (sidecar, self.quick_path(cell))
                if path.exists()
            ),
            None,
        )


def read_similarities(path: Path, cell: Cell) -> Float[np.ndarray, " P"]:
    """The similarities in a sidecar. DataError names one that has changed, or is another cell's."""
    file = TensorFile.parse(path)
    cosines = file.read("cosine") if file else None
    if file is None or cosines is None:
        raise DataError(f"{path} was changed or cut; delete it and run again")
    if file.metadata.get(CELL) != str(cell):
        found = file.metadata.get(CELL, "a cell that it does not name")
        raise DataError(
            f"{path}: wanted the similarities of {cell}, found those of {found}; delete it and "
            "run again"
        )
    return cosines


def sidecar_metadata(path: Path) -> Mapping[str, str]:
    """The identity in a sidecar's header; empty if there is no whole one."""
    file = TensorFile.parse(path)
    return {} if file is None else file.metadata


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


# Committed records: a file of lines a method.


def encode_committed(method: str, records: Iterable[Record]) -> bytes:
    """The committed file of a method, whatever order its records come in."""
    lines = []
    for record in sorted(records, key=lambda record: cell_of(record).names):
        lines += [_heading(cell_of(record)), _line(record), *[""] * EMPTY_LINES]
    lines.append(_end(method))
    return "".join(f"{line}\n" for line in lines).encode()


def read_committed(path: Path) -> dict[Cell, Record]:
    """The records of a committed file, none without one. DataError names a bad line."""
    if not path.exists():
        return {}
    records: dict[Cell, Record] = {}
    numbers: dict[Cell, int] = {}  # of the lines of records
    headings: dict[str, int] = {}  # the numbers of their lines
    lines = path.read_bytes().splitlines()
    end = _end(unquote(path.stem)).encode()
    for number, line in enumerate(lines, start=1):
        if line.startswith(HEADING.encode()):
            headings[line.decode(errors="replace")] = number
        elif line not in (b"", end):
            record = _read_line(f"{path}:{number}", line)
            cell = cell_of(record)
            if cell in records:
                record = _either(path, (numbers[cell], number), (records[cell], record))
            records[cell] = record
            numbers[cell] = number
    _require_cells(path, numbers, headings)
    if lines[-1:] != [end]:
        raise DataError(
            f"{path}:{len(lines)}: wanted {end.decode()} as the last line, found another; the file "
            f"was cut or a line appended: {RESTORE}"
        )
    return records


def _require_no_former(path: Path) -> None:
    """Raise DataError for committed records in a file an encoder, as they were until 0.3.0."""
    if path.exists():
        raise DataError(
            f"{path}: wanted the records of a method in each file, found those of an encoder, as "
            "version 0.3.0 wrote them; to write them anew, run "
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


def _read_line(place: str, line: bytes) -> Record:
    """The record of a line. DataError, naming the place, for any other line."""
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
    return record_of_fields(place, content, RESTORE)


def _either(
    path: Path, numbers: tuple[int, int], records: tuple[Record, Record]
) -> Record:
    """One of two records of a cell that say the same. DataError for two that differ.

    Both sides of a merge may have measured a cell. The records then differ in their
    timings, and the one that is taken does not depend on the order of the lines.
    """
    first, second = records
    if _inputs(first) != _inputs(second) or first.scores != second.scores:
        raise DataError(
            f"{path}:{numbers[1]}: {cell_of(second)} has another record in line {numbers[0]}, as "
            "after a merge of two branches that both measured it; delete one of the two lines"
        )
    return min(records, key=encode)


def _require_cells(
    path: Path, numbers: Mapping[Cell, int], headings: Mapping[str, int]
) -> None:
    """Raise DataError for a cell of another method, or without its heading or its record."""
    missing = dict(headings)  # headings without a record
    for cell, number in numbers.items():
        if (
            file_name(cell.method) != path.stem
            or file_name(cell.encoder) != path.parent.name
        ):
            raise DataError(
                f"{path}:{number}: {cell} belongs to another file; {RESTORE}"
            )
        if _heading(cell) not in headings:
            raise DataError(
                f"{path}:{number}: wanted the line {_heading(cell)} before this record, found "
                f"none; add it, or {RESTORE}"
            )
        del missing[_heading(cell)]
    for heading, number in missing.items():
        raise DataError(
            f"{path}:{number}: wanted a record of {heading}, found none; {RESTORE}"
        )


def _stored(record: Record) -> dict[str, Any]:
    """The fields of a record by the names that its schema has for them."""
    fields = vars(record)
    if record.schema != FIRST_SCHEMA:
        return fields
    return {
        FORMER_IDENTITY if n == "identity" else n: value for n, value in fields.items()
    }


def record_of_fields(place: object, fields: Any, remedy: str) -> Record:
    """The record of fields as they are stored. Raises DataError, naming the place."""
    if isinstance(fields, dict) and fields.get("schema") == FIRST_SCHEMA:
        fields = {
            "identity" if n == FORMER_IDENTITY else n: v for n, v in fields.items()
        }
    try:
        record = Record(**fields)
    except TypeError as error:
        [why, *_] = str(error).splitlines()
        raise DataError(f"{place} is no record ({why}); {remedy}") from None
    if record.schema not in (FIRST_SCHEMA, SCHEMA):
        raise DataError(
            f"{place}: wanted schema {FIRST_SCHEMA} or {SCHEMA}, found {record.schema}; run it "
            "again, or read it with the version that wrote it"
        )
    return record


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def same_measurement(old: Record, new: Record) -> bool:
    """Whether two records say the same of the same data, weights and configuration."""
    return (
        _inputs(old) == _inputs(new)
        and largest_move_of_scores(old, new) <= SAME_PLATFORM
    )


def _inputs(record: Record) -> tuple[Any, ...]:
    """What a record was measured from, whatever the code that measured it."""
    return record.identity, record.pairs, {**record.digests, "code": ""}


def largest_move_of_scores(old: Record, new: Record) -> float:
    """The largest difference between the scores of two records; infinite where one lacks a score.

    A record of before the correlations of other similarities than the cosine were
    computed lacks them, which moves nothing.
    """
    later = [name for name in OTHER_SCORES if name not in old.scores]
    known = {name: score for name, score in new.scores.items() if name not in later}
    return largest_move(old.scores, known)


def largest_move(old: Any, new: Any) -> float:
    """The largest difference between two trees of scores; infinite where their shapes differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.keys() != new.keys():
            return float("inf")
        return max((largest_move(old[key], new[key]) for key in old), default=0.0)
    if isinstance(old, int | float) and isinstance(new, int | float):
        return float(abs(old - new))
    return 0.0 if old is None and new is None else float("inf")
