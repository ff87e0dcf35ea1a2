"""A progress bar on stderr: what runs, how far it is, how fast, how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from harness.core import types

# Steps as expected that a measured pace is averaged with, as a share of all.
PRIOR = 0.05


def time_left(
    elapsed: float, worked: int | float, left: int | float, expected: float | None = None
) -> float | None:
    """Seconds for the steps that are left, at the pace of all that were worked on.

    With the expected seconds a step, a twentieth of all steps counts as if it had taken these: the
    first steps then do not decide alone. None where nothing is known yet.
    """
    if not left:
        return 0.0
    prior = PRIOR * (worked + left) if expected else 0.0
    steps = worked + prior
    return (elapsed + prior * (expected or 0.0)) / steps * left if steps else None


class TimeLeft(ProgressColumn):
    """The time that is left, as `time_left` has it: what was skipped took no time.

    It goes by the pace at the last step and counts down until the next one.
    """

    max_refresh = 0.5  # seconds

    def __init__(self, expected: float | None) -> None:
        super().__init__()
        self._expected = expected

    def render(self, task: Task) -> Text:
        """Hours, minutes and seconds; dashes where nothing is known."""
        worked, seconds = task.completed - task.fields["skipped"], None
        if task.remaining is not None and task.elapsed is not None:
            paced = task.fields["paced"]
            seconds = time_left(paced, worked, task.remaining, self._expected)
            if seconds is not None and seconds > (waited := task.elapsed - paced):
                seconds -= waited
            else:  # the step takes longer than all were to take
                seconds = time_left(task.elapsed, worked, task.remaining, self._expected)
        shown = "-:--:--" if seconds is None else str(timedelta(seconds=round(seconds)))
        return Text(shown, style="progress.remaining")


class Bar:
    """`harness.core.types.Progress` for people: one bar, renamed at each phase.

    `expected` are the seconds that a step should take, if that is known beforehand.
    """

    def __init__(
        self, stream: TextIO, count: ProgressColumn | None = None, expected: float | None = None
    ) -> None:
        self._progress = Progress(
            # Of a long phase the end is cut, so that all numbers are seen.
            TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=3)),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            count or MofNCompleteColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeft(expected),
            console=Console(file=stream),
            expand=True,
            # Lines on stdout pass above the bar on a terminal, and are left alone in a pipe.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=False,
        )
        self._phase: TaskID | None = None
        self._what, self._skipped = "", 0

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
        self._phase = self._progress.add_task(what, total=steps, skipped=0, paced=0.0)
        self._what = what
        self._skipped = 0

    def step(self, steps: int) -> None:
        """So many more are done."""
        if self._phase is not None:
            [task] = self._progress.tasks
            self._progress.update(self._phase, advance=steps, paced=task.elapsed or 0.0)

    def skip(self, steps: int) -> None:
        """So many more need no work: they say nothing of the pace."""
        if self._phase is not None:
            self._skipped += steps
            self._progress.update(self._phase, advance=steps, skipped=self._skipped)

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

    def skip(self, steps: int) -> None:
        """So many more need no work."""

    def note(self, text: str) -> None:
        """A few words."""


class OverallProgress:
    """One bar over everything: phases whose seconds were estimated move it, others only name it.

    It is itself a Progress, drawn with the Bar that it is given; a step of that bar is a second. A
    phase of several encoders, `scoring`, has the estimates of all of them: `minilm: scoring`.
    """

    def __init__(self, bar: types.Progress, seconds: Mapping[str, float]) -> None:
        self._bar, self._seconds = bar, dict(seconds)
        self._done = self._unit = self._left = 0.0
        self._shown, self._total = 0, max(1, round(sum(seconds.values())))
        self._begun = False

    def phase(self, what: str, steps: int | None) -> None:
        """Begin a phase; what the last one left undone of its estimate needed no work."""
        if not self._begun:  # so that nothing to do shows nothing
            self._bar.phase("everything", self._total)
            self._begun = True
        self._pass_over(self._left)
        own = [name for name in self._seconds if what in (name, name.rpartition(": ")[2])]
        self._left = sum((self._seconds.pop(name) for name in own), 0.0)
        self._unit = self._left / steps if steps else 0.0
        self._bar.note(what)

    def step(self, steps: int) -> None:
        """So many more of this phase are done."""
        moved = min(self._left, steps * self._unit)
        self._left -= moved
        self._bar.step(self._moved(moved))

    def skip(self, steps: int) -> None:
        """So many more of this phase need no work."""
        moved = min(self._left, steps * self._unit)
        self._left -= moved
        self._pass_over(moved)

    def note(self, text: str) -> None:
        """Show a few words."""
        self._bar.note(text)

    def finish(self) -> None:
        """Everything is done: estimates of phases that were not needed are passed over."""
        if self._begun:
            self._bar.skip(self._total - self._shown)

    def _pass_over(self, seconds: float) -> None:
        self._bar.skip(self._moved(seconds))

    def _moved(self, seconds: float) -> int:
        """The whole seconds that the bar moves by."""
        self._done += seconds
        steps = max(0, round(self._done) - self._shown)
        self._shown += steps
        return steps
