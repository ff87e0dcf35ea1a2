"""A whole run by one process, on one core, and by two processes.

Their records are equal; their time, memory and use of the cores are measured.
"""

import os
import subprocess
import sys
import time

import psutil
import pytest

from harness.results.records import Store

WAYS = {
    "one process": ("--jobs", "1"),  # with a thread for each core where it encodes
    "one core": ("--jobs", "1"),
    "two processes": ("--jobs", "2"),
}
OF_ONE = 0.6  # how long two processes may take where one takes 1
SMALL = ("run", "-m", "glove-mini.mean", "-t", "mini-sts")  # where benchmarks are off
WHOLE = ("reproduce", "--profile", "embedded")


def used(process):
    """Bytes of a process and of those that it started, and the processor time of each."""
    try:
        every = [process, *process.children(recursive=True)]
        times = {one.pid: sum(one.cpu_times()[:2]) for one in every}
        return sum(one.memory_info().rss for one in every), times
    except psutil.NoSuchProcess:
        return 0, {}


class Cold:
    """Runs of one command from an empty cache into an empty folder.

    `peaks` are the bytes and `busy` the cores in use of each way.
    """

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.peaks, self.busy, self.scores, self.runs = {}, {}, {}, 0

    def __call__(self, way):
        self.runs += 1
        folder = self.folder / str(self.runs)
        folder.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HARNESS_")}
        words = [*self.command, *WAYS[way], "-q", "-o", str(folder / "runs")]
        words = [
            sys.executable,
            "-m",
            "harness",
            *words,
            "--cache",
            str(folder / "cache"),
        ]
        said, times, began = folder / "said", {}, time.perf_counter()
        with said.open("w") as out:
            process = subprocess.Popen(words, env=kept, stdout=out, stderr=out)
            seen = psutil.Process(process.pid)
            if way == "one core":
                seen.cpu_affinity(seen.cpu_affinity()[:1])
            while process.poll() is None:
                size, now = used(seen)
                self.peaks[way] = max(self.peaks.get(way, 0), size)
                times |= now
                time.sleep(0.2)
        self.busy[way] = sum(times.values()) / (time.perf_counter() - began)
        assert process.returncode == 0, said.read_text()
        found = {
            (one.method, one.task, one.seed): one.scores
            for one in Store(folder / "runs").records()
        }
        assert found
        assert self.scores.setdefault("every way", found) == found


TWO_CORES = pytest.mark.skipif(
    not hasattr(psutil.Process, "cpu_affinity")
    or len(psutil.Process().cpu_affinity()) < 2,
    reason="two processes need two cores, and a system that gives a process one of them",
)


def beside(side_by_side, cold, ours, *others):
    """Time one way and others before it, each from an empty cache."""
    ways = {way: (lambda way=way: cold(way)) for way in others}
    side_by_side.run(lambda: cold(ours), ways, rounds=1, warm=False)
    facts = {f"GB, {way}": round(peak / 1e9, 1) for way, peak in cold.peaks.items()}
    facts |= {f"cores in use, {way}": round(busy, 2) for way, busy in cold.busy.items()}
    return facts | {"cells": len(cold.scores["every way"])}


@TWO_CORES
def test_two_processes_beside_one(side_by_side, tmp_path):
    cold = Cold(WHOLE if side_by_side.on else SMALL, tmp_path)
    one, core = "one process", "one core"
    facts = beside(side_by_side, cold, "two processes", one, core)
    side_by_side.require(
        "jobs-2", side_by_side.ratios(one), round(1 / OF_ONE, 2), **facts
    )
    side_by_side.require(
        "cores-2", side_by_side.ratios(core), round(1 / OF_ONE, 2), **facts
    )
