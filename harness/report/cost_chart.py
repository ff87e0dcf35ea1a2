"""The column of costs of the leaderboard, and the picture of quality against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import SEVEN, SIMCSE, Scoring
from harness.results.reproduction import beside_others, best_methods, frontier, milliseconds
from harness.results.verdict import CellState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/quality-against-cost.svg"
COLUMN = "ms / sentence"
NOT_TIMED = "not timed"
BESIDE = " ‡"
CAPTION = (
    f"`{COLUMN}`: encoding and applying, for each distinct sentence of the row's tasks, by clocks "
    "around the work itself; a cached encoding counts what it took when it was made. The rows were "
    "measured on different machines under different load, so it is for orientation; ratios that "
    "were measured side by side are in [speed.md](tables/speed.md). "
    f"{BESIDE.strip()}: other processes of the same run worked beside this one."
)


def shown_cost(results: Results, method: str, protocol: Scoring) -> str:
    """Milliseconds a sentence with two digits, or why there are none."""
    cost = milliseconds(results, method, protocol)
    if cost is None:
        ran = any((method, protocol.task(task)) in results.by_cell for task in SEVEN)
        return NOT_TIMED if ran else CellState.NOT_RUN
    shared = BESIDE if beside_others(results, method, protocol) else ""
    return f"{cost:.{max(0, 1 - math.floor(math.log10(cost)))}f}{shared}"


def quality_against_cost(results: Results) -> Picture | None:
    """The picture; None where nothing has both an average and a cost."""
    points = {
        (encoder, posts, method): (milliseconds(results, method, SIMCSE) or math.nan, average)
        for (encoder, posts), (method, average) in best_methods(results).items()
    }
    if not points:
        return None
    notes = (
        f"{SIMCSE.title.replace('`', '')}. Of each encoder and post-processing the best is shown.",
        "Dashed: the best that its cost buys. Measured under different load, for orientation.",
    )
    return Picture(
        "Quality against cost",
        "The best of each encoder and post-processing: average of seven STS tasks against "
        "milliseconds a sentence.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, points),
    )


def _draw(
    panels: Sequence[Axes], points: Mapping[tuple[str, str, str], charts.Point]
) -> dict[str, str]:
    """Draw the points, best first, with legend and frontier; the hints by the points' gid."""
    from matplotlib.ticker import LogLocator

    (axes,) = panels
    axes.set(xscale="log", xlabel="milliseconds a sentence", ylabel="average of seven STS tasks")
    looks = looks_of(posts for _, posts, _ in points)
    labels: dict[str, charts.Point] = {}
    hints = {}
    for n, ((encoder, posts, method), (cost, average)) in enumerate(points.items()):
        name, above = f"dot-{n}", 3 - n / len(points)  # the best are drawn over the others
        axes.plot(cost, average, ls="", label=posts, zorder=above, gid=name, **looks[posts])
        labels.setdefault(encoder, (cost, average))
        hints[name] = f"{method}: {average:.2f} at {cost:.3g} ms a sentence"
    costs, scores = zip(*frontier(list(points.values())), strict=True)
    charts.legend([axes], list(looks))
    axes.stairs(scores, [*costs, costs[-1]], baseline=None, color="#8b949e", ls="--")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    charts.write_labels(axes, labels)
    return hints
