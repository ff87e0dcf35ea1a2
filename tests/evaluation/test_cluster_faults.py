"""Faults of a cluster with a scheduler and workers that are processes of their own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import processes
import pytest

pytest.importorskip("distributed", reason="the dask extra is not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FLOWS = [
    f"bert-mini.mean+{flow}@target" for flow in ("flow", "nice")
]  # some seconds each
LONG = ["-m", "glove-mini.mean", *FLOWS, "-t", "mini-sts", "mini-sick"]
MATRIX = ["-m", "glove-mini.mean*", "bert-mini.cls", "-t", "mini-sts"]
ENOUGH = 3  # records that are there when something is killed
# Gives a worker a disk of its own on which nothing can be written.
FULL = "mount -t tmpfs -o size=4k,nr_inodes=1 none"
POISON = """
import os, signal
from dataclasses import dataclass
from .whitening import Whitening

@dataclass(frozen=True)
class Poison(Whitening):
    name = "poison"

    def fit(self, x, rng):
        os.kill(os.getpid(), signal.SIGKILL)

POSTS, METHODS = {"poison": Poison}, ()
"""


class Dask:
    """A scheduler and workers on a port, each of which can be killed and started again."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.root = folder, stack, ROOT
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"

    def start(self, *words, before=()):
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("HARNESS_")
        }
        own = {
            "HARNESS_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONPATH": str(self.root),
        }
        with (self.folder / "dask.log").open("a") as log:
            made = subprocess.Popen(
                [*before, sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
                env=environment | own, cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        self.stack.callback(self.kill, made)
        return made

    def scheduler(self):
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        made = self.start("dask_scheduler", *where, "--no-dashboard")
        end = time.monotonic() + 120
        while (
            True
        ):  # a run waits ten seconds for it, which a busy machine may need to start it
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return made
            assert time.monotonic() < end
            time.sleep(0.1)

    def worker(self, *words, **how):
        words = words or ("--no-nanny",)
        return self.start("dask_worker", self.address, "--nthreads", "1", *words, **how)

    def worker_with_full(self, folder):
        """A worker that finds a full disk in the place of a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        script = f'{FULL} "$0" && exec "$@"'
        return self.worker(before=("unshare", "-rm", "sh", "-c", script, str(folder)))

    def kill(self, *processes):
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait(30)

    def run(self, matrix=MATRIX):
        words = ("run", *matrix, "-q", "--scheduler", self.address)
        return processes.start(*words, cwd=self.folder, PYTHONPATH=str(self.root))

    def ran(self, matrix=MATRIX):
        """The exit status of a run, and what it printed on both streams."""
        process = self.run(matrix=matrix)
        printed = "".join(process.communicate(timeout=300))
        assert "Traceback" not in printed
        return process.returncode, printed


@pytest.fixture
def dask(tmp_path):
    with ExitStack() as stack:
        yield Dask(tmp_path, stack)


def written(folder):
    """The records, each with the time at which it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("seed-*.json")}


def some_written(folder, process, count):
    end = time.monotonic() + 120
    while len(written(folder)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def scores_of_one_process(folder, matrix):
    """The scores of one process, without any fault."""
    folder.mkdir(exist_ok=True)
    ended = processes.run("run", *matrix, "-q", "-j", "1", cwd=folder)
    assert ended.status == 0, ended.err
    true = processes.scores(folder / "runs")
    assert len(true) > ENOUGH
    return true


@pytest.fixture(scope="module")
def true_scores(tmp_path_factory):
    return scores_of_one_process(tmp_path_factory.mktemp("alone"), MATRIX)


def test_lost_workers_and_a_lost_scheduler_cost_no_record(dask, tmp_path):
    wanted, runs = scores_of_one_process(tmp_path / "alone", LONG), tmp_path / "runs"
    scheduler, workers = dask.scheduler(), [dask.worker(), dask.worker()]
    first = dask.run(matrix=LONG)
    some_written(runs, first, ENOUGH)
    dask.kill(workers.pop())
    some_written(runs, first, len(written(runs)) + 1)
    dask.kill(scheduler)
    out, err = first.communicate(timeout=120)
    assert first.returncode != 0
    assert "Traceback" not in err
    assert (
        "the scheduler was lost; what was done is kept: start it, and run again" in err
    )
    dask.kill(*workers)
    kept = written(runs)

    dask.scheduler()
    workers = [dask.worker(), dask.worker()]
    second = dask.run(matrix=LONG)
    some_written(runs, second, len(kept) + 1)
    dask.kill(*workers)
    dask.worker()
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, out + err
    assert processes.scores(runs) == wanted
    assert {path: when for path, when in written(runs).items() if path in kept} == kept


def test_a_unit_that_kills_every_worker_fails_and_the_others_are_done(
    dask, true_scores, tmp_path
):
    runs, dask.root = tmp_path / "runs", tmp_path / "code"
    for name in ("harness", "baselines"):
        shutil.copytree(ROOT / name, dask.root / name)
    (dask.root / "baselines" / "poison.py").write_text(POISON)
    dask.scheduler()
    for _ in range(2):
        dask.worker("--nanny")
    matrix = ["-m", "glove-mini.mean+poison@target", *MATRIX[1:]]
    status, printed = dask.ran(matrix=matrix)
    assert status != 0
    assert "glove-mini.mean+poison@target" in printed
    assert "4 workers died of it, perhaps for want of memory (1 cell)" in printed
    assert processes.scores(runs) == true_scores


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(
        ["unshare", "-rm", "true"], check=False, capture_output=True
    ).returncode
    != 0,
    reason="no file systems of a process's own: unshare -rm",
)
@pytest.mark.parametrize("place", ["runs", "cache"])
def test_a_full_disk_of_one_worker_costs_no_record(dask, true_scores, tmp_path, place):
    runs = tmp_path / "runs"
    scheduler = dask.scheduler()
    bad = dask.worker_with_full(tmp_path / place)
    dask.worker()
    status, printed = dask.ran()
    assert "No space left on device" in printed or status == 0
    kept = written(runs)
    dask.kill(bad)
    status, printed = dask.ran()
    assert status == 0, printed
    assert processes.scores(runs) == true_scores
    assert {path: when for path, when in written(runs).items() if path in kept} == kept
    assert scheduler.poll() is None


def test_workers_load_a_plug_in_that_the_scheduler_does_not_know(dask, tmp_path):
    template = ROOT / "examples" / "plugins" / "templates" / "method.py"
    (tmp_path / "mine.py").write_text(template.read_text())
    dask.scheduler()
    dask.worker()
    matrix = ["-m", "glove-mini.mean+mine@target", "glove-mini.mean", "-t", "mini-sts"]
    status, printed = dask.ran(matrix=["--plugin", "mine.py", *matrix])
    assert status == 0, printed
    assert len(written(tmp_path)) == 2
