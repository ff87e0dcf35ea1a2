"""Stores what benchmarks, attacks and GPUs measured, for the pages of `harness/report/measured.py`.

python benchmarks/measurements.py build/gpu/gpu.json   # what `make gpu` wrote; then harness report
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.files import rewrite
from harness.core.json_text import parse_json, sealed, write_sealed
from harness.report.measured import (
    GPU_RECORDS,
    Attempts,
    BenchmarkResult,
    folder_of,
    read_attacks,
    read_benchmarks,
)

ROOT = Path(__file__).resolve().parents[1]


def write_result(rows: Path, name: str, result: BenchmarkResult) -> None:
    """Store what was measured of a row. Raises UsageError for a row that is not in the file."""
    benchmarks = read_benchmarks(rows).rows
    if name not in benchmarks:
        raise UsageError(
            f"{rows.name}: no row {name!r}; add what it measures, and against what"
        )
    if len(result.ratios) < (least := benchmarks[name].rounds):
        raise UsageError(
            f"{name}: wanted {least} rounds or more, found {len(result.ratios)}"
        )
    content = {
        **vars(result),
        "ratios": [float(f"{ratio:.4g}") for ratio in result.ratios],
    }
    write_sealed(folder_of(rows) / f"{name}.json", content, sort_keys=True)


def write_attempts(rows: Path, name: str, part: str, attempts: Attempts) -> None:
    """Store what came of a part of an attack, beside its other parts.

    Raises UsageError for an attack that is not in the file.
    """
    path = folder_of(rows) / f"{name}.json"

    def content() -> bytes:
        results = read_attacks(rows).results
        if name not in results:
            raise UsageError(
                f"{rows.name}: no row {name!r}; add what is tried, and what is right"
            )
        before = results[name]
        parts = {**(before.parts if before else {}), part: attempts}
        lines = (
            f"{json.dumps(key)}: {json.dumps(asdict(parts[key]))}"
            for key in sorted(parts)
        )
        return sealed(
            path.name, '{"parts": {\n' + ",\n".join(lines) + "\n}}\n"
        ).encode()

    rewrite(path, content)


def commit_gpu(file: Path, results: Path) -> Path:
    """Store what `make gpu` measured as the results of its card.

    Raises UsageError for a trial run, and where a step failed or was left out.
    """
    content = parse_json(file.read_text(encoding="utf-8"))
    unmeasured = [
        n for n, step in content["steps"].items() if step["state"] != "measured"
    ]
    if content["tiny"] or unmeasured:
        why = (
            "a trial (--tiny)"
            if content["tiny"]
            else f"not measured: {', '.join(unmeasured)}"
        )
        raise UsageError(
            f"{file}: wanted what `make gpu` measured of every step, found {why}"
        )
    name = re.sub(r"[^a-z0-9]+", "-", content["environment"]["device"].lower()).strip(
        "-"
    )
    path = results / GPU_RECORDS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_sealed(path, content)
    return path


if __name__ == "__main__":
    try:
        commit_gpu(Path(sys.argv[1]), ROOT / "results")
    except HarnessError as error:
        sys.exit(str(error))
