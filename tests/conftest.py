"""Shapes in signatures are checked while the tests run; data is found by HARNESS_DATA_DIR alone."""

import gc
import os

from hypothesis import settings
from jaxtyping import install_import_hook
from processes import ROOT

# Every module with shapes in signatures, but for two. Pairs refuse wrong values by name, so
# that tests give them such values. The store reads records by the thousand: checking each
# call would double the time of a command.
UNCHECKED = {"harness.core.pairs", "harness.results.store"}
SHAPED = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in [*ROOT.glob("harness/**/*.py"), *ROOT.glob("baselines/*.py")]
    if "from harness.core.arrays import" in path.read_text(encoding="utf-8")
]
install_import_hook(
    [name for name in SHAPED if name not in UNCHECKED], "beartype.beartype"
)

# Processes start slowly and know no patches: tests that are about them ask for them.
os.environ.setdefault("HARNESS_JOBS", "1")

# A shared machine is slow at times, and a red test must be red again.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")

from fixtures import *  # noqa: E402, F403 - after the hook


def pytest_collection_modifyitems(config, items):
    """Approved texts are written anew by the tests that compare with them, and by no others."""
    if config.getoption("update_snapshots", False):
        items[:] = [item for item in items if "approved" in item.fixturenames]


def pytest_collection_finish():
    """What was imported stays: no garbage collection needs to look at it again."""
    gc.freeze()
