"""The page of reliability: what was done to the harness on purpose, and how often it was right.

`results/questions/reliability.toml` lists the attacks. `make soak` and `make
mutants-all` try them and store how often each outcome came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.report.markdown import escape, page_text, table
from harness.report.measured_rows import MeasuredRows, read_measured_rows
from harness.results.index import DIGEST_DIGITS_SHOWN, NOT_MEASURED

RELIABILITY_INTRODUCTION = (
    "What was done to the harness, and what it did. `right`: nothing was wrong; `rebuilt`: what "
    "was damaged was noticed and made again; `refused`: one line and a status; `silent`: a wrong "
    "number, a lost or stray file, or a traceback. `make soak` tries all of it anew; what is "
    "promised is in [security](../../docs/security.md)."
)
RELIABILITY_HEAD = (
    "what is tried",
    "what is right",
    "tried",
    "right",
    "rebuilt",
    "refused",
    "silent",
)


# Attacks and their results


@dataclass(frozen=True)
class Attack:
    """A kind of attack on the harness.

    Attributes:
        id: The name of its result file.
        what: What somebody does to the harness.
        right: The behaviour that counts as right.
    """

    id: str
    what: str
    right: str


@dataclass(frozen=True)
class Attempts:
    """How often a part of an attack had each outcome.

    Attributes:
        right: Nothing was wrong.
        rebuilt: What was damaged was noticed and made again.
        refused: The harness refused in one line, with a status that says so.
        silent: There was a wrong number, a lost or a stray file, or a traceback.
        commit: The commit that was attacked.
    """

    right: int = 0
    rebuilt: int = 0
    refused: int = 0
    silent: int = 0
    commit: str = ""

    @property
    def total(self) -> int:
        """How many attempts there were."""
        return self.right + self.rebuilt + self.refused + self.silent


@dataclass(frozen=True)
class AttackResult:
    """The attempts of an attack, by the names of its parts."""

    parts: Mapping[str, Attempts]

    @property
    def sums(self) -> Attempts:
        """The attempts of all parts together."""
        parts = self.parts.values()
        return Attempts(
            right=sum(part.right for part in parts),
            rebuilt=sum(part.rebuilt for part in parts),
            refused=sum(part.refused for part in parts),
            silent=sum(part.silent for part in parts),
        )


def read_attacks(questions: Path) -> MeasuredRows[Attack, AttackResult]:
    """Attacks with their results. Raises DataError for a damaged file, or one without a row."""
    return read_measured_rows(questions, Attack, AttackResult)


# The page


def reliability_page(questions: Path) -> str:
    """A line for each attack with its counts; one that was not tried says so."""
    attacks = read_attacks(questions)
    lines = [_line(row, attacks.results[name]) for name, row in attacks.rows.items()]
    parts = [RELIABILITY_INTRODUCTION, table(RELIABILITY_HEAD, lines, word_columns=2)]

    bullets: list[str] = []
    commits: set[str] = set()
    for name, row in attacks.rows.items():
        result = attacks.results[name]
        if result is None:
            continue
        if len(result.parts) > 1:
            bullets.append(f"* {row.what}. {_tries_of_parts(result)}.")
        for attempts in result.parts.values():
            if attempts.commit:
                commits.add(attempts.commit[:DIGEST_DIGITS_SHOWN])
    if bullets:
        parts.append("Rows of several parts, with the tries of each:")
        parts.append("\n".join(bullets))
    if commits:
        parts.append(f"Commit {', '.join(sorted(commits))}.")
    return page_text("Reliability", parts, attacks.digest)


def _line(row: Attack, result: AttackResult | None) -> list[object]:
    """An attack as a line of the table whose head is `RELIABILITY_HEAD`."""
    if result is None:
        return [row.what, row.right, NOT_MEASURED, "", "", "", ""]
    sums = result.sums
    return [
        row.what,
        row.right,
        sums.total,
        sums.right,
        sums.rebuilt,
        sums.refused,
        sums.silent,
    ]


def _tries_of_parts(result: AttackResult) -> str:
    """The parts of an attack, each with the number of its attempts."""
    tries = [
        f"{escape(part)}: {attempts.total:,}" for part, attempts in result.parts.items()
    ]
    return "; ".join(tries)
