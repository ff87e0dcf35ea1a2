"""Records as files, and the comparison of two records of a cell.

A run writes each record to a file of its own. The committed records of a method are one
file of JSON lines. It has for each cell a heading, the record and empty lines, and an
end line, by which a file that was cut is recognised:

    {"cell": "minilm.mean on sts-b, seed 0"} {"schema": 2, "method": "minilm.mean",
    "task": "sts-b", "seed": 0, ..., "sha256": "5f0c..."}



    {"end": "minilm.mean"}

A record depends on no other line, and its last field is the sha256 of the others, so
that git merges the records of two branches line by line. Git takes two changes for one
if three lines or fewer are between them, which headings and empty lines prevent. Where
both branches add records in one place, `.gitattributes` makes git keep the lines of
both. A reader takes lines in any order.

The format of a run's file comes first in this module, then the format of a committed
file, and last the comparison of two records. `harness.results.store` has the files of a
results folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from harness.core.errors import DataError, first_line
from harness.core.files import file_name
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import OTHER_SCORES
from harness.core.types import Record

SCHEMA = 2
# Records of schema 1 are still read; they hold `repr` where later ones hold `identity`.
FIRST_SCHEMA = 1
FORMER_IDENTITY = "repr"

# Points by which two runs of the same code, weights and data may differ on one platform.
SAME_PLATFORM = 1e-3

SEAL = "sha256"  # the last field of a record in a file: the digest of the other fields
LINE_SEAL = (
    f', "{SEAL}": "'  # the text of a line between the other fields and the digest
)

HEADING = '{"cell": '  # the beginning of the line before a committed record
EMPTY_LINES = 3  # after a committed record
# The beginnings of the lines that git adds where it could not merge two branches.
CONFLICT_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")

RECORD_FIELDS = Record.__dataclass_fields__
OPTIONAL_FIELDS = {"facts"}

RESTORE = "restore the file, or delete the line and measure its cell again"

# Errors that the reading of a damaged file raises.
PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class Cell:
    """The name of a cell: method id, task name and seed."""

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
        """The names of the folders and the file of a run's record, by which records are sorted."""
        folders = [file_name(name) for name in (self.encoder, self.method, self.task)]
        return (*folders, f"seed-{self.seed}.json")


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    return Cell(record.method, record.task, record.seed)


# A run's record: a file of its own


def encode(record: Record) -> bytes:
    """A record as a line of JSON, over which digests are taken: stable field order, no NaN."""
    return f"{_json(_stored_fields(record))}\n".encode()


def seal(record: Record) -> bytes:
    """The content of a run's file: the fields of a record, and the sha256 of `encode`."""
    digest = hashlib.sha256(encode(record)).hexdigest()
    sealed_fields = {**_stored_fields(record), SEAL: digest}
    return (json.dumps(sealed_fields, indent=1, allow_nan=False) + "\n").encode()


def read_record(path: Path) -> Record:
    """Read a run's record. Raises DataError, naming the file, for a damaged one."""
    remedy = "delete it and run again"
    try:
        fields = parse_json(path.read_bytes())
        digest = fields.pop(SEAL)
        record = record_of_fields(path, fields, remedy)
        if hashlib.sha256(encode(record)).hexdigest() != digest:
            raise DataError(
                f"{path}: wanted content with sha256 {digest}, found other; {remedy}"
            )
    except PARSE_ERRORS as error:
        raise DataError(
            f"{path} is no record ({parse_fault(error)}); {remedy}"
        ) from None
    return record


def parse_fault(error: Exception) -> str:
    """An error of parsing by its type and first line, without the content that it holds."""
    return f"{type(error).__name__}: {first_line(error)}"


def _stored_fields(record: Record) -> dict[str, Any]:
    """The fields of a record under the names that they have in its schema."""
    fields = dict(vars(record))
    if record.schema == FIRST_SCHEMA:
        return _rename_field(fields, "identity", FORMER_IDENTITY)
    return fields


def record_of_fields(place: object, fields: Any, remedy: str) -> Record:
    """The record with these stored fields.

    Args:
        place: The file, or the file and line, that an error names.
        fields: The fields as they were stored, without the digest.
        remedy: What an error advises.

    Raises:
        DataError: The fields make no record, or its schema is unknown.
    """
    if isinstance(fields, dict) and fields.get("schema") == FIRST_SCHEMA:
        fields = _rename_field(fields, FORMER_IDENTITY, "identity")
    if not isinstance(fields, dict):
        raise DataError(
            f"{place}: wanted the fields of a record, found {fields!r:.40}; {remedy}"
        )
    unknown_fields = fields.keys() - RECORD_FIELDS.keys()
    missing_fields = RECORD_FIELDS.keys() - fields.keys() - OPTIONAL_FIELDS
    if unknown_fields or missing_fields:
        faults = [f"{name!r}" for name in sorted(unknown_fields)]
        faults += [f"no {name!r}" for name in sorted(missing_fields)]
        raise DataError(
            f"{place}: wanted the fields of a record, found {', '.join(faults)}; {remedy}"
        )
    record = Record(**fields)
    if record.schema not in (FIRST_SCHEMA, SCHEMA):
        raise DataError(
            f"{place}: wanted schema {FIRST_SCHEMA} or {SCHEMA}, found {record.schema}; run it "
            "again, or read it with the version that wrote it"
        )
    return record


def _rename_field(
    fields: Mapping[str, Any], old_name: str, new_name: str
) -> dict[str, Any]:
    """The fields in their order, one of them under another name."""
    renamed_fields = {}
    for name, value in fields.items():
        if name == old_name:
            renamed_fields[new_name] = value
        else:
            renamed_fields[name] = value
    return renamed_fields


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


# Committed records: a file of lines for each method


@dataclass(frozen=True)
class RecordLine:
    """A record as it was read.

    Attributes:
        record: The record.
        text: The record as `encode` writes it, over which digests are taken.
        line_number: The line of its file that holds it.
    """

    record: Record
    text: bytes
    line_number: int = 1


def encode_committed(method: str, records: Iterable[Record]) -> bytes:
    """The content of a method's committed file; the order of the records does not matter."""
    lines = []
    for record in sorted(records, key=lambda record: cell_of(record).names):
        lines.append(_heading(cell_of(record)))
        lines.append(_line(record))
        lines += [""] * EMPTY_LINES
    lines.append(_end_line(method))
    return "".join(f"{line}\n" for line in lines).encode()


def read_committed(path: Path) -> dict[Cell, Record]:
    """The records of a committed file; none if it does not exist.

    Raises DataError, which names the line, for a damaged file.
    """
    return {cell: line.record for cell, line in committed_lines(path).items()}


def committed_lines(path: Path) -> dict[Cell, RecordLine]:
    """The records of a committed file with their lines; none if it does not exist.

    Raises DataError, which names the line, for a damaged file.
    """
    if not path.exists():
        return {}
    record_lines: dict[Cell, RecordLine] = {}
    number_of_heading: dict[str, int] = {}  # the line number of each heading
    lines = path.read_bytes().splitlines()
    end_line = _end_line(unquote(path.stem)).encode()
    for number, line in enumerate(lines, start=1):
        if line.startswith(HEADING.encode()):
            number_of_heading[line.decode(errors="replace")] = number
        elif line not in (b"", end_line):
            record_line = _read_line(path, number, line)
            cell = cell_of(record_line.record)
            if cell in record_lines:
                record_line = _one_of_two(path, record_lines[cell], record_line)
            record_lines[cell] = record_line
    _require_cells(path, record_lines, number_of_heading)
    if lines[-1:] != [end_line]:
        raise DataError(
            f"{path}:{len(lines)}: wanted {end_line.decode()} as the last line, found another; the "
            f"file was cut or a line appended: {RESTORE}"
        )
    return record_lines


def _heading(cell: Cell) -> str:
    """The line before a record: `{"cell": "minilm.mean on sts-b, seed 0"}`."""
    return f"{HEADING}{_json(str(cell))}}}"


def _line(record: Record) -> str:
    """The line of a record: its fields, and their digest as the last field."""
    text = encode(record)
    digest = hashlib.sha256(text).hexdigest()
    fields = text.decode().removesuffix("}\n")
    return f'{fields}{LINE_SEAL}{digest}"}}'


def _end_line(method: str) -> str:
    """The last line of a committed file: `{"end": "minilm.mean"}`."""
    return _json({"end": method})


def _read_line(path: Path, line_number: int, line: bytes) -> RecordLine:
    """The record of a line. Raises DataError for a line that holds none."""
    place = f"{path}:{line_number}"
    if line.startswith(CONFLICT_MARKERS):
        raise DataError(
            f"{place}: wanted the lines of a merged file, found a conflict marker of git; delete "
            "the markers and keep the lines of both sides"
        )
    try:
        fields, _, digest = line.rpartition(LINE_SEAL.encode())
        text = fields + b"}\n"
        if digest.decode() != f'{hashlib.sha256(text).hexdigest()}"}}':
            raise ValueError("its content has another digest than it states")
        content = parse_json(text)
    except PARSE_ERRORS as error:
        raise DataError(
            f"{place} is damaged ({parse_fault(error)}); {RESTORE}"
        ) from None
    record = record_of_fields(place, content, RESTORE)
    return RecordLine(record, text, line_number)


def _one_of_two(path: Path, first: RecordLine, second: RecordLine) -> RecordLine:
    """One of two records of a cell with the same scores. DataError if their scores differ.

    Both sides of a merge may have measured a cell, so that the records differ in their
    timings alone. Which one is taken does not depend on the order of the lines.
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
    path: Path, lines: Mapping[Cell, RecordLine], number_of_heading: Mapping[str, int]
) -> None:
    """Raise DataError for a cell of another file, a record without heading, or the reverse."""
    headings_without_record = dict(number_of_heading)
    method_name, encoder_name = path.stem, path.parent.name
    for cell, line in lines.items():
        place = f"{path}:{line.line_number}"
        heading = _heading(cell)
        is_of_method = file_name(cell.method) == method_name
        is_of_encoder = file_name(cell.encoder) == encoder_name
        if not (is_of_method and is_of_encoder):
            raise DataError(f"{place}: {cell} belongs to another file; {RESTORE}")
        if heading not in number_of_heading:
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
    """Whether two records have the same scores for the same data, weights and settings."""
    if _inputs(old) != _inputs(new):
        return False
    return largest_move_of_scores(old, new) <= SAME_PLATFORM


def _inputs(record: Record) -> tuple[Any, ...]:
    """What a record was measured from, but for the code: identity, pairs and digests."""
    return record.identity, record.pairs, {**record.digests, "code": ""}


def largest_move_of_scores(old: Record, new: Record) -> float:
    """The largest difference between the scores of two records; infinite if one lacks a score.

    Correlations of other similarities than the cosine's do not count where the old
    record lacks them, since early versions did not compute them.
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
