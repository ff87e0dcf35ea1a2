"""The page of speed: every ratio that is wanted, with what was measured.

No time stands here: on another machine it would be another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.report.markdown import page, table
from harness.results.benchmarks import (
    BenchmarkResult,
    BenchmarkRow,
    digest,
    read_benchmarks,
    read_results,
)
from harness.results.index import NOT_MEASURED

INTRODUCTION = (
    "Each row is a ratio of two things that were run in turn, in one process, on one machine: how "
    "many times as fast the first is as the second, or which share of a rate it reaches. Against a "
    "limit in seconds, it is how often the time fits into it. The median over the rounds, the "
    "lowest and the highest; `make bench` measures them anew."
)


def speed_page(path: Path) -> str:
    """All rows of a file with their results; a row without one says so. Raises DataError."""
    rows, results = read_benchmarks(path), read_results(path)
    head = ["what", "against", "device", "wanted", "measured", "lowest–highest", "rounds"]
    lines = [_line(row, results[name]) for name, row in rows.items()]
    parts = [INTRODUCTION, table(head, lines, words=4)]
    if notes := _notes(rows, results):
        parts.append("\n".join(notes))
    return page("Speed", parts, digest(path))


def _line(row: BenchmarkRow, result: BenchmarkResult | None) -> Sequence[object]:
    words = [row.what, row.against, row.device]
    if result is None:
        return [*words, row.wanted, NOT_MEASURED, "", ""]
    missed = " (missed)" if result.missed else ""
    spread = f"{min(result.ratios):.2f}–{max(result.ratios):.2f}"
    wanted = f"{row.wanted} (here {result.wanted:g})"
    return [*words, wanted, f"{result.ratio:.2f}{missed}", spread, len(result.ratios)]


def _notes(
    rows: Mapping[str, BenchmarkRow], results: Mapping[str, BenchmarkResult | None]
) -> list[str]:
    """Machine and facts of the measurements, a line for all rows that share them."""
    measured_so: dict[str, list[str]] = {}
    for name, result in results.items():
        if result is not None:
            facts = [f"{fact} {value}" for fact, value in result.facts.items()]
            how = "; ".join([_machine(result.environment), *facts])
            measured_so.setdefault(how, []).append(rows[name].what)
    return [f"* {', '.join(whats)}: {how}." for how, whats in measured_so.items()]


def _machine(environment: Mapping[str, Any]) -> str:
    packages = environment.get("packages", {})
    threads = environment.get("threads")
    return f"{environment.get('processor')}, {threads} threads, torch {packages.get('torch')}"
