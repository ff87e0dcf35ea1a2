"""A Slurm cluster of one node on this machine: job arrays, and workers by dask-jobqueue.

It runs where Slurm is installed (Debian: `apt-get install slurm-wlm`) and the user is root.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

import pytest

from harness.results.records import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch"))),
        reason="Slurm is not installed: apt-get install slurm-wlm",
    ),
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="Slurm's daemons need root"),
]

ROOT = Path(__file__).resolve().parents[2]
MUNGE = Path("/run/munge/munge.socket.2")
MATRIX = ["-m", "glove-mini.*", "-t", "mini-sts", "mini-sick"]
PARTS = 3
CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={controller}
SlurmdPort={node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def waited(what, done, log, seconds=60):
    """A cluster that does not start says nothing of the harness: its tests are skipped."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            last = log.read_text().strip().rpartition("\n")[2]
            pytest.skip(f"Slurm does not start here: no {what} within {seconds} s: {last}")
        time.sleep(0.5)


def answers(path):
    """Whether a daemon listens on a socket (the file of an ended one may still lie there)."""
    with socket.socket(socket.AF_UNIX) as one:
        return path.exists() and one.connect_ex(str(path)) == 0


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts the daemons; the environment of commands that talk to them."""
    folder, host = tmp_path_factory.mktemp("slurm"), socket.gethostname().partition(".")[0]
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    places = {"controller": free_port(), "node": free_port(), "cores": os.cpu_count()}
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(folder=folder, host=host, **places))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HARNESS_", "SLURM_"))}
    kept |= {"SLURM_CONF": str(conf), "HARNESS_CACHE_DIR": str(folder / "cache")}
    kept |= {"PYTHONPATH": os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", "")])}

    def start(stack, *words):
        """A daemon, which is ended with the tests."""
        log = stack.enter_context((folder / f"{words[0]}.out").open("w"))
        made = subprocess.Popen(words, env=kept, stdout=log, stderr=log)
        stack.callback(made.wait, 30)
        stack.callback(made.terminate)

    def ready():
        words = ["sinfo", "-h", "-o", "%t"]
        found = subprocess.run(words, env=kept, capture_output=True, text=True, check=False)
        return found.stdout.strip() == "idle"

    with ExitStack() as stack:
        # One cluster at a time: munged is the machine's, and ends with the tests that started it.
        lock = stack.enter_context((Path(gettempdir()) / "harness-slurm.lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answers(MUNGE):
            MUNGE.unlink(missing_ok=True)
            MUNGE.parent.mkdir(exist_ok=True)
            shutil.chown(MUNGE.parent, "munge")
            start(stack, "runuser", "-u", "munge", "--", "munged", "--foreground")
            waited("munged", lambda: answers(MUNGE), folder / "runuser.out")
        start(stack, "slurmctld", "-D")
        start(stack, "slurmd", "-D")
        waited("idle node", ready, folder / "slurmctld.out")
        yield kept


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process measures."""
    folder = tmp_path_factory.mktemp("alone")
    words = ["run", *MATRIX, "-j", "1", "-q", "-o", folder / "runs", "--cache", folder / "cache"]
    subprocess.run([sys.executable, "-m", "harness", *words], check=True, cwd=ROOT, timeout=300)
    return scores(folder / "runs")


def scores(folder):
    every = [((one.method, one.task, one.seed), one.scores) for one in Store(folder).records()]
    found = dict(every)
    assert len(found) == len(every) > PARTS
    return found


def test_a_job_array_measures_what_one_process_does(cluster, alone, tmp_path):
    script = tmp_path / "job.sh"
    command = [sys.executable, "-m", "harness", "run", *MATRIX, "-j", "1", "-q"]
    words = " ".join(f"'{word}'" for word in command)
    script.write_text(
        f'#!/bin/bash\n{words} --shard "$SLURM_ARRAY_TASK_ID/{PARTS}" -o "{tmp_path}/runs"\n'
    )
    array = ["sbatch", "--wait", f"--array=1-{PARTS}", f"--output={tmp_path}/%a.log", str(script)]
    done = subprocess.run(
        array, env=cluster, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500
    )
    logs = "\n".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    assert scores(tmp_path / "runs") == alone


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="pip install dask-jobqueue")
def test_workers_that_dask_jobqueue_starts_measure_what_one_process_does(cluster, alone, tmp_path):
    code = (
        "import subprocess, sys\n"
        "from dask_jobqueue import SLURMCluster\n"
        "made = SLURMCluster(cores=1, processes=1, memory='1GB', walltime='00:10:00',\n"
        "    interface='lo', job_extra_directives=['--mem=0'], job_directives_skip=['--mem='],\n"
        f"    log_directory={str(tmp_path)!r})\n"
        "made.scale(jobs=2)\n"
        "words = [*sys.argv[1:], '--scheduler', made.scheduler_address]\n"
        "status = subprocess.run([sys.executable, '-m', 'harness', *words]).returncode\n"
        "made.close()\n"
        "sys.exit(status)\n"
    )
    words = ["run", *MATRIX, "-q", "-o", str(tmp_path / "runs")]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=cluster, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "runs") == alone
