"""Files: written whole or not at all, compared by their state, named as any file system allows."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from harness.core.digests import digest_of_repr

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
