"""A progress bar on stderr: what runs, how far it is, how fast, how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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

from harness.core import types


class Bar:
    """`harness.core.types.Progress` for people: one bar, renamed at each phase."""

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


class Silent:
    """A Progress that shows nothing."""

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase."""

    def step(self, steps: int) -> None:
        """So many more are done."""

    def note(self, text: str) -> None:
        """A few words."""


class OverallProgress:
    """One bar over everything: phases whose seconds were estimated move it, others only name it.

    It is itself a Progress, drawn with the Bar that it is given.
    """

    def __init__(self, bar: types.Progress, seconds: Mapping[str, float]) -> None:
        self._bar, self._seconds = bar, dict(seconds)
        self._done = self._unit = self._left = 0.0
        self._shown, self._total = 0, max(1, round(sum(seconds.values())))
        self._begun = False

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase; what the last one left undone of its estimate counts as done."""
        if not self._begun:  # so that nothing to do shows nothing
            self._bar.phase("everything", self._total)
            self._begun = True
        self._done += self._left
        self._left = self._seconds.pop(what, 0.0)
        self._unit = self._left / steps if steps else 0.0
        self._bar.note(what)
        self._show()

    def step(self, steps: int) -> None:
        """So many more of this phase are done."""
        moved = min(self._left, steps * self._unit)
        self._left -= moved
        self._done += moved
        self._show()

    def note(self, text: str) -> None:
        """Show a few words."""
        self._bar.note(text)

    def _show(self) -> None:
        if round(self._done) > self._shown:
            self._bar.step(round(self._done) - self._shown)
            self._shown = round(self._done)
