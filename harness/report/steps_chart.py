"""The picture of protocol choices: from a published number to another protocol's, step by step.

`results/questions/steps.toml` names the published cell and the steps; the scores come from records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from harness.report.pictures import Picture
from harness.report.sentences import signed
from harness.results.index import Results
from harness.results.published import PublishedCell
from harness.results.questions import TrapRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/protocol-steps.svg"
UP, DOWN, WHOLE = "#12a150", "#e5484d", "#6e7781"


@dataclass(frozen=True)
class Steps:
    """A published cell, and scores of which each differs from the one before in one choice."""

    title: str
    cell: str
    rows: tuple[TrapRow, ...]


def protocol_steps(
    steps: Steps, cells: Mapping[str, PublishedCell], results: Results
) -> Picture | None:
    """The picture; None where a step was not measured."""
    cell = cells.get(steps.cell)
    values = [results.value(row.method, row.task, *row.score).mean for row in steps.rows]
    measured = [value for value in values if value is not None]
    if cell is None or cell.points is None or not measured or len(measured) < len(values):
        return None
    bars = [("published", cell.points)]
    bars += [(row.what, value) for row, value in zip(steps.rows, measured, strict=True)]
    last = measured[-1]
    notes = (
        f"{cell.row.name} on {cell.column.label}, as published in: {cell.table.paper}.",
        "Each line changes one choice of the protocol and keeps those above it.",
    )
    told = "; ".join(f"{what} {value:.2f}" for what, value in bars)
    return Picture(
        steps.title,
        f"From {cell.points:.2f} to {last:.2f}: {told}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, bars),
        inches=2.3 + 0.42 * len(bars),
    )


def _draw(panels: Sequence[Axes], bars: Sequence[tuple[str, float]]) -> Mapping[str, str]:
    (axes,) = panels
    axes.figure.subplots_adjust(left=0.36, bottom=0.17)
    low = min(value for _, value in bars)
    high = max(value for _, value in bars)
    room = 0.25 * (high - low) or 1.0
    hints: dict[str, str] = {}
    befores = [None, *(value for _, value in bars)]
    for place, ((what, value), before) in enumerate(zip(bars, befores, strict=False)):
        moved = 0.0 if before is None else value - before
        start = value if before is None else before
        color = UP if moved > 0 else DOWN
        if before is not None:
            axes.barh(place, moved, left=start, height=0.55, color=color, zorder=2)
        axes.plot(value, place, marker="|", ms=16, mew=2.5, mec=WHOLE, ls="", gid=f"step-{place}")
        hints[f"step-{place}"] = f"{what}: {value:.2f}"
        text = f"{value:.2f}" if before is None else f"{value:.2f} ({signed(moved)})"
        axes.annotate(text, (max(value, start), place), (8, 0), "data", "offset points")
        axes.texts[-1].set_verticalalignment("center")
    for place, ((_, value), _) in enumerate(pairwise(bars)):
        axes.plot([value, value], [place, place + 1], marker="", color=WHOLE, lw=1, zorder=1)
    axes.set_yticks(range(len(bars)), labels=[what for what, _ in bars])
    axes.invert_yaxis()
    axes.set(xlim=(low - room, high + 2 * room), xlabel="points")
    return hints
