"""The reasons why cells and golden vectors did not run, in a file of the run's folder.

A check reads them: an older record of a cell that did not run says nothing about the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
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
    """Note which cells did not run, and which cells an interrupted run never reached.

    The note of an earlier run on a cell that now ran is removed. Wrong usage leaves no
    note.
    """
    reasons: dict[str, str] = {}
    for outcome in outcomes:
        if outcome.exit_status != UsageError.exit_status:
            reasons[str(outcome.cell)] = outcome.message
    for cell in unreached:
        reasons[str(cell)] = "the last run ended before it"
    note_failures(results, reasons)


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Note a reason for each name; an empty one says that it ran, and removes an older reason.

    Other processes may note reasons at the same time: the file is read again while it is
    locked, so that theirs stay.
    """
    if _merged_reasons(results, reasons) != read_failures(results):
        rewrite(results / FAILURES_FILE, partial(_file_content, results, reasons))


def _file_content(results: Path, reasons: Mapping[str, str]) -> bytes:
    """The file with these reasons, beyond those that are in it now."""
    return f"{json.dumps(_merged_reasons(results, reasons), indent=1)}\n".encode()


def _merged_reasons(results: Path, reasons: Mapping[str, str]) -> dict[str, str]:
    """The reasons in the file, with these in place of older ones; without empty ones."""
    merged_reasons = read_failures(results)
    merged_reasons.update(reasons)
    return {name: reason for name, reason in merged_reasons.items() if reason}


def read_failures(results: Path) -> dict[str, str]:
    """The reason for each name that did not run in its last run.

    Raises:
        DataError: The file is damaged.
    """
    path = results / FAILURES_FILE
    if not path.exists():
        return {}
    try:
        reasons = parse_json(path.read_bytes())
        return {name: str(reason) for name, reason in reasons.items()}
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None


def golden_failure(encoder: str) -> str:
    """The name under which the reason for missing golden vectors of an encoder is noted."""
    return f"golden vectors of {encoder}"
