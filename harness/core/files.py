"""Files: sha256 digests, locks, writes that are whole or absent, names that are safe.

Records, caches and the catalogue hold the digests, so their values never change.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from harness.core.errors import DataError, UsageError

CHUNK = 1 << 20  # bytes that are read at a time
LARGE = 1_000_000  # bytes: a smaller file is read as quickly as what was noted of it
NO_FILE = "no file"  # in the place of a digest
TENSORS = (".safetensors", ".bin", ".npz")  # of files that are read whole, and once


@dataclass(frozen=True)
class Notes:
    """Where the digests of large files are noted; with `anew` none of them is believed."""

    folder: Path
    anew: bool = False
    writable: bool = True


_NOTES: ContextVar[Notes | None] = ContextVar("notes", default=None)


class _Reading:
    """The states of files and folders that were found in a reading, by their paths.

    `kept` are the bytes of files of tensors between the taking of their digests and their loading.
    """

    def __init__(self) -> None:
        self.states: dict[Path, str] = {}
        self.kept: dict[Path, bytes] = {}


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def one_reading() -> Iterator[None]:
    """Context in which a file that is read several times must have the same bytes each time.

    So the digests that `sha256_of` gives in it are those of what `read_bytes` and `open_bytes` give
    in it: DataError is raised for a file that changed in between. No note is taken for true.
    """
    if _READING.get() is not None:  # within another
        yield
        return
    reading = _READING.set(_Reading())
    try:
        yield
    finally:
        _READING.reset(reading)


def require_unchanged(path: Path, state: str) -> None:
    """Raise DataError if another state of a file or folder was found earlier in this reading."""
    reading = _READING.get()
    if reading is not None and reading.states.setdefault(path.absolute(), state) != state:
        raise DataError(f"{path} changed while it was read; run again")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, which `one_reading` compares with what else is read of it."""
    reading = _READING.get()
    if reading is None:
        return path.read_bytes()
    data = reading.kept.pop(path.absolute(), None)
    if data is None:
        data = path.read_bytes()
        require_unchanged(path, hashlib.sha256(data).hexdigest())
    return data


class _Digesting(io.RawIOBase):
    """A file that digests what is read of it."""

    def __init__(self, file: io.FileIO) -> None:
        self.file, self.sha = file, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer)
        self.sha.update(memoryview(buffer)[:count])
        return count


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """A file of any size, read from its beginning; compared as by `read_bytes` when it is left."""
    with path.open("rb", buffering=0) as file:
        digesting = _Digesting(file)
        with io.BufferedReader(digesting, CHUNK) as reader:
            yield reader
            while reader.read(CHUNK):  # gzip leaves what follows its end
                pass
    require_unchanged(path, digesting.sha.hexdigest())


@contextmanager
def remembering(folder: Path, *, anew: bool = False, writable: bool = True) -> Iterator[None]:
    """Within it `sha256_of` notes the digests of large files, and reads those that have changed.

    A file has changed if its size, times or inode have. That is a guess, which a plan may make: a
    change through a memory map keeps all of them. With `anew` every file is read, and unless
    `writable` nothing is noted.
    """
    outside = _NOTES.set(Notes(folder, anew, writable))
    try:
        yield
    finally:
        _NOTES.reset(outside)


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes: read, or as found earlier in `one_reading`, or as noted."""
    if (reading := _READING.get()) is not None:
        if reading.states.get(path.absolute(), NO_FILE) == NO_FILE:
            if path.suffix in TENSORS:
                reading.kept[path.absolute()] = read_bytes(path)
            else:
                require_unchanged(path, read_sha256(path))
        return reading.states[path.absolute()]
    notes = _NOTES.get()
    if notes is None or path.stat().st_size < LARGE:
        return read_sha256(path)
    note, state = notes.folder / digest_of_repr(path.absolute()), state_of(path)
    noted = _noted_sha256(note, state)
    digest = read_sha256(path) if notes.anew or noted is None else noted
    if digest != noted and notes.writable:
        with suppress(OSError):
            notes.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(note, f"{digest} {digest_of_repr((state, digest))}\n".encode())
    return digest


def read_sha256(path: Path) -> str:
    """The hex sha256 of a file's bytes as they are now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _noted_sha256(note: Path, state: str) -> str | None:
    """What was noted of a file in this state; None where nothing was, or it was damaged."""
    with suppress(OSError, ValueError):
        digest, seal = note.read_text(encoding="utf-8").split()
        return digest if seal == digest_of_repr((state, digest)) else None
    return None


def digest_of_files(files: tuple[Path, ...]) -> str:
    """The digest of one file, as its publisher prints it; of several, over their names too."""
    if len(files) == 1:
        return sha256_of(files[0])
    return digest_of({file.name: sha256_of(file) for file in files})


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values whose `repr` tells all of them."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


LEASE = 30.0  # seconds without a sign of life after which another process takes a lock over


class LockLost(Exception):
    """Another process took the lock of a folder over, and may have written there."""


def rewrite(path: Path, content: Callable[[], bytes]) -> None:
    """Write a file anew from what it holds, while nobody else writes in its folder so.

    The lock is a file, so that it also holds where a network file system has no `flock`. That of a
    holder without a sign of life for `LEASE` seconds is taken over: a process that was stopped for
    so long finds its lock lost before it writes, and starts over with what is there then.

    Args:
        path: The file.
        content: Reads what is there and returns the new content; called again at a new start.
    """
    from filelock import SoftFileLease

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = SoftFileLease(path.parent / ".lock", lease_duration=LEASE, poll_interval=0.01)

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

    Waits for a clearing under way. None if there is no such folder, or it cannot be locked.
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
SECONDS_TO_WRITE = 3600.0  # what has not grown for so long is not being written any more


@contextmanager
def replacing(path: Path, check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """A scratch file that takes a file's place when the block ends, synchronised with the disk.

    A reader, or a crash, sees all of the new file or none. A block that fails leaves nothing, and
    so does a `check` that fails, the last step before the file takes its place; what a killed
    process left in the folder goes an hour later. An OSError names the file itself.
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
        if error.errno and Path(str(error.filename or SCRATCH)).name.startswith(SCRATCH):
            error.filename = str(path)
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as scratch:
        scratch.write_bytes(data)


def state_of(path: Path) -> str:
    """A digest over path, size, times and inode of a file; no copy carries the ctime over."""
    s = path.stat()
    facts = (str(path.absolute()), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
    return digest_of_repr(facts)


def sized(count: int) -> str:
    """A number of bytes with its unit, by powers of 1000: `3.1 GB`."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{1 if power > 2 else 0}f} {units[power]}"


@cache  # every record asks for the names of its folders
def file_name(identifier: str) -> str:
    """An id as one path component: `bert-base:64` -> `bert-base%3A64`. Never leaves its folder."""
    name = quote(identifier, safe="+@")
    return f"{name[:-1]}%2E" if name.endswith(".") else name  # `.` and `..` leave the folder


def safe(name: str) -> PurePosixPath:
    """A relative path; ValueError for one that would leave the folder it is placed in.

    The message does not repeat the name, which somebody else chose.
    """
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or not path.parts or ".." in path.parts or ":" in path.parts[0]:
        raise ValueError("an unsafe name, which leaves its folder")
    return path
