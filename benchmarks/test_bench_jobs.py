"""A whole run by one process, on one core, and by two processes.

Their records are equal; their time, memory and use of the cores are measured.
"""

import os
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest

from harness.results.store import Store

# One process encodes with a thread for each core, unless it has one core.
JOBS = {"one process": 1, "one core": 1, "two processes": 2}
SHARE_OF_TIME = 0.6  # how much of the time of one process two processes may take
SECONDS_BETWEEN_LOOKS = 0.2


def cold_run(way, command, folder, usage):
    """Run a command from an empty cache into an empty folder, and note what it used."""
    line = [sys.executable, "-m", "harness", *command, "-q", "--jobs", str(JOBS[way])]
    line += ["-o", str(folder / "runs"), "--cache", str(folder / "cache")]
    variables = {
        name: value for name, value in os.environ.items() if "HARNESS_" not in name
    }
    peak = 0
    processor_times = {}
    start = time.perf_counter()
    with psutil.Popen(line, env=variables, stderr=subprocess.DEVNULL) as process:
        if way == "one core":
            process.cpu_affinity(process.cpu_affinity()[:1])
        while process.poll() is None:
            memory = 0
            for member in [process, *process.children(recursive=True)]:
                try:
                    times = member.cpu_times()
                    memory += member.memory_info().rss
                except psutil.NoSuchProcess:  # it ended meanwhile
                    continue
                processor_times[member.pid] = times.user + times.system
            peak = max(peak, memory)
            time.sleep(SECONDS_BETWEEN_LOOKS)
    assert process.returncode == 0
    seconds = time.perf_counter() - start
    usage[f"GB, {way}"] = round(peak / 1e9, 1)
    cores = sum(processor_times.values()) / seconds
    usage[f"cores in use, {way}"] = round(cores, 2)


def scores_of(folder):
    """The scores of every cell of a run."""
    scores = {}
    for record in Store(folder / "runs").records():
        scores[record.method, record.task, record.seed] = record.scores
    return scores


@pytest.mark.skipif(
    not hasattr(psutil.Process, "cpu_affinity")
    or len(psutil.Process().cpu_affinity()) < 2,
    reason="two processes need two cores, and a system that gives a process one of them",
)
def test_two_processes_are_faster_than_one(side_by_side, tmp_path):
    command = ("run", "-m", "glove-mini.mean", "-t", "mini-sts")
    if side_by_side.on:
        command = ("reproduce", "--profile", "embedded")
    facts = {}
    programs = {}
    for way in JOBS:
        programs[way] = partial(cold_run, way, command, tmp_path / way, facts)
    seconds = side_by_side.seconds(programs, rounds=1)

    ours, *others = (scores_of(tmp_path / way) for way in JOBS)
    assert ours
    assert [ours, ours] == others
    facts["cells"] = len(ours)
    wanted = round(1 / SHARE_OF_TIME, 2)
    for row, way in (("jobs-2", "one process"), ("cores-2", "one core")):
        ratios = seconds[way] / seconds["two processes"]
        side_by_side.require(row, ratios, wanted, **facts)
