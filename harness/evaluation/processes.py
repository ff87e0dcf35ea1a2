"""Calls in several processes of this machine, by joblib."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from harness.core.errors import HarnessError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins

SECONDS_BETWEEN_CHECKS = 0.5  # in which a worker looks whether its parent still runs
WORKER_BYTES = 2 * 2**30  # an encoder of BERT's size and its task's vectors

# For PYTHONWARNINGS: if a command is stopped, Python's tracker of resources removes the
# command's semaphores, and joblib the calls that nobody waits for. Neither need warn.
QUIET_WARNINGS = "ignore:resource_tracker,ignore:A worker stopped"

CallResult = TypeVar("CallResult")


def results_of(
    calls: Sequence[Callable[[], CallResult]], jobs: int
) -> Iterator[CallResult]:
    """The result of each call, in the order in which they are done.

    One job, or a single call, needs no other process. Calls and results are sent between
    processes, so they have to be picklable.

    Args:
        calls: The calls. Each takes long enough to be sent alone.
        jobs: The number of processes.

    Raises:
        HarnessError: A process was killed. The first error of a call is raised, too.
    """
    if jobs == 1 or len(calls) < 2:
        for call in calls:
            yield call()
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.backend.reduction import dumps
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    os.environ.setdefault("PYTHONWARNINGS", QUIET_WARNINGS)
    parallel = Parallel(
        n_jobs=jobs,
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        max_nbytes=None,
        inner_max_num_threads=1,
    )
    call_in_worker = partial(_call_in_worker, os.getpid(), tuple(PLUGINS.values()))
    try:
        yield from parallel(
            delayed(call_in_worker)(bytes(dumps(call))) for call in calls
        )
    except TerminatedWorkerError:
        raise HarnessError(
            "a worker process was killed, perhaps for want of memory; what was done is "
            f"kept: run again, with --jobs below {jobs} if memory was short"
        ) from None


def _call_in_worker(parent: int, plugins: Sequence[Plugin], pickled: bytes) -> Any:
    """Make a call that was pickled, after the plug-ins are loaded that may have defined it."""
    from joblib.externals.loky.backend.reduction import loads

    _prepare_worker(parent)
    import_plugins(plugins)
    return loads(pickled)()


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
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    memory = Path("/proc/meminfo")
    if not memory.exists():  # not Linux
        return cores
    available_kib = re.findall(r"MemAvailable:\s+(\d+)", memory.read_text())
    return max(1, min(cores, int(available_kib[0]) * 1024 // WORKER_BYTES))
