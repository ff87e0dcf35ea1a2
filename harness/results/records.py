"""Records on disk, one a cell: a method on a task with a seed.

A run's record is a file of its own. The committed records of an encoder are JSON lines in which a
value that many rows share is written once: the first line counts the rows, then each shared value
has a line, `{"id": "5f0c...", "environment": {...}}`, and each row has one that names shared values
by their ids. An id is the beginning of the value's sha256, so that a new row moves no other line; a
row ends with the sha256 of what is before it. Pairs of one group have one score a correlation:
`all` and the means, which equal it, are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import DataError
from harness.core.files import file_name, rewrite, write_atomically
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import OTHER_SCORES
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import AGGREGATIONS, Record
from harness.results.layout import QUICK, RECORDS

SCHEMA = 2
# Records of schema 1 hold the method's `repr` in the place of its identity, and are still read.
FIRST_SCHEMA = 1
FORMER_IDENTITY = "repr"

# In points. Two runs of the same code, weights and data agree this far on one platform.
SAME_PLATFORM = 1e-3

ENCODERS = "encoders.json"  # of a run: where the files of encoders given by hand were

SEAL = "sha256"  # of a run's file: the digest of all other fields
CELL = "cell"  # of a sidecar: the cell that its similarities are of

# Fields that the cells of an encoder have in common: more than half of what its records hold.
# `encoder` holds those facts of a record that describe its encoder; they are a record's last facts.
SHARED = ("identity", FORMER_IDENTITY, "digests", "environment", "encoder")
ENCODER_FACTS = ("revision", "max_length", "parameters", "encoding")

ID_DIGITS = 12  # of an id, hexadecimal
SHARED_LINE = '{"id": '  # how the line of a shared value begins
LINE_SEAL = ', "sha256": "'  # between the fields of a row and their digest
SharedName = tuple[str, str]  # of a shared value: its field and its id
CONFLICT_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")  # of a merge by git

# What reading a damaged file raises.
DAMAGED = (ValueError, LookupError, TypeError, AttributeError)


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
        """Where the committed similarities of a cell of the quick set stand or would stand."""
        return self.folder.joinpath(RECORDS, QUICK, *cell.names).with_suffix(".safetensors")

    def committed_path(self, encoder: str) -> Path:
        """Where the committed records of an encoder stand or would stand."""
        return self.folder / RECORDS / f"{file_name(encoder)}.jsonl"

    def read(self, cell: Cell) -> Record | None:
        """The cell's record, or None. Raises DataError for a file that holds something else."""
        path = self.path(cell)
        if path.exists():
            return self._own_record(path)
        return read_committed(self.committed_path(cell.encoder)).get(cell)

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
        for path in sorted(folder.glob("*.jsonl")):
            records |= read_committed(path)
        for path in folder.rglob("seed-*.json"):
            record = self._own_record(path)
            if records.setdefault(cell_of(record), record) is not record:
                raise DataError(f"{path}: {cell_of(record)} has another record here; delete one")
        for cell in sorted(records, key=lambda cell: cell.names):
            yield records[cell]

    def write(
        self, record: Record, cosines: Float[np.ndarray, " P"], identity: Mapping[str, str]
    ) -> bool:
        """Store a record and its sidecar; True if the record is new or its scores moved.

        A record whose scores agree with the stored one's leaves that file byte-identical, but for
        a run's own file that lacks scores which are computed since.
        """
        cell = cell_of(record)
        path, stored = self.path(cell), self.read(cell)
        moved = stored is None or not same_measurement(stored, record)
        lacks_scores = stored is not None and stored.scores.keys() < record.scores.keys()
        if moved and stored is not None and not path.exists():
            self._commit(cell.encoder, [record])  # a cell stays in its file
        elif moved or (lacks_scores and path.exists()):
            write_atomically(path, seal(record))
        sidecar = path.with_suffix(".safetensors")
        metadata = {**identity, CELL: str(cell)}
        write_tensors(sidecar, {"cosine": cosines.astype(np.float32)}, metadata)
        return moved

    def promote(self, records: Iterable[Record]) -> int:
        """Commit records; how many were new or moved. Those that agree stay as they are."""
        stored = {cell_of(old): old for old in self.records()}
        moved: dict[str, list[Record]] = {}
        for record in records:
            cell = cell_of(record)
            if cell not in stored or not same_measurement(stored[cell], record):
                moved.setdefault(cell.encoder, []).append(record)
        for encoder, group in moved.items():
            self._commit(encoder, group)
        return sum(map(len, moved.values()))

    def _commit(self, encoder: str, records: Iterable[Record]) -> None:
        """Put records into their encoder's file, while nobody else writes one."""
        path, new = self.committed_path(encoder), {cell_of(record): record for record in records}
        rewrite(path, lambda: encode_committed((read_committed(path) | new).values()))
        for cell in new:
            self.path(cell).unlink(missing_ok=True)

    def done(self, cell: Cell, identity: Mapping[str, str]) -> bool:
        """Whether this very identity (data, weights, configuration, code) was measured here.

        A cell whose similarities were changed or cut, or are not those of its record, is not done,
        and is measured again. Raises DataError for a file that holds another cell's record.
        """
        path = self.path(cell)
        record = self._own_record(path) if path.exists() else None
        file = TensorFile.parse(path.with_suffix(".safetensors"))
        if record is None or file is None or file.metadata != {**identity, CELL: str(cell)}:
            return False
        # A record that agreed with a later measurement was left as it is, with the code before.
        inputs = {name: identity[name] for name in identity if name not in ("method", "code")}
        return inputs.items() <= record.digests.items() and file.read("cosine") is not None

    def note_encoder(self, name: str, path: Path) -> None:
        """Remember where an encoder given by hand is, for a later check of its files.

        By its path from this folder if both are in one folder, which may be moved; else by its
        absolute path.
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
        return {name: Path(os.path.normpath(self.folder / place)) for name, place in places}

    @property
    def _encoders(self) -> Mapping[str, str]:
        path = self.folder / ENCODERS
        if not path.exists():
            return {}
        try:
            return {name: str(Path(place)) for name, place in parse_json(path.read_text()).items()}
        except DAMAGED as error:
            raise DataError(f"{path} is no list of folders ({error}); delete it") from None

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
        record = _record(path, fields, remedy)
        if hashlib.sha256(encode(record)).hexdigest() != wanted:
            raise DataError(f"{path}: wanted content with sha256 {wanted}, found other; {remedy}")
    except DAMAGED as error:
        raise DataError(f"{path} is no record ({error!r}); {remedy}") from None
    return record


def encode_committed(records: Iterable[Record]) -> bytes:
    """The records of an encoder as JSON lines, in order, whatever order they come in."""
    shared_values: dict[SharedName, str] = {}
    rows = []
    for record in sorted(records, key=lambda record: cell_of(record).names):
        fields = _fields_of_row(record)
        for name in SHARED:
            if name in fields:
                text = _json(fields[name])
                fields[name] = _digest(text)
                shared_values[name, fields[name]] = text
        rows.append(_sealed_line(_json(fields).removesuffix("}")))
    lines = [_count_line(len(rows))]
    lines += [_shared_line(name, shared_values[name]) for name in sorted(shared_values)]
    lines += rows
    return "".join(f"{line}\n" for line in lines).encode()


def _fields_of_row(record: Record) -> dict[str, Any]:
    """The fields of a row, those that rows share with their values."""
    facts = {name: fact for name, fact in record.facts.items() if name not in ENCODER_FACTS}
    encoder = {name: record.facts[name] for name in ENCODER_FACTS if name in record.facts}
    scores = {name: _folded(name, score) for name, score in record.scores.items()}
    return {**_stored(record), "scores": scores, "facts": facts, "encoder": encoder}


def read_committed(path: Path) -> dict[Cell, Record]:
    """The committed records of an encoder, none without a file. DataError names a bad line."""
    if not path.exists():
        return {}
    shared_values: dict[SharedName, Any] = {}
    records: dict[Cell, Record] = {}
    count = None
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        place = f"{path}:{number}"
        _require_no_conflict(place, line)
        try:
            text = line.decode()
            if number == 1:
                count = _read_count(text)
                continue
            if text.startswith(SHARED_LINE):
                name, value = _read_shared(text)
                shared_values[name] = value
                continue
            fields = _read_row(text, shared_values)
        except DAMAGED as error:
            raise DataError(f"{place} is damaged ({error!r}); restore the file") from None
        record = _record(place, fields, "restore the file")
        cell = cell_of(record)
        _require_place(place, cell, path, records)
        records[cell] = record
    _require_count(path, len(records), count)
    return records


def _require_no_conflict(place: str, line: bytes) -> None:
    """Raise DataError for a line by which git marks the two sides of a merge."""
    if line.startswith(CONFLICT_MARKERS):
        raise DataError(
            f"{place}: wanted the lines of a merged file, found a conflict marker of git; to "
            "keep both sides, delete the markers and write the number of rows into line 1"
        )


def _require_place(place: str, cell: Cell, path: Path, records: Mapping[Cell, Record]) -> None:
    """Raise DataError for a cell that has another line, or belongs to another file."""
    if cell in records:
        raise DataError(
            f"{place}: {cell} has another line, as after a merge of two branches that both "
            "measured it; delete one of the two, and write the number of rows into line 1"
        )
    if f"{file_name(cell.encoder)}.jsonl" != path.name:
        raise DataError(f"{place}: {cell} belongs to another file; restore the file")


def _require_count(path: Path, found: int, count: int | None) -> None:
    """Raise DataError for a file with more or fewer rows than its first line says."""
    if found == count:
        return
    wanted = "a count of" if count is None else count
    remedy = "restore the file"
    if count is not None and found > count:  # a cut file has less
        remedy = (
            "all of them whole, as after a merge of two branches that added rows each; to keep the "
            f"rows of both, write {_count_line(found)} as line 1"
        )
    raise DataError(f"{path}: wanted {wanted} rows, as line 1 says, found {found}; {remedy}")


# The three kinds of lines. Each is read only if it is, letter by letter, as it was written.


def _count_line(count: int) -> str:
    """The first line: `{"rows": 12}`."""
    return _json({"rows": count})


def _read_count(text: str) -> int:
    count = parse_json(text)["rows"]
    _require(text, _count_line(count))
    return int(count)


def _shared_line(name: SharedName, value: str) -> str:
    """The line of a shared value, a text of JSON."""
    field, identifier = name
    return f'{SHARED_LINE}"{identifier}", "{field}": {value}}}'


def _read_shared(text: str) -> tuple[SharedName, Any]:
    """The field and id of a shared value, and the value."""
    fields = parse_json(text)
    identifier = fields.pop("id")
    [(field, value)] = fields.items()
    written = _json(value)
    _require(identifier, _digest(written))
    _require(text, _shared_line((field, identifier), written))
    return (field, identifier), value


def _sealed_line(body: str) -> str:
    """A row's line of JSON but for its last bracket, with the digest of all of that at its end."""
    return f'{body}{LINE_SEAL}{_digest(body)}"}}'


def _read_row(text: str, shared_values: Mapping[SharedName, Any]) -> dict[str, Any]:
    """The fields of a record, whole as they were before they were shared and folded."""
    body = text.rpartition(LINE_SEAL)[0]
    _require(text, _sealed_line(body))
    fields: dict[str, Any] = parse_json(f"{body}}}")
    for name in SHARED:
        if name in fields:
            fields[name] = shared_values[name, fields[name]]
    fields["facts"] = {**fields["facts"], **fields.pop("encoder", {})}
    fields["scores"] = {name: _whole(name, score) for name, score in fields["scores"].items()}
    return fields


def _require(text: str, written: str) -> None:
    """Raise ValueError for a text that is not, from its first to its last letter, as written."""
    if text != written:
        raise ValueError("its content has another digest than it states")


def _folded(name: str, score: Any) -> Any:
    """A score without the aggregations that equal the score of its only group, or `all`."""
    match score:
        case {"groups": {**groups}} if len(groups) == 1:
            folded = {"groups": groups}
        case {"all": value}:
            folded = {"all": value}
        case _:
            return score
    return folded if _whole(name, folded) == score else score


def _whole(name: str, score: Any) -> Any:
    """A score with the aggregations that `_folded` left out."""
    match score:
        case {"groups": {**groups}} if len(groups) == len(score) == 1:
            return {**dict.fromkeys(AGGREGATIONS, *groups.values()), **score}
        case {"all": value} if len(score) == 1 and name in OTHER_SCORES:
            return dict.fromkeys(AGGREGATIONS, value)
    return score


def _stored(record: Record) -> dict[str, Any]:
    """The fields of a record by the names that its schema has for them."""
    fields = vars(record)
    if record.schema != FIRST_SCHEMA:
        return fields
    return {FORMER_IDENTITY if n == "identity" else n: value for n, value in fields.items()}


def _record(place: object, fields: Any, remedy: str) -> Record:
    """The record of fields as they are stored. Raises DataError, naming the place."""
    if isinstance(fields, dict) and fields.get("schema") == FIRST_SCHEMA:
        fields = {"identity" if n == FORMER_IDENTITY else n: v for n, v in fields.items()}
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def same_measurement(old: Record, new: Record) -> bool:
    """Whether two records say the same of the same data, weights and configuration."""
    return _inputs(old) == _inputs(new) and largest_move_of_scores(old, new) <= SAME_PLATFORM


def _inputs(record: Record) -> tuple[Any, ...]:
    """What a record was measured from, whatever the code that measured it."""
    return record.identity, record.pairs, {**record.digests, "code": ""}


def largest_move_of_scores(old: Record, new: Record) -> float:
    """The largest difference between the scores of two records; infinite where one lacks a score.

    A record of before the correlations of other similarities than the cosine were computed lacks
    them, which moves nothing.
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
