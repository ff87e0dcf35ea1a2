"""Outcomes of cells: measured, done before, or not run, with the reason.

One cell's failure never ends a run, whatever its exception: `failures` makes an outcome of it. The
traceback of an unexpected one is a debugging message of the log, which `--debug` shows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from harness.core.errors import AssetMissing, HarnessError, said
from harness.core.types import Record
from harness.results.planned import PlannedCell
from harness.results.records import Cell

LOG = logging.getLogger(__name__)

Status = Literal["measured", "done", "asset missing", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell; `message` says why it has no record, `moved` that its file changed.

    `get` is what gets the asset that it lacks.
    """

    cell: Cell
    status: Status
    record: Record | None = None
    message: str = ""
    moved: bool = False
    exit_status: int = 0
    get: str = ""


@contextmanager
def failures(cells: Iterable[PlannedCell]) -> Iterator[list[Outcome]]:
    """Context for a step: if it raises, the list it yields gets a failed outcome for each cell."""
    found: list[Outcome] = []
    try:
        yield found
    except HarnessError as error:
        found += [_refused(cell, error) for cell in cells]
    except Exception as error:
        LOG.debug("", exc_info=error)
        found += [_unexpected(cell, error) for cell in cells]


def failed(cells: Iterable[PlannedCell], error: HarnessError) -> list[Outcome]:
    """An outcome of each of these cells, which an error kept from being measured."""
    return [_refused(cell, error) for cell in cells]


def _unexpected(cell: PlannedCell, error: Exception) -> Outcome:
    status = HarnessError.exit_status
    return Outcome(cell.address, "failed", message=said(error), exit_status=status)


def _refused(cell: PlannedCell, error: HarnessError) -> Outcome:
    get = error.get if isinstance(error, AssetMissing) else None
    status: Status = "failed" if get is None else "asset missing"
    message, ended = str(error), error.exit_status
    return Outcome(cell.address, status, message=message, exit_status=ended, get=get or "")
