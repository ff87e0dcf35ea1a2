"""Commands that only read, each in a process of its own, from the disk."""

import os
import shutil
import subprocess
import sys
from functools import partial
from statistics import median

import pytest
from processes import ROOT

LIMITS = {  # seconds
    "list": 1.0,
    "plan": 2.0,
    "report --check": 2.0,
    "check": 1.0,
    "cite": 1.0,
}
ROUNDS = 15  # of processes that are over before a slow moment is
# Whether anything moved, is missing or is stale is not what is asked here.
ANSWERED = (0, 1, 3)


def harness(arguments, folder):
    """Run a command; everything it may cache is in the folder."""
    where = {
        "HARNESS_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as where it is installed
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    command = [sys.executable, "-m", "harness", *arguments]
    found = subprocess.run(
        command, cwd=ROOT, env=os.environ | where, capture_output=True, check=False
    )
    assert found.returncode in ANSWERED, found.stderr


@pytest.fixture
def commands(side_by_side, tmp_path, request):
    """Each command by its name, on results that were measured and written just now."""
    model, tasks = "glove-mini", ["mini-sts"]
    if side_by_side.on:
        request.getfixturevalue("data_dir")
        model, tasks = "bert-mini", ["sts-b", "sick-r", "sts1?"]
    cells = ["-m", f"{model}.mean", f"{model}.mean+sn@target", "-t", *tasks]
    runs = tmp_path / "runs"
    harness(["run", *cells, "--output", str(runs)], tmp_path)
    # A copy: the ratios of the other benchmarks are written beside the records.
    results = shutil.copytree(ROOT / "results", tmp_path / "results")
    readme = shutil.copy(ROOT / "README.md", tmp_path)
    pages = ["--results", str(results), "--readme", str(readme)]
    pages += ["--papers", str(results / "papers")]
    harness(["report", *pages], tmp_path)
    return {
        "list": ["list", "methods"],
        "plan": ["run", "--dry-run", *cells],
        "report --check": ["report", "--check", *pages],
        "check": ["check", "--results", str(runs)],
        "cite": ["cite", "-m", "bert-mini.mean"],
    }


def test_reading_starts_at_once(side_by_side, commands, tmp_path):
    programs = {name: partial(harness, commands[name], tmp_path) for name in commands}
    seconds = side_by_side.seconds(programs, ROUNDS)
    slowest = max(commands, key=lambda name: median(seconds[name]) / LIMITS[name])
    ratios = LIMITS[slowest] / seconds[slowest]
    side_by_side.require("cold-start", ratios, 1.0, slowest=slowest)
