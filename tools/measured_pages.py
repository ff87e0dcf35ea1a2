"""The pages of speed, reliability and moved pairs, and two tables of the page on flows.

`results/questions/speed.toml` and `reliability.toml` say what `make bench`, `make soak` and `make
mutants` measure; results lie in `results/records/speed` and `reliability`, a file a row, and the
pages in `results/tables`. `moved_pairs.py` measures the third.

    python tools/measured_pages.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from encoding_noise import noise_table
from flow_floors import PAGE as FLOWS_PAGE
from flow_floors import floors_part, read_floors
from moved_pairs import CHOICES, moved_pairs_page

from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import rewrite, write_atomically
from harness.core.json_text import parse_json, parse_sealed, sealed, write_sealed
from harness.core.toml import read_rows, read_sealed
from harness.report.build import MEASURED_PAGES, note_digests
from harness.report.markdown import between_markers, escape, page_text, table
from harness.results.index import NOT_MEASURED
from harness.results.layout import QUESTIONS, RECORDS, digest_of_measured, measured_for

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
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


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness, and the behaviour that counts as right."""

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Attempts:
    """How often a part of an attack was tried, what came of it, and the commit attacked."""

    right: int = 0  # nothing was wrong
    rebuilt: int = 0  # what was damaged was noticed and made again
    refused: int = 0  # in one line, with a status that says so
    silent: int = 0  # a wrong number, a lost or a stray file, or a traceback
    commit: str = ""

    @property
    def tried(self) -> int:
        return self.right + self.rebuilt + self.refused + self.silent


@dataclass(frozen=True)
class AttackResult:
    """The attempts of an attack, by the names of its parts."""

    parts: Mapping[str, Attempts]


Row = TypeVar("Row", BenchmarkRow, Attack)
Result = TypeVar("Result", BenchmarkResult, AttackResult)


@dataclass(frozen=True)
class MeasuredRows(Generic[Row, Result]):
    """The rows of a file and their results by id, None where not measured; sha256 over both."""

    rows: Mapping[str, Row]
    results: Mapping[str, Result | None]
    digest: str


def read_benchmarks(path: Path) -> MeasuredRows[BenchmarkRow, BenchmarkResult]:
    """Benchmarks with their results. Raises DataError for a damaged file, or one without a row."""
    return _measured(path, read_rows(BenchmarkRow, path), BenchmarkResult)


def read_attacks(path: Path) -> MeasuredRows[Attack, AttackResult]:
    """Attacks with their results. Raises DataError for a damaged file, or one without a row."""
    return _measured(path, read_rows(Attack, path), AttackResult)


def _measured(path: Path, rows: tuple[Row, ...], cls: type[Result]) -> MeasuredRows[Row, Result]:
    by_id = {row.id: row for row in rows}
    if len(by_id) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    results: dict[str, Result | None] = dict.fromkeys(by_id)
    results |= {file.stem: read_sealed(cls, file) for file in _folder(path).glob("*.json")}
    if stray := sorted(results.keys() - by_id):
        raise DataError(f"{path.name}: measured, but no row there: {', '.join(stray)}")
    return MeasuredRows(by_id, results, digest_of_measured(path))


def _folder(rows: Path) -> Path:
    return measured_for(rows).with_suffix("")


def write_result(rows: Path, name: str, result: BenchmarkResult) -> None:
    """Store what was measured of a row. Raises UsageError for a row that is not in the file."""
    benchmarks = read_benchmarks(rows).rows
    if name not in benchmarks:
        raise UsageError(f"{rows.name}: no row {name!r}; add what it measures, and against what")
    if len(result.ratios) < (least := benchmarks[name].rounds):
        raise UsageError(f"{name}: wanted {least} rounds or more, found {len(result.ratios)}")
    content = {**vars(result), "ratios": [float(f"{ratio:.4g}") for ratio in result.ratios]}
    write_sealed(_folder(rows) / f"{name}.json", content, sort_keys=True)


def write_attempts(rows: Path, name: str, part: str, attempts: Attempts) -> None:
    """Store what came of a part of an attack, beside its other parts.

    Raises UsageError for an attack that is not in the file.
    """
    path = _folder(rows) / f"{name}.json"

    def content() -> bytes:
        results = read_attacks(rows).results
        if name not in results:
            raise UsageError(f"{rows.name}: no row {name!r}; add what is tried, and what is right")
        before = results[name]
        parts = {**(before.parts if before else {}), part: attempts}
        lines = (f"{json.dumps(key)}: {json.dumps(asdict(parts[key]))}" for key in sorted(parts))
        return sealed(path.name, '{"parts": {\n' + ",\n".join(lines) + "\n}}\n").encode()

    rewrite(path, content)


SPEED_INTRODUCTION = (
    "Each row is a ratio of two things that were run in turn, in one process, on one machine: how "
    "many times as fast the first is as the second, or which share of a rate it reaches. Against a "
    "limit in seconds, it is how often the time fits into it. The median over the rounds, the "
    "lowest and the highest; `make bench` measures them anew."
)
SPEED_HEAD = ("what", "against", "device", "wanted", "measured", "lowest–highest", "rounds")


def _short_of(result: BenchmarkResult) -> str:
    """Whether what is wanted was missed, or reached by the median and not in every round."""
    if median(result.ratios) < result.wanted:
        return " (missed)"
    return " (not in every round)" if min(result.ratios) < result.wanted else ""


def speed_page(
    benchmarks: MeasuredRows[BenchmarkRow, BenchmarkResult],
    cards: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> str:
    """Every ratio, then machine and facts, a line for all rows that share them, then each GPU."""
    lines: list[list[object]] = []
    measured_so: dict[str, list[str]] = {}
    for name, row in benchmarks.rows.items():
        words, result = [row.what, row.against, row.device], benchmarks.results[name]
        if result is None:
            lines.append([*words, row.wanted, NOT_MEASURED, "", ""])
            continue
        ratios, ratio = result.ratios, median(result.ratios)
        lines.append(
            [
                *words,
                f"{row.wanted} (here {result.wanted:g})",
                f"{ratio:.2f}{_short_of(result)}",
                f"{min(ratios):.2f}–{max(ratios):.2f}",
                len(ratios),
            ]
        )
        machine, packages = result.environment, result.environment.get("packages", {})
        torch = f"torch {packages.get('torch')}"
        how = f"{machine.get('processor')}, {machine.get('threads')} threads, {torch}"
        how = "; ".join([how, *(f"{fact} {value}" for fact, value in result.facts.items())])
        measured_so.setdefault(how, []).append(row.what)
    parts = [SPEED_INTRODUCTION, table(SPEED_HEAD, lines, words=4)]
    if measured_so:
        notes = (f"* {', '.join(whats)}: {how}." for how, whats in measured_so.items())
        parts.append("\n".join(notes))
    parts += [gpu_part(card, measured) for card, measured in cards]
    return page_text("Speed", parts, benchmarks.digest)


GPU_RECORDS = Path(RECORDS) / "gpu"  # of a results folder: a file for each card
GPU_HEAD = ("shape, precision, lengths", "sentences/s", "times as fast", "of the matrix rate")


def commit_gpu(file: Path, results: Path) -> Path:
    """Store what `make gpu` measured as the results of its card.

    Raises UsageError for a trial run, and where a step failed or was left out.
    """
    content = parse_json(file.read_text(encoding="utf-8"))
    unmeasured = [n for n, step in content["steps"].items() if step["state"] != "measured"]
    if content["tiny"] or unmeasured:
        why = "a trial (--tiny)" if content["tiny"] else f"not measured: {', '.join(unmeasured)}"
        raise UsageError(f"{file}: wanted what `make gpu` measured of every step, found {why}")
    name = re.sub(r"[^a-z0-9]+", "-", content["environment"]["device"].lower()).strip("-")
    path = results / GPU_RECORDS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_sealed(path, content)
    return path


def read_gpus(results: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """What was measured on GPUs, by the name of the card. Raises DataError for a damaged file."""
    files = sorted((results / GPU_RECORDS).glob("*.json"))
    measured = [parse_sealed(file, file.read_text(encoding="utf-8")) for file in files]
    return [(content["environment"]["device"], content) for content in measured]


def gpu_part(card: str, measured: Mapping[str, Any]) -> str:
    """The section of one card: encoding beside sentence-transformers in one run."""
    lines: list[list[object]] = []
    for name, case in measured["steps"]["encoding"]["values"].items():
        ours = case["harness"]
        speed, share = ours["sentences_per_second"], ours["share_of_matrix_rate"]
        lines.append([name, f"{speed:,.0f}", f"{case['times_as_fast']:.2f}", f"{share:.2f}"])
    packages = measured["environment"]["packages"]
    how = f"torch {packages['torch']}, transformers {packages['transformers']}; `make gpu`."
    told = "Against the faster of two batch sizes of sentence-transformers, random weights"
    return f"## {card}\n\n{told}; {how}\n\n{table(GPU_HEAD, lines, words=1)}"


RELIABILITY_INTRODUCTION = (
    "What was done to the harness, and what it did. `right`: nothing was wrong; `rebuilt`: what "
    "was damaged was noticed and made again; `refused`: one line and a status; `silent`: a wrong "
    "number, a lost or stray file, or a traceback. `make soak` tries all of it anew; what is "
    "promised is in [security](../../docs/security.md)."
)


def reliability_page(attacks: MeasuredRows[Attack, AttackResult]) -> str:
    """Every attack with its counts; one that was not tried says so."""
    lines: list[list[object]] = []
    sums: list[str] = []
    commits: set[str] = set()
    for name, row in attacks.rows.items():
        counts: list[object] = [NOT_MEASURED, *[""] * 4]
        if result := attacks.results[name]:
            parts = result.parts.values()
            counts = [sum(getattr(part, count) for part in parts) for count in COUNTS]
            commits |= {part.commit[:12] for part in parts if part.commit}
            tried = "; ".join(f"{escape(n)}: {p.tried:,}" for n, p in result.parts.items())
            sums += [f"* {row.what}. {tried}."] if len(parts) > 1 else []
        lines.append([row.what, row.right, *counts])
    shown = [table(["what is tried", "what is right", *COUNTS], lines, words=2)]
    shown += (
        ["Rows of several parts, with the tries of each:\n\n" + "\n".join(sums)] if sums else []
    )
    made_at = [f"Commit {', '.join(sorted(commits))}."] if commits else []
    return page_text("Reliability", [RELIABILITY_INTRODUCTION, *shown, *made_at], attacks.digest)


def main() -> None:
    """Write the pages, or say which of them is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page is stale")
    parser.add_argument("--gpu", type=Path, help="store a gpu.json that `make gpu` wrote, first")
    chosen = parser.parse_args()
    check, stale = chosen.check, []
    if chosen.gpu:
        commit_gpu(chosen.gpu, RESULTS)
    questions, tables = RESULTS / QUESTIONS, RESULTS / "tables"
    speed, reliability, moved = (tables / name for name in MEASURED_PAGES)
    flows = FLOWS_PAGE.read_text(encoding="utf-8")
    made = {
        speed: speed_page(read_benchmarks(questions / "speed.toml"), read_gpus(RESULTS)),
        reliability: reliability_page(read_attacks(questions / "reliability.toml")),
        moved: moved_pairs_page(CHOICES),
        FLOWS_PAGE: between_markers(
            between_markers(flows, "noise", noise_table()), "floors", floors_part(read_floors())
        ),
    }
    for path, text in made.items():
        if path.exists() and path.read_bytes() == text.encode():
            continue
        stale.append(path.name)
        if not check:
            write_atomically(path, text.encode())
    if not check:
        note_digests(RESULTS, (speed, reliability, moved))
    if check and stale:
        sys.exit(f"stale: {', '.join(stale)}; run python tools/measured_pages.py")


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
