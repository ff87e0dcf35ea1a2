"""Eight processes on one folder of results and one cache, while the cache is being cleared."""

import json

import pytest
from processes import MAIN, WITHOUT_LOCKS, run, scores, start

ATTACK = "crowd"
CHAINS = ("", "+sn@target", "+natsv:1@target", "+whitening@target")
METHODS = [f"glove-mini.mean{chain}" for chain in CHAINS]
CLEARING = """
import time
from harness.cli import main

for _ in range(100):
    try:
        main(["cache", "gc", "--max-size", "0"])
    except SystemExit:
        pass
    time.sleep(0.05)
"""
NOTING = """
import sys
from pathlib import Path
from harness.gate.failures import note_failures

for number in range(int(sys.argv[2])):
    note_failures(Path("runs"), {f"{sys.argv[1]}-{number}": "why"})
"""
LOCKS = {"with locks": "", "without locks": WITHOUT_LOCKS}


@pytest.mark.parametrize("locks", LOCKS)
def test_no_note_of_a_crowd_is_lost(attacked, tmp_path, locks):
    each = attacked.times(20, 200)
    noting = [
        start(n, each, cwd=tmp_path, code=LOCKS[locks] + NOTING) for n in range(8)
    ]
    for process in noting:
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
    kept = set(json.loads((tmp_path / "runs" / "not-run.json").read_text()))
    wanted = {f"{process}-{number}" for process in range(8) for number in range(each)}
    assert kept == wanted
    attacked.count("right", len(kept))


@pytest.mark.slow
@pytest.mark.parametrize("locks", LOCKS)
def test_a_crowd_measures_what_one_process_measures_alone(attacked, tmp_path, locks):
    """`sts-b` cannot run without data: each process notes that of its own method."""
    rounds, code = attacked.times(1, 6), LOCKS[locks]
    alone = tmp_path / "alone"
    alone.mkdir()
    chosen = [word for method in METHODS for word in ("-m", method)]
    assert run("run", *chosen, "-t", "mini-sts", cwd=alone).status == 0
    for number in range(rounds):
        crowd = tmp_path / f"crowd-{number}"
        crowd.mkdir()
        cleaner = start(cwd=crowd, code=code + CLEARING)
        # Two processes a method: they write the same record, and the same note.
        processes = [
            start(
                "run",
                "-m",
                m,
                "-t",
                "mini-sts",
                "-t",
                "sts-b",
                cwd=crowd,
                code=code + MAIN,
            )
            for m in (*METHODS, *METHODS)
        ]
        for process in processes:
            _, err = process.communicate(timeout=600)
            assert process.returncode == 3, err  # sts-b is missing
            attacked.count("right")
        cleaner.kill()
        cleaner.communicate()
        assert scores(crowd / "runs") == scores(alone / "runs")
        noted = json.loads((crowd / "runs" / "not-run.json").read_text())
        assert set(noted) == {f"{m} on sts-b, seed 0" for m in METHODS}
        assert [p for p in crowd.rglob(".*") if p.name != ".lock"] == []
