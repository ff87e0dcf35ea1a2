"""The gate as tests of another project: `pytest --harness-gate`.

The first test measures the quick set of a results folder and checks it. There is a test
for each cell and each encoder: it fails with the message of `harness check` if the cell
moved, has no baseline or could not run. pytest imports this module wherever the harness
is installed, so everything else is imported only when it is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.gate.outcome import Report

TEST_FOLDER = "harness-gate"  # of the test ids


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each is an option of `harness run --gate` or `harness check`."""
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
        type=float,
        metavar="POINTS",
        help="as in harness check --fail-below: fail only where a score falls by more",
    )
    group.addoption(
        "--harness-device",
        default="cpu",
        metavar="DEVICE",
        help="as in harness run --device",
    )
    group.addoption(
        "--harness-runs", default="runs", metavar="DIR", help="measure into DIR"
    )


@pytest.hookimpl(tryfirst=True)  # so that -k selects among these tests too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each cell of the quick set, and one for each of its encoders."""
    results = config.getoption("--harness-gate")
    if results is None:
        return
    from harness.core.errors import HarnessError
    from harness.gate.golden_vectors import golden_name
    from harness.gate.rules import read_rules
    from harness.results.layout import GATE

    try:
        cells = read_rules(Path(results)).quick_cells
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    if not cells:
        raise pytest.UsageError(
            f"--harness-gate: {Path(results) / GATE} names no quick set"
        )
    gate_run = GateRun(config)
    for name in dict.fromkeys(golden_name(cell.method) for cell in cells):
        items.append(_gate_item(session, name, gate_run, is_encoder=True))
    for cell in cells:
        items.append(_gate_item(session, str(cell), gate_run, is_encoder=False))


def _gate_item(
    session: pytest.Session, name: str, gate_run: GateRun, *, is_encoder: bool
) -> GateItem:
    """The test of a cell or an encoder."""
    item: GateItem = GateItem.from_parent(
        session,
        name=name,
        nodeid=f"{TEST_FOLDER}::{name}",
        gate_run=gate_run,
        is_encoder=is_encoder,
    )
    return item


@dataclass(frozen=True)
class GateRun:
    """A run of the quick set; it is measured once, when the first test asks for the report."""

    config: pytest.Config

    @cached_property
    def report(self) -> Report:
        """Run the quick set and check it, as `harness run --gate` and `harness check` do."""
        from harness.assets.places import Places
        from harness.contracts.plugins import open_plugins
        from harness.evaluation.run import RunContext, execute
        from harness.evaluation.select import on_hardware
        from harness.gate.check import Gate
        from harness.gate.failures import note_outcomes
        from harness.gate.quick_set import make_golden_vectors, quick_set
        from harness.plugins import plugins_in_use
        from harness.resolve import Resolver
        from harness.results.store import Store
        from harness.tasks.loader import TaskLoader

        option = self.config.getoption
        results = Path(option("--harness-gate"))
        runs = Path(option("--harness-runs"))
        open_plugins(plugins_in_use(option("--plugin", default=[])))
        resolver = Resolver.from_options(
            Places.from_environment(os.environ), option("--harness-encoder")
        )
        registry = resolver.registry
        places = resolver.places

        loader = TaskLoader(places, registry.corpora)
        cells = quick_set(registry, results)
        planned_cells = on_hardware(cells, option("--harness-device"), None, None)
        outcomes = execute(planned_cells, RunContext(loader, Store(runs)))
        note_outcomes(runs, outcomes)
        make_golden_vectors(planned_cells, places, runs)

        gate = Gate.open(runs, results, registry=registry, data_dir=places.data_dir)
        addresses = [cell.address for cell in planned_cells]
        return gate.check(addresses, margin=option("--harness-fail-below"))


class GateItem(pytest.Item):
    """The test of a cell, or of an encoder's golden vectors.

    Args:
        gate_run: The run of all cells.
        is_encoder: Whether it is the test of an encoder.
        item_arguments: The name and the place of the test, as pytest has them.
    """

    def __init__(
        self, *, gate_run: GateRun, is_encoder: bool, **item_arguments: Any
    ) -> None:
        super().__init__(**item_arguments)
        self.gate_run = gate_run
        self.is_encoder = is_encoder

    def runtest(self) -> None:
        """Fail unless the cell, or the encoder, agrees with what is committed."""
        from harness.core.errors import HarnessError

        try:
            report = self.gate_run.report
        except HarnessError as error:
            pytest.fail(str(error), pytrace=False)
        checks_of_kind = report.encoders if self.is_encoder else report.cells
        checks = [check for check in checks_of_kind if check.name == self.name]
        if not checks and self.is_encoder:
            pytest.skip(
                "each member of a family is trained anew: it has no golden vectors"
            )
        if not checks:
            pytest.fail(
                f"{self.name}: not compared; write it as in records", pytrace=False
            )
        for check in checks:
            if check.counts and check.state.exit_status:
                pytest.fail(str(check), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The folder and the name of a failure's headline."""
        return (
            Path(self.config.getoption("--harness-gate")),
            None,
            f"{TEST_FOLDER}: {self.name}",
        )
