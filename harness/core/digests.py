"""Digests of files and of values, and readings in which a file must not change.

Records, caches and the catalogue hold the digests, so their values never change.

Two context managers change what `sha256_of` does in their block: under `one_reading` a
file must have the same bytes each time it is read, and under `remembering` the digests
of large files are noted on disk.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import write_atomically

READ_BYTES = 1 << 20  # at a time
# Bytes from which a digest is noted. A smaller file is read as fast as its note.
LARGE_FILE = 1_000_000
NO_FILE = "no file"  # in the place of the digest of a file that does not exist
# The suffixes of files of tensors, which are read as a whole, and once.
TENSOR_SUFFIXES = (".safetensors", ".bin", ".npz")


# Values


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values that differ wherever their `repr` does."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


# Readings


@dataclass
class _Reading:
    """What was found of files and folders in one reading.

    Attributes:
        states: The state of each file or folder, by its path: a digest of its bytes, or
            another text that changes when it does.
        tensor_bytes: The bytes of files of tensors that have been digested and not
            loaded yet.
    """

    states: dict[Path, str] = field(default_factory=dict)
    tensor_bytes: dict[Path, bytes] = field(default_factory=dict)


_READING: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def one_reading() -> Iterator[None]:
    """Context in which a file that is read several times must have the same bytes each time.

    So `sha256_of` digests the same bytes that `read_bytes` and `open_bytes` give: a file
    that changed in between raises DataError. Noted digests are not used.
    """
    if _READING.get() is not None:  # the block is part of a longer reading
        yield
        return
    token = _READING.set(_Reading())
    try:
        yield
    finally:
        _READING.reset(token)


def require_unchanged(path: Path, state: str) -> None:
    """Raise DataError if a file or folder had another state earlier in this reading.

    `state` is a text that changes when the file or folder does. Outside a reading
    nothing is compared.
    """
    reading = _READING.get()
    if reading is None:
        return
    if reading.states.setdefault(path.absolute(), state) != state:
        raise DataError(f"{path} changed while it was read; run again")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; under `one_reading` the same each time."""
    reading = _READING.get()
    if reading is None:
        return path.read_bytes()
    data = reading.tensor_bytes.pop(path.absolute(), None)
    if data is None:
        data = path.read_bytes()
        require_unchanged(path, hashlib.sha256(data).hexdigest())
    return data


class _Digesting(io.RawIOBase):
    """A file that digests the bytes that are read."""

    def __init__(self, file: io.FileIO) -> None:
        self.file = file
        self.sha = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer)
        self.sha.update(memoryview(buffer)[:count])
        return count


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """An open file, which is read from its beginning, block by block.

    At the end of the context its digest is compared as by `read_bytes`.
    """
    with path.open("rb", buffering=0) as file:
        digesting = _Digesting(file)
        with io.BufferedReader(digesting, READ_BYTES) as reader:
            yield reader
            # The rest of the file, too, since gzip stops before the end.
            while reader.read(READ_BYTES):
                pass
    require_unchanged(path, digesting.sha.hexdigest())


# Noted digests


@dataclass(frozen=True)
class Notes:
    """Where digests are noted, and how notes are used.

    Attributes:
        folder: The folder of the notes, a file each.
        read_all: Whether every file is read, whatever its note says.
        writable: Whether digests may be noted.
    """

    folder: Path
    read_all: bool = False
    writable: bool = True


_NOTES: ContextVar[Notes | None] = ContextVar("notes", default=None)


@contextmanager
def remembering(
    folder: Path, *, read_all: bool = False, writable: bool = True
) -> Iterator[None]:
    """Context in which `sha256_of` notes digests of large files, and reads only changed ones.

    A file counts as changed if its size, times or inode have changed. This is not
    certain, since a change through a memory map keeps all of them; a plan may rely on
    it, a measurement may not. `Notes` describes the arguments.
    """
    token = _NOTES.set(Notes(folder, read_all, writable))
    try:
        yield
    finally:
        _NOTES.reset(token)


def state_of(path: Path) -> str:
    """A digest over path, size, times and inode of a file. A copy has another ctime."""
    status = path.stat()
    times = (status.st_mtime_ns, status.st_ctime_ns)
    facts = (str(path.absolute()), status.st_size, *times, status.st_ino)
    return digest_of_repr(facts)


# Files


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes.

    The file is read, unless `one_reading` or `remembering` knows the digest already.
    """
    reading, notes = _READING.get(), _NOTES.get()
    if reading is not None:
        return _sha256_in_reading(reading, path)
    if notes is not None and path.stat().st_size >= LARGE_FILE:
        return _sha256_with_notes(notes, path)
    return read_sha256(path)


def _sha256_in_reading(reading: _Reading, path: Path) -> str:
    """The digest that was found earlier in the reading; the first time the file is read."""
    key = path.absolute()
    if reading.states.get(key, NO_FILE) == NO_FILE:
        if path.suffix in TENSOR_SUFFIXES:
            reading.tensor_bytes[key] = read_bytes(path)
        else:
            require_unchanged(path, read_sha256(path))
    return reading.states[key]


def _sha256_with_notes(notes: Notes, path: Path) -> str:
    """The digest that was noted for the file's present state; else it is read and noted."""
    note = notes.folder / digest_of_repr(path.absolute())
    state = state_of(path)
    noted_digest = _noted_sha256(note, state)
    if noted_digest is not None and not notes.read_all:
        return noted_digest
    digest = read_sha256(path)
    if digest != noted_digest and notes.writable:
        # The seal shows whether a note is whole, and for which state of the file it is.
        seal = digest_of_repr((state, digest))
        with suppress(OSError):
            notes.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(note, f"{digest} {seal}\n".encode())
    return digest


def _noted_sha256(note: Path, state: str) -> str | None:
    """The digest in a note; None without a note, or for another state or a damaged note."""
    try:
        digest, seal = note.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return digest if seal == digest_of_repr((state, digest)) else None


def read_sha256(path: Path) -> str:
    """The hex sha256 of a file's bytes as they are now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(files: tuple[Path, ...]) -> str:
    """The sha256 of one file; of several, the digest over their names and digests."""
    if len(files) == 1:
        return sha256_of(files[0])
    return digest_of({file.name: sha256_of(file) for file in files})
