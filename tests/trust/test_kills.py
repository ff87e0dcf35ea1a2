"""Runs that are killed at random instants and started again, until they are done."""

import contextlib
import os
import random
import signal
import subprocess
import time

import pytest
from processes import run, scores, start

from harness.core.tensors import TensorFile

# Word vectors take a moment, the transformer a few seconds, both a corpus: enough to be
# killed in.
SHORT = (
    "run",
    "-m",
    "bert-mini.mean+sn@mini-text",
    "-m",
    "glove-mini.mean",
    "-t",
    "mini-sts",
)
KILLS = 3


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path):
    """A run that starts anew after a crash: embeddings-benchmark/mteb#4655."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):  # with nothing to compare with: status 1
        (folder / "results").mkdir(parents=True)
    done = run(*SHORT, cwd=whole, seconds=3600)
    assert done.status in (0, 1), done.err
    assert not (whole / "runs" / "not-run.json").exists()
    dice, before, killed = random.Random(KILLS), {}, 0
    while True:
        process = start(*SHORT, cwd=cut)
        # Longer than it takes to start, or a short run would never be met at its work.
        patience = dice.uniform(1, 15) if killed < KILLS else 3600
        try:
            _, err = process.communicate(timeout=patience)
            assert process.returncode in (0, 1), err
            break
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
        after = times_of_records(cut)
        assert before.items() <= after.items()
        assert encoded_twice(cut / "cache") == 0
        before = after
    assert scores(cut / "runs") == scores(whole / "runs")


# Workers that are at their work for ten minutes, each of which says so in a file.
CROWD = """
import time
from functools import partial
from pathlib import Path

import harness.cli
from harness.evaluation.processes import results_of

def busy(number):
    Path(f"busy-{number}").touch()
    time.sleep(600)

def crowd(*_, **__):
    calls = [partial(busy, number) for number in (1, 2)]
    list(results_of(calls, 2))

harness.cli.app = crowd
harness.cli.main()
"""


@pytest.mark.parametrize(
    ("kill", "number"),
    [
        (os.kill, signal.SIGINT),
        (os.killpg, signal.SIGINT),
        (os.kill, signal.SIGTERM),
        (os.killpg, signal.SIGTERM),
        (os.kill, signal.SIGKILL),
    ],
)
def test_a_signal_ends_a_command_and_its_workers_and_says_what_is_kept(
    kill, number, tmp_path
):
    """Each signal to the command alone, and to its group."""
    process = start(cwd=tmp_path, code=CROWD)
    while len([*tmp_path.glob("busy-*")]) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    kill(process.pid, number)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)  # its workers hold the other end
    assert time.monotonic() - began < 4  # 2 on a quiet machine
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert process.returncode == 128 + number
    [line] = err.strip().splitlines()
    assert line.startswith("harness: stopped; measured cells")


def times_of_records(folder):
    """When each record in `runs` was written."""
    records = (folder / "runs").rglob("seed-*.json")
    return {path: path.stat().st_mtime_ns for path in records}


def encoded_twice(cache):
    """How many sentences stand in a cache more than once."""
    twice = 0
    for folder in (cache / "encodings").glob("*"):
        shards = filter(None, map(TensorFile.parse, folder.glob("*.safetensors")))
        keys = [key.tobytes() for shard in shards for key in shard.read("keys")]
        twice += len(keys) - len(set(keys))
    return twice
