"""Store what benchmarks and GPUs measured, for the page of speed.

`write_result` is for benchmarks. The file that `make gpu` wrote is stored by the command

    python benchmarks/measurements.py build/gpu/gpu.json

and shown by `harness report`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.json_text import parse_json, write_json
from harness.report.speed import (
    GPU_RECORDS,
    BenchmarkResult,
    read_benchmarks,
    result_file,
)

ROOT = Path(__file__).resolve().parents[1]


def write_result(rows: Path, name: str, result: BenchmarkResult) -> None:
    """Store the result of a benchmark.

    Args:
        rows: The TOML file of all benchmarks.
        name: A row of the file.
        result: What was measured.

    Raises:
        UsageError: There is no such row, or the result has too few rounds.
    """
    benchmarks = {row.id: row for row, _ in read_benchmarks(rows)}
    if name not in benchmarks:
        raise UsageError(
            f"{rows.name}: no row {name!r}; add what it measures, and against what"
        )
    least_rounds = benchmarks[name].rounds
    if len(result.ratios) < least_rounds:
        raise UsageError(
            f"{name}: wanted {least_rounds} rounds or more, found {len(result.ratios)}"
        )
    content = dict(vars(result))
    content["ratios"] = [float(f"{ratio:.4g}") for ratio in result.ratios]
    write_json(result_file(rows, name), content, sort_keys=True)


def commit_gpu(file: Path, results: Path) -> Path:
    """Store what `make gpu` measured as the results of its card.

    Raises UsageError for a trial run, and where not every step was measured.
    """
    content = parse_json(file.read_text(encoding="utf-8"))
    measured = [
        name for name, step in content["steps"].items() if step["state"] == "measured"
    ]
    if content["tiny"] or measured != ["tests", "gate", "encoding"]:
        raise UsageError(
            f"{file}: wanted what `make gpu` measured of every step, found "
            f"{'a trial (--tiny)' if content['tiny'] else f'only {measured}'}"
        )
    device = content["environment"]["device"].lower()
    name = re.sub(r"[^a-z0-9]+", "-", device).strip("-")
    path = results / GPU_RECORDS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_json(path, content)
    return path


if __name__ == "__main__":
    try:
        commit_gpu(Path(sys.argv[1]), ROOT / "results")
    except HarnessError as error:
        sys.exit(str(error))
