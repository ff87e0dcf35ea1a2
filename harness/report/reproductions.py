"""The log of reproductions: who measured published numbers again, and what came of it.

`harness reproduce --sign NAME` adds a line to `reproductions.md` of a results folder. It is
kept by hand after that: people send their lines, as to the log of pyserini.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.core.terminal import counted
from harness.report.sentences import states_in_words
from harness.report.table import escape
from harness.results.gate import Check, State
from harness.results.index import DIGEST_DIGITS_SHOWN
from harness.results.reproduction import Reproduction

LOG = "reproductions.md"
HEAD = """\
# Reproductions

Whoever measured published numbers again on a machine of their own, a line each. `harness
reproduce --sign NAME` adds one: sign your run, commit the line, and send it as a pull request.

| name | date | commit | published numbers | against the committed records |
|:--|:--|:--|:--|:--|
"""


@dataclass(frozen=True, kw_only=True)
class SignedRun:
    """A run that somebody signs.

    Attributes:
        name: The name of who ran it.
        date: The day, as 2026-11-29.
        commit: The commit of the code; None for an installed package.
        is_changed: Whether the code differed from the commit.
        numbers: The published numbers that were measured, with their verdicts.
        checks: The measured cells against the committed records.

    Raises:
        UsageError: The name is empty or longer than a line, or nothing was measured that
            is published or committed.
    """

    name: str
    date: str
    commit: str | None
    is_changed: bool
    numbers: Sequence[Reproduction]
    checks: Sequence[Check]

    def __post_init__(self) -> None:
        require_name(self.name)
        if not self.numbers and not self._compared:
            raise UsageError(
                "--sign: wanted a cell with a published number or a committed record, measured "
                "none; name others with -m and -t"
            )

    @property
    def _compared(self) -> Sequence[Check]:
        """The checks of cells that the committed records have."""
        return [check for check in self.checks if check.state is not State.NO_BASELINE]

    @property
    def line(self) -> str:
        """Its line of the log."""
        commit = "installed package"
        if self.commit is not None:
            commit = f"`{self.commit[:DIGEST_DIGITS_SHOWN]}`"
        if self.is_changed:
            commit += " with changes"
        numbers = "none"
        if self.numbers:
            numbers = f"{len(self.numbers):,}: {states_in_words(self.numbers)}"
        moved = sum(check.moved for check in self._compared)
        records = f"{counted(len(self._compared), 'cell')}, {moved:,} moved"
        name = escape(self.name).replace("|", "\\|")  # a bar would end the cell
        cells = (name, self.date, commit, numbers, records)
        return f"| {' | '.join(cells)} |\n"


def require_name(name: str) -> None:
    """Raise UsageError unless a name is a line of text."""
    if not name.strip() or not name.isprintable():
        raise UsageError(f"--sign: wanted a name on one line, found {name!r}")


def sign(results: Path, run: SignedRun) -> Path:
    """Add the line of a run to the log of a results folder; returns the file."""
    path = results / LOG
    text = path.read_text(encoding="utf-8") if path.exists() else HEAD
    write_atomically(path, f"{text.rstrip()}\n{run.line}".encode())
    return path
