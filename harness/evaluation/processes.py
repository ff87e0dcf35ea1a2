"""Calls in several processes of this machine, or on a Dask cluster, by joblib."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from harness.core.environment import cores, extra
from harness.core.errors import HarnessError, UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins

LOG = logging.getLogger(__name__)
SECONDS_BETWEEN_CHECKS = 0.5  # in which a worker looks whether its parent still runs
WORKER_BYTES = 2 * 2**30  # an encoder of BERT's size and its task's vectors

# For PYTHONWARNINGS: if a command is stopped, Python's tracker of resources removes the
# command's semaphores, and joblib the calls that nobody waits for. Neither need warn.
QUIET_WARNINGS = "ignore:resource_tracker,ignore:A worker stopped"

# The number of processes of this machine, or the address of a Dask scheduler.
Jobs = int | str

CallResult = TypeVar("CallResult")


def results_of(
    calls: Sequence[Callable[..., CallResult]], jobs: Jobs, *shared: object
) -> Iterator[CallResult]:
    """The result of each call, in the order in which they are done.

    One job, or a single call, needs no other process. Calls and results are sent between
    processes, so they have to be picklable. A generator is sent as a list when it is done.

    Args:
        calls: The calls. Each takes long enough to be sent alone.
        jobs: The number of processes, or the scheduler whose workers are taken instead.
        shared: The arguments of every call. A process unpickles them once, and keeps what
            they read for these calls alone.

    Raises:
        HarnessError: A process was killed, or the scheduler is lost. The first error of a
            call is raised, too.
        UsageError: No scheduler answers.
    """
    if jobs == 1 or len(calls) < 2:
        for call in calls:
            yield call(*shared)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.backend.reduction import dumps
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    settings: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    if isinstance(jobs, str):
        with parallel_config("dask", client=_client(jobs)):
            parallel = Parallel(n_jobs=-1, **settings)
    else:
        os.environ.setdefault("PYTHONWARNINGS", QUIET_WARNINGS)
        with parallel_config("loky", inner_max_num_threads=1):
            parallel = Parallel(n_jobs=jobs, max_nbytes=None, **settings)
    parent = None if isinstance(jobs, str) else os.getpid()
    # Processes outlive these calls. By its name no others have the same text.
    plugins, name = tuple(PLUGINS.values()), uuid4().hex
    shared_pickled = bytes(dumps((name, shared)))
    call_in_worker = partial(_call_in_worker, parent, plugins, shared_pickled)
    try:
        results = parallel(
            delayed(call_in_worker)(bytes(dumps(call))) for call in calls
        )
        if isinstance(jobs, str):
            results = _with_lost_workers_told(results, _client(jobs))
        yield from results
    except TerminatedWorkerError:
        raise HarnessError(
            "a worker process was killed, perhaps for want of memory; what was done is "
            f"kept: run again, with --jobs below {jobs} if memory was short"
        ) from None
    except Exception as error:
        # Dask is imported only if there is a cluster, so its errors go by their names.
        if type(error).__module__.startswith("distributed"):
            raise HarnessError(
                "a worker or the scheduler was lost; what was done is kept: run again "
                f"({type(error).__name__})"
            ) from None
        raise


def _with_lost_workers_told(
    results: Iterator[CallResult], client: Any
) -> Iterator[CallResult]:
    """The results, with a line in the log for each worker that the cluster lost before one.

    Dask gives the calls of a lost worker to others, so that the run only takes longer.
    """
    known_workers = set(client.nthreads())
    for result in results:
        workers = set(client.nthreads())
        for address in sorted(known_workers - workers):
            LOG.warning(
                "harness: a worker of the cluster was lost, %s: others make its calls again",
                address,
            )
        known_workers = workers
        yield result


@cache
def _client(scheduler: str) -> Any:
    """The connection to a scheduler. Raises UsageError if none answers."""
    with extra("dask"):
        from distributed import Client
    try:
        return Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--scheduler {scheduler}: no scheduler answers ({error})"
        ) from None


def _call_in_worker(
    parent: int | None,
    plugins: Sequence[Plugin],
    shared_pickled: bytes,
    call_pickled: bytes,
) -> Any:
    """Make a call that was pickled, after the plug-ins are loaded that may have defined it.

    `parent` is the process that a worker of this machine ends with.
    """
    from joblib.externals.loky.backend.reduction import loads

    if parent is not None:
        _prepare_worker(parent)
    import_plugins(plugins)
    result = loads(call_pickled)(*_shared(shared_pickled))
    return list(result) if isinstance(result, Iterator) else result


@lru_cache(maxsize=1)
def _shared(pickled: bytes) -> Any:
    """The arguments that calls share, behind their name; a process keeps the last ones."""
    from joblib.externals.loky.backend.reduction import loads

    _, shared = loads(pickled)
    return shared


@cache
def _prepare_worker(parent: int) -> None:
    """Let this process grow, and end it soon after its parent has ended."""
    from joblib.externals.loky import process_executor

    # joblib replaces a worker that has grown by 300 MB. One encoder is as large, and a new
    # worker takes seconds to import torch: a tenth of the time of a reproduction.
    process_executor._MAX_MEMORY_LEAK_SIZE = WORKER_BYTES

    def end_after_parent() -> None:
        while os.getppid() == parent:  # the system gives an orphan another parent
            time.sleep(SECONDS_BETWEEN_CHECKS)
        os._exit(1)

    threading.Thread(target=end_after_parent, daemon=True).start()


def default_jobs() -> int:
    """The number of cores, or fewer if less than WORKER_BYTES of memory is free for each."""
    memory = Path("/proc/meminfo")
    if not memory.exists():  # not Linux
        return cores()
    available_kib = re.findall(r"MemAvailable:\s+(\d+)", memory.read_text())
    return max(1, min(cores(), int(available_kib[0]) * 1024 // WORKER_BYTES))
