"""Files: sha256 digests, locks, writes that are whole or absent, names that are safe.

Records, caches and the catalogue hold the digests, so their values never change.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from harness.core.errors import DataError
from harness.core.types import Pairs, why_no_text

KEY_BYTES = 16  # of a sentence's sha256: 2^64 sentences before a collision is likely
LARGE = 1_000_000  # bytes: a smaller file is read as quickly as what was noted of it
_NOTES: ContextVar[tuple[Path | None, bool]] = ContextVar("notes", default=(None, False))


@contextmanager
def remembering(folder: Path, *, anew: bool = False) -> Iterator[None]:
    """Within it `sha256_of` notes the digests of large files, and reads those that have changed.

    A file has changed if its size, times or inode have. With `anew` every file is read.
    """
    outside = _NOTES.set((folder, anew))
    try:
        yield
    finally:
        _NOTES.reset(outside)


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes."""
    folder, anew = _NOTES.get()
    if folder is None or path.stat().st_size < LARGE:
        return _read_sha256(path)
    note, state = folder / digest_of_repr(path.absolute()), state_of(path)
    digest = None if anew else _noted_sha256(note, state)
    if digest is None:
        digest = _read_sha256(path)
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(note, f"{digest} {digest_of_repr((state, digest))}\n".encode())
    return digest


def _read_sha256(path: Path) -> str:
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


class TextDigest:
    """The digest of sentences in order, each in UTF-8 and ended by LF; `count` of them so far."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.count = 0
        self._sha = hashlib.sha256()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        try:
            self._sha.update(text.encode() + b"\n")
        except (AttributeError, UnicodeEncodeError):
            raise DataError(
                f"sentence {self.count + 1}: wanted a text, {why_no_text(text)}; mend it, or leave "
                "it out"
            ) from None
        self.count += 1

    def hexdigest(self) -> str:
        """The digest of the sentences so far."""
        return self._sha.hexdigest()


def text_digest(texts: Iterable[str]) -> str:
    """The digest of sentences, as `TextDigest` has it."""
    return TextDigest(texts).hexdigest()


def pairs_digest(pairs: Pairs) -> str:
    """The digest of scored pairs: both sentences, gold and group of each."""
    return rows_digest(pairs, pairs.group)


def rows_digest(pairs: Pairs, *further: Iterable[str]) -> str:
    """The digest of rows "a TAB b TAB gold", gold as Python prints it; a label has no b."""
    columns = (*pairs.columns, map(repr, pairs.gold.tolist()), *further)
    return text_digest(map("\t".join, zip(*columns, strict=True)))


@lru_cache(maxsize=2**17)  # every cell of a run asks for the same sentences again
def sentence_key(text: str) -> bytes:
    """The content address of a sentence."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the exclusive lock of a folder, on any file system; waits until it is free.

    The lock is a file, so that it also holds where a network file system has no `flock`; that of a
    holder without a sign of life for 30 seconds is taken over.
    """
    from filelock import SoftFileLease

    folder.mkdir(parents=True, exist_ok=True)
    with SoftFileLease(folder / ".lock", lease_duration=30.0, poll_interval=0.01):
        yield


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


SCRATCH = ".writing-"
SECONDS_TO_WRITE = 3600.0  # what has not grown for so long is not being written any more


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file that takes a file's place when the block ends, synchronised with the disk.

    A reader, or a crash, sees all of the new file or none. A block that fails leaves nothing; what
    a killed process left in the folder goes an hour later. An OSError names the file itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{SCRATCH}*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > SECONDS_TO_WRITE:
                left.unlink()
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=SCRATCH, suffix=".tmp")
        os.close(handle)
        scratch = Path(name)
        try:
            yield scratch
            with scratch.open("r+b") as file:
                os.fsync(file.fileno())
            scratch.chmod(0o644)
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
