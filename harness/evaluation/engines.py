"""Engines: one function applied to many items, in this process, in several, or on a cluster.

An engine yields each item with its result as it is done, in any order. A function and its items
travel to the workers, so both have to be picklable. What follows from an item (`then`, which is
called here with the item and its result) goes before the items that wait.
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
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from harness.core.errors import HarnessError, UsageError
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import import_plugins, require_plugins

Item = TypeVar("Item")
Function = Callable[[Item], Any]
Then = Callable[[Item, Any], Iterable[Item]]

AHEAD = 2  # items of a process: one that it works on, and one that it finds when that is done
SECONDS_TO_LOOK = 0.5  # from one look of a worker at its parent to the next
# Of a command that was stopped, Python's tracker removes what is left, and need not warn of it.
QUIET_TRACKER = "ignore:resource_tracker"
LIBRARIES = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM")
ONE_THREAD = {f"{library}_THREADS": "1" for library in LIBRARIES}
IDLE_SECONDS = 300  # after which a worker ends
MEMORY = 2 * 2**30  # bytes that a worker may need: an encoder of BERT's size and its task's vectors


LOADING = threading.Lock()


class WorkersLost(HarnessError):
    """Each worker that was given an item died."""


@dataclass(frozen=True)
class InProcess:
    """This process, one item after the other."""

    workers: int = 1

    def map(
        self, function: Function[Item], items: Iterable[Item], then: Then[Item] = lambda *_: ()
    ) -> Iterator[tuple[Item, Any]]:
        """Each item and its result, in order."""
        for item in items:
            result = function(item)
            further = then(item, result)
            yield item, result
            yield from self.map(function, further, then)


@dataclass(frozen=True)
class Processes:
    """Processes of this machine with one thread each, by joblib's loky."""

    workers: int

    def map(
        self, function: Function[Item], items: Iterable[Item], then: Then[Item] = lambda *_: ()
    ) -> Iterator[tuple[Item, Any]]:
        """Each item and its result as it is done.

        Raises HarnessError if a process is killed: which item it had, nothing tells.
        """
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        # One whose memory has grown much is replaced between two items, which harms nothing.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        plugins = tuple(PLUGINS.values())
        executor = get_reusable_executor(
            self.workers,
            timeout=IDLE_SECONDS,
            initializer=_start_worker,
            initargs=(os.getpid(), plugins),
            env=ONE_THREAD,
        )
        waiting, done = deque(items), SimpleQueue[Future[Any]]()
        futures: dict[Future[Any], Item] = {}

        def submit() -> None:
            # Not all at once: processes take items in their order, and what follows comes next.
            while waiting and len(futures) < AHEAD * self.workers:
                item = waiting.popleft()
                future = executor.submit(_call, plugins, _as_bytes(function, item))
                futures[future] = item
                future.add_done_callback(done.put)

        try:
            submit()
            while futures:
                future = done.get()
                result = future.result()
                item = futures.pop(future)
                waiting.extendleft(reversed([*then(item, result)]))
                submit()
                yield item, result
        except TerminatedWorkerError:
            require_plugins(PLUGINS.values())  # else a worker ends as soon as it starts
            raise HarnessError(
                "a worker process was killed, perhaps for want of memory; what was done is "
                f"kept: run again, with --jobs below {self.workers} if memory was short"
            ) from None
        finally:
            if futures:  # nobody wants the rest
                # loky's thread would look for the items whose ids it still has, and not find them.
                executor._work_ids.queue.clear()
                executor.shutdown(kill_workers=True)


def _start_worker(parent: int, plugins: Sequence[Plugin]) -> None:  # noqa: ARG001 - they tell pools
    """Let a worker grow, and end soon after its parent, which may be killed.

    Each call loads the plug-ins; a run with others has other workers.
    """
    # joblib replaces a worker that has grown by 300 MB, which one encoder does, and a new one takes
    # seconds to import torch: a tenth of a whole reproduction's time.
    process_executor: Any = import_module("joblib.externals.loky.process_executor")
    process_executor._MAX_MEMORY_LEAK_SIZE = MEMORY

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_TO_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster, by the address of its scheduler."""

    client: Any

    @classmethod
    def connect(cls, scheduler: str) -> Cluster:
        """Connect to a scheduler. Raises UsageError."""
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--scheduler needs Dask: pip install 'sentence-embedding-harness[dask]'"
            ) from None
        # `map` tells of a scheduler that is lost; the client would by a traceback for each retry.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, ValueError) as error:
            raise UsageError(f"--scheduler {scheduler}: no scheduler answers ({error})") from None
        return cls(client)

    @property
    def workers(self) -> int:
        """How many threads of workers there are now."""
        return max(1, sum(self.client.nthreads().values()))

    def map(
        self, function: Function[Item], items: Iterable[Item], then: Then[Item] = lambda *_: ()
    ) -> Iterator[tuple[Item, Any]]:
        """Each item and its result as it is done; WorkersLost for one whose workers were lost."""
        from distributed import KilledWorker, as_completed
        from distributed.comm.core import CommClosedError

        plugins = tuple(PLUGINS.values())

        blamed: list[tuple[Item, WorkersLost]] = []
        futures: dict[Any, Item] = {}
        done = as_completed(loop=self.client.loop)

        def submit(items: Iterable[Item], priority: int) -> None:
            for item in items:
                # As bytes: the scheduler unpickles what it is given, and knows no plug-in.
                call = _as_bytes(function, item)
                future = self.client.submit(_call, plugins, call, pure=False, priority=priority)
                futures[future] = item
                done.add(future)

        submit(items, 0)
        for future in done:
            item = futures.pop(future)
            try:
                result = future.result()
            except KilledWorker as error:
                died = error.allowed_failures + 1
                lost = WorkersLost(f"{died} workers died of it, perhaps for want of memory")
                blamed.append((item, lost))
            except (CancelledError, CommClosedError):
                raise HarnessError(
                    "the scheduler was lost; what was done is kept: start it, and run again"
                ) from None
            else:
                submit(then(item, result), 1)
                yield item, result
        # Dask blames all items of a worker that dies: which of them it was shows alone.
        for item, lost in blamed:
            if len(blamed) > 1:
                yield from self.map(function, [item], then)
            else:
                further = then(item, lost)
                yield item, lost
                yield from self.map(function, further, then)


def _as_bytes(function: Function[Item], item: Item) -> bytes:
    """A function and its item, for a process that has to load plug-ins before it reads them."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps((function, item)))


def _call(plugins: Sequence[Plugin], call: bytes) -> Any:
    """Apply a function to its item, in a worker that has loaded the plug-ins before."""
    from joblib.externals.loky.backend.reduction import loads

    with LOADING:  # a worker may have several threads
        import_plugins(plugins)
    function, item = loads(call)
    return function(item)


Engine = InProcess | Processes | Cluster


def default_jobs() -> int:
    """The number of cores, or fewer where less than MEMORY is free for each."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        [kib] = re.findall(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    except (ValueError, OSError):  # not Linux
        return cores
    return max(1, min(cores, int(kib) * 1024 // MEMORY))


def engine(jobs: int | None, scheduler: str | None) -> Engine:
    """The engine that `--jobs` or `--scheduler` asks for; by default a process for each core."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET_TRACKER)
    if scheduler is not None:
        if jobs is not None:
            raise UsageError("--jobs is of this machine, --scheduler of a cluster: give one")
        return Cluster.connect(scheduler)
    count = default_jobs() if jobs is None else jobs
    return Processes(count) if count > 1 else InProcess()
