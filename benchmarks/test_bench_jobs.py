"""A whole run by one process, on one core, and by two processes: equal records, other times."""

import os
import subprocess
import sys
from functools import partial

import pytest

from harness.results.store import Store

# One process encodes with a thread for each core, unless it has one core.
JOBS = {"one process": 1, "one core": 1, "two processes": 2}
WANTED = 1.67  # two processes take at most 0.6 of the time


def cold_run(way, command, folder):
    """Run a command from an empty cache into an empty folder."""
    line = [sys.executable, "-m", "harness", *command, "-q", "--jobs", str(JOBS[way])]
    line += ["-o", str(folder / "runs"), "--cache", str(folder / "cache")]
    variables = {
        name: value for name, value in os.environ.items() if "HARNESS_" not in name
    }
    if way == "one core":
        [core, *_] = os.sched_getaffinity(0)
        line = ["taskset", "--cpu-list", str(core), *line]
    subprocess.run(line, env=variables, stderr=subprocess.DEVNULL, check=True)


def scores_of(folder):
    """The scores of every cell of a run."""
    scores = {}
    for record in Store(folder / "runs").records():
        scores[record.method, record.task, record.seed] = record.scores
    return scores


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="two processes need two cores, and a system that gives a process one of them",
)
def test_two_processes_are_faster_than_one(side_by_side, tmp_path):
    command = ("run", "-m", "glove-mini.mean", "-t", "mini-sts")
    if side_by_side.on:
        command = ("reproduce", "--profile", "embedded")
    programs = {way: partial(cold_run, way, command, tmp_path / way) for way in JOBS}
    seconds = side_by_side.seconds(programs, rounds=1)

    ours, *others = (scores_of(tmp_path / way) for way in JOBS)
    assert ours
    assert [ours, ours] == others
    for row, way in (("jobs-2", "one process"), ("cores-2", "one core")):
        ratios = seconds[way] / seconds["two processes"]
        side_by_side.require(row, ratios, WANTED, cells=len(ours))
