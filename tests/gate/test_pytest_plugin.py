"""`pytest --harness-gate` in the repository of another project, over word vectors of its own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("a", "the", "man", "woman", "dog", "is", "eating", "running", "ball", "park", "small")
MODULE = "harness.gate.pytest_plugin"
GATE = 'quick = [{ method = "mine.mean", task = "mini-lexical" }]'
CELL = "mine.mean on mini-lexical, seed 0"


@pytest.fixture
def project(tmp_path):
    """Runs a program in a project that holds a quick set and a file of vectors."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS")}
    cache = {"HARNESS_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def python(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=own | cache,
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gate.toml").write_text(GATE)
    write_vectors(tmp_path / "mine.txt")
    return python


def write_vectors(path, **changed):
    rng = np.random.default_rng(0)
    rows = {word: " ".join(map(str, rng.normal(size=3).round(3))) for word in WORDS} | changed
    path.write_text("".join(f"{word} {numbers}\n" for word, numbers in rows.items()))


def gate(project, *arguments):
    # Whether an editable installation has the entry point depends on its age.
    known = {point.value for point in entry_points(group="pytest11")}
    plugin = [] if MODULE in known else ["-p", MODULE]
    encoder = ["--harness-encoder", "mine=mine.txt"]
    return project("-m", "pytest", "-p", "no:cacheprovider", *plugin, *encoder, *arguments)


def committed(project):
    update = ["run", "--quick", "--update", "--encoder", "mine=mine.txt"]
    assert project("-c", "from harness.cli import main; main()", *update).returncode == 0


@pytest.mark.slow
def test_what_has_not_moved_passes_and_a_moved_encoder_is_told_with_its_pairs(project, tmp_path):
    committed(project)
    done = gate(project, "--harness-gate")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    write_vectors(tmp_path / "mine.txt", dog="9 9 9")
    done = gate(project, "--harness-gate", "results")
    assert done.returncode == 1
    assert "encoder moved: mine: other weights" in done.stdout
    assert f"encoder moved: {CELL}: other weights; " in done.stdout
    assert "    pair " in done.stdout
    done = gate(project, "--harness-gate", "--harness-fail-below", "100")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    assert gate(project).returncode == 5  # without the option there is no test


@pytest.mark.slow
def test_a_missing_baseline_and_a_missing_encoder_fail(project, tmp_path):
    done = gate(project, "--harness-gate", "-k", "lexical")
    assert done.returncode == 1
    assert f"no baseline: {CELL}: there is no committed record" in done.stdout
    assert "1 failed, 1 deselected" in done.stdout
    (tmp_path / "mine.txt").unlink()
    done = gate(project, "--harness-gate")
    assert done.returncode == 1
    assert "--encoder mine=mine.txt" in done.stdout
    done = gate(project, "--harness-gate", "elsewhere")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "elsewhere/gate.toml names no quick set" in done.stderr
