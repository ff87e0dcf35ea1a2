"""Circumstances: what a system refuses or lacks costs no number; where it matters, it is a line."""

import os
import shutil
import subprocess
import sys

import pytest
from processes import MAIN, ROOT, scores

ATTACK = "environment"
RUN = ("run", "-m", "glove-mini.mean", "-t", "mini-sts", "--fresh")
# Of each circumstance: a line of the shell around "$@", and the status that is right there.
CIRCUMSTANCES = {
    "closed stdout": ('"$@" >&-', 0),
    "closed stderr": ('"$@" 2>&-', 0),
    "both closed": ('"$@" >&- 2>&-', 0),
    "a reader that leaves": ('"$@" | head -1', 0),
    "a full stdout": ('"$@" >/dev/full', 1),
    "a full stderr": ('"$@" 2>/dev/full', 1),
    "no home": ('env -u HOME "$@"', 0),
    "40 columns": ('env COLUMNS=40 "$@"', 0),
    "plain ASCII": ('env LC_ALL=C PYTHONIOENCODING=ascii PYTHONUTF8=0 "$@"', 0),
    "Turkish": ('env LC_ALL=tr_TR.UTF-8 "$@"', 0),
    "20 file handles": ('ulimit -n 20; "$@"', 0),
    "a small file limit": ('ulimit -f 1; "$@"', 1),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with everything cached, and the true scores."""
    folder = tmp_path_factory.mktemp("filled")
    done = shell('"$@"', folder)
    assert done.returncode == 0, done.stderr
    return folder


def shell(line, folder, *arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS")}
    own = {"PYTHONPATH": str(ROOT), "HARNESS_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-c", MAIN, *(arguments or RUN)],
        cwd=folder,
        env={**kept, **own},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_the_score_or_one_line(attacked, filled, tmp_path, name):
    line, status = CIRCUMSTANCES[name]
    here = tmp_path / "here"
    shutil.copytree(filled, here)
    done = shell(line, here)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == status, done.stderr
    assert scores(here / "runs") == scores(filled / "runs")
    attacked.count("right" if status == 0 else "refused")


def test_a_cache_that_may_only_be_read_serves_what_it_holds(attacked, filled, tmp_path):
    """As root every folder can be written, so this needs a mount; a cache in the way of a file."""
    here = tmp_path / "here"
    shutil.copytree(filled, here)
    shutil.rmtree(here / "cache")
    (here / "cache").write_text("a file where the folder would be")
    done = shell('"$@"', here)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert "harness: " in done.stderr
    attacked.count("refused")


def test_a_clock_that_was_set_back_changes_nothing(attacked, filled, tmp_path):
    here = tmp_path / "here"
    shutil.copytree(filled, here)
    for path in here.rglob("*"):
        os.utime(path, (2**31, 2**31))  # everything is of the future
    done = shell('"$@"', here)
    assert done.returncode == 0, done.stderr
    assert scores(here / "runs") == scores(filled / "runs")
    attacked.count("right")
