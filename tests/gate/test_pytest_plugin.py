"""`pytest --harness-gate` in the repository of another project, over word vectors of its own."""

import numpy as np
import pytest
from processes import pytest_options, run

WORDS = (
    "a",
    "the",
    "man",
    "woman",
    "dog",
    "is",
    "eating",
    "running",
    "ball",
    "park",
    "small",
)
GATE = 'quick = [{ method = "mine.mean", task = "mini-lexical" }]'
CELL = "mine.mean on mini-lexical, seed 0"
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.fixture
def project(tmp_path):
    """A project that holds a quick set and a file of vectors."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "gate.toml").write_text(GATE)
    write_vectors(tmp_path / "mine.txt")
    return tmp_path


def write_vectors(path, **changed):
    rng = np.random.default_rng(0)
    words = (
        *WORDS,
        "a",
        "the",
        "is",
        "in",
        "on",
        "of",
    )  # a fifth of the tokens and more
    rows = {
        word: " ".join(map(str, rng.normal(size=3).round(3))) for word in words
    } | changed
    path.write_text("".join(f"{word} {numbers}\n" for word, numbers in rows.items()))


def gate(project, *arguments):
    """pytest in the project."""
    plugin = pytest_options("harness.gate.pytest_plugin")
    encoder = ["--harness-encoder", "mine=mine.txt"]
    words = ("-p", "no:cacheprovider", *plugin, *encoder, *arguments)
    return run(*words, cwd=project, code=PYTEST)


@pytest.mark.slow
def test_what_has_not_moved_passes_and_a_moved_encoder_is_told_with_its_pairs(project):
    update = ("run", "--gate", "--update", "--encoder", "mine=mine.txt")
    assert run(*update, cwd=project).status == 0
    done = gate(project, "--harness-gate")
    assert (done.status, "2 passed" in done.out) == (0, True), done.out
    write_vectors(project / "mine.txt", dog="9 9 9")
    done = gate(project, "--harness-gate", "results")
    assert done.status == 1
    assert "encoder moved: mine: other weights" in done.out
    assert f"encoder moved: {CELL}: other weights; " in done.out
    assert "    pair " in done.out
    done = gate(project, "--harness-gate", "--harness-fail-below", "100")
    assert (done.status, "2 passed" in done.out) == (0, True), done.out
    assert gate(project).status == 5  # without the option there is no test


@pytest.mark.slow
def test_a_missing_baseline_and_a_missing_encoder_fail(project):
    done = gate(project, "--harness-gate", "-k", "lexical")
    assert done.status == 1
    assert f"no baseline: {CELL}: there is no committed record" in done.out
    assert "1 failed, 1 deselected" in done.out
    (project / "results" / "gate.toml").write_text(
        GATE.replace(".mean", ".mean+natsv:01@target")
    )
    done = gate(project, "--harness-gate", "-k", "lexical")
    assert (
        done.status,
        "natsv:01@target on mini-lexical, seed 0: not" in done.out,
    ) == (1, True)
    (project / "results" / "gate.toml").write_text(GATE)
    (project / "mine.txt").unlink()
    done = gate(project, "--harness-gate")
    assert done.status == 1
    assert "--encoder mine=mine.txt" in done.out
    done = gate(project, "--harness-gate", "elsewhere")
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert "elsewhere/gate.toml names no quick set" in done.err
