"""How fast the harness is, as ratios to something measured beside it in the same run.

Which ratios there are, and what is wanted of each, is data (`results/questions/speed.toml`); what
was measured is one file a row (`results/records/speed/<id>.json`), written by the benchmarks. A row
that was not measured says so. No time stands here: on another machine it would be another.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from harness.core.errors import DataError, UsageError
from harness.core.files import write_atomically
from harness.report.markdown import page, table
from harness.results.layout import measured_for

FILE, FOLDER, PAGE = "speed.toml", "speed", "speed.md"
NOT_MEASURED = "not measured"
LEAST_ROUNDS = 5
INTRODUCTION = (
    "Each row is a ratio of two things that were run in turn, in one process, on one machine: how "
    "many times as fast the first is as the second, or which share of a rate it reaches. Against a "
    "limit in seconds, it is how often the time fits into it. The median over the rounds, the "
    "lowest and the highest; `make bench` measures them anew."
)


@dataclass(frozen=True)
class Row:
    """A ratio that is to be measured: of what, against what, on which device, and what is wanted.

    `wanted` is in words, since what is wanted may depend on the machine; a measurement has the
    number. `rounds` are the least; one is enough where bytes are counted, which do not vary.
    """

    id: str
    what: str
    against: str
    device: str
    wanted: str
    rounds: int = LEAST_ROUNDS


@dataclass(frozen=True)
class Measured:
    """Ratios over the rounds, the least that is wanted here, and what else belongs to them."""

    ratios: tuple[float, ...]
    wanted: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.ratios)


def read_rows(path: Path) -> dict[str, Row]:
    """The rows by id, in their order. Raises DataError for a file that holds something else."""
    try:
        rows = [Row(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["row"]]
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path.name}: wanted a list of rows, found {error!r}") from None
    found = {row.id: row for row in rows}
    if len(found) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    return found


def write_measured(rows: Path, name: str, measured: Measured) -> None:
    """Store what was measured of a row. Raises UsageError for a row that is not in the file."""
    known = read_rows(rows)
    if name not in known:
        raise UsageError(f"{rows.name}: no row {name!r}; add what it measures, and against what")
    if len(measured.ratios) < (least := known[name].rounds):
        raise UsageError(f"{name}: wanted {least} rounds or more, found {len(measured.ratios)}")
    content = {
        "ratios": [float(f"{ratio:.4g}") for ratio in measured.ratios],
        "wanted": measured.wanted,
        "facts": dict(measured.facts),
        "environment": dict(measured.environment),
    }
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    write_atomically(measured_for(rows).with_suffix("") / f"{name}.json", text.encode())


def read_measured(rows: Path, name: str, least: int = LEAST_ROUNDS) -> Measured | None:
    """What was measured of a row; None if nothing was. Raises DataError for a damaged file."""
    path = measured_for(rows).with_suffix("") / f"{name}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        ratios = tuple(map(float, found["ratios"]))
        if len(ratios) < least:
            raise ValueError(f"{len(ratios)} rounds")
        return Measured(ratios, float(found["wanted"]), found["facts"], found["environment"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path.name}: wanted ratios, found {error!r}; measure it again") from None


def speed_page(path: Path) -> str:
    """All rows with what was measured of them. Raises DataError."""
    rows = read_rows(path)
    measured = {name: read_measured(path, name, row.rounds) for name, row in rows.items()}
    stray = {file.stem for file in measured_for(path).with_suffix("").glob("*.json")} - set(rows)
    if stray:
        raise DataError(f"{path.name}: measured, but no row there: {', '.join(sorted(stray))}")
    head = ["what", "against", "device", "wanted", "measured", "lowest–highest", "rounds"]
    lines = [_line(row, measured[name]) for name, row in rows.items()]
    parts = [INTRODUCTION, table(head, lines, words=4)]
    if notes := _notes(rows, measured):
        parts.append("\n".join(notes))
    digest = hashlib.sha256(path.read_bytes())
    for file in sorted(measured_for(path).with_suffix("").glob("*.json")):
        digest.update(file.read_bytes())
    return page("Speed", parts, digest.hexdigest())


def _line(row: Row, measured: Measured | None) -> Sequence[object]:
    words = [row.what, row.against, row.device]
    if measured is None:
        return [*words, row.wanted, NOT_MEASURED, "", ""]
    missed = "" if measured.ratio >= measured.wanted else " (missed)"
    spread = f"{min(measured.ratios):.2f}–{max(measured.ratios):.2f}"
    wanted = f"{row.wanted} (here {measured.wanted:g})"
    return [*words, wanted, f"{measured.ratio:.2f}{missed}", spread, len(measured.ratios)]


def _notes(rows: Mapping[str, Row], measured: Mapping[str, Measured | None]) -> list[str]:
    """With what each was measured, a line for all rows that share it."""
    where: dict[str, list[str]] = {}
    for name, found in measured.items():
        if found is not None:
            facts = [f"{fact} {value}" for fact, value in found.facts.items()]
            where.setdefault("; ".join([_machine(found.environment), *facts]), []).append(name)
    return [f"* {', '.join(rows[n].what for n in names)}: {told}." for told, names in where.items()]


def _machine(environment: Mapping[str, Any]) -> str:
    packages = environment.get("packages", {})
    threads = environment.get("threads")
    return f"{environment.get('processor')}, {threads} threads, torch {packages.get('torch')}"
