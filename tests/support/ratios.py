"""Benchmarks' ratios, written where the page of speed reads them."""

from __future__ import annotations

import json
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.results.benchmarks import BenchmarkResult, measured_folder, read_benchmarks


def write_result(rows: Path, name: str, result: BenchmarkResult) -> None:
    """Store what was measured of a row. Raises UsageError for a row that is not in the file."""
    known = read_benchmarks(rows).rows
    if name not in known:
        raise UsageError(f"{rows.name}: no row {name!r}; add what it measures, and against what")
    if len(result.ratios) < (least := known[name].rounds):
        raise UsageError(f"{name}: wanted {least} rounds or more, found {len(result.ratios)}")
    content = {**vars(result), "ratios": [float(f"{ratio:.4g}") for ratio in result.ratios]}
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    write_atomically(measured_folder(rows) / f"{name}.json", text.encode())
