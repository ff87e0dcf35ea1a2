"""The laws of plug-ins as tests: `pytest --harness-contracts --plugin my_method.py`.

There is a test for each law and each thing that plug-ins register. pytest imports
this module wherever the harness is installed, so everything else is imported later.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.contracts.laws import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; `--plugin` is the same as in `harness run`."""
    group = parser.getgroup("harness-contracts", "contract tests of plug-ins")
    group.addoption(
        "--harness-contracts",
        action="store_true",
        help="run the contract tests on what --plugin registers, or else on everything",
    )
    group.addoption(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with methods, tasks or encoders of your own; several are allowed",
    )


@pytest.hookimpl(tryfirst=True)  # so that -k selects among these tests too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests: of what plug-ins register, or without plug-ins of everything."""
    if not config.getoption("--harness-contracts"):
        return
    from harness.contracts.laws import cases
    from harness.contracts.plugins import new_cases
    from harness.core.errors import HarnessError
    from harness.plugins import import_plugins, plugins_in_use
    from harness.registry import load_registry

    registry_before = load_registry()
    try:
        plugins = plugins_in_use(config.getoption("--plugin"))
        import_plugins(plugins)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None
    tested_cases = new_cases(registry_before) if plugins else cases(registry_before)
    for case in tested_cases:
        nodeid = f"harness-contracts::{case.id}"
        items.append(
            ContractItem.from_parent(session, name=case.id, nodeid=nodeid, case=case)
        )


class ContractItem(pytest.Item):
    """The test of one law on one thing."""

    def __init__(self, *, case: Case, **item_arguments: Any) -> None:
        super().__init__(**item_arguments)
        self.case = case

    def runtest(self) -> None:
        """Test the law."""
        self.case.run()

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """One line: what the law wants and what was found. With `--tb`, a traceback."""
        wants_traceback = self.config.option.tbstyle != "auto"
        if isinstance(excinfo.value, AssertionError) and not wants_traceback:
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """What a failure's headline says."""
        return self.path, None, self.case.id
