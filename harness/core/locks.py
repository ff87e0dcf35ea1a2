"""Folders in use: whoever reads or fills one shares it, whoever clears it must have it alone.

A lock on the folder itself (flock): it needs no file and no right to write, and ends with its
process, however that ends. Where a file system has no locks, nothing is ever alone there.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS_TO_WAIT = 0.01  # before a lock file is looked at again
SECONDS_TO_HOLD = 30.0  # a lock file, at most: to write one small file takes a moment


def share(folder: Path) -> int | None:
    """An open handle that keeps others from clearing the folder, until it is closed.

    Waits for a clearing under way. None if there is no such folder, or it cannot be locked.
    """
    while True:
        try:
            handle = os.open(folder, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
        except FileNotFoundError:
            pass  # cleared while this waited: the next round finds what is there now
        except OSError:
            os.close(handle)
            return None
        os.close(handle)


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether nobody else uses the folder; then nobody begins to while this lasts."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the exclusive lock of a folder; waits for its turn.

    Where a file system has no locks, a file in the folder is the lock, for as long as it takes to
    write another file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            with _lock_file(folder / ".lock"):
                yield
        else:
            yield
    finally:
        os.close(handle)


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """A file that one process can make and the others wait for; a crashed one's grows old."""
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > SECONDS_TO_HOLD:
                    path.unlink()
            time.sleep(SECONDS_TO_WAIT)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
