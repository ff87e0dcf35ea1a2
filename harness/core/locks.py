"""Folders in use: whoever reads or fills one shares it, whoever clears it must have it alone.

A lock on the folder itself (flock): it needs no file and no right to write, and ends with its
process, however that ends. Where a file system has no locks, nothing is ever alone there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
    """Have a folder alone, once everybody else who locks it is done."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
