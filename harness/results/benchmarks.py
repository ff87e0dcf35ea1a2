"""Benchmarks of speed: ratios of two things that were run in turn, in one process.

`results/questions/speed.toml` says which ratios there are and what is wanted of each; what was
measured is one file a row (`results/records/speed/<id>.json`), written by the benchmarks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness.core.errors import DataError
from harness.core.toml import read_json, read_rows
from harness.results.layout import measured_for

LEAST_ROUNDS = 5


@dataclass(frozen=True)
class BenchmarkRow:
    """A ratio that is to be measured: of what, against what, on which device, and what is wanted.

    `wanted` is in words, since it may depend on the machine; a result has the number. `rounds` are
    the least; one is enough where bytes are counted, which do not vary.
    """

    id: str
    what: str
    against: str
    device: str
    wanted: str
    rounds: int = LEAST_ROUNDS


@dataclass(frozen=True)
class BenchmarkResult:
    """Ratios over the rounds, the least that is wanted on that machine, and how it was measured."""

    ratios: tuple[float, ...]
    wanted: float
    facts: Mapping[str, Any]
    environment: Mapping[str, Any]

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return median(self.ratios)

    @property
    def missed(self) -> bool:
        """Whether the median is below what is wanted."""
        return self.ratio < self.wanted


def read_benchmarks(path: Path) -> dict[str, BenchmarkRow]:
    """The rows by id, in their order. Raises DataError for a file that holds something else."""
    rows = read_rows(BenchmarkRow, path)
    if len({row.id for row in rows}) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    return {row.id: row for row in rows}


def read_results(path: Path) -> dict[str, BenchmarkResult | None]:
    """The result of every row by id; None if it was not measured.

    Raises DataError for a damaged result, and where one was measured that has no row.
    """
    rows, folder = read_benchmarks(path), results_folder(path)
    if stray := {file.stem for file in folder.glob("*.json")} - set(rows):
        raise DataError(f"{path.name}: measured, but no row there: {', '.join(sorted(stray))}")
    return {name: _read_result(folder / f"{name}.json", row.rounds) for name, row in rows.items()}


def _read_result(path: Path, least: int) -> BenchmarkResult | None:
    result = read_json(BenchmarkResult, path) if path.exists() else None
    if result and len(result.ratios) < least:
        raise DataError(f"{path.name}: wanted {least} ratios, found {len(result.ratios)}")
    return result


def benchmarks_digest(path: Path) -> str:
    """sha256 over the rows and every result."""
    sha256 = hashlib.sha256(path.read_bytes())
    for file in sorted(results_folder(path).glob("*.json")):
        sha256.update(file.read_bytes())
    return sha256.hexdigest()


def results_folder(rows: Path) -> Path:
    """The folder of the results of a file of rows."""
    return measured_for(rows).with_suffix("")


COUNTS = ("tried", "right", "rebuilt", "refused", "silent")


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness, and the behaviour that counts as right."""

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Tally:
    """How often a part of an attack was tried, and what came of it.

    Args:
        right: Nothing was wrong, and nobody had to do anything.
        rebuilt: What was damaged was noticed and made again, and the outcome was right.
        refused: It was refused in one line, with a status that says so.
        silent: A wrong number, a lost or a stray file, or a traceback.
        commit: The commit that was attacked.
    """

    right: int = 0
    rebuilt: int = 0
    refused: int = 0
    silent: int = 0
    commit: str = ""

    @property
    def tried(self) -> int:
        """All of them."""
        return self.right + self.rebuilt + self.refused + self.silent


@dataclass(frozen=True)
class Tallies:
    """The tallies of an attack, by the names of its parts; COUNTS are their sums."""

    parts: Mapping[str, Tally]

    def total(self, count: str) -> int:
        """The sum of one of COUNTS over the parts."""
        return sum(getattr(part, count) for part in self.parts.values())


def read_tallies(path: Path) -> dict[Attack, Tallies | None]:
    """Every row of a file of attacks with its tallies; None where it was not tried.

    Raises DataError for what is none, and where one was tried that has no row.
    """
    rows, folder = read_rows(Attack, path), tallies_folder(path)
    if len({row.id for row in rows}) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    if stray := {file.stem for file in folder.glob("*.json")} - {row.id for row in rows}:
        raise DataError(f"{path.name}: tried, but no row there: {', '.join(sorted(stray))}")
    files = {row: folder / f"{row.id}.json" for row in rows}
    return {row: read_json(Tallies, file) if file.exists() else None for row, file in files.items()}


def tallies_folder(rows: Path) -> Path:
    """The folder of the tallies of a file of attacks."""
    return measured_for(rows).with_suffix("")


def reliability_digest(path: Path) -> str:
    """sha256 over the rows and every tally."""
    files = (path, *sorted(tallies_folder(path).glob("*.json")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
