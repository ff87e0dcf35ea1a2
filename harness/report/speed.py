"""The page of speed: ratios of two things that were run in turn on one machine.

`results/questions/speed.toml` lists the things that are compared; `make bench` measures
them and stores each in `results/records/speed/ID.json`. Below the table is a section for
each GPU, measured by `make gpu`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness.conclusions.folder import Conclusions
from harness.core.files import parse_json
from harness.core.toml import read_rows, read_typed
from harness.report.table import rendered
from harness.results.index import NOT_MEASURED
from harness.results.layout import QUESTIONS, RECORDS, digest_of_measured, measured_for

GPU_RECORDS = Path(RECORDS, "gpu")  # of a results folder: a file for each card


# Benchmarks and their results


@dataclass(frozen=True)
class BenchmarkRow:
    """A ratio to measure.

    Attributes:
        id: The name of its result file.
        what: What is measured.
        against: What it is compared with.
        device: The device on which both run.
        wanted: The ratio that is wanted, in words, since it may depend on the machine; a
            result has the number.
    """

    id: str
    what: str
    against: str
    device: str
    wanted: str


@dataclass(frozen=True)
class BenchmarkResult:
    """What was measured of a benchmark.

    Attributes:
        ratios: The ratio of each round.
        wanted: The least ratio that is wanted on that machine.
        facts: Settings of the measurement.
        environment: The machine and the versions of packages.
    """

    ratios: tuple[float, ...]
    wanted: float
    facts: Mapping[str, Any]
    environment: Mapping[str, Any]


Benchmarks = Sequence[tuple[BenchmarkRow, BenchmarkResult | None]]


def read_benchmarks(questions: Path) -> Benchmarks:
    """Each benchmark of the file with its result; None where it was not measured.

    Raises DataError for a damaged file.
    """
    benchmarks = []
    for row in read_rows(BenchmarkRow, questions):
        file = result_file(questions, row.id)
        result = read_typed(BenchmarkResult, file) if file.exists() else None
        benchmarks.append((row, result))
    return benchmarks


def result_file(questions: Path, name: str) -> Path:
    """The file with the result of a benchmark."""
    return measured_for(questions).with_suffix("") / f"{name}.json"


# The page


def speed_page(folder: Conclusions) -> str:
    """Every ratio, then a section for each GPU."""
    questions = folder.path / QUESTIONS / "speed.toml"
    if not questions.exists():
        return ""
    rows = [_speed_row(row, result) for row, result in read_benchmarks(questions)]
    cards = []
    for file in sorted((folder.path / GPU_RECORDS).glob("*.json")):
        measured = parse_json(file.read_bytes())
        cards.append((measured["environment"], gpu_rows(measured)))
    return rendered(
        "speed.md",
        title="Speed",
        rows=rows,
        cards=cards,
        digest=digest_of_measured(questions),
    )


def _speed_row(row: BenchmarkRow, result: BenchmarkResult | None) -> list[object]:
    """A benchmark as a row of the table."""
    if result is None:
        return [row.what, row.against, row.device, row.wanted, NOT_MEASURED, *[""] * 4]
    lowest, highest = min(result.ratios), max(result.ratios)
    middle = median(result.ratios)
    environment = result.environment
    remark = ""
    if middle < result.wanted:
        remark = " (missed)"
    elif lowest < result.wanted:
        remark = " (not in every round)"
    return [
        row.what,
        row.against,
        f"{row.device}: {environment.get('processor')}",
        f"{row.wanted} (here {result.wanted:g})",
        f"{middle:.2f}{remark}",
        f"{lowest:.2f}–{highest:.2f}",
        len(result.ratios),
        f"{environment['harness']}, {environment['commit'][:8]}",
        f"torch {environment['packages']['torch']}, "
        f"transformers {environment['packages']['transformers']}",
    ]


# The section of a GPU


def gpu_rows(measured: Mapping[str, Any]) -> list[list[str]]:
    """What was measured on one card: encoding here and by sentence-transformers in one run.

    Args:
        measured: The content of its file, as `benchmarks/gpu.py` writes it.
    """
    rows = []
    for name, case in measured["steps"]["encoding"]["values"].items():
        speed, ratio = case["sentences_per_second"], case["times_as_fast"]
        rows.append([name, f"{speed:,.0f}", f"{ratio:.2f}"])
    return rows
