"""Files: writes that are whole or absent, locks of folders, names that are safe."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from harness.core.errors import UsageError

# Writes


def make_folder(folder: Path, setting: str, *, to_write: bool = False) -> None:
    """Make a folder and its parents, and see that it can be written in, if `to_write`.

    Raises UsageError, naming the setting that moves it, where the system refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if to_write:
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise UsageError(
            f"{folder}: wanted a folder that can be written, found: {error.strerror}; name "
            f"another with {setting}"
        ) from error


SCRATCH = ".writing-"
SECONDS_TO_WRITE = (
    3600.0  # what has not grown for so long is not being written any more
)


@contextmanager
def replacing(path: Path, check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """A scratch file that takes a file's place when the block ends, synchronised with the disk.

    A reader, or a crash, sees all of the new file or none. A block that fails leaves
    nothing, and so does a `check` that fails, the last step before the file takes its
    place; what a killed process left in the folder goes an hour later. An OSError names
    the file itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in path.parent.glob(f"{SCRATCH}*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - unfinished.stat().st_mtime > SECONDS_TO_WRITE:
                unfinished.unlink()
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=SCRATCH, suffix=".tmp")
        os.close(handle)
        scratch = Path(name)
        try:
            yield scratch
            with scratch.open("r+b") as file:
                os.fsync(file.fileno())
            scratch.chmod(0o644)
            check()
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an OSError name this file where it names none, or a scratch file."""
    try:
        yield
    except OSError as error:
        # Without a number it has a message of its own.
        if error.errno and Path(str(error.filename or SCRATCH)).name.startswith(
            SCRATCH
        ):
            error.filename = str(path)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as scratch:
        scratch.write_bytes(data)


# Locks


LEASE = (
    30.0  # seconds without a sign of life after which another process takes a lock over
)


class LockLost(Exception):
    """Another process took the lock of a folder over, and may have written there."""


def rewrite(path: Path, content: Callable[[], bytes]) -> None:
    """Write a file anew from what it holds, while nobody else writes in its folder so.

    The lock is a file, so that it also holds where a network file system has no
    `flock`. That of a holder without a sign of life for `LEASE` seconds is taken over:
    a process that was stopped for so long finds its lock lost before it writes, and
    starts over with what is there then.

    Args:
        path: The file.
        content: Reads what is there and returns the new content; called again at a new
            start.
    """
    from filelock import SoftFileLease

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = SoftFileLease(
        path.parent / ".lock", lease_duration=LEASE, poll_interval=0.01
    )

    def require_lock() -> None:
        owner = lock.owner
        if owner is None or owner.token != lock.token:
            raise LockLost(lock.lock_file)

    while True:
        with lock, suppress(LockLost), replacing(path, require_lock) as scratch:
            scratch.write_bytes(content())
            break


def share(folder: Path) -> int | None:
    """An open handle that keeps other processes from clearing a folder until it is closed.

    Waits for a clearing under way. None if there is no such folder, or it cannot be
    locked.
    """
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle
        os.close(handle)  # cleared meanwhile: the folder that is there now is another
        return share(folder)
    return None


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Whether no other process shares the folder; while this lasts, none begins to."""
    if not folder.exists():
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)


# Names and sizes


def sized(count: int) -> str:
    """A number of bytes with its unit, by powers of 1000: `3.1 GB`."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{1 if power > 2 else 0}f} {units[power]}"


@cache  # every record asks for the names of its folders
def file_name(identifier: str) -> str:
    """An id as one path component: `bert-base:64` -> `bert-base%3A64`. Never leaves its folder."""
    name = quote(identifier, safe="+@")
    return (
        f"{name[:-1]}%2E" if name.endswith(".") else name
    )  # `.` and `..` leave the folder


def safe(name: str) -> PurePosixPath:
    """A relative path; ValueError for one that would leave the folder it is placed in.

    The message does not repeat the name, which somebody else chose.
    """
    path = PurePosixPath(name.replace("\\", "/"))
    if (
        path.is_absolute()
        or not path.parts
        or ".." in path.parts
        or ":" in path.parts[0]
    ):
        raise ValueError("an unsafe name, which leaves its folder")
    return path
