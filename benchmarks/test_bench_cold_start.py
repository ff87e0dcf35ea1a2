"""Commands that only read, each in a process of its own, from the disk."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {
    "torch",
    "transformers",
    "scipy.stats",
    "sklearn",
    "datasets",
    "mteb",
    "sentence_transformers",
}
HEAVY |= {"jaxtyping", "matplotlib"}
LIMITS = {
    "list": 1.0,
    "plan": 2.0,
    "report --check": 2.0,
    "check": 1.0,
    "cite": 1.0,
}  # seconds
ROUNDS = 15  # of processes that are over before a slow moment is
BARE = "numpy, typer"  # what no command does without: how fast the machine was
MAIN = "from harness.cli import main; main()"
# Whether anything moved, is missing or is stale is not what is asked here.
ANSWERED = (0, 1, 3)
MODEL, TASKS = "bert-mini", ("sts-b", "sick-r", "sts1?")


def harness(arguments, folder, *options):
    """A command's stderr; everything it may cache is in the folder."""
    where = {
        "HARNESS_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as where it is installed
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    command = [sys.executable, *options, "-c", MAIN, *arguments]
    found = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode in ANSWERED, found.stderr
    return found.stderr


@pytest.fixture
def commands(side_by_side, tmp_path, request):
    """Each command by its name, after a run."""
    if side_by_side.on:
        request.getfixturevalue("data_dir")
        model, tasks = MODEL, TASKS
    else:
        model, tasks = "glove-mini", ("mini-sts",)
    chosen = [word for task in tasks for word in ("-t", task)]
    rows = ["-m", f"{model}.mean", "-m", f"{model}.mean+sn@target"]
    runs = tmp_path / "runs"
    harness(["run", *rows, *chosen, "--output", str(runs)], tmp_path)
    # A copy: the ratios of the other benchmarks are written beside the records.
    results = shutil.copytree(ROOT / "results", tmp_path / "results")
    readme = shutil.copy(ROOT / "README.md", tmp_path)
    pages = ["--results", str(results), "--readme", str(readme)]
    pages += ["--papers", str(results / "papers")]
    harness(["report", *pages], tmp_path)
    return {
        "list": ["list", "methods"],
        "plan": ["run", "--dry-run", "-m", f"{model}.*", *chosen],
        "report --check": ["report", "--check", *pages],
        "check": ["check", "--results", str(runs)],
        "cite": ["cite", "-m", f"{MODEL}.mean"],
    }


def test_reading_starts_at_once(side_by_side, commands, tmp_path):
    imported = r"import time:[ \d]+\|[ \d]+\| +([\w.]+)"
    for arguments in commands.values():
        told = harness(arguments, tmp_path, "-X", "importtime")
        names = set(re.findall(imported, told))
        assert "harness" in names
        assert not names & HEAVY, arguments
    *others, last = commands
    if not side_by_side.on:  # each has run just now
        side_by_side.run(lambda: None, {}, warm=False)
        return
    compared = {
        name: (lambda name=name: harness(commands[name], tmp_path)) for name in others
    }
    compared[BARE] = lambda: subprocess.run(
        [sys.executable, "-c", f"import {BARE}"], check=True
    )
    side_by_side.run(
        lambda: harness(commands[last], tmp_path), compared, ROUNDS, warm=False
    )
    seconds = {**side_by_side.seconds, last: side_by_side.seconds["ours"]}
    slowest = max(commands, key=lambda name: median(seconds[name]) / LIMITS[name])
    ratios = [LIMITS[slowest] / measured for measured in seconds[slowest]]
    share = median(seconds[BARE]) / median(seconds[slowest])
    facts = {"slowest": slowest, f"share of importing {BARE}": round(share, 2)}
    side_by_side.require("cold-start", ratios, 1.0, **facts)
