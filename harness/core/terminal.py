"""What a terminal shows: tables that fit its width, times and counts, the progress of long work.

A terminal shows a bar of progress; a file or a pipe gets a line every ten seconds.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from datetime import timedelta
from time import perf_counter
from typing import TextIO

from harness.core.types import Progress

INDENT = "  "
# Control characters except tab and line feed, characters that change the direction of
# writing, and halves of characters, which cannot be written.
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """A text with its control characters written as in a string of Python."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def text_table(
    rows: Sequence[Sequence[object]],
    head: Sequence[str],
    width: int | None = None,
    sides: Sequence[str] | None = None,
) -> str:
    """A table in plain text, or a list if the table is wider than `width`.

    Args:
        rows: The cells; None is an empty one.
        head: The names of the columns.
        width: The width of the terminal in characters; None for any.
        sides: The alignment of each column, `left` or `right`; None aligns all left.
    """
    from tabulate import tabulate

    text_rows = []
    for row in rows:
        text_rows.append(["" if cell is None else str(cell) for cell in row])
    table = tabulate(
        text_rows, headers=list(head), disable_numparse=True, colalign=sides
    )
    line_lengths = [len(line.rstrip()) for line in table.splitlines()]
    if width is None or max(line_lengths, default=0) <= width:
        return table
    # The first cell of a row on a line, and below it the others with their columns' names.
    lines = []
    for title, *texts in text_rows:
        lines.append(wrapped(title, width))
        columns = zip(head[1:], texts, strict=True)
        named = [f"{name}: {text}" for name, text in columns if text]
        if named:
            lines.append(wrapped(f"{INDENT}{'   '.join(named)}", width))
    return "\n".join(lines)


def wrapped(text: str, width: int | None) -> str:
    """A text broken into lines of a width, whose words stay whole.

    The lines after the first are indented by two blanks more than the text.
    """
    if width is None:
        return text
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent + INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def duration(seconds: float) -> str:
    """A time in seconds, from 90 seconds on in minutes, from 90 minutes on in hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def counted(count: int, noun: str) -> str:
    """`1 fit`, `2 fits`."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def signed(number: float, decimals: int = 2) -> str:
    """With its sign and so many decimals; no -0.00."""
    return f"{round(number, decimals) + 0.0:+.{decimals}f}"


# Progress: the phase, the steps, the time elapsed and left

LINE_INTERVAL = 10.0  # seconds


def progress_on(stream: TextIO) -> Progress:
    """A bar on a terminal, lines elsewhere."""
    return Bar(stream) if stream.isatty() else Lines(stream)


class Lines(Progress):
    """Progress for a log: a line for each ten seconds in which something was done."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream  # None is stderr, also in another process
        self._last_line_time = perf_counter()
        self.phase("", None)

    def phase(self, name: str, steps: int | None) -> None:
        """Begin a phase, which ends the one before it."""
        self._name = name
        self._note = ""
        self._steps = steps
        self._done = 0
        self._start = perf_counter()
        # The first steps hold the loading of a model, so that the time left follows from
        # the steps after them.
        self._first: tuple[float, int] | None = None

    def note(self, text: str) -> None:
        """Show a few words after the phase's name; print a line as `step` does."""
        self._note = f": {text}" if text else ""
        self._print_line()

    def of_worker(self) -> Progress:
        """Lines on stderr, of fits that take long."""
        lines = Lines()
        lines.phase("fitting", None)
        return lines

    def step(self, steps: int) -> None:
        """Count steps that were done; print a line, ten seconds after the one before."""
        self._done += steps
        if self._first is None:
            self._first = perf_counter(), self._done
        self._print_line()

    def _print_line(self) -> None:
        """Print how far the phase is, ten seconds after the last line."""
        now = perf_counter()
        if now - self._last_line_time < LINE_INTERVAL:
            return
        self._last_line_time = now
        elapsed = timedelta(seconds=round(now - self._start))
        line = f"{self._name}{self._note}"
        if self._steps is not None:
            line += f": {self._done:,} of {self._steps:,}"
        elif self._done:
            line += f": {self._done:,}"
        line += f", elapsed {elapsed}"
        start, done_before = self._first or (self._start, 0)
        if self._done == done_before:
            start, done_before = self._start, 0
        if self._steps is not None and self._done:
            seconds_a_step = (now - start) / (self._done - done_before)
            seconds_left = seconds_a_step * (self._steps - self._done)
            line += f", left {timedelta(seconds=round(seconds_left))}"
        print(line, file=self._stream or sys.stderr, flush=True)


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
        description = f"{self._name}: {text}" if text else self._name
        self._rich.update(self._task, description=description)

    def step(self, steps: int) -> None:
        """Count steps that were done."""
        self._rich.advance(self._task, steps)
