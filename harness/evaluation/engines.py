"""Engines: one function applied to many items, in this process, in several, or on a cluster.

An engine yields each item with its result as it is done, in any order. A function and its items
travel to the workers, so both have to be picklable.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar, runtime_checkable

from harness.core.errors import HarnessError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

INSTALL = "pip install 'sentence-embedding-harness[dask]'"
SECONDS_TO_LOOK = 0.5  # from one look of a worker at its parent to the next
# Of a command that was stopped, Python's tracker removes what is left, and need not warn of it.
QUIET_TRACKER = "ignore:resource_tracker"
# Dask has its workers return memory at once, so that each large array is mapped anew, and samples
# their stacks: together a third of the time of a fit.
QUICK_WORKERS = {
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}
MEMORY = 2 * 2**30  # bytes that a worker may need: an encoder of BERT's size and its task's vectors


class WorkersLost(HarnessError):
    """Each worker that was given an item died."""


@runtime_checkable
class Engine(Protocol):
    """Applies a function to items.

    Attributes:
        workers: How many processes work beside each other.
    """

    @property
    def workers(self) -> int: ...

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | WorkersLost]]:
        """Each item and its result as it is done; an error where its workers were lost."""


@dataclass(frozen=True)
class InProcess:
    """This process, one item after the other."""

    workers: int = 1

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | WorkersLost]]:
        """Each item and its result, in order."""
        return ((item, function(item)) for item in items)


@dataclass(frozen=True)
class Processes:
    """Processes of this machine with one thread each, by joblib."""

    workers: int

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | WorkersLost]]:
        """Each item and its result as it is done.

        Raises HarnessError if a process is killed: which item it had, nothing tells.
        """
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        with (
            warnings.catch_warnings(),
            parallel_config("loky", n_jobs=self.workers, inner_max_num_threads=1),
        ):
            # One whose memory has grown much is replaced between two items, which harms nothing.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
            # What ends a run early says so itself.
            warnings.filterwarnings("ignore", message=".* tasks which (were|have been)")
            done = Parallel(return_as="generator_unordered", batch_size=1)(
                delayed(_with_item)(function, item, os.getpid()) for item in items
            )
            try:
                yield from done
            except TerminatedWorkerError:
                raise HarnessError(
                    "a worker process was killed, perhaps for want of memory; what was done is "
                    f"kept: run again, with --jobs below {self.workers} if memory was short"
                ) from None


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster, by the address of its scheduler, or `local:N`."""

    client: Any

    @classmethod
    def connect(cls, scheduler: str) -> Cluster:
        """Connect to a scheduler, or start one with N worker processes. Raises UsageError."""
        try:
            from dask import config
            from distributed import Client, LocalCluster
        except ImportError:
            raise UsageError(
                "--scheduler needs Dask: pip install 'sentence-embedding-harness[dask]'"
            ) from None
        kind, _, rest = scheduler.partition(":")
        if kind == "local":
            if not re.fullmatch("[1-9][0-9]{0,5}", rest):
                raise UsageError(f"--scheduler {scheduler}: wanted local:N with N of 1 or more")
            with config.set(QUICK_WORKERS):
                local = LocalCluster(
                    n_workers=int(rest), threads_per_worker=1, dashboard_address=":0"
                )
            return cls(Client(local))
        # `map` tells of a scheduler that is lost; the client would by a traceback for each retry.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            return cls(Client(scheduler, timeout="10s"))
        except (OSError, ValueError) as error:
            raise UsageError(f"--scheduler {scheduler}: no scheduler answers ({error})") from None

    @property
    def workers(self) -> int:
        """How many threads of workers there are now."""
        return max(1, sum(self.client.nthreads().values()))

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends."""
        self.client.close()
        if self.client.cluster is not None:
            self.client.cluster.close()

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | WorkersLost]]:
        """Each item and its result as it is done; an error for one whose workers were lost.

        Raises HarnessError if the scheduler is lost.
        """
        from distributed import KilledWorker, as_completed
        from distributed.comm.core import CommClosedError

        blamed: list[tuple[Item, WorkersLost]] = []
        futures = {self.client.submit(function, item, pure=False): item for item in items}
        for future in as_completed(futures):
            item = futures.pop(future)
            try:
                yield item, future.result()
            except KilledWorker as error:
                died = error.allowed_failures + 1
                lost = WorkersLost(f"{died} workers died of it, perhaps for want of memory")
                blamed.append((item, lost))
            except (CancelledError, CommClosedError):
                raise HarnessError(
                    "the scheduler was lost; what was done is kept: start it, and run again"
                ) from None
        # Dask blames all items of a worker that dies: which of them it was shows alone.
        for item, lost in blamed:
            yield (item, lost) if len(blamed) == 1 else next(self.map(function, [item]))


def _with_item(function: Callable[[Item], Result], item: Item, parent: int) -> tuple[Item, Result]:
    _end_with(parent)
    # joblib replaces a worker that has grown by 300 MB, which one encoder does, and a new one takes
    # seconds to import torch: a tenth of a whole reproduction's time.
    process_executor: Any = import_module("joblib.externals.loky.process_executor")
    process_executor._MAX_MEMORY_LEAK_SIZE = MEMORY
    return item, function(item)


@cache  # a worker does many items
def _end_with(parent: int) -> None:
    """End this process soon after its parent: a killed one cannot tell its workers to."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_TO_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def default_jobs() -> int:
    """The number of cores, or fewer where less than MEMORY is free for each."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, free // MEMORY))


def engine(jobs: int | None, scheduler: str | None) -> Engine:
    """The engine that `--jobs` or `--scheduler` asks for; by default a process for each core."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET_TRACKER)
    if scheduler is not None:
        if jobs is not None:
            raise UsageError("--jobs is of this machine, --scheduler of a cluster: give one")
        return Cluster.connect(scheduler)
    count = default_jobs() if jobs is None else jobs
    return Processes(count) if count > 1 else InProcess()
