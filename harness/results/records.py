"""Records as files, and the comparison of two records of a cell.

A run writes each record to a JSON file of its own. The committed records of a method are
one file of JSON lines, a record a line, sorted by task and seed. Where two branches
change neighbouring lines of a file, git asks which to keep. `harness.results.store` has
the files of a results folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.core.errors import DataError, first_line
from harness.core.files import file_name
from harness.core.types import Record

SCHEMA = 2

# Points by which two runs of the same code, weights and data may differ on one platform.
SAME_PLATFORM = 1e-3

CellName = tuple[str, str]  # a method's id and a task's name

RECORD_DECODER = msgspec.json.Decoder(Record)


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


# Files


def encode(record: Record) -> bytes:
    """A record as a line of JSON, over which digests are taken: stable field order, no NaN."""
    return f"{json.dumps(vars(record), allow_nan=False)}\n".encode()


def encode_run(record: Record) -> bytes:
    """The content of a run's file."""
    return f"{json.dumps(vars(record), indent=1, allow_nan=False)}\n".encode()


def encode_committed(records: Iterable[Record]) -> bytes:
    """The content of a method's committed file; the order of the records does not matter."""
    by_cell = sorted(records, key=lambda record: cell_of(record).names)
    return b"".join(encode(record) for record in by_cell)


def read_record(path: Path) -> Record:
    """Read a run's record. Raises DataError, naming the file, for a damaged one."""
    return _parse_record(path, path.read_bytes(), "delete it and run again")


@dataclass(frozen=True)
class RecordLine:
    """A record as it was read.

    Attributes:
        record: The record.
        text: The record as `encode` writes it, over which digests are taken.
    """

    record: Record
    text: bytes


def read_committed(path: Path) -> dict[Cell, Record]:
    """The records of a committed file; none if it does not exist.

    Raises DataError, which names the line, for a damaged file.
    """
    return {cell: line.record for cell, line in committed_lines(path).items()}


def committed_lines(path: Path) -> dict[Cell, RecordLine]:
    """The records of a committed file with their lines; none if it does not exist.

    Raises DataError, which names the line, for a damaged file, for two records of a cell
    and for a record of another method.
    """
    if not path.exists():
        return {}
    lines: dict[Cell, RecordLine] = {}
    names_of_file = path.parent.name, path.stem
    for number, text in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        place = f"{path}:{number}"
        remedy = "restore the file, or delete the line and measure its cell again"
        if text.startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
            remedy = "git could not merge two branches: keep the lines of both sides"
        record = _parse_record(place, text, remedy)
        cell = cell_of(record)
        if cell in lines:
            raise DataError(f"{place}: {cell} is there twice; delete one of the lines")
        if (file_name(cell.encoder), file_name(cell.method)) != names_of_file:
            raise DataError(f"{place}: {cell} belongs to another file; {remedy}")
        lines[cell] = RecordLine(record, text)
    return lines


def _parse_record(place: object, text: bytes, remedy: str) -> Record:
    """The record in a text of JSON. Raises DataError, with a remedy, where there is none."""
    try:
        record = RECORD_DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place} is no record ({parse_fault(error)}); {remedy}"
        ) from None
    if record.schema > SCHEMA:
        raise DataError(
            f"{place}: wanted schema {SCHEMA}, found {record.schema}: it was written by a newer "
            "version of the harness; read it with that one"
        )
    if record.schema < SCHEMA:
        raise DataError(
            f"{place}: schema {record.schema} is not read any more; {remedy}"
        )
    return record


def parse_fault(error: Exception) -> str:
    """An error of parsing by its type and first line, without the content that it holds."""
    return f"{type(error).__name__}: {first_line(error)}"


# Two records of a cell


def same_measurement(old: Record, new: Record) -> bool:
    """Whether two records have the same scores for the same data, weights and settings."""
    if _inputs(old) != _inputs(new):
        return False
    return largest_move_of_scores(old, new) <= SAME_PLATFORM


def _inputs(record: Record) -> tuple[Any, ...]:
    """What a record was measured from, but for the code: identity, pairs and digests."""
    return record.identity, record.pairs, {**record.digests, "code": ""}


def has_further_scores(old: Record, new: Record) -> bool:
    """Whether a record has scores that an older one lacks, since later code computes them."""
    return not new.scores.keys() <= old.scores.keys()


def largest_move_of_scores(old: Record, new: Record) -> float:
    """The largest difference between the scores of two records; infinite if the new one lacks one.

    Further scores of the new record are not compared with anything. It is infinite, too,
    if they have no score in common.
    """
    compared = {name: score for name, score in new.scores.items() if name in old.scores}
    if new.scores and not compared:
        return float("inf")
    return largest_move(old.scores, compared)


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
