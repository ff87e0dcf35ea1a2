"""Pages of other measurements than cells: speed, reliability, pairs that move.

`results/questions/speed.toml` and `reliability.toml` say what `make bench`, `make soak`
and `make mutants-all` measure; results are in `results/records/speed` and
`reliability`, a file a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from harness.core.errors import DataError
from harness.core.json_text import parse_sealed
from harness.core.toml import read_rows, read_sealed
from harness.report.markdown import escape, page_text, table
from harness.results.index import DIGEST_DIGITS_SHOWN, NOT_MEASURED
from harness.results.layout import RECORDS, digest_of_measured, measured_for

LEAST_ROUNDS = 5
COUNTS = ("tried", "right", "rebuilt", "refused", "silent")


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
        rounds: How often it is measured at least; once is enough where bytes are
            counted, which do not vary.
    """

    id: str
    what: str
    against: str
    device: str
    wanted: str
    rounds: int = LEAST_ROUNDS


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


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness.

    Attributes:
        id: The name of its result file.
        what: What is tried.
        right: The behaviour that counts as right.
    """

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Attempts:
    """How often a part of an attack had each outcome, and the commit that was attacked."""

    right: int = 0  # nothing was wrong
    rebuilt: int = 0  # what was damaged was noticed and made again
    refused: int = 0  # in one line, with a status that says so
    silent: int = 0  # a wrong number, a lost or a stray file, or a traceback
    commit: str = ""

    @property
    def tried(self) -> int:
        """How many attempts there were."""
        return self.right + self.rebuilt + self.refused + self.silent


@dataclass(frozen=True)
class AttackResult:
    """The attempts of an attack, by the names of its parts."""

    parts: Mapping[str, Attempts]


MeasuredRow = TypeVar("MeasuredRow", BenchmarkRow, Attack)
MeasuredResult = TypeVar("MeasuredResult", BenchmarkResult, AttackResult)


@dataclass(frozen=True)
class MeasuredRows(Generic[MeasuredRow, MeasuredResult]):
    """The rows of a file of questions, and what was measured for them.

    Attributes:
        rows: The rows by their ids.
        results: The result of each row, by its id; None where it was not measured.
        digest: The sha256 of the file and of all results.
    """

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
    """The rows of a file with the results in its folder, each read as a `cls`."""
    rows_by_id = {row.id: row for row in rows}
    if len(rows_by_id) < len(rows):
        raise DataError(f"{path.name}: wanted an id for each row, found one twice")
    results: dict[str, MeasuredResult | None] = dict.fromkeys(rows_by_id)
    for file in folder_of(path).glob("*.json"):
        results[file.stem] = read_sealed(cls, file)
    results_without_row = sorted(results.keys() - rows_by_id)
    if results_without_row:
        names = ", ".join(results_without_row)
        raise DataError(f"{path.name}: measured, but no row there: {names}")
    return MeasuredRows(rows_by_id, results, digest_of_measured(path))


def folder_of(rows: Path) -> Path:
    """Where the results of these rows are, a file each."""
    return measured_for(rows).with_suffix("")


# Speed


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


def speed_page(questions: Path) -> str:
    """Every ratio, then machine and facts, a line for all rows that share them, then each GPU."""
    benchmarks = read_benchmarks(questions)
    lines = []
    rows_by_machine: dict[str, list[str]] = {}
    for name, row in benchmarks.rows.items():
        result = benchmarks.results[name]
        lines.append(_speed_line(row, result))
        if result is not None:
            machine = _machine_in_words(result)
            rows_by_machine.setdefault(machine, []).append(row.what)
    parts = [SPEED_INTRODUCTION, table(SPEED_HEAD, lines, words=4)]
    if rows_by_machine:
        bullets = [
            f"* {', '.join(rows)}: {machine}."
            for machine, rows in rows_by_machine.items()
        ]
        parts.append("\n".join(bullets))
    for card, measured in read_gpus(questions.parents[1]):
        parts.append(gpu_part(card, measured))
    return page_text("Speed", parts, benchmarks.digest)


def _speed_line(row: BenchmarkRow, result: BenchmarkResult | None) -> list[object]:
    """A benchmark as a line of the table whose head is `SPEED_HEAD`."""
    if result is None:
        return [row.what, row.against, row.device, row.wanted, NOT_MEASURED, "", ""]
    lowest, highest = min(result.ratios), max(result.ratios)
    return [
        row.what,
        row.against,
        row.device,
        f"{row.wanted} (here {result.wanted:g})",
        f"{median(result.ratios):.2f}{_shortfall(result)}",
        f"{lowest:.2f}–{highest:.2f}",
        len(result.ratios),
    ]


def _shortfall(result: BenchmarkResult) -> str:
    """Whether what is wanted was missed, or reached by the median and not in every round."""
    if median(result.ratios) < result.wanted:
        return " (missed)"
    if min(result.ratios) < result.wanted:
        return " (not in every round)"
    return ""


def _machine_in_words(result: BenchmarkResult) -> str:
    """Processor, threads, version of torch, and settings of a measurement."""
    environment = result.environment
    torch = environment.get("packages", {}).get("torch")
    machine = f"{environment.get('processor')}, {environment.get('threads')} threads"
    facts = [f"{name} {value}" for name, value in result.facts.items()]
    return "; ".join([f"{machine}, torch {torch}", *facts])


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
    """The section of one card: encoding by the harness and by sentence-transformers in one run.

    Args:
        card: The name of the card.
        measured: The content of its file, as `benchmarks/gpu.py` writes it.
    """
    lines = []
    for name, case in measured["steps"]["encoding"]["values"].items():
        speed = case["harness"]["sentences_per_second"]
        share = case["harness"]["share_of_matrix_rate"]
        ratio = case["times_as_fast"]
        lines.append([name, f"{speed:,.0f}", f"{ratio:.2f}", f"{share:.2f}"])
    packages = measured["environment"]["packages"]
    note = (
        "Against the faster of two batch sizes of sentence-transformers, random weights; "
        f"torch {packages['torch']}, transformers {packages['transformers']}; `make gpu`."
    )
    return f"## {card}\n\n{note}\n\n{table(GPU_HEAD, lines, words=1)}"


# Reliability


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
    bullets: list[str] = []
    commits: set[str] = set()
    for name, row in attacks.rows.items():
        result = attacks.results[name]
        if result is None:
            lines.append([row.what, row.right, NOT_MEASURED, "", "", "", ""])
            continue
        lines.append([row.what, row.right, *_sums(result)])
        for attempts in result.parts.values():
            if attempts.commit:
                commits.add(attempts.commit[:DIGEST_DIGITS_SHOWN])
        if len(result.parts) > 1:
            tries = [
                f"{escape(part)}: {attempts.tried:,}"
                for part, attempts in result.parts.items()
            ]
            bullets.append(f"* {row.what}. {'; '.join(tries)}.")
    head = ["what is tried", "what is right", *COUNTS]
    parts = [RELIABILITY_INTRODUCTION, table(head, lines, words=2)]
    if bullets:
        tries_of_parts = "\n".join(bullets)
        parts.append(
            f"Rows of several parts, with the tries of each:\n\n{tries_of_parts}"
        )
    if commits:
        parts.append(f"Commit {', '.join(sorted(commits))}.")
    return page_text("Reliability", parts, attacks.digest)


def _sums(result: AttackResult) -> list[int]:
    """The number of attempts and of each outcome, over all parts; in the order of `COUNTS`."""
    return [
        sum(getattr(attempts, count) for attempts in result.parts.values())
        for count in COUNTS
    ]


# Moved pairs


MOVED_INTRODUCTION = (
    "The ten pairs of each task whose rank by similarity differs most between two methods. Rank 1 "
    "is the least similar pair; pairs are numbered from 1, in the order of the data set. Sentences "
    "are printed of the tasks that come with the harness. For any other: `harness run -m BEFORE "
    "AFTER -t TASK`, then `harness compare BEFORE AFTER -t TASK --pairs 10`."
)


@dataclass(frozen=True)
class MethodChoice:
    """A choice between two methods.

    Attributes:
        what: What the choice is, for a heading.
        before: The id of the first method.
        after: The id of the second method.
        tasks: The tasks whose pairs both methods rank.
        sentences: Whether the page prints the sentences of the pairs.
    """

    what: str
    before: str
    after: str
    tasks: tuple[str, ...]
    sentences: bool = False


@dataclass(frozen=True)
class MovedPair:
    """A pair whose rank differs between two methods.

    Attributes:
        pair: Its number in the data set, from 1.
        gold: Its gold score.
        before: Its rank by similarity under the first method; 1 is the least similar.
        after: Its rank under the second method.
        sentences: Its sentences, where the page may print them.
    """

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
    choices = read_rows(MethodChoice, questions)
    measured = read_moves(questions)
    commit = measured.environment["commit"][:DIGEST_DIGITS_SHOWN]
    torch = measured.environment["packages"]["torch"]
    parts = [MOVED_INTRODUCTION, f"Measured at commit {commit}, torch {torch}."]
    for choice in choices:
        encoder = choice.before.partition(".")[0]
        parts.append(f"## {escape(choice.what)}, {encoder}")
        parts.append(f"From `{choice.before}` to `{choice.after}`.")
        for task in choice.tasks:
            moved = measured.moved[move_key(choice, task)]
            parts.append(f"### {task}: {moved.pairs:,} pairs")
            parts.append(_moved_pairs_table(moved.moved, choice.sentences))
    title = "Pairs that a choice moves most"
    return page_text(title, parts, digest_of_measured(questions))


def _moved_pairs_table(pairs: Sequence[MovedPair], has_sentences: bool) -> str:
    words = ["pair"]
    if has_sentences:
        words += ["first sentence", "second sentence"]
    head = [*words, "gold", "rank before", "rank after"]
    lines = []
    for pair in pairs:
        sentences = [escape(sentence) for sentence in pair.sentences]
        numbers = [f"{pair.gold:g}", f"{pair.before:g}", f"{pair.after:g}"]
        lines.append([pair.pair, *sentences, *numbers])
    return table(head, lines, words=len(words))
