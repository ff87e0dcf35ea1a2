"""A training as a picture: its loss and its development scores over the steps."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.svg import Axis, Dot, Line, Panel, Point, svg


def curve_svg(losses: Sequence[Point], scores: Sequence[Point]) -> str:
    """The loss over the steps and, below it, the development scores if there are any.

    Each point is a step and its value. The last loss and the best score are marked.
    """
    end = max(step for step, _ in (*losses, *scores))
    panels = []
    for name, points, digits, height in (("loss", losses, 3, 240), ("dev score", scores, 2, 170)):
        if points:
            step, value = points[-1] if name == "loss" else max(points, key=lambda p: p[1])
            last = name == "dev score" or not scores
            dot = Dot(step, value, name, f"{value:.{digits}f}", f"{name} at step {step:,}")
            y = Axis.around(name, [value for _, value in points])
            x = Axis("steps" if last else "", 0, end)
            panels.append(Panel(x, y, (dot,), (Line(points, name),), height))
    marked = "the last loss and the best score are marked" if scores else "the last loss is marked"
    return svg("Training curve", [f"{end:,} step{'s' if end != 1 else ''}; {marked}"], panels)
