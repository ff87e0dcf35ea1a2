"""The energy that work takes, as codecarbon estimates it; none where that is not installed.

    with measured_energy() as energy:
        work()
    energy.kwh  # None without codecarbon

The estimate covers this process's use of processors, memory and GPUs. Nothing is sent or written,
and an estimate that fails is left out: it never costs the work itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

COUNTRY = "FRA"  # a tracker wants one, for the carbon of a kWh; only the kWh are kept


@dataclass
class Energy:
    """The energy of a piece of work in kWh; None before its end, and where nothing measured it."""

    kwh: float | None = None


@cache  # to look for the hardware takes seconds
def _tracker() -> Any:
    try:
        codecarbon = import_module("codecarbon")
    except ImportError:
        return None
    logging.getLogger("codecarbon").disabled = True  # it would write into the progress bar
    # The tracker that is not "offline" asks the network where it is.
    return _tried(
        lambda: codecarbon.OfflineEmissionsTracker(
            country_iso_code=COUNTRY,
            tracking_mode="process",
            allow_multiple_runs=True,
            save_to_file=False,
            log_level="critical",
        )
    )


def _tried(call: Callable[[], Any]) -> Any:
    """The result of a call of the tracker; None if it fails, on hardware that it does not know."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - an estimate is never worth a run
        return None


@contextmanager
def measured_energy() -> Iterator[Energy]:
    """Measure the energy of a block, known when it ends; blocks do not stand in one another."""
    energy, tracker = Energy(), _tracker()
    if tracker is None:
        yield energy
        return
    _tried(tracker.start_task)
    try:
        yield energy
    finally:
        energy.kwh = _tried(lambda: float(tracker.stop_task().energy_consumed))
