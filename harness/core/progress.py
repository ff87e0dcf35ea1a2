"""Progress of long work on stderr: the phase, the steps, the time elapsed and left.

A terminal shows a bar; a file or a pipe gets a line every ten seconds.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from time import perf_counter
from typing import TextIO

from harness.core.types import Progress

LINE_INTERVAL = 10.0  # seconds


def progress_on(stream: TextIO) -> Progress:
    """A bar on a terminal, lines elsewhere."""
    return Bar(stream) if stream.isatty() else Lines(stream)


class Lines(Progress):
    """Progress for a log: a line for each ten seconds in which something was done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last_line_time = perf_counter()
        self.phase("", None)

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase, which ends the one before it."""
        self._name = name
        self._note = ""
        self._steps = steps
        self._done = 0
        self._start = perf_counter()

    def note(self, text: str) -> None:
        """Show a few words after the phase's name."""
        self._note = f": {text}"

    def step(self, steps: int) -> None:
        """Count steps that were done; print a line, ten seconds after the one before."""
        self._done += steps
        now = perf_counter()
        if now - self._last_line_time < LINE_INTERVAL:
            return
        self._last_line_time = now
        elapsed = timedelta(seconds=round(now - self._start))
        line = f"{self._name}{self._note}: {self._done:,}"
        if self._steps is None:
            line += f", elapsed {elapsed}"
        else:
            seconds_left = (now - self._start) * (self._steps / max(1, self._done) - 1)
            left = timedelta(seconds=round(seconds_left))
            line += f" of {self._steps:,}, elapsed {elapsed}, left {left}"
        print(line, file=self._stream, flush=True)


class Bar(Progress):
    """Progress on a terminal: one bar, which has another name in each phase."""

    def __init__(self, stream: TextIO) -> None:
        from rich import progress as rich_progress
        from rich.console import Console
        from rich.table import Column

        # The end of a long name is cut, so that all numbers are shown.
        name = Column(no_wrap=True, ratio=3)
        self._rich = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", table_column=name),
            rich_progress.BarColumn(bar_width=None, table_column=Column(ratio=1)),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("elapsed"),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("left"),
            rich_progress.TimeRemainingColumn(),
            console=Console(file=stream),
            expand=True,
            # On a terminal, lines on stdout are printed above the bar.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )

    def __exit__(self, *_: object) -> None:
        if self._rich.live.is_started:
            self._rich.stop()

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase, which ends the one before it."""
        for task in self._rich.task_ids:
            self._rich.remove_task(task)
        self._task = self._rich.add_task(name, total=steps)
        self._name = name
        self._rich.start()

    def note(self, text: str) -> None:
        """Show a few words after the phase's name."""
        self._rich.update(self._task, description=f"{self._name}: {text}")

    def step(self, steps: int) -> None:
        """Count steps that were done."""
        self._rich.advance(self._task, steps)
