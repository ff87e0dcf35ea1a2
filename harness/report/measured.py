"""Pages of other measurements than cells: speed, reliability, pairs that move.

`results/questions/speed.toml` and `reliability.toml` say what `make bench`, `make soak`
and `make mutants-all` measure; results are in `results/records/speed` and
`reliability`, a file a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from harness.core.errors import DataError
from harness.core.json_text import parse_sealed
from harness.core.toml import read_rows, read_sealed
from harness.report.markdown import escape, page_text, table
from harness.results.index import NOT_MEASURED
from harness.results.layout import RECORDS, digest_of_measured, measured_for

LEAST_ROUNDS = 5
COUNTS = ("tried", "right", "rebuilt", "refused", "silent")


@dataclass(frozen=True)
class BenchmarkRow:
    """A ratio to measure: what is compared with what, on which device, and what is wanted.

    `wanted` is in words, since it may depend on the machine; a result has the number.
    `rounds` are the least; one is enough where bytes are counted, which do not vary.
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


MeasuredRow = TypeVar("MeasuredRow", BenchmarkRow, Attack)
MeasuredResult = TypeVar("MeasuredResult", BenchmarkResult, AttackResult)


@dataclass(frozen=True)
class MeasuredRows(Generic[MeasuredRow, MeasuredResult]):
    """The rows of a file and their results by id, None where not measured; sha256 over both."""

    rows: Mapping[str, MeasuredRow]
    results: Mapping[str, MeasuredResult | None]
    digest: str


def read_benchmarks(path: Path) -> MeasuredRows[BenchmarkRow, BenchmarkResult]:
    """Benchmarks with their results. Raises DataError for a damaged file, or one without a row."""
    return _measured(path, read_rows(BenchmarkRow, path), BenchmarkResult)


def read_attacks(path: Path) -> MeasuredRows[Attack, AttackResult]:
    """Attacks with their results. Raises DataError for a damaged file, or one without a row."""
    return _measured(path, read_rows(Attack, path), AttackResult)


def _measured(
    path: Path, rows: tuple[MeasuredRow, ...], cls: type[MeasuredResult]
) -> MeasuredRows[MeasuredRow, MeasuredResult]:
    by_id = {row.id: row for row in rows}
    if len(by_id) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    results: dict[str, MeasuredResult | None] = dict.fromkeys(by_id)
    results |= {
        file.stem: read_sealed(cls, file) for file in folder_of(path).glob("*.json")
    }
    if stray := sorted(results.keys() - by_id):
        raise DataError(f"{path.name}: measured, but no row there: {', '.join(stray)}")
    return MeasuredRows(by_id, results, digest_of_measured(path))


def folder_of(rows: Path) -> Path:
    """Where the results of these rows are, a file each."""
    return measured_for(rows).with_suffix("")


SPEED_INTRODUCTION = (
    "Each row is a ratio of two things that were run in turn, in one process, on one machine: how "
    "many times as fast the first is as the second, or which share of a rate it reaches. Against a "
    "limit in seconds, it is how often the time fits into it. The median over the rounds, the "
    "lowest and the highest; `make bench` measures them anew."
)
SPEED_HEAD = (
    "what",
    "against",
    "device",
    "wanted",
    "measured",
    "lowest–highest",
    "rounds",
)


def _short_of(result: BenchmarkResult) -> str:
    """Whether what is wanted was missed, or reached by the median and not in every round."""
    if median(result.ratios) < result.wanted:
        return " (missed)"
    return " (not in every round)" if min(result.ratios) < result.wanted else ""


def speed_page(questions: Path) -> str:
    """Every ratio, then machine and facts, a line for all rows that share them, then each GPU."""
    benchmarks = read_benchmarks(questions)
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
        how = "; ".join(
            [how, *(f"{fact} {value}" for fact, value in result.facts.items())]
        )
        measured_so.setdefault(how, []).append(row.what)
    parts = [SPEED_INTRODUCTION, table(SPEED_HEAD, lines, words=4)]
    if measured_so:
        notes = (f"* {', '.join(whats)}: {how}." for how, whats in measured_so.items())
        parts.append("\n".join(notes))
    parts += [
        gpu_part(card, measured) for card, measured in read_gpus(questions.parents[1])
    ]
    return page_text("Speed", parts, benchmarks.digest)


GPU_RECORDS = Path(RECORDS, "gpu")  # of a results folder: a file for each card
GPU_HEAD = (
    "shape, precision, lengths",
    "sentences/s",
    "times as fast",
    "of the matrix rate",
)


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
        lines.append(
            [name, f"{speed:,.0f}", f"{case['times_as_fast']:.2f}", f"{share:.2f}"]
        )
    packages = measured["environment"]["packages"]
    how = f"torch {packages['torch']}, transformers {packages['transformers']}; `make gpu`."
    told = (
        "Against the faster of two batch sizes of sentence-transformers, random weights"
    )
    return f"## {card}\n\n{told}; {how}\n\n{table(GPU_HEAD, lines, words=1)}"


RELIABILITY_INTRODUCTION = (
    "What was done to the harness, and what it did. `right`: nothing was wrong; `rebuilt`: what "
    "was damaged was noticed and made again; `refused`: one line and a status; `silent`: a wrong "
    "number, a lost or stray file, or a traceback. `make soak` tries all of it anew; what is "
    "promised is in [security](../../docs/security.md)."
)


def reliability_page(questions: Path) -> str:
    """Every attack with its counts; one that was not tried says so."""
    attacks = read_attacks(questions)
    lines: list[list[object]] = []
    sums: list[str] = []
    commits: set[str] = set()
    for name, row in attacks.rows.items():
        counts: list[object] = [NOT_MEASURED, *[""] * 4]
        if result := attacks.results[name]:
            parts = result.parts.values()
            counts = [sum(getattr(part, count) for part in parts) for count in COUNTS]
            commits |= {part.commit[:12] for part in parts if part.commit}
            tried = "; ".join(
                f"{escape(n)}: {p.tried:,}" for n, p in result.parts.items()
            )
            sums += [f"* {row.what}. {tried}."] if len(parts) > 1 else []
        lines.append([row.what, row.right, *counts])
    shown = [table(["what is tried", "what is right", *COUNTS], lines, words=2)]
    shown += (
        ["Rows of several parts, with the tries of each:\n\n" + "\n".join(sums)]
        if sums
        else []
    )
    made_at = [f"Commit {', '.join(sorted(commits))}."] if commits else []
    return page_text(
        "Reliability", [RELIABILITY_INTRODUCTION, *shown, *made_at], attacks.digest
    )


MOVED_INTRODUCTION = (
    "The ten pairs of each task whose rank by similarity differs most between two methods. Rank 1 "
    "is the least similar pair; pairs are numbered from 1, in the order of the data set. Sentences "
    "are printed of the tasks that come with the harness. For any other: `harness run -m BEFORE "
    "AFTER -t TASK`, then `harness compare BEFORE AFTER -t TASK --pairs 10`."
)


@dataclass(frozen=True)
class MethodChoice:
    """Two methods, tasks whose pairs both rank, and whether the page prints the sentences."""

    what: str
    before: str
    after: str
    tasks: tuple[str, ...]
    sentences: bool = False


@dataclass(frozen=True)
class MovedPair:
    """A pair with its gold score, ranks under both methods, and its sentences where allowed."""

    pair: int
    gold: float
    before: float
    after: float
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moved:
    """How many pairs a task has, and those that a choice moved most."""

    pairs: int
    moved: tuple[MovedPair, ...]


@dataclass(frozen=True)
class MeasuredMoves:
    """What moved, by the `key` of choice and task, and where it was measured."""

    environment: Mapping[str, Any]
    moved: Mapping[str, Moved]


def read_moves(choices: Path) -> MeasuredMoves:
    """What was measured of these choices. Raises DataError for a damaged file."""
    return read_sealed(MeasuredMoves, measured_for(choices).with_suffix(".json"))


def move_key(choice: MethodChoice, task: str) -> str:
    """The name under which a choice is stored: `bert-mini.mean > bert-mini.cls, mini-sts`."""
    return f"{choice.before} > {choice.after}, {task}"


def moved_pairs_page(questions: Path) -> str:
    """The page: a table for each choice and task. Raises DataError for a damaged file."""
    choices, measured = read_rows(MethodChoice, questions), read_moves(questions)
    commit, torch = (
        measured.environment["commit"],
        measured.environment["packages"]["torch"],
    )
    parts = [MOVED_INTRODUCTION, f"Measured at commit {commit[:12]}, torch {torch}."]
    for choice in choices:
        parts.append(f"## {escape(choice.what)}, {choice.before.partition('.')[0]}")
        parts.append(f"From `{choice.before}` to `{choice.after}`.")
        for task in choice.tasks:
            found = measured.moved[move_key(choice, task)]
            head = [
                "pair",
                *(["first sentence", "second sentence"] if choice.sentences else []),
            ]
            lines = [
                [
                    p.pair,
                    *map(escape, p.sentences),
                    f"{p.gold:g}",
                    f"{p.before:g}",
                    f"{p.after:g}",
                ]
                for p in found.moved
            ]
            shown = table(
                [*head, "gold", "rank before", "rank after"], lines, words=len(head)
            )
            parts += [f"### {task}: {found.pairs:,} pairs", shown]
    return page_text(
        "Pairs that a choice moves most", parts, digest_of_measured(questions)
    )
