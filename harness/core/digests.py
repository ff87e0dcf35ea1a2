"""Digests of files and of values, and readings in which a file must not change.

Records, caches and the catalogue hold the digests, so their values never change.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import write_atomically

READ_BYTES = 1 << 20  # at a time
LARGE_FILE = (
    1_000_000  # bytes: a smaller file is read as quickly as what was noted of it
)
NO_FILE = "no file"  # in the place of a digest
TENSOR_SUFFIXES = (
    ".safetensors",
    ".bin",
    ".npz",
)  # of files that are read whole, and once


# Values


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values whose `repr` tells all of them."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


# One reading: a file that is read several times has the same bytes each time


class _Reading:
    """The states of files and folders that were found in a reading, by their paths.

    `kept` are the bytes of files of tensors between the taking of their digests and
    their loading.
    """

    def __init__(self) -> None:
        self.states: dict[Path, str] = {}
        self.kept: dict[Path, bytes] = {}


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def one_reading() -> Iterator[None]:
    """Context in which a file that is read several times must have the same bytes each time.

    So the digests that `sha256_of` gives in it are those of what `read_bytes` and
    `open_bytes` give in it: DataError is raised for a file that changed in between. No
    note is taken for true.
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
    if (
        reading is not None
        and reading.states.setdefault(path.absolute(), state) != state
    ):
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
        with io.BufferedReader(digesting, READ_BYTES) as reader:
            yield reader
            while reader.read(READ_BYTES):  # gzip leaves what follows its end
                pass
    require_unchanged(path, digesting.sha.hexdigest())


# Digests that are noted, for a plan


@dataclass(frozen=True)
class Notes:
    """Where the digests of large files are noted; with `anew` none of them is believed."""

    folder: Path
    anew: bool = False
    writable: bool = True


_NOTES: ContextVar[Notes | None] = ContextVar("notes", default=None)


@contextmanager
def remembering(
    folder: Path, *, anew: bool = False, writable: bool = True
) -> Iterator[None]:
    """Context in which `sha256_of` notes digests of large files, and reads only changed ones.

    A file has changed if its size, times or inode have. That is a guess, which a plan
    may make: a change through a memory map keeps all of them. With `anew` every file is
    read, and unless `writable` nothing is noted.
    """
    outside = _NOTES.set(Notes(folder, anew, writable))
    try:
        yield
    finally:
        _NOTES.reset(outside)


def state_of(path: Path) -> str:
    """A digest over path, size, times and inode of a file; no copy carries the ctime over."""
    status = path.stat()
    times = (status.st_mtime_ns, status.st_ctime_ns)
    facts = (str(path.absolute()), status.st_size, *times, status.st_ino)
    return digest_of_repr(facts)


# Files


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes: read, or as found earlier in `one_reading`, or as noted."""
    reading, notes = _READING.get(), _NOTES.get()
    if reading is not None:
        return _sha256_in_reading(reading, path)
    if notes is not None and path.stat().st_size >= LARGE_FILE:
        return _sha256_with_notes(notes, path)
    return read_sha256(path)


def _sha256_in_reading(reading: _Reading, path: Path) -> str:
    """The digest that was found earlier in the reading; at first the file is read."""
    key = path.absolute()
    if reading.states.get(key, NO_FILE) == NO_FILE:
        if path.suffix in TENSOR_SUFFIXES:
            reading.kept[key] = read_bytes(path)
        else:
            require_unchanged(path, read_sha256(path))
    return reading.states[key]


def _sha256_with_notes(notes: Notes, path: Path) -> str:
    """The digest that was noted for the file in its present state; else it is read and noted."""
    note = notes.folder / digest_of_repr(path.absolute())
    state = state_of(path)
    noted_digest = _noted_sha256(note, state)
    if noted_digest is not None and not notes.anew:
        return noted_digest
    digest = read_sha256(path)
    if digest != noted_digest and notes.writable:
        seal = digest_of_repr((state, digest))
        with suppress(OSError):
            notes.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(note, f"{digest} {seal}\n".encode())
    return digest


def _noted_sha256(note: Path, state: str) -> str | None:
    """What was noted of a file in this state; None where nothing was, or it was damaged."""
    with suppress(OSError, ValueError):
        digest, seal = note.read_text(encoding="utf-8").split()
        return digest if seal == digest_of_repr((state, digest)) else None
    return None


def read_sha256(path: Path) -> str:
    """The hex sha256 of a file's bytes as they are now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(files: tuple[Path, ...]) -> str:
    """The digest of one file, as its publisher prints it; of several, over their names too."""
    if len(files) == 1:
        return sha256_of(files[0])
    return digest_of({file.name: sha256_of(file) for file in files})
