"""Errors that a user can act on, and the exit statuses of the command line for them."""

from __future__ import annotations

import errno
import os


class HarnessError(Exception):
    """An error that a user can act on. Its one line says what was wanted, found, and to do.

    Attributes:
        exit_status: That of the command line: 1 a cell failed, 2 wrong usage, 3
            something could not run because an asset is missing.

    Examples:
        >>> from harness import HarnessError, load_registry
        >>> try:
        ...     load_registry().parse("bert-mini.maen")
        ... except HarnessError as error:
        ...     print(error.exit_status, error)
        2 unknown pooling 'maen': did you mean mean or max?
    """

    exit_status = 1


class UsageError(HarnessError):
    """A request that is invalid: an unknown id, an impossible composition, no cell selected."""

    exit_status = 2


class AssetMissing(HarnessError):
    """A file that is needed and is not on this machine; the message says how to get it.

    Attributes:
        get: The command or the step that gets it, without the rest of the message.

    Examples:
        >>> from pathlib import Path
        >>> from harness import AssetMissing, Places
        >>> try:
        ...     Places(Path("cache")).require_data("qnli")
        ... except AssetMissing as missing:
        ...     print(missing.get)
        harness fetch qnli
    """

    exit_status = 3

    def __init__(self, message: str, get: str = "") -> None:
        super().__init__(message)
        self.get = get


class DataError(HarnessError):
    """A file with wrong content; the message names the file and the line."""


class ScoreError(HarnessError):
    """Numbers that cannot be scored: not finite, degenerate, or of the wrong shape."""


class Interrupted(BaseException):
    """A signal that ends the command. It is not handled as the failure of a cell.

    Attributes:
        number: That of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def is_interruption(error: BaseException) -> bool:
    """Whether somebody ended the command, by Ctrl-C or by a signal.

    Any other error is a failure of the code that raised it, `SystemExit` included.
    """
    return isinstance(error, KeyboardInterrupt | Interrupted)


def is_library_error(error: BaseException) -> bool:
    """Whether an error is an Exception, or the panic of a library that is written in Rust.

    A panic is no Exception, and has a class of its own in each library.
    """
    return isinstance(error, Exception) or type(error).__module__ == "pyo3_runtime"


MOST_CHARACTERS = 300  # of an unexpected error's message


def first_line(error: BaseException) -> str:
    """The first line of an error's message; empty where there is none.

    A line that ends in a colon has the next one behind it.
    """
    lines = str(error).splitlines()
    if not lines:
        return ""
    if lines[0].endswith(":"):
        return " ".join(line.strip() for line in lines[:2])
    return lines[0]


CACHE_SETTING = "--cache or HARNESS_CACHE_DIR"
# The numbers of the system's errors for a folder in which nothing may be written.
WRITING_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)
# Of a disk, or a user's part of it, that is full.
FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
NO_SPACE = os.strerror(errno.ENOSPC)
FOLDER_SETTINGS = (
    f"{CACHE_SETTING} moves the cache, --output records, "
    "--data-dir or HARNESS_DATA_DIR data"
)


def error_line(error: BaseException, plugin: str | None = None) -> str:
    """An unexpected error in one line: the file that a system refused, or type and message.

    `plugin` is the name of the plug-in whose code raised it, if any: the line then says
    that its code is to be mended.
    """
    if isinstance(error, OSError) and error.strerror:
        line = f"{error.filename or 'system'}: {error.strerror}"
        if error.errno in WRITING_ERRORS:
            line += f"; {FOLDER_SETTINGS}"
        elif error.errno in FULL_ERRORS:
            line += f"; free room there, or: {FOLDER_SETTINGS}"
    elif NO_SPACE in str(error):  # of a library that has errors of its own
        line = f"{type(error).__name__}: {NO_SPACE}; free room there, or: {FOLDER_SETTINGS}"
    elif isinstance(error, SystemExit):
        line = f"wanted a result, found SystemExit({error.code!r}): some code ended the program"
    else:
        message = first_line(error)[:MOST_CHARACTERS]
        if isinstance(error, ValueError) and "read-only" in message:
            message += ": cells share it; write into a copy, as in x = x.copy()"
        line = f"{type(error).__name__}: {message}".removesuffix(": ")
        if plugin is None:
            line = f"unexpected {line} (--debug shows where)"
        else:
            line = f"wanted a result, found {line}; mend its code (--debug shows where)"
    return line if plugin is None else f"plug-in {plugin}: {line}"
