"""The gate as tests of another project: `pytest --harness-gate`.

It measures the quick set of a results folder and has a test for each of its cells and encoders; a
test fails where a cell moved, has no baseline or could not run, in the words of `harness check`.
pytest imports this module wherever the harness is installed, so everything else waits.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.gate.check import Report

FOLDER = "harness-gate"  # of the test ids


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, each a word of `harness run --quick`."""
    group = parser.getgroup("harness", "regression gate of sentence embeddings")
    group.addoption(
        "--harness-gate",
        nargs="?",
        const="results",
        metavar="RESULTS",
        help="measure the quick set of RESULTS/gate.toml (by default results) and compare it with "
        "the records that are committed there",
    )
    group.addoption(
        "--harness-encoder",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="an encoder of the quick set, as in harness run --encoder; several are allowed",
    )
    group.addoption(
        "--harness-fail-below",
        action="append",
        default=[],
        metavar="POINTS|TASK=POINTS",
        help="as in harness check --fail-below: fail only where a score falls by more",
    )
    group.addoption("--harness-data-dir", metavar="DIR", help="or HARNESS_DATA_DIR")
    group.addoption(
        "--harness-device", default="cpu", metavar="DEVICE", help="as in harness run --device"
    )
    group.addoption("--harness-runs", default="runs", metavar="DIR", help="measure into DIR")


@pytest.hookimpl(tryfirst=True)  # so that -k selects among these tests too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each cell of the quick set, and one for each of its encoders."""
    results = config.getoption("--harness-gate")
    if results is None:
        return
    from harness.core.errors import HarnessError
    from harness.gate.drift import read_rules
    from harness.gate.golden_vectors import subject
    from harness.results.layout import GATE

    data_dir = config.getoption("--harness-data-dir")
    gate = GateRun(
        Path(results),
        Path(config.getoption("--harness-runs")),
        tuple(config.getoption("--harness-encoder")),
        Path(data_dir) if data_dir else None,
        tuple(config.getoption("--harness-fail-below")),
        config.getoption("--harness-device"),
    )
    try:
        cells = read_rules(gate.results).quick_cells
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    if not cells:
        raise pytest.UsageError(f"--harness-gate: {gate.results / GATE} names no quick set")
    names = (*dict.fromkeys(subject(cell.method) for cell in cells), *map(str, cells))
    items += [
        GateItem.from_parent(session, name=name, nodeid=f"{FOLDER}::{name}", gate=gate)
        for name in names
    ]


@dataclass(frozen=True)
class GateRun:
    """A results folder and the run that is compared with it, measured by the first test."""

    results: Path
    runs: Path
    encoders: tuple[str, ...]
    data_dir: Path | None
    fail_below: tuple[str, ...] = ()
    device: str = "cpu"

    @cached_property
    def report(self) -> Report:
        """Run the quick set and check it, as `harness run --quick` and `harness check` do."""
        from harness.assets.places import Places
        from harness.core.types import Progress
        from harness.evaluation.runner import execute
        from harness.gate.check import Gate, encode_golden, note_outcomes, quick_set
        from harness.gate.drift import Margins
        from harness.resolve import encoders_by_hand
        from harness.results.records import Store, on_hardware
        from harness.tasks.loader import TaskLoader

        registry, paths = encoders_by_hand(self.encoders)
        places = Places.from_environment(os.environ, data_dir=self.data_dir, encoders=paths)
        loader = TaskLoader(places, registry.corpora)
        planned = on_hardware(quick_set(registry, self.results), self.device, None, None)
        outcomes = execute(planned, loader, Store(self.runs), Progress(), time.perf_counter)
        note_outcomes(self.runs, outcomes)
        encode_golden(planned, places, self.runs)
        cells = [cell.address for cell in planned]
        margins = Margins.parse(self.fail_below)
        return Gate(self.runs, self.results).check(cells, places.data_dir, margins)


class GateItem(pytest.Item):
    """The test of a cell, or of an encoder's golden vectors."""

    def __init__(self, *, gate: GateRun, **of_pytest: Any) -> None:
        super().__init__(**of_pytest)
        self.gate = gate

    def runtest(self) -> None:
        """Fail unless the cell agrees with its committed record."""
        from harness.core.errors import HarnessError

        try:
            report = self.gate.report
        except HarnessError as error:
            pytest.fail(str(error), pytrace=False)
        for item in (*report.encoders, *report.cells):
            if item.name == self.name and item.counts and item.state.exit_status:
                pytest.fail("\n".join(item.lines), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The folder and the name of a failure's headline."""
        return self.gate.results, None, f"{FOLDER}: {self.name}"
