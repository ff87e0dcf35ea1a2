"""The picture of similarity against edit distance (BERT-flow, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import encodings
from harness.results.reproduction import post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/similarity-against-edit-distance.svg"
TASK = "distance-quartiles"
GOLD = "gold"

Quartiles = Mapping[str, Mapping[int, float]]  # by quartile, by distance


def similarity_against_distance(results: Results) -> Picture | None:
    """The picture, a panel for gold and one an encoder; None where none was measured."""
    panels: dict[str, dict[str, Quartiles]] = {}
    for plain, methods in encodings(results, TASK).items():
        panels[plain] = {method: _quartiles(results, method, "quartiles") for method in methods}
    if not panels:
        return None
    first = next(iter(panels))
    gold = {GOLD: {GOLD: _quartiles(results, first, "gold_quartiles")}}
    notes = (
        "STS-B dev, SentEval's text. Lines: the median of the pairs at an edit distance in tokens.",
        "Bands, of gold and of encodings as they are: the middle half of the pairs.",
    )
    return Picture(
        "Similarity against edit distance",
        f"Gold falls slowly with edit distance; beside it {', '.join(panels)}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, gold | panels),
        heights=(1,) * (1 + len(panels)),
        inches=2.2 + 2.5 * (1 + len(panels)),
    )


def _quartiles(results: Results, method: str, score: str) -> Quartiles:
    """The quartiles of a method, the mean over its seeds."""
    every = [record.scores[score] for record in results.records(method, TASK)]
    return {
        name: {int(step): fmean(one[name][step] for one in every) for step in steps}
        for name, steps in every[0].items()
    }


def _draw(
    panels: Sequence[Axes], shown: Mapping[str, Mapping[str, Quartiles]]
) -> Mapping[str, str]:
    kinds = {method: post_processing(method) for own in shown.values() for method in own}
    looks = looks_of(kind for method, kind in kinds.items() if method != GOLD)
    hints: dict[str, str] = {}
    for row, (axes, (plain, methods)) in enumerate(zip(panels, shown.items(), strict=True)):
        for number, (method, quartiles) in enumerate(methods.items()):
            look = looks.get(kinds[method], {}) if method != GOLD else {"color": "#8b949e"}
            steps, name = list(quartiles["median"]), f"distance-{row}-{number}"
            if method == plain:
                low, high = (list(quartiles[edge].values()) for edge in ("lower", "upper"))
                axes.fill_between(steps, low, high, color=look["color"], alpha=0.15, lw=0, zorder=0)
            medians = list(quartiles["median"].values())
            label = "gold" if method == GOLD else kinds[method]
            axes.plot(steps, medians, label=label, ms=5, gid=name, **look)
            hints[name] = method
        axes.set_ylabel("gold" if plain == GOLD else f"{plain}: cosine x100")
    panels[-1].set_xlabel("edit distance, tokens")
    charts.legend(panels, list(looks))
    return hints
