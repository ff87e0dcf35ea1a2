"""A progress bar on stderr: what runs, how far it is, how fast, how long it will take."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bar:
    """`harness.bench.Progress` for people: one bar, renamed at each phase."""

    def __init__(self, stream: TextIO, count: ProgressColumn | None = None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            count or MofNCompleteColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=stream),
            # Lines on stdout pass above the bar on a terminal, and are left alone in a pipe.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._phase: TaskID | None = None
        self._what = ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._phase is not None:
            self._progress.stop()

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase; None where the number of steps is not known."""
        if self._phase is not None:
            self._progress.remove_task(self._phase)
        self._progress.start()  # at the first phase, so that nothing to do shows nothing
        self._phase, self._what = self._progress.add_task(what, total=steps), what

    def step(self, steps: int) -> None:
        """So many more are done."""
        if self._phase is not None:
            self._progress.advance(self._phase, steps)

    def note(self, text: str) -> None:
        """Show a few words behind the phase's name, as a training's loss."""
        if self._phase is not None:
            self._progress.update(self._phase, description=f"{self._what}: {text}")
