"""A progress bar on stderr: what runs, how far it is, how long it has taken and will take."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TextIO

from rich import progress as rich_progress
from rich.console import Console
from rich.table import Column

from harness.core.types import Clock, Progress


class Bar(Progress):
    """Progress for people: one bar, renamed at each phase, and seen after a delay in seconds."""

    def __init__(self, stream: TextIO, delay: float = 0.0, clock: Clock = perf_counter) -> None:
        self._rich = rich_progress.Progress(
            # Of a long phase the end is cut, so that all numbers are seen.
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
            # Lines on stdout pass above the bar on a terminal, and are left alone in a pipe.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._what = ""
        self._clock, self._begin = clock, clock() + delay

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich.live.is_started:  # nothing to do shows nothing
            self._rich.stop()

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase, in the place of the last one."""
        for task in self._rich.tasks:
            self._rich.remove_task(task.id)
        self._rich.add_task(what, total=steps)
        self._what = what
        self.step(0)

    def step(self, steps: int) -> None:
        if not self._rich.live.is_started and self._clock() >= self._begin:
            self._rich.start()
        for task in self._rich.tasks:
            self._rich.advance(task.id, steps)

    def note(self, text: str) -> None:
        """Show a few words behind the phase's name."""
        for task in self._rich.tasks:
            self._rich.update(task.id, description=f"{self._what}: {text}")
