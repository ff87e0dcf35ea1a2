"""Records on disk: one JSON file a cell, whole or absent, left alone while its scores still hold.

`<folder>/records/<encoder>/<method>/<task>/seed-<n>.json`, ids escaped to names that every file
system takes. Beside a record lies its sidecar: the per-pair similarities (float32 safetensors),
and in its metadata the identity that was measured. The sidecar says that a cell is done; it is
never committed, so a committed record is always measured again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.errors import DataError
from harness.core.files import file_name, write_atomically
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Record

SCHEMA = 1

# In points. Two runs of the same code, weights and data agree this far on one platform.
SAME_PLATFORM = 1e-3


@dataclass(frozen=True)
class Cell:
    """The address of one number: method id, task name, seed."""

    method: str
    task: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.method} on {self.task}, seed {self.seed}"


@dataclass(frozen=True)
class Store:
    """A results folder. Reading never writes."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        """Where the cell's record stands or would stand."""
        encoder = cell.method.partition(".")[0]
        names = (file_name(part) for part in (encoder, cell.method, cell.task))
        return self.folder.joinpath("records", *names, f"seed-{cell.seed}.json")

    def read(self, cell: Cell) -> Record | None:
        """The cell's record, or None. Raises DataError for a file that is no record."""
        path = self.path(cell)
        return read_record(path) if path.exists() else None

    def records(self) -> Iterator[Record]:
        """Every record, by path."""
        yield from (record for record, _ in self.stored())

    def stored(self, method: str | None = None) -> Iterator[tuple[Record, bytes]]:
        """The same, or those of one method, each with the content of its file."""
        folder = self.folder / "records"
        if method is not None:
            folder = self.path(Cell(method, "task", 0)).parents[1]
        for path in _record_files(folder):
            data = path.read_bytes()
            yield parse_record(path, data), data

    def write(
        self, record: Record, cosines: Float[np.ndarray, " P"], identity: Mapping[str, str]
    ) -> bool:
        """Store a record and its sidecar; True if the record is new or its scores moved.

        A record whose scores agree with the stored one's leaves that file byte-identical.
        """
        cell = Cell(record.method, record.task, record.seed)
        path = self.path(cell)
        stored = read_record(path) if path.exists() else None
        moved = stored is None or not same_measurement(stored, record)
        if moved:
            write_atomically(path, encode(record))
        sidecar = path.with_suffix(".safetensors")
        write_tensors(sidecar, {"cosine": cosines.astype(np.float32)}, identity)
        return moved

    def done(self, cell: Cell, identity: Mapping[str, str]) -> bool:
        """Whether this very identity (data, weights, configuration, code) was measured here."""
        path = self.path(cell)
        return path.exists() and sidecar_metadata(path.with_suffix(".safetensors")) == identity

    def has_cosines(self, cell: Cell) -> bool:
        """Whether the per-pair similarities of a cell lie here."""
        return self.path(cell).with_suffix(".safetensors").exists()

    def cosines(self, cell: Cell) -> Float[np.ndarray, " P"] | None:
        """The per-pair similarities of a cell that was measured here."""
        file = TensorFile.parse(self.path(cell).with_suffix(".safetensors"), sealed=False)
        return file.read("cosine") if file else None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no score")


# Made once: to make one takes as long as to read a record.
JSON = json.JSONDecoder(parse_constant=_no_number)


def encode(record: Record) -> bytes:
    """A record as JSON: stable field order, one value a line, no NaN."""
    return (json.dumps(vars(record), indent=1, allow_nan=False) + "\n").encode()


def _record_files(folder: Path) -> list[Path]:
    """Every record's path, in order; to glob thousands takes longer than to read them."""
    every = ((place, name) for place, _, names in os.walk(folder) for name in names)
    found = (place for place in every if place[1].startswith("seed-") and place[1][-5:] == ".json")
    # By folders, as paths are sorted: a shorter folder's name comes before a longer one's.
    return [Path(*place) for place in sorted(found, key=lambda p: (p[0].split(os.sep), p[1]))]  # noqa: PTH206


def read_record(path: Path) -> Record:
    """Read a record. Raises DataError naming the file."""
    return parse_record(path, path.read_bytes())


def parse_record(path: Path, data: bytes) -> Record:
    """The record in a file's content. Raises DataError naming the file."""
    try:
        fields = JSON.decode(data.decode())
        record = Record(**fields)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is no record ({error}); delete it and run again") from None
    if record.schema != SCHEMA:
        raise DataError(f"{path}: wanted schema {SCHEMA}, found {record.schema}; run it again")
    return record


def sidecar_metadata(path: Path) -> Mapping[str, str] | None:
    """The identity in a sidecar's header; None if there is no whole one."""
    file = TensorFile.parse(path, sealed=False)
    return None if file is None else file.metadata


def same_measurement(old: Record, new: Record, tolerance: float = SAME_PLATFORM) -> bool:
    """Whether two records say the same of the same data, weights and configuration."""
    relevant = (set(old.digests) | set(new.digests)) - {"code"}
    return (
        all(old.digests.get(name) == new.digests.get(name) for name in relevant)
        and (old.repr, old.pairs) == (new.repr, new.pairs)
        and largest_move(old.scores, new.scores) <= tolerance
    )


def largest_move(old: Any, new: Any) -> float:
    """The largest difference between two trees of scores; infinite where their shapes differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old.keys() != new.keys():
            return float("inf")
        return max((largest_move(old[key], new[key]) for key in old), default=0.0)
    if isinstance(old, int | float) and isinstance(new, int | float):
        return float(abs(old - new))
    return 0.0 if old is None and new is None else float("inf")
