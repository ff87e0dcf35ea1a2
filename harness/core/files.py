"""Files: writing them whole or not at all, locks, safe names, JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from harness.core.errors import DataError, UsageError

# Writes


def make_folder(folder: Path, setting: str, *, to_write: bool = False) -> None:
    """Make a folder and its parents.

    Args:
        folder: The folder.
        setting: The option or variable that names another folder, for the message.
        to_write: Whether to test that a file can be written there.

    Raises:
        UsageError: The system does not allow it.
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


SCRATCH = ".writing-"  # the beginning of the names of scratch files


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a scratch file that the block writes, and that then replaces a file.

    It is synced to disk first: a reader, or a system after a crash, sees all of the new
    file or nothing of it. If the block raises, the file stays as it was; an OSError names
    it, and not the scratch file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{SCRATCH}{token_hex(8)}.tmp")
    try:
        yield scratch
        with scratch.open("r+b") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        # An error without a number has a message of its own.
        if error.errno and SCRATCH in str(error.filename or SCRATCH):
            error.filename = str(path)
        raise
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def folder_made_whole(folder: Path) -> Iterator[Path]:
    """The path of an empty scratch folder that the block fills, and that then is the folder.

    Its files are synced to disk first. If the block raises, nothing is left of it. If
    another process has made the folder meanwhile, that one stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = folder.with_name(f"{SCRATCH}{token_hex(8)}.tmp")
    scratch.mkdir()
    try:
        yield scratch
        for path in scratch.rglob("*"):
            if path.is_file():
                with path.open("r+b") as file:
                    os.fsync(file.fileno())
        if not folder.exists():
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as scratch:
        scratch.write_bytes(data)


# Locks

LEASE = 30.0  # seconds


def rewrite(path: Path, content: Callable[[], bytes]) -> None:
    """Replace the content of a file under a lock of its folder, so that no change is lost.

    The lock is a file, which also works on network file systems without `flock`. A
    killed holder loses it after `LEASE` seconds.

    Args:
        path: The file.
        content: Reads the file and returns the new content.
    """
    from filelock import SoftFileLease

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.parent / ".lock"
    with SoftFileLease(lock, lease_duration=LEASE, poll_interval=0.01):
        write_atomically(path, content())


# Names and sizes


def sized(count: int) -> str:
    """A number of bytes with its unit, by powers of 1000: `3.1 GB`."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    digit_count = len(str(int(count)))
    power = min(len(units) - 1, (digit_count - 1) // 3)
    decimals = 1 if power > 2 else 0
    return f"{count / 1000**power:.{decimals}f} {units[power]}"


@cache  # every record asks for the names of its folders
def file_name(identifier: str) -> str:
    """An id as the name of a file in any folder: `bert-base:64` -> `bert-base%3A64`."""
    name = quote(identifier, safe="+@")
    if name.endswith("."):  # `.` and `..` would leave the folder
        return f"{name[:-1]}%2E"
    return name


def safe_path(name: str) -> PurePosixPath:
    """A name as a relative path. Raises ValueError for one that would leave its folder.

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


# Files that were not downloaded


# The first bytes of the text that git-lfs leaves in the place of a file.
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def require_no_pointer(path: Path) -> None:
    """Refuse the text that git-lfs leaves in the place of a file that was not downloaded."""
    with path.open("rb") as file:
        beginning = file.read(len(LFS_POINTER))
    if beginning == LFS_POINTER:
        raise DataError(
            f"{path}: wanted the file itself, found a git-lfs pointer to it; get it with "
            "`git lfs pull`, or fetch it again"
        )


# JSON


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


# Made once, since making a decoder takes as long as reading a record.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse_json(
    text: str | bytes,
    *,
    finite: bool = True,
    parse_float: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a text of JSON.

    Args:
        text: The text; bytes are UTF-8.
        finite: Whether NaN and Infinity are refused. The standard does not have them,
            but Python writes them, and files of other programs hold them.
        parse_float: Makes a number of its text; by default `float`.

    Raises:
        ValueError: The text is no JSON, or brackets are nested too deep for Python.
    """
    decoder = _DECODER
    if not finite or parse_float is not None:
        constant = _refuse_constant if finite else parse_float
        decoder = json.JSONDecoder(parse_constant=constant, parse_float=parse_float)
    try:
        return decoder.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def write_json(
    path: Path, content: Mapping[str, Any] | list[Any], *, sort_keys: bool = False
) -> None:
    """Write an object or a list, whole or not at all, unless the file has this content already."""
    text = json.dumps(
        content, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )
    data = f"{text}\n".encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
