"""Runs that are killed at random instants and started again, until they are done."""

import contextlib
import os
import random
import signal
import subprocess

import pytest
from processes import run, scores, start

ATTACK = "kill"
# Word vectors take a moment, the transformer a few seconds, both a corpus: enough to be killed in.
SHORT = ("run", "-m", "bert-mini.mean+sn@mini-text", "-m", "glove-mini.mean", "-t", "mini-sts")
LONG = ("reproduce", "--profile", "embedded", "--seeds", "1")


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(attacked, tmp_path):
    kills = attacked.times(3, 100)
    command = SHORT if attacked.rows is None else LONG
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        (folder / "results" / "papers").mkdir(parents=True)
    assert run(*command, cwd=whole).status in (0, 1)  # 1: there is nothing to compare with
    dice, before, killed = random.Random(kills), {}, 0
    while True:
        process = start(*command, cwd=cut)
        # Longer than it takes to start, or a short run would never be met at its work.
        patience = dice.uniform(1, 15 if attacked.rows is None else 60) if killed < kills else 3600
        try:
            process.communicate(timeout=patience)
            if killed >= kills or attacked.rows is None:
                break
            for folder in ("runs", "cache"):  # done before the last kill: from the start again
                subprocess.run(["rm", "-rf", cut / folder], check=True)
            before = {}
            continue
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
        after = {path: path.stat().st_mtime_ns for path in (cut / "runs").rglob("seed-*.json")}
        lost = [path for path, time in before.items() if after.get(path) != time]
        attacked.count("silent" if lost else "right")
        assert not lost
        before = after
    assert scores(cut / "runs") == scores(whole / "runs")
    assert strays(cut) == []


def strays(folder):
    """Files that a kill left: scratch files, partial passes, unfinished trainings."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and (path.name.startswith(".") or "unfinished" in path.as_posix())
    ]
