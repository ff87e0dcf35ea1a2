"""The picture of published numbers against measured ones, with the bands of the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.reproduction import Reproduction, count, post_processing
from harness.results.verdict import TOLERANCES, VERDICTS, CellState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/published-against-measured.svg"


def published_against_measured(cells: Iterable[Reproduction], results: Results) -> Picture | None:
    """The picture; None where no published number was measured."""
    every = list(cells)
    run = [cell for cell in every if cell.measured is not None and cell.cell.points is not None]
    if not run:
        return None
    for one in run:
        for task in one.cell.tasks:
            results.records(str(one.cell.method), task)
    counts = count(every)
    held = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v] or v is CellState.DIFFERS)
    notes = (
        f"{counts['run']} of {counts['published']:,} published numbers were measured: {held}.",
        "Below: measured minus published. Bands: exact, match, close; beyond: differs.",
    )
    return Picture(
        "Published against measured",
        f"{counts['run']} published numbers lie on or near the diagonal: {held}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, run),
        heights=(3, 2),
        inches=5.8,
        given=([(one.cell.id, one.cell.points, str(one.state)) for one in run], TOLERANCES),
    )


def _draw(panels: Sequence[Axes], run: Sequence[Reproduction]) -> Mapping[str, str]:
    above, below = panels
    kinds = {one.cell.id: post_processing(one.cell.method or "") for one in run}
    looks = looks_of(kinds.values())
    hints: dict[str, str] = {}
    points = [(one.cell.points or 0.0, one.measured or 0.0) for one in run]
    ends = [min(min(p) for p in points), max(max(p) for p in points)]
    above.plot(ends, ends, marker="", color="#8b949e", ls="--", zorder=1)
    bounds = (TOLERANCES.exact, TOLERANCES.match, TOLERANCES.close)
    for bound, shade in zip(bounds, (0.30, 0.20, 0.12), strict=True):
        below.axhspan(-bound, bound, color="#12a150", alpha=shade, lw=0, zorder=0)
    for n, (one, (published, measured)) in enumerate(zip(run, points, strict=True)):
        kind = kinds[one.cell.id]
        said = f"published {one.cell.in_points}, measured {measured:.4f}, {one.state}"
        for axes, y in ((above, measured), (below, measured - published)):
            name = f"dot-{axes is below:d}-{n}"
            axes.plot(published, y, ls="", label=kind, gid=name, clip_on=False, **looks[kind])
            hints[name] = f"{one.cell.id}: {said}"
    below.set_yscale("symlog", linthresh=TOLERANCES.exact)
    furthest = max(1.0, *(abs(measured - published) * 1.5 for published, measured in points))
    below.set(ylim=(-furthest, furthest), xlim=above.get_xlim(), xlabel="published, points")
    ticks = [sign * bound for bound in bounds for sign in (-1, 1)]
    below.set_yticks(sorted([0, *ticks]))
    below.yaxis.set_major_formatter("{x:g}")
    below.minorticks_off()
    above.set_ylabel("measured, points")
    below.set_ylabel("difference")
    charts.legend([above], list(looks))
    return hints
