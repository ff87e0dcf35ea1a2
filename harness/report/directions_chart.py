"""The picture of how many directions a post-processor keeps, or takes out, against its score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/score-against-directions.svg"
FEWEST = 4  # numbers of directions that make a line
ONE_POST = re.compile(r"(?P<plain>[^+@]+)\+(?P<post>[a-z-]+)(?::(?P<k>\d+))?@target")

# By post-processor: by plain method and task, the score above as encoded for each k.
Lines = dict[tuple[str, str], list[tuple[int, float]]]


def score_against_directions(results: Results) -> Picture | None:
    """The picture, a panel a post-processor; None where none was measured at enough numbers."""
    panels: dict[str, Lines] = {}
    for method, task in results.by_cell:
        match = ONE_POST.fullmatch(method)
        if match and match["k"] and task in LABELS:
            base = results.value(match["plain"], task, "spearman", "all").mean
            value = results.value(method, task, "spearman", "all").mean
            if base is not None and value is not None:
                lines = panels.setdefault(match["post"], {})
                lines.setdefault((match["plain"], task), []).append((int(match["k"]), value - base))
    chosen = {
        post: {name: sorted(line) for name, line in lines.items() if len(line) >= FEWEST}
        for post, lines in sorted(panels.items())
    }
    chosen = {post: lines for post, lines in chosen.items() if lines}
    if not chosen:
        return None
    notes = (
        "Spearman, all, raw text, fitted on the target: points above the encoding as it is.",
        "k is the number of directions that a map keeps, or takes out.",
    )
    return Picture(
        "Score against the number of directions",
        f"Lines for {', '.join(chosen)}: points above as encoded, by the number k of directions.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, chosen),
        heights=(1,) * len(chosen),
        inches=2.2 + 2.7 * len(chosen),
    )


def _draw(panels: Sequence[Axes], chosen: Mapping[str, Lines]) -> Mapping[str, str]:
    from matplotlib.ticker import MaxNLocator

    looks = looks_of(chosen)
    hints: dict[str, str] = {}
    for axes, (post, lines) in zip(panels, chosen.items(), strict=True):
        axes.axhline(0, color="#8b949e", ls="--", zorder=1)
        labels: dict[str, charts.Point] = {}
        for row, ((plain, task), line) in enumerate(lines.items()):
            ks, gains = zip(*line, strict=True)
            axes.plot(ks, gains, ms=6.5, gid=f"line-{post}-{row}", **looks[post])
            hints[f"line-{post}-{row}"] = f"{plain}+{post} on {task}"
            labels[f"{plain}, {LABELS[task]}"] = line[-1]
        axes.set(ylabel=f"+{post}: difference", xlabel="k" if axes is panels[-1] else "")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        charts.write_labels(axes, labels)
    return hints
