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
from harness.encoders.cache.encodings import keys_in

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


STOPPED = (
    "run",
    "-m",
    "bert-mini.mean*",
    "-t",
    "mini-*",
    "--seeds",
    "1",
    "--jobs",
    "2",
)


@pytest.mark.slow
@pytest.mark.parametrize("to", [os.kill, os.killpg])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_of_two_workers_that_is_stopped_leaves_none_and_says_what_is_kept(
    tmp_path, to, sent
):
    """Each signal to the command alone and to its group."""
    process = start(*STOPPED, cwd=tmp_path)
    time.sleep(8)
    with contextlib.suppress(ProcessLookupError):
        to(process.pid, sent)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)  # its workers hold the pipe's other end
    assert time.monotonic() - began < 4  # 2 on a quiet machine
    assert "Traceback" not in err
    if process.returncode != 0:  # it was done before
        assert process.returncode == 128 + sent, err
        [*_, line] = err.rstrip().splitlines()
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
        keys = [key for shard in shards for key in keys_in(shard.read("keys"))]
        twice += len(keys) - len(set(keys))
    return twice
