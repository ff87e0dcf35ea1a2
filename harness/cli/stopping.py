"""SIGINT and SIGTERM: a command ends within two seconds, and says what is kept.

Python tells the main thread of a signal only between two of its own steps, and one of
these may be seconds of arithmetic. So the system also writes each signal's number into
a pipe, which a thread reads: if the command has not ended by itself a little later, the
thread ends it. Files are written whole or not at all, so that only unfinished work is
lost. A scratch file that a worker leaves is removed when the same command runs again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from harness.core.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 1.5  # seconds
KEPT_IN_WORDS = (
    "stopped; measured cells, encodings and saved trainings are kept: the same command goes on "
    "from there"
)


class Stopped(Interrupted):
    """A signal, and the exit status that it means."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise Stopped in the main thread at a signal, and end the process where that takes long."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python sets handlers of signals in the main thread alone
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    former_handlers = {number: signal.signal(number, _raise) for number in SIGNALS}
    former_pipe = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_signal, args=(reader,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(former_pipe)
        for number, handler in former_handlers.items():
            signal.signal(number, handler)
        os.close(writer)


def _raise(number: int, _: FrameType | None) -> None:
    """The handler of a signal."""
    raise Stopped(number)


def _end_after_signal(reader: int) -> None:
    """End the process GRACE seconds after the first signal; return when the pipe is closed.

    `reader` is the handle of the pipe's end that is read. The pipe stays open while the
    thread waits, since a further signal is written into it, too.
    """
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while number := pipe.read(1):
            if number[0] in SIGNALS:
                time.sleep(GRACE)
                end(128 + number[0])


def end(status: int) -> NoReturn:
    """Say what is kept, and end at once, since an orderly exit of Python may take seconds."""
    with suppress(OSError, ValueError):  # the stream is closed
        sys.stdout.flush()
        sys.stderr.write(f"\nharness: {KEPT_IN_WORDS}\n")
        sys.stderr.flush()
    os._exit(status)
