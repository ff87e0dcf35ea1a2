"""Shapes in signatures are checked while the tests run; data is found by HARNESS_DATA_DIR alone."""

import os

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook(["harness", "baselines"], "beartype.beartype")

# Processes start slowly and know no patches: tests that are about them ask for them.
os.environ.setdefault("HARNESS_JOBS", "1")

# A shared machine is slow at times, and a red test must be red again.
settings.register_profile("tests", deadline=None, derandomize=True)
settings.load_profile("tests")

from fixtures import *  # noqa: E402, F403 - after the hook
