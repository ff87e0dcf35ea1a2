"""Progress of long work on stderr: the phase, the steps, the time elapsed and left.

A terminal shows a bar; a file or a pipe gets a line every ten seconds.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from time import perf_counter
from typing import TextIO

from rich import progress as rich_progress
from rich.console import Console
from rich.table import Column

from harness.core.types import Clock, Progress

LINE_INTERVAL = 10.0  # seconds


def progress_on(
    stream: TextIO, delay: float = 0.0, clock: Clock = perf_counter
) -> Bar | Lines:
    """A bar on a terminal, lines elsewhere; `delay` is in seconds, until the bar is shown."""
    return Bar(stream, delay, clock) if stream.isatty() else Lines(stream, clock)


class Lines(Progress):
    """Progress for a log: a line for each ten seconds in which something was done."""

    def __init__(self, stream: TextIO, clock: Clock = perf_counter) -> None:
        self._stream = stream
        self._clock = clock
        self._last_line_time = clock()
        self.phase("", None)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase, which ends the one before it."""
        self._phase_name = name
        self._note = ""
        self._steps = steps
        self._steps_done = 0
        self._phase_start = self._clock()

    def step(self, steps: int) -> None:
        """Count steps that were done; print a line, ten seconds after the one before."""
        self._steps_done += steps
        now = self._clock()
        if now - self._last_line_time < LINE_INTERVAL:
            return
        self._last_line_time = now
        print(self._line(now - self._phase_start), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Show a few words after the phase's name."""
        self._note = text

    def _line(self, elapsed: float) -> str:
        """The state of the phase, `elapsed` seconds after it began."""
        name = self._phase_name
        if self._note:
            name = f"{name}: {self._note}"
        line = f"{name}: {self._steps_done:,}"
        if self._steps is not None:
            line += f" of {self._steps:,}"
        line += f", elapsed {_whole_seconds(elapsed)}"
        if self._steps is not None and self._steps_done > 0:
            remaining_steps = self._steps - self._steps_done
            remaining_seconds = elapsed * remaining_steps / self._steps_done
            line += f", left {_whole_seconds(remaining_seconds)}"
        return line


def _whole_seconds(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


class Bar(Progress):
    """Progress on a terminal: one bar, which has another name in each phase.

    Args:
        stream: Where it is shown.
        delay: Seconds until it is shown, so that short work shows none.
        clock: The time in seconds.
    """

    def __init__(
        self, stream: TextIO, delay: float = 0.0, clock: Clock = perf_counter
    ) -> None:
        self._rich = rich_progress.Progress(
            # The end of a long name is cut, so that all numbers are shown.
            rich_progress.TextColumn(
                "{task.description}", table_column=Column(no_wrap=True, ratio=3)
            ),
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
        self._phase_name = ""
        self._clock = clock
        self._show_time = clock() + delay

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich.live.is_started:
            self._rich.stop()

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase, which ends the one before it."""
        for task in self._rich.tasks:
            self._rich.remove_task(task.id)
        self._rich.add_task(name, total=steps)
        self._phase_name = name
        self.step(0)

    def step(self, steps: int) -> None:
        """Count steps that were done; show the bar if it is time."""
        if not self._rich.live.is_started and self._clock() >= self._show_time:
            self._rich.start()
        for task in self._rich.tasks:
            self._rich.advance(task.id, steps)

    def note(self, text: str) -> None:
        """Show a few words after the phase's name."""
        for task in self._rich.tasks:
            description = f"{self._phase_name}: {text}"
            self._rich.update(task.id, description=description)
