"""Engines: calls are made in this process, in several, or on a Dask cluster, by joblib.

Calls and their results are sent between processes, so both have to be picklable.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import HarnessError, UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins

SECONDS_BETWEEN_CHECKS = 0.5  # in which a worker looks whether its parent still runs
WORKER_BYTES = 2 * 2**30  # an encoder of BERT's size and its task's vectors

# For PYTHONWARNINGS: if a command is stopped, Python's tracker of resources removes the
# command's semaphores, and joblib the calls that nobody waits for. Neither need warn.
QUIET_WARNINGS = "ignore:resource_tracker,ignore:A worker stopped"

# Held while plug-ins are imported: a worker of Dask may have several threads.
IMPORTING_PLUGINS = threading.Lock()

CallResult = TypeVar("CallResult")


@dataclass(frozen=True)
class Engine:
    """Makes calls, several at a time.

    Attributes:
        jobs: The number of processes of this machine; 1 is this process alone.
        scheduler: The address of a Dask scheduler, whose workers are taken instead.
    """

    jobs: int = 1
    scheduler: str | None = None

    @property
    def is_this_process(self) -> bool:
        """Whether the calls are made in this process, one after the other."""
        return self.jobs == 1 and self.scheduler is None

    def results(
        self, calls: Sequence[Callable[[], CallResult]]
    ) -> Iterator[CallResult]:
        """The result of each call, in the order in which they are done.

        Raises HarnessError if a worker is killed or the scheduler is lost, and the first
        error of a call.
        """
        if self.is_this_process:
            for call in calls:
                yield call()
            return
        from joblib import Parallel, delayed
        from joblib.externals.loky.backend.reduction import dumps
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        call_in_worker = partial(
            _call_pickled, os.getpid() if self.scheduler is None else None
        )
        plugins = tuple(PLUGINS.values())
        pickled_calls = [
            delayed(call_in_worker)(plugins, bytes(dumps(call))) for call in calls
        ]
        # A call takes long enough to be sent alone.
        parallel = Parallel(
            n_jobs=self.jobs,
            return_as="generator_unordered",
            batch_size=1,
            **self._backend(),
        )
        try:
            yield from parallel(pickled_calls)
        except TerminatedWorkerError:
            raise HarnessError(
                "a worker process was killed, perhaps for want of memory; what was done is "
                f"kept: run again, with --jobs below {self.jobs} if memory was short"
            ) from None
        except Exception as error:
            # Dask is imported only if there is a cluster, so its errors go by their names.
            if type(error).__module__.startswith("distributed"):
                raise HarnessError(
                    "a worker or the scheduler was lost; what was done is kept: run again "
                    f"({type(error).__name__})"
                ) from None
            raise

    def _backend(self) -> dict[str, Any]:
        """The arguments of joblib that name the backend. Raises UsageError without a scheduler."""
        if self.scheduler is None:
            return {"backend": "loky", "inner_max_num_threads": 1}
        try:
            from distributed import Client
            from joblib._dask import DaskDistributedBackend
        except ImportError:
            raise UsageError(
                "--scheduler needs Dask: pip install 'sentence-embedding-harness[dask]'"
            ) from None
        try:
            client = Client(self.scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--scheduler {self.scheduler}: no scheduler answers ({error})"
            ) from None
        return {"backend": DaskDistributedBackend(client=client)}


def _call_pickled(parent: int | None, plugins: Sequence[Plugin], pickled: bytes) -> Any:
    """Make a call that was pickled, after the plug-ins are loaded that may have defined it.

    `parent` is the process that a worker of this machine ends with.
    """
    from joblib.externals.loky.backend.reduction import loads

    if parent is not None:
        _prepare_worker(parent)
    with IMPORTING_PLUGINS:
        import_plugins(plugins)
    call = loads(pickled)
    return call()


@cache
def _prepare_worker(parent: int) -> None:
    """Let this process grow, and end it soon after its parent has ended."""
    from joblib.externals.loky import process_executor

    # joblib replaces a worker that has grown by 300 MB. One encoder is as large, and a new
    # worker takes seconds to import torch: a tenth of the time of a reproduction.
    process_executor._MAX_MEMORY_LEAK_SIZE = WORKER_BYTES
    watch = partial(_end_after_parent, parent)
    threading.Thread(target=watch, daemon=True).start()


def _end_after_parent(parent: int) -> None:
    """End this process when its parent has ended: the system then gives it another one."""
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_CHECKS)
    os._exit(1)


# The engine of a command


def engine(jobs: int | None, scheduler: str | None) -> Engine:
    """The engine that `--jobs` or `--scheduler` asks for; by default a process for each core."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET_WARNINGS)
    if scheduler is None:
        return Engine(default_jobs() if jobs is None else jobs)
    if jobs is not None:
        raise UsageError(
            "--jobs is of this machine, --scheduler of a cluster: give one"
        )
    return Engine(scheduler=scheduler)


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
