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

OPTIONS_OF_WAYS = {
    "one process": ("--jobs", "1"),  # with a thread for each core where it encodes
    "one core": ("--jobs", "1"),
    "two processes": ("--jobs", "2"),
}
SHARE_OF_TIME = 0.6  # how much of the time of one process two processes may take
SMALL_COMMAND = ("run", "-m", "glove-mini.mean", "-t", "mini-sts")  # benchmarks are off
WHOLE_COMMAND = ("reproduce", "--profile", "embedded")
SECONDS_BETWEEN_LOOKS = 0.2


class ColdRuns:
    """Runs of one command, each from an empty cache into an empty folder.

    Attributes:
        command: The words of the command.
        folder: Scratch space.
        runs: How many there were.
        peaks: The most bytes in use at a time, for each way.
        cores_in_use: Processor time by elapsed time, for each way.
        scores: The scores of every cell, which are equal in all ways.
    """

    def __init__(self, command, folder):
        self.command = command
        self.folder = folder
        self.runs = 0
        self.peaks = {}
        self.cores_in_use = {}
        self.scores = {}

    def __call__(self, way):
        self.runs += 1
        folder = self.folder / str(self.runs)
        folder.mkdir()
        command = [sys.executable, "-m", "harness", *self.command, "-q"]
        command += OPTIONS_OF_WAYS[way]
        command += ["-o", str(folder / "runs"), "--cache", str(folder / "cache")]
        self._run(way, command, folder / "output")
        scores = {}
        for record in Store(folder / "runs").records():
            scores[record.method, record.task, record.seed] = record.scores
        assert scores
        self.scores = self.scores or scores
        assert self.scores == scores

    def _run(self, way, command, output):
        """Run a command and look at its processes until it ends."""
        variables = {}
        for name, value in os.environ.items():
            if not name.startswith("HARNESS_"):
                variables[name] = value
        processor_times = {}
        start_time = time.perf_counter()
        with output.open("w") as file:
            child = subprocess.Popen(command, env=variables, stdout=file, stderr=file)
            process = psutil.Process(child.pid)
            if way == "one core":
                process.cpu_affinity(process.cpu_affinity()[:1])
            while child.poll() is None:
                memory, times = usage(process)
                self.peaks[way] = max(self.peaks.get(way, 0), memory)
                processor_times.update(times)
                time.sleep(SECONDS_BETWEEN_LOOKS)
        elapsed = time.perf_counter() - start_time
        self.cores_in_use[way] = sum(processor_times.values()) / elapsed
        assert child.returncode == 0, output.read_text()


def usage(process):
    """The bytes of a process and its children, and the processor time of each by its id."""
    memory = 0
    times = {}
    try:
        for member in [process, *process.children(recursive=True)]:
            user, system = member.cpu_times()[:2]
            times[member.pid] = user + system
            memory += member.memory_info().rss
    except psutil.NoSuchProcess:  # it ended meanwhile
        return 0, {}
    return memory, times


TWO_CORES = pytest.mark.skipif(
    not hasattr(psutil.Process, "cpu_affinity")
    or len(psutil.Process().cpu_affinity()) < 2,
    reason="two processes need two cores, and a system that gives a process one of them",
)


@TWO_CORES
def test_two_processes_are_faster_than_one(side_by_side, tmp_path):
    cold_runs = ColdRuns(WHOLE_COMMAND if side_by_side.on else SMALL_COMMAND, tmp_path)
    others = {}
    for way in ("one process", "one core"):
        others[way] = partial(cold_runs, way)
    ours = partial(cold_runs, "two processes")
    side_by_side.run(ours, others, rounds=1, warm=False)

    facts = {"cells": len(cold_runs.scores)}
    for way in OPTIONS_OF_WAYS:
        facts[f"GB, {way}"] = round(cold_runs.peaks[way] / 1e9, 1)
        facts[f"cores in use, {way}"] = round(cold_runs.cores_in_use[way], 2)
    wanted = round(1 / SHARE_OF_TIME, 2)
    for row, way in (("jobs-2", "one process"), ("cores-2", "one core")):
        side_by_side.require(row, side_by_side.ratios(way), wanted, **facts)
