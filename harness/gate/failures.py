"""What did not run, noted in a run's folder: an older record of it is no answer of that run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core.errors import DataError, UsageError
from harness.core.files import rewrite
from harness.core.json_text import parse_json
from harness.evaluation.run import Outcome
from harness.results.records import Cell

FAILURES_FILE = "not-run.json"


def note_outcomes(
    results: Path, outcomes: Iterable[Outcome], unreached: Iterable[Cell] = ()
) -> None:
    """Note which cells did not run, with those that an interrupted run never reached.

    A cell that ran loses the note of an earlier run. Wrong usage asked for nothing, and
    leaves nothing.
    """
    reasons = {
        str(outcome.cell): outcome.message
        for outcome in outcomes
        if outcome.exit_status != UsageError.exit_status
    }
    for cell in unreached:
        reasons[str(cell)] = "the last run ended before it"
    note_failures(results, reasons)


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Note a reason for each name; an empty one says that it ran, and removes an older reason."""

    def merged() -> dict[str, str]:
        noted = {**read_failures(results), **reasons}
        return {name: reason for name, reason in noted.items() if reason}

    def content() -> (
        bytes
    ):  # merged again while no other process writes: its notes stay
        return f"{json.dumps(merged(), indent=1)}\n".encode()

    if merged() != read_failures(results):
        rewrite(results / FAILURES_FILE, content)


def read_failures(results: Path) -> dict[str, str]:
    """The reason of everything that did not run in its last run, as far as it was noted."""
    path = results / FAILURES_FILE
    if not path.exists():
        return {}
    try:
        return {
            name: str(reason) for name, reason in parse_json(path.read_bytes()).items()
        }
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None


def golden_failure(encoder: str) -> str:
    """The name under which the reason for missing golden vectors of an encoder is noted."""
    return f"golden vectors of {encoder}"
