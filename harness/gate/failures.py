"""Why something did not run: left by a run beside its records, read by `harness check`.

An older record of a cell that failed in the last run must not be taken for that run's answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import DataError, UsageError
from harness.core.files import write_atomically
from harness.core.locks import exclusive

if TYPE_CHECKING:  # reading reasons needs nothing of what runs
    from harness.evaluation.outcomes import Outcome
    from harness.results.records import Cell

FILE = "not-run.json"


def note_outcomes(
    results: Path, outcomes: Iterable[Outcome], unreached: Iterable[Cell] = ()
) -> None:
    """Remember which cells did not run, those among them that an interrupted run never reached.

    Wrong usage asked for nothing and leaves nothing.
    """
    usage = UsageError.exit_status
    reasons = {str(o.cell): o.message for o in outcomes if o.exit_status != usage}
    note(results, {**reasons, **{str(cell): "the last run ended before it" for cell in unreached}})


def note(results: Path, reasons: Mapping[str, str]) -> None:
    """Remember the reason of each name; an empty one says that it ran, and forgets an older one."""
    if _after(results, reasons) == read(results):
        return
    with exclusive(results):  # what others note meanwhile stays
        after = _after(results, reasons)
        write_atomically(results / FILE, (json.dumps(after, indent=1) + "\n").encode())


def _after(results: Path, reasons: Mapping[str, str]) -> dict[str, str]:
    return {name: why for name, why in {**read(results), **reasons}.items() if why}


def read(results: Path) -> dict[str, str]:
    """The reason of everything that did not run in its last run, as far as it was noted."""
    path = results / FILE
    if not path.exists():
        return {}
    try:
        return {name: str(why) for name, why in json.loads(path.read_bytes()).items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is no list of reasons ({error}); delete it") from None
