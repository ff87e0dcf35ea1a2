"""Runs that are killed at random instants and started again, until they are done."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from processes import run, scores, start

from harness.encoders.cache.encodings import CacheShard, keys_in

ATTACK = "kill"
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
LONG = ("reproduce", "--profile", "embedded", "--seeds", "1")


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(
    attacked, tmp_path
):
    kills = attacked.times(3, 100)
    command = SHORT if attacked.rows is None else LONG
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        (folder / "results").mkdir(
            parents=True
        )  # with nothing to compare with: status 1
    done = run(*command, cwd=whole, seconds=3600)
    assert done.status in (0, 1), done.err
    assert not (whole / "runs" / "not-run.json").exists()
    dice, before, killed = random.Random(kills), {}, 0
    while True:
        process = start(*command, cwd=cut)
        # Longer than it takes to start, or a short run would never be met at its work.
        patience = (
            dice.uniform(1, 15 if attacked.rows is None else 60)
            if killed < kills
            else 3600
        )
        try:
            _, err = process.communicate(timeout=patience)
            assert process.returncode in (0, 1), err
            if killed >= kills or attacked.rows is None:
                break
            for folder in (
                "runs",
                "cache",
            ):  # done before the last kill: from the start again
                subprocess.run(["rm", "-rf", cut / folder], check=True)
            before = {}
            continue
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            killed += 1
        after = {
            path: path.stat().st_mtime_ns
            for path in (cut / "runs").rglob("seed-*.json")
        }
        lost = [path for path, time in before.items() if after.get(path) != time]
        assert not lost
        assert encoded_twice(cut / "cache") == 0
        attacked.count("right")
        before = after
    assert scores(cut / "runs") == scores(whole / "runs")
    assert strays(cut) == []


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
def test_a_run_of_two_workers_that_is_stopped_leaves_none_and_says_what_is_kept(
    attacked, tmp_path
):
    """Each signal to the command alone and to its group; what it measured before stays measured."""
    dice, before = random.Random(2), {}
    for number in range(attacked.times(1, 40)):
        process = start(*STOPPED, cwd=tmp_path)
        time.sleep(dice.uniform(4, 12 if attacked.rows is None else 60))
        to, sent = (
            dice.choice([os.kill, os.killpg]),
            dice.choice([signal.SIGINT, signal.SIGTERM]),
        )
        with contextlib.suppress(ProcessLookupError):
            to(process.pid, sent)
        began = time.monotonic()
        _, err = process.communicate(
            timeout=60
        )  # its workers hold the other end of the pipe
        assert time.monotonic() - began < 4  # 2 on a quiet machine
        assert "Traceback" not in err
        if process.returncode != 0:  # it was done before
            assert process.returncode == 128 + sent, err
            assert (
                err.rstrip()
                .splitlines()[-1]
                .startswith("harness: stopped; measured cells")
            )
        # The next run goes on with parts of a pass, and removes a killed worker's
        # scratch file.
        kept = (".partial", ".block", ".tmp")
        assert [path for path in strays(tmp_path) if path.suffix not in kept] == []
        after = {
            path: path.stat().st_mtime_ns
            for path in (tmp_path / "runs").rglob("seed-*.json")
        }
        assert before.items() <= after.items()
        before = after if number % 10 else {}
        if not before:
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)
            shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        attacked.count("right")
    if attacked.rows is not None:
        assert run(*STOPPED, cwd=tmp_path, seconds=3600).status in (0, 1)
        assert strays(tmp_path) == []


def encoded_twice(cache):
    """How many sentences stand in a cache more than once."""
    twice = 0
    for folder in (cache / "encodings").glob("*"):
        shards = filter(None, map(CacheShard.parse, folder.glob("*.safetensors")))
        keys = [key for shard in shards for key in keys_in(shard.read("keys"))]
        twice += len(keys) - len(set(keys))
    return twice


def strays(folder):
    """Files that a kill left: scratch files, partial passes, unfinished trainings."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and (path.name.startswith(".") or "unfinished" in path.as_posix())
    ]
