"""Digests (sha256) of files, sentences, pairs and settings: what a number was made from.

Records, caches and the catalogue hold them, so each of these functions gives one value for ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from harness.core.types import Pairs

Sha256 = Callable[[Path], str]

KEY_BYTES = 16  # of a sentence's sha256: 2^64 sentences before a collision is likely


def sha256_of(path: Path) -> str:
    """The hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(files: tuple[Path, ...], sha256: Sha256 = sha256_of) -> str:
    """The digest of one file, as its publisher prints it; of several, over their names too."""
    if len(files) == 1:
        return sha256(files[0])
    return digest_of({file.name: sha256(file) for file in files})


def digest_of(facts: Mapping[str, object]) -> str:
    """The digest of named facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest_of_repr(value: object) -> str:
    """The digest of a value's `repr`, for values whose `repr` tells all of them."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


class TextDigest:
    """The digest of sentences that pass one by one, each ended by LF, in UTF-8; `count` of them."""

    def __init__(self) -> None:
        self.count = 0
        self._sha = hashlib.sha256()

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextDigest:
        """The digest of all these sentences."""
        digest = cls()
        for text in texts:
            digest.add(text)
        return digest

    def add(self, text: str) -> None:
        """Append a sentence."""
        self._sha.update(text.encode() + b"\n")
        self.count += 1

    def hexdigest(self) -> str:
        """The digest of the sentences so far."""
        return self._sha.hexdigest()


def text_digest(texts: Iterable[str]) -> str:
    """The digest of sentences: in a record, of those that a method was fitted on."""
    return TextDigest.of(texts).hexdigest()


def pairs_digest(pairs: Pairs) -> str:
    """The digest of scored pairs: both sentences, gold and group of each."""
    rows = zip(*pairs.columns, map(repr, pairs.gold.tolist()), pairs.group, strict=True)
    return text_digest(map("\t".join, rows))


def rows_digest(pairs: Pairs) -> str:
    """The digest of published rows "a TAB b TAB gold", gold as Python prints a float.

    Labelled sentences have no b.
    """
    rows = zip(*pairs.columns, map(repr, pairs.gold.tolist()), strict=True)
    return text_digest(map("\t".join, rows))


@lru_cache(maxsize=2**17)  # every cell of a run asks for the same sentences again
def sentence_key(text: str) -> bytes:
    """The content address of a sentence."""
    return hashlib.sha256(text.encode()).digest()[:KEY_BYTES]


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


# Names that Windows keeps for devices, whatever the suffix.
DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)

HOST = digest_of_repr(platform.node())[:8]
SCRATCH = re.compile(r"\.([0-9a-f]{8})-(\d+)-\w{8}\.tmp")  # host and process that write it
SECONDS_TO_WRITE = 3600.0  # what has not grown for so long is not being written any more


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file that takes a file's place when the block ends, safely on disk.

    A reader, or a crash, sees all of the new file or none. A block that fails leaves nothing, and
    what killed processes left in the folder goes. Errors of the system name the file itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent)
    mine = f".{HOST}-{os.getpid()}-"
    with naming(path, mine):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=mine, suffix=".tmp")
    os.close(handle)
    scratch = Path(name)
    try:
        with naming(path, mine):
            yield scratch
            with scratch.open("r+b") as file:
                os.fsync(file.fileno())
            scratch.chmod(0o644)
            scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path, scratch: str = "") -> Iterator[None]:
    """Make an OSError within name this file where it names none, or a scratch file of it.

    Args:
        path: The wanted file.
        scratch: How the name of its scratch file begins; empty without one.
    """
    try:
        yield
    except OSError as error:
        own = bool(scratch) and Path(str(error.filename)).name.startswith(scratch)
        if error.errno and (own or not error.filename):  # without a number it has words of its own
            error.filename = str(path)
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove the scratch files of processes that were killed, from a folder.

    Of a process on another host only its file's age is known.
    """
    for path in folder.iterdir():
        found = SCRATCH.fullmatch(path.name)
        if found and not (_runs(int(found[2])) if found[1] == HOST else _grows(path)):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    return True


def _grows(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime < SECONDS_TO_WRITE
    return True


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as scratch:
        scratch.write_bytes(data)


def state_of(path: Path, most: int = 10_000) -> str | None:
    """A digest over names, sizes and times of a file, or of all files below a folder.

    It shows a change without reading the files: no copy or archive carries the time of change
    (ctime) over. None for a folder of more than `most` files.
    """
    files = [str(path.absolute())] if path.is_file() else list(islice(_below(path), most + 1))
    if len(files) > most:
        return None
    states = ((name, os.stat(name)) for name in sorted(files))  # noqa: PTH116 - thousands
    seen = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in states]
    return digest_of_repr(seen)


def _below(folder: Path) -> Iterator[str]:
    """Every file below a folder; dead links are left out."""
    for place, _, names in os.walk(folder.absolute()):
        for name in names:
            path = f"{place}{os.sep}{name}"
            if os.path.isfile(path):  # noqa: PTH113 - thousands
                yield path


def sized(count: int) -> str:
    """A number of bytes in words, by powers of 1000: `3.1 GB`."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{1 if power > 2 else 0}f} {units[power]}"


@cache  # every record asks for the names of its folders
def file_name(identifier: str) -> str:
    """An id as one path component: `bert-base:64` -> `bert-base%3A64`. Never leaves its folder."""
    name = quote(identifier, safe="+@")
    if name.split(".")[0].lower() in DEVICES:
        name = f"%{ord(name[0]):02X}{name[1:]}"
    # Windows drops a dot at the end, and `.` and `..` leave the folder.
    return f"{name[:-1]}%2E" if name.endswith(".") else name


def safe(name: str) -> PurePosixPath:
    """A relative path; ValueError for one that would leave the folder it is placed in."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or not path.parts or ".." in path.parts or ":" in path.parts[0]:
        raise ValueError(f"the unsafe name {name!r}")
    return path
