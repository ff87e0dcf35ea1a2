"""Store what benchmarks, attacks and GPUs measured, for the pages of speed and reliability.

`write_result` is for benchmarks, `write_attempts` for attacks and mutants. The file that
`make gpu` wrote is stored by the command

    python benchmarks/measurements.py build/gpu/gpu.json

and shown by `harness report`.
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
from harness.report.measured_rows import results_folder
from harness.report.reliability import Attempts, read_attacks
from harness.report.speed import GPU_RECORDS, BenchmarkResult, read_benchmarks

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
    benchmarks = read_benchmarks(rows).rows
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
    write_sealed(results_folder(rows) / f"{name}.json", content, sort_keys=True)


def write_attempts(rows: Path, name: str, part: str, attempts: Attempts) -> None:
    """Store what became of the attempts of a part of an attack.

    Other parts stay as they are, also if processes store theirs at the same time.

    Args:
        rows: The TOML file of all attacks.
        name: A row of the file.
        part: A part of the attack.
        attempts: What became of its attempts.

    Raises:
        UsageError: There is no such row.
    """
    path = results_folder(rows) / f"{name}.json"

    def content_with_part() -> bytes:
        results = read_attacks(rows).results
        if name not in results:
            raise UsageError(
                f"{rows.name}: no row {name!r}; add what is tried, and what is right"
            )
        stored = results[name]
        parts = dict(stored.parts) if stored else {}
        parts[part] = attempts
        lines = []  # a part has a line, so that branches merge
        for key in sorted(parts):
            lines.append(f"{json.dumps(key)}: {json.dumps(asdict(parts[key]))}")
        text = '{"parts": {\n' + ",\n".join(lines) + "\n}}\n"
        return sealed(path.name, text).encode()

    rewrite(path, content_with_part)


def commit_gpu(file: Path, results: Path) -> Path:
    """Store what `make gpu` measured as the results of its card.

    Raises UsageError for a trial run, and where a step failed or was left out.
    """
    content = parse_json(file.read_text(encoding="utf-8"))
    unmeasured = []
    for name, step in content["steps"].items():
        if step["state"] != "measured":
            unmeasured.append(name)
    found = ""
    if content["tiny"]:
        found = "a trial (--tiny)"
    elif unmeasured:
        found = f"not measured: {', '.join(unmeasured)}"
    if found:
        raise UsageError(
            f"{file}: wanted what `make gpu` measured of every step, found {found}"
        )
    device = content["environment"]["device"].lower()
    name = re.sub(r"[^a-z0-9]+", "-", device).strip("-")
    path = results / GPU_RECORDS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_sealed(path, content)
    return path


if __name__ == "__main__":
    try:
        commit_gpu(Path(sys.argv[1]), ROOT / "results")
    except HarnessError as error:
        sys.exit(str(error))
