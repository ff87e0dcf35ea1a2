"""The picture of seeds: every score of every method that depends on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from harness.report.pictures import Picture, looks_of
from harness.results.index import Results, score_at
from harness.results.reproduction import post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/seeds.svg"
TASK, PATH = "sts-b", ("spearman", "all")


def seeds_of_methods(results: Results) -> Picture | None:
    """The picture; None where no method has two seeds on the task."""
    found: dict[str, list[float]] = {}
    for method in results.by_task.get(TASK, ()):
        scores = [score_at(record.scores, PATH) for record in results.by_cell[method, TASK]]
        known = [score for score in scores if score is not None]
        if len(known) == len(scores) > 1:
            results.records(method, TASK)
            found[method] = known
    if not found:
        return None
    ordered = dict(sorted(found.items(), key=lambda item: fmean(item[1])))
    notes = (
        "STS-B test, Spearman, raw text. A point is a seed, of a training or of a fit.",
        "The bar is their mean; n seeds and their sample standard deviation stand on the right.",
    )
    spread = max(stdev(scores) for scores in found.values())
    return Picture(
        "Seeds of every learned method",
        f"{len(found)} methods with two seeds or more; standard deviations up to {spread:.2f}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, ordered),
        inches=1.9 + 0.235 * len(ordered),
    )


def _draw(panels: Sequence[Axes], found: Mapping[str, Sequence[float]]) -> Mapping[str, str]:
    (axes,) = panels
    axes.figure.subplots_adjust(left=0.44, right=0.86)
    looks = looks_of(map(post_processing, found))
    hints: dict[str, str] = {}
    for place, (method, scores) in enumerate(found.items()):
        look = looks[post_processing(method)]
        mean, sd = fmean(scores), stdev(scores)
        axes.plot([mean, mean], [place - 0.32, place + 0.32], marker="", color="#8b949e", zorder=1)
        name = f"seeds-{place}"
        axes.plot(scores, [place] * len(scores), ls="", ms=6, alpha=0.85, gid=name, **look)
        hints[name] = f"{method}: {', '.join(f'{score:.2f}' for score in scores)}"
        right = (1.02, place)
        axes.annotate(f"{len(scores)}: {sd:.2f}", right, xycoords=axes.get_yaxis_transform())
        axes.texts[-1].set_verticalalignment("center")
    axes.set_yticks(range(len(found)), labels=list(found))
    axes.set(xlabel="points", ylim=(-0.7, len(found) - 0.3))
    return hints
