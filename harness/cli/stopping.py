"""SIGINT and SIGTERM: a command ends within two seconds, and says what is kept.

Python tells the main thread of a signal only between two of its own steps, and one of
these may be seconds of arithmetic. So the system also writes each signal's number into
a pipe, which a thread reads: if the command has not ended by itself a little later, the
thread ends it. Files are written whole or not at all, so nothing is lost by that but
the work in hand. A scratch file that a worker leaves goes when the same command goes
on.
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
KEPT = (
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
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # signals are not for others
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = [signal.signal(number, _raise) for number in SIGNALS]
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end, args=(reader,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
        os.close(writer)


def _raise(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _end(reader: int) -> None:
    """End the process a little after the first signal; do nothing once the pipe is closed."""
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        number = next(
            iter(n for n in iter(lambda: pipe.read(1), b"") if n[0] in SIGNALS), b""
        )
        if (
            number
        ):  # a further signal is written into the pipe, too, which stays open for it
            time.sleep(GRACE)
            end(128 + number[0])


def end(status: int) -> NoReturn:
    """Say what is kept, and end at once: to take the interpreter down may take seconds, too."""
    with suppress(OSError, ValueError):  # nobody listens any more
        sys.stdout.flush()
        sys.stderr.write(f"\nharness: {KEPT}\n")
        sys.stderr.flush()
    os._exit(status)
