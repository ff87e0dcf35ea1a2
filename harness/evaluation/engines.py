"""Engines, which run a graph of jobs in this process, in several, or on a Dask cluster.

A job is a call, and the jobs that must be done before it. An engine has an executor of
`concurrent.futures`: joblib's loky, Dask's client, or one that calls in this process.
`run_jobs` gives the executor each job once the jobs before it are done (`graphlib` keeps
their order), and yields each job with its result. Calls and results are sent between
processes, so both have to be picklable.
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
from harness.plugins import import_plugins

# Jobs that are given out for each worker: one that it works on, and the next one.
JOBS_AHEAD = 2
SECONDS_BETWEEN_CHECKS = 0.5  # in which a worker looks whether its parent still runs
IDLE_SECONDS = 300  # after which a worker without jobs ends
WORKER_BYTES = 2 * 2**30  # an encoder of BERT's size and its task's vectors

# The environment of workers, in which every numerical library uses one thread.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}

# For PYTHONWARNINGS: if a command is stopped, Python's tracker of resources removes the
# command's semaphores. It need not warn of that.
QUIET_TRACKER = "ignore:resource_tracker"

# Held while plug-ins are imported: a worker of Dask may have several threads.
IMPORTING_PLUGINS = threading.Lock()


@dataclass(frozen=True, eq=False, kw_only=True)
class Job:
    """A call in a worker.

    Attributes:
        call: A function without arguments. None for a milestone, which only says that
            the jobs before it are done.
        after: The jobs that must be done before it.
    """

    call: Callable[[], Any] | None = None
    after: Sequence[Job] = ()


AnyJob = TypeVar("AnyJob", bound=Job)


class WorkersLost(HarnessError):
    """The result of a job if every worker that it was given to died."""


# Engines


@dataclass(frozen=True)
class InProcess:
    """This process, one job after the other.

    Attributes:
        workers: How many jobs run at the same time.
        jobs_ahead: How many jobs the executor is given at a time.
    """

    workers: int = 1
    jobs_ahead: int = 1

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Context with an executor that makes each call when it is submitted."""
        yield CallingExecutor()


class CallingExecutor(Executor):
    """An executor that makes each call in this process, when the call is submitted."""

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """A future that is done. An error of the call is raised here."""
        future = Future[Any]()
        future.set_result(function(*args, **kwargs))
        return future


@dataclass(frozen=True)
class Processes:
    """Processes of this machine with one thread each, by joblib's loky.

    Attributes:
        workers: The number of processes.
    """

    workers: int

    @property
    def jobs_ahead(self) -> int:
        """How many jobs the processes are given at a time.

        They are not given all at once. A process takes jobs in the order in which they
        were given, and a job that has just become ready should go before older ones.
        """
        return JOBS_AHEAD * self.workers

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Context with the processes. They outlive it, unless an error in it ends them.

        Raises HarnessError if a process is killed; loky does not say which job it had.
        """
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        # loky replaces a process whose memory has grown much between two jobs, and warns
        # of it, though no job is lost.
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
            raise HarnessError(
                "a worker process was killed, perhaps for want of memory; what was done is "
                f"kept: run again, with --jobs below {self.workers} if memory was short"
            ) from None
        finally:
            if not is_complete:
                # Nobody waits for the jobs that are still queued. loky's thread would look
                # for them by their ids, and not find them.
                executor._work_ids.queue.clear()
                executor.shutdown(kill_workers=True)


def _start_worker(parent: int, plugins: Sequence[Plugin]) -> None:  # noqa: ARG001 - see below
    """Prepare a new process: it may grow, and it ends soon after its parent has ended.

    The plug-ins are loaded by each call (`_call_pickled`). They are an argument here
    because loky starts new processes for a run with other arguments.
    """
    # joblib replaces a worker that has grown by 300 MB. One encoder is as large, and a new
    # worker takes seconds to import torch: a tenth of the time of a reproduction.
    process_executor: Any = import_module("joblib.externals.loky.process_executor")
    process_executor._MAX_MEMORY_LEAK_SIZE = WORKER_BYTES
    watch = partial(_end_after_parent, parent)
    threading.Thread(target=watch, daemon=True).start()


def _end_after_parent(parent: int) -> None:
    """End this process when the process that started it has ended.

    The system then gives it another parent.
    """
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_CHECKS)
    os._exit(1)


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster.

    Attributes:
        client: Dask's client of the cluster's scheduler.
    """

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
        # The error of a lost scheduler is one line, and the client would log each retry.
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
        """How many threads the cluster's workers have now."""
        return max(1, sum(self.client.nthreads().values()))

    @property
    def jobs_ahead(self) -> int:
        """How many jobs the scheduler is given at a time, by the threads that there are now."""
        return JOBS_AHEAD * self.workers

    @contextmanager
    def executor(self) -> Iterator[Executor]:
        """Context with the workers. An error in it cancels the jobs that they were given.

        Raises HarnessError if the scheduler is lost.
        """
        from distributed.comm.core import CommClosedError

        executor = DaskExecutor(self.client)
        try:
            yield PicklingExecutor(executor)
        except (CancelledError, CommClosedError):
            raise HarnessError(
                "the scheduler was lost; what was done is kept: start it, and run again"
            ) from None
        except BaseException:
            executor.cancel()
            raise


class DaskExecutor(Executor):
    """An executor of a Dask cluster.

    Dask has one, `Client.get_executor`. If the scheduler is lost while a result is on its
    way, the future of that result never ends there.

    Attributes:
        client: Dask's client of the cluster's scheduler.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.unfinished: set[Any] = set()

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """The future of a call on the cluster."""
        future = Future[Any]()
        dask_future = self.client.submit(function, *args, **kwargs, pure=False)
        self.unfinished.add(dask_future)
        dask_future.add_done_callback(partial(self._pass_on, future))
        return future

    def _pass_on(self, future: Future[Any], dask_future: Any) -> None:
        """End a future with the result or the error of a call."""
        self.unfinished.discard(dask_future)
        try:
            result = dask_future.result()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)
        else:
            future.set_result(result)

    def cancel(self) -> None:
        """Cancel the calls that are not done."""
        self.client.cancel(list(self.unfinished))


class PicklingExecutor(Executor):
    """An executor of other processes, which load the plug-ins before they unpickle a call.

    It gives calls to another executor as bytes. Dask's scheduler would unpickle calls as
    well, and does not have the plug-ins.
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
    """Load the plug-ins in a worker, and make a call that was pickled."""
    from joblib.externals.loky.backend.reduction import loads

    with IMPORTING_PLUGINS:
        import_plugins(plugins)
    call = loads(pickled)
    return call()


Engine = InProcess | Processes | Cluster


# Jobs


def run_jobs(engine: Engine, jobs: Iterable[AnyJob]) -> Iterator[tuple[AnyJob, Any]]:
    """Run a graph of jobs, and yield each with its result as it is done.

    On a cluster, the result of a job whose workers died is WorkersLost. Dask blames all
    jobs of a worker that dies: which of them killed it shows when each is run alone.
    """
    graph: TopologicalSorter[Any] = TopologicalSorter()
    for job in jobs:
        graph.add(job, *job.after)
    graph.prepare()
    waiting_jobs: deque[Any] = deque()
    running_jobs: dict[Future[Any], Any] = {}
    with engine.executor() as executor:
        while graph.is_active():
            # A job that has just become ready goes first, so that the encoders are finished
            # one after the other.
            waiting_jobs.extendleft(reversed(_ready_jobs(graph)))
            while waiting_jobs and len(running_jobs) < engine.jobs_ahead:
                job = waiting_jobs.popleft()
                running_jobs[executor.submit(job.call)] = job
            finished = wait(running_jobs, return_when=FIRST_COMPLETED).done
            # In the order in which they were given: `finished` is a set.
            for future in list(running_jobs):
                if future in finished:
                    job = running_jobs.pop(future)
                    result = _result(future)
                    graph.done(job)
                    yield job, result


def _ready_jobs(graph: TopologicalSorter[Any]) -> list[Any]:
    """The jobs that have become ready.

    A milestone is done as soon as it is ready, and so may make other jobs ready.
    """
    jobs = []
    ready = graph.get_ready()
    while ready:
        for job in ready:
            if job.call is None:
                graph.done(job)
            else:
                jobs.append(job)
        ready = graph.get_ready()
    return jobs


def _result(future: Future[Any]) -> Any:
    """The result of a call; WorkersLost if every worker that it was given to died."""
    try:
        return future.result()
    except Exception as error:  # a call may raise anything
        # Dask's error is told by the name of its class, since Dask is imported only if there
        # is a cluster. All other errors are raised again.
        if type(error).__name__ == "KilledWorker":
            count = getattr(error, "allowed_failures", 0) + 1
            return WorkersLost(
                f"{count} workers died of it, perhaps for want of memory"
            )
        raise


# The engine of a command


def default_jobs() -> int:
    """The number of cores, or fewer if less than WORKER_BYTES of memory is free for each."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        memory = Path("/proc/meminfo").read_text()
        [available_kib] = re.findall(r"MemAvailable:\s+(\d+)", memory)
    except (ValueError, OSError):  # not Linux
        return cores
    workers_in_memory = int(available_kib) * 1024 // WORKER_BYTES
    return max(1, min(cores, workers_in_memory))


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
