"""The picture of alignment against uniformity (SimCSE, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import fitted_on_task
from harness.results.reproduction import post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/alignment-against-uniformity.svg"
TASK = "sts-b"
PLAIN = post_processing("")


@dataclass(frozen=True)
class Placed:
    """A method at its uniformity and alignment, with its score in points."""

    method: str
    uniformity: float
    alignment: float
    score: float


def alignment_against_uniformity(results: Results) -> Picture | None:
    """The picture; None where neither was measured.

    Of each encoder and kind of post-processing it shows the method with the best score.
    """
    best: dict[tuple[str, str], Placed] = {}
    for method in results.by_task.get(TASK, ()):
        placed = _placed(results, method) if fitted_on_task(method) else None
        key = method.partition(".")[0], post_processing(method)
        if placed and (key not in best or placed.score > best[key].score):
            best[key] = placed
    if not best:
        return None
    notes = (
        "STS-B test, raw text; lower is better for both. Alignment: pairs with gold above 4.",
        "Of each encoder and kind the best method on it; lines lead from the encoder as it is.",
    )
    return Picture(
        "Alignment against uniformity",
        f"{len(best)} methods: what spreads vectors more evenly moves similar pairs apart.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, best),
    )


def _placed(results: Results, method: str) -> Placed | None:
    paths = (("uniformity",), ("alignment",), ("spearman", "all"))
    found = [results.value(method, TASK, *path).mean for path in paths]
    known = [value for value in found if value is not None]
    return Placed(method, *known) if len(known) == len(paths) else None


def _draw(panels: Sequence[Axes], best: Mapping[tuple[str, str], Placed]) -> Mapping[str, str]:
    (axes,) = panels
    looks = looks_of(kind for _, kind in best)
    hints: dict[str, str] = {}
    labels: dict[str, charts.Point] = {}
    for number, ((encoder, kind), one) in enumerate(best.items()):
        place, name = (one.uniformity, one.alignment), f"method-{number}"
        axes.plot(*place, ls="", label=kind, gid=name, zorder=3, **looks[kind])
        hints[name] = (
            f"{one.method}: uniformity {one.uniformity:.2f}, alignment {one.alignment:.2f}, "
            f"Spearman {one.score:.2f}"
        )
        if kind == PLAIN:
            labels[encoder] = place
    axes.set(xlabel="uniformity", ylabel="alignment")
    charts.legend([axes], list(looks))
    charts.write_labels(axes, labels)
    for (encoder, _), one in best.items():
        if plain := best.get((encoder, PLAIN)):
            ends = (plain.uniformity, one.uniformity), (plain.alignment, one.alignment)
            axes.plot(*ends, marker="", color="#8b949e", lw=0.7, alpha=0.6, zorder=1)
    return hints
