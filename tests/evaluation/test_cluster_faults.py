"""Faults of a cluster with a scheduler and workers that are processes of their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.results.records import Store

pytest.importorskip("distributed", reason="the dask extra is not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FLOWS = [f"bert-mini.mean+{flow}@target" for flow in ("flow", "nice")]  # some seconds each
MATRIX = ["-m", "glove-mini.mean", *FLOWS, "-t", "mini-sts", "mini-sick"]
ENOUGH = 3  # records that are there when something is killed


class Dask:
    """A scheduler and workers on a port, each of which can be killed and started again."""

    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HARNESS_")}
        self.environment |= {"PYTHONPATH": str(ROOT), "HARNESS_CACHE_DIR": str(folder / "cache")}

    def start(self, *words):
        with (self.folder / "dask.log").open("a") as log:
            made = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
                env=self.environment, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        self.stack.callback(self.kill, made)
        return made

    def scheduler(self):
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        return self.start("dask_scheduler", *where, "--no-dashboard")

    def worker(self):
        return self.start("dask_worker", self.address, "--nthreads", "1", "--no-nanny")

    def kill(self, *processes):
        for one in processes:
            one.send_signal(signal.SIGKILL)
            one.wait(30)

    def run(self, *words, **how):
        command = [sys.executable, "-m", "harness", "run", *MATRIX, "-q", *words]
        return subprocess.Popen(
            command, env=self.environment, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how,
        )  # fmt: skip


@pytest.fixture
def dask(tmp_path):
    with ExitStack() as stack:
        yield Dask(tmp_path, stack)


def written(folder):
    """The records, each with the time at which it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("seed-*.json")}


def some_written(folder, process):
    end = time.monotonic() + 120
    while len(found := written(folder)) < ENOUGH:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def scores(folder):
    return {(one.method, one.task, one.seed): one.scores for one in Store(folder).records()}


def test_a_scheduler_or_all_workers_that_are_lost_cost_no_record(dask, tmp_path):
    alone, runs = tmp_path / "alone", tmp_path / "runs"
    out, err = dask.run("-j", "1", "-o", str(alone), "--fresh").communicate(timeout=300)
    wanted = scores(alone)
    assert len(wanted) > 2 * ENOUGH, out + err

    scheduler, workers = dask.scheduler(), [dask.worker(), dask.worker()]
    on = ("--scheduler", dask.address, "-o", str(runs))
    first = dask.run(*on)
    kept = some_written(runs, first)
    dask.kill(scheduler)
    out, err = first.communicate(timeout=120)
    assert first.returncode != 0
    assert "Traceback" not in err
    assert "the scheduler was lost; what was done is kept: start it, and run again" in err
    dask.kill(*workers)
    kept = written(runs)

    dask.scheduler()
    workers = [dask.worker(), dask.worker()]
    second = dask.run(*on)
    end = time.monotonic() + 120
    while len(written(runs)) <= len(kept) and second.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    dask.kill(*workers)
    dask.worker()
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, out + err
    assert scores(runs) == wanted
    assert {path: when for path, when in written(runs).items() if path in kept} == kept
