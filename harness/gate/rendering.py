"""The answer of `harness check` for people."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from harness.core.terminal import table, wrapped
from harness.gate.check import Found, Report, State

HEAD = ("state", "cell", "before", "after", "difference")
SIDES = ("left", "left", "right", "right", "right")
QUIET = (State.NO_BASELINE, State.COULD_NOT_RUN)  # with nothing to set side by side


def render(report: Report, runs: Path, committed: Path, width: int | None = None) -> str:
    """Findings that need attention, scores before and after if one moved, and a line of counts.

    Lines and rows are folded to the width of a terminal; without one they are as long as they are.
    """
    lines: list[str] = []
    for found in (*report.encoders, *report.cells):
        if found.state is State.AGREES and not found.notable:
            continue
        lines += (wrapped(line, width) for line in told(found))
    moved = {found.state for found in (*report.encoders, *report.cells)} - {State.AGREES, *QUIET}
    if moved and (rows := [_row(cell) for cell in report.cells if cell.state not in QUIET]):
        lines += ["", table(rows, HEAD, width, SIDES), ""]
    lines.append(wrapped(f"{runs} against {committed}: {_counts(report)}", width))
    return "\n".join(lines)


def told(found: Found) -> list[str]:
    """The lines of one cell or encoder: its state and why, then the pairs that moved most."""
    why = found.why if found.counts else f"{found.why} (told, no failure)"
    return [
        f"{found.state}: {found.name}: {why}",
        *(f"    {pair}" for pair in found.pairs),
    ]


def _row(cell: Found) -> tuple[str, ...]:
    both = None not in (cell.before, cell.after)
    before, after = (
        "undefined" if score is None else f"{score:.3f}" for score in (cell.before, cell.after)
    )
    change = f"{(cell.after or 0) - (cell.before or 0):+.3f}" if both else ""
    return str(cell.state), cell.name, before, after, change


def _counts(report: Report) -> str:
    """How many encoders and cells have which state: `agrees: 2 encoders, 5 cells`."""
    counts: dict[State, list[str]] = {}
    for what, found in (("encoder", report.encoders), ("cell", report.cells)):
        for state, number in Counter(one.state for one in found).items():
            counts.setdefault(state, []).append(f"{number} {what}{'s' * (number > 1)}")
    return "; ".join(f"{state}: {', '.join(numbers)}" for state, numbers in counts.items())
