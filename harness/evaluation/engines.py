"""Engines: a graph of jobs run in this process, in several, or on a Dask cluster.

A job is a call, and the jobs that must be done before it. An engine offers an executor
of `concurrent.futures`: joblib's loky, Dask's client, or one that calls in this
process. `run_jobs` gives it each job when those before it are done, by `graphlib`, and
yields each with its result. Calls and results travel between processes, so both have to
be picklable.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import HarnessError, UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins, require_plugins

JOBS_AHEAD = (
    2  # of a worker: one that it works on, and one that it finds when that is done
)
SECONDS_BETWEEN_LOOKS = 0.5  # of a worker at its parent
# Of a command that was stopped, Python's tracker removes what is left, and need not
# warn of it.
QUIET_TRACKER = "ignore:resource_tracker"
LIBRARIES = (
    "OMP_NUM",
    "OPENBLAS_NUM",
    "MKL_NUM",
    "BLIS_NUM",
    "VECLIB_MAXIMUM",
    "NUMEXPR_NUM",
)
ONE_THREAD = {f"{library}_THREADS": "1" for library in LIBRARIES}
IDLE_SECONDS = 300  # after which a worker ends
WORKER_BYTES = 2 * 2**30  # an encoder of BERT's size and its task's vectors

IMPORTING_PLUGINS = threading.Lock()


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A call in a worker.

    Attributes:
        call: What is called; it is picklable, and so is what it returns. None for a
            milestone, which is reached when the jobs before it are done.
        after: The jobs that must be done before it.
    """

    call: Callable[[], Any] | None = None
    after: Sequence[Job] = ()


AnyJob = TypeVar("AnyJob", bound=Job)


class WorkersLost(HarnessError):
    """Each worker that was given a job died."""


# Engines


@dataclass(frozen=True)
class InProcess:
    """This process, one job after the other."""

    workers: int = 1
    jobs_ahead: int = 1

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """An executor that makes each call at once."""
        yield CallingExecutor()


class CallingExecutor(Executor):
    """An executor that makes each call at once, in this process."""

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """A future that is done. What the call raises is raised here."""
        future = Future[Any]()
        future.set_result(function(*args, **kwargs))
        return future


@dataclass(frozen=True)
class Processes:
    """Processes of this machine with one thread each, by joblib's loky."""

    workers: int

    @property
    def jobs_ahead(self) -> int:
        """How many jobs the processes are given at a time.

        Not all at once: processes take jobs in the order in which they are given, and
        those that become ready meanwhile go before those that wait.
        """
        return JOBS_AHEAD * self.workers

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """The processes, which outlive this context; an error in it ends them.

        Raises HarnessError if a process is killed: which job it had, nothing tells.
        """
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        # One whose memory has grown much is replaced between two jobs, which harms
        # nothing.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        executor = get_reusable_executor(
            self.workers,
            timeout=IDLE_SECONDS,
            initializer=_start_worker,
            initargs=(os.getpid(), tuple(PLUGINS.values())),
            env=ONE_THREAD,
        )
        is_complete = False
        try:
            yield PicklingExecutor(executor)
            is_complete = True
        except TerminatedWorkerError:
            require_plugins(PLUGINS.values())  # else a worker ends as soon as it starts
            raise HarnessError(
                "a worker process was killed, perhaps for want of memory; what was done is "
                f"kept: run again, with --jobs below {self.workers} if memory was short"
            ) from None
        finally:
            if not is_complete:  # the jobs that were given are not wanted any more
                # loky's thread would look for the jobs whose ids it still has, and not
                # find them.
                executor._work_ids.queue.clear()
                executor.shutdown(kill_workers=True)


def _start_worker(parent: int, plugins: Sequence[Plugin]) -> None:  # noqa: ARG001 - they tell pools
    """Let a worker grow, and end soon after its parent, which may be killed.

    Each call loads the plug-ins; a run with others has other workers.
    """
    # joblib replaces a worker that has grown by 300 MB, which one encoder does, and a
    # new one takes seconds to import torch: a tenth of a whole reproduction's time.
    process_executor: Any = import_module("joblib.externals.loky.process_executor")
    process_executor._MAX_MEMORY_LEAK_SIZE = WORKER_BYTES

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster, by the client of its scheduler."""

    client: Any

    @classmethod
    def connect(cls, scheduler: str) -> Cluster:
        """Connect to the address of a scheduler. Raises UsageError."""
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--scheduler needs Dask: pip install 'sentence-embedding-harness[dask]'"
            ) from None
        # A scheduler that is lost is told in one line; the client would log each retry.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--scheduler {scheduler}: no scheduler answers ({error})"
            ) from None
        return cls(client)

    @property
    def workers(self) -> int:
        """How many threads of workers there are now."""
        return max(1, sum(self.client.nthreads().values()))

    @property
    def jobs_ahead(self) -> int:
        """How many jobs the scheduler is given at a time; more workers may have joined."""
        return JOBS_AHEAD * self.workers

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """The workers. An error in this context cancels the jobs that they were given.

        Raises HarnessError if the scheduler is lost.
        """
        from distributed.comm.core import CommClosedError

        executor = self.client.get_executor(pure=False)
        try:
            yield PicklingExecutor(executor)
        except (CancelledError, CommClosedError):
            raise HarnessError(
                "the scheduler was lost; what was done is kept: start it, and run again"
            ) from None
        except BaseException:
            executor.shutdown(wait=False)
            raise


class PicklingExecutor(Executor):
    """An executor of other processes, which load the plug-ins before they unpickle a call.

    Dask's scheduler, which would unpickle calls too, is given bytes: it knows no
    plug-in.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.plugins = tuple(PLUGINS.values())

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """The future of a call in one of the processes."""
        from joblib.externals.loky.backend.reduction import dumps

        pickled = bytes(dumps(partial(function, *args, **kwargs)))
        return self.executor.submit(_call_pickled, self.plugins, pickled)


def _call_pickled(plugins: Sequence[Plugin], pickled: bytes) -> Any:
    """Make a call in a worker that has loaded the plug-ins before."""
    from joblib.externals.loky.backend.reduction import loads

    with IMPORTING_PLUGINS:  # a worker may have several threads
        import_plugins(plugins)
    call = loads(pickled)
    return call()


Engine = InProcess | Processes | Cluster


# Jobs


def run_jobs(engine: Engine, jobs: Iterable[AnyJob]) -> Iterator[tuple[AnyJob, Any]]:
    """Run a graph of jobs, and yield each with its result as it is done.

    On a cluster, the result of a job whose workers died is WorkersLost. Dask blames all
    jobs of a worker that dies: which of them it was shows when each is run alone.
    """
    graph: TopologicalSorter[Any] = TopologicalSorter()
    for job in jobs:
        graph.add(job, *job.after)
    graph.prepare()
    waiting: deque[Any] = deque()
    running: dict[Future[Any], Any] = {}
    with engine.executor() as executor:
        while graph.is_active():
            # What has just become ready goes first: one encoder is finished after the
            # other.
            waiting.extendleft(reversed(_ready_jobs(graph)))
            while waiting and len(running) < engine.jobs_ahead:
                job = waiting.popleft()
                running[executor.submit(job.call)] = job
            finished = wait(running, return_when=FIRST_COMPLETED).done
            for future in [future for future in running if future in finished]:
                job = running.pop(future)
                result = _result(future)
                graph.done(job)
                yield job, result


def _ready_jobs(graph: TopologicalSorter[Any]) -> list[Any]:
    """The jobs that have become ready, behind milestones that are reached by now."""
    jobs = []
    while ready := graph.get_ready():
        for job in ready:
            if job.call is None:
                graph.done(job)
            else:
                jobs.append(job)
    return jobs


def _result(future: Future[Any]) -> Any:
    """What a call returned; WorkersLost where every worker of a cluster that was given it died."""
    try:
        return future.result()
    except Exception as error:
        # Known by its name: Dask is imported only where there is a cluster.
        if type(error).__name__ == "KilledWorker":
            count = getattr(error, "allowed_failures", 0) + 1
            return WorkersLost(
                f"{count} workers died of it, perhaps for want of memory"
            )
        raise


# The engine of a command


def default_jobs() -> int:
    """The number of cores, or fewer where less than WORKER_BYTES is free for each."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        [kib] = re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    except (ValueError, OSError):  # not Linux
        return cores
    return max(1, min(cores, int(kib) * 1024 // WORKER_BYTES))


def engine(jobs: int | None, scheduler: str | None) -> Engine:
    """The engine that `--jobs` or `--scheduler` asks for; by default a process for each core."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET_TRACKER)
    if scheduler is not None:
        if jobs is not None:
            raise UsageError(
                "--jobs is of this machine, --scheduler of a cluster: give one"
            )
        return Cluster.connect(scheduler)
    count = default_jobs() if jobs is None else jobs
    return Processes(count) if count > 1 else InProcess()
