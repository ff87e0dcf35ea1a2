"""Shapes in signatures are checked while the tests run; data is found by HARNESS_DATA_DIR alone."""

import os
import sys

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook(["harness", "baselines"], "beartype.beartype")

# Processes start slowly and know no patches: tests that are about them ask for them.
os.environ.setdefault("HARNESS_JOBS", "1")

# A shared machine is slow at times, and a red test must be red again.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")

from fixtures import *  # noqa: E402, F403 - after the hook

# How many tests `make test` leaves to `make test-all`: its last line.

LEFT = pytest.StashKey[int]()


def pytest_deselected(items):
    stash = items[0].config.stash
    stash[LEFT] = stash.get(LEFT, 0) + len(items)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["left"] = session.config.stash.get(LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[LEFT] = getattr(node, "workeroutput", {}).get("left", 0)


def pytest_unconfigure(config):
    if (left := config.stash.get(LEFT, 0)) and not hasattr(config, "workerinput"):
        sys.stdout.write(f"{left:,} tests were left to make test-all\n")
