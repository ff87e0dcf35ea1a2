"""Measurements of the harness itself: benchmarks of speed, and attacks on it.

A file of questions (`results/questions/speed.toml`, `reliability.toml`) has a row for each thing to
measure; what was measured is one file a row (`results/records/speed/<id>.json`), written by the
benchmarks and by the attacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from harness.core.errors import DataError
from harness.core.toml import read_json, read_rows
from harness.results.layout import measured_for

LEAST_ROUNDS = 5
COUNTS = ("tried", "right", "rebuilt", "refused", "silent")


@dataclass(frozen=True)
class BenchmarkRow:
    """A ratio to measure: what is compared with what, on which device, and what is wanted.

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


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness, and the behaviour that counts as right."""

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Attempts:
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
class AttackResult:
    """The attempts of an attack, by the names of its parts; COUNTS are their sums."""

    parts: Mapping[str, Attempts]

    def total(self, count: str) -> int:
        """The sum of one of COUNTS over the parts."""
        return sum(getattr(part, count) for part in self.parts.values())


Row = TypeVar("Row", BenchmarkRow, Attack)
Result = TypeVar("Result", BenchmarkResult, AttackResult)


@dataclass(frozen=True)
class MeasuredRows(Generic[Row, Result]):
    """The rows of a file of questions and their results, both by id; None where not measured.

    `digest` is the sha256 over the rows and every result.
    """

    rows: Mapping[str, Row]
    results: Mapping[str, Result | None]
    digest: str


def read_benchmarks(path: Path) -> MeasuredRows[BenchmarkRow, BenchmarkResult]:
    """Benchmarks with their results. Raises DataError for a damaged file, or one without a row."""
    measured = _measured(path, read_rows(BenchmarkRow, path), BenchmarkResult)
    for name, result in measured.results.items():
        least = measured.rows[name].rounds
        if result and len(result.ratios) < least:
            raise DataError(f"{name}.json: wanted {least} ratios, found {len(result.ratios)}")
    return measured


def read_attacks(path: Path) -> MeasuredRows[Attack, AttackResult]:
    """Attacks with their results. Raises DataError for a damaged file, or one without a row."""
    return _measured(path, read_rows(Attack, path), AttackResult)


def _measured(path: Path, rows: tuple[Row, ...], cls: type[Result]) -> MeasuredRows[Row, Result]:
    by_id = {row.id: row for row in rows}
    if len(by_id) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    files: list[Path] = sorted(measured_folder(path).glob("*.json"))
    if stray := sorted({file.stem for file in files} - set(by_id)):
        raise DataError(f"{path.name}: measured, but no row there: {', '.join(stray)}")
    results: dict[str, Result | None] = dict.fromkeys(by_id)
    results |= {file.stem: read_json(cls, file) for file in files}
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (path, *files)))
    return MeasuredRows(by_id, results, digest.hexdigest())


def measured_folder(rows: Path) -> Path:
    """The folder of the results of a file of rows."""
    return measured_for(rows).with_suffix("")
