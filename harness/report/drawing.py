"""How the pictures are drawn: the panels that `figures` chose, by Matplotlib.

A kind of post-processing has one colour and one marker in all pictures, given in `drawing.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import charts
from harness.core.toml import read_typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY, GREEN, RED = "#8b949e", "#12a150", "#e5484d"
SPARE = "spare "  # what the looks begin with that any further kind takes

Numbers = Sequence[int | float]


@dataclass(frozen=True)
class Series:
    """Points of one kind, in its colour and marker, or in a colour of their own.

    `hint` shows over them, `label` stands beside the rightmost one; `band` holds the lower and the
    upper edge of an area.
    """

    kind: str
    x: Numbers
    y: Numbers
    hint: str
    label: str = ""
    band: tuple[Numbers, Numbers] | None = None
    color: str = ""


@dataclass(frozen=True)
class Panel:
    """What a panel plots; `axes` is what Matplotlib's `Axes.set` takes.

    Guides are thin lines of x and y; a level is a dashed one across. Shades lie on both sides of
    0, and the scale is linear within the least of them. Rows have names on the left, and words
    beside them on the right.
    """

    series: Sequence[Series]
    axes: Mapping[str, Any] = field(default_factory=dict)
    joined: bool = False
    guides: Sequence[tuple[Numbers, Numbers]] = ()
    level: float | None = None
    shades: Sequence[float] = ()
    rows: Sequence[str] = ()
    beside: Sequence[str] = ()


def draw(every: Sequence[Axes], panels: Sequence[Panel]) -> dict[str, str]:
    """Draw panels, left to right and down; returns what shows over an element, by its gid."""
    from matplotlib.lines import Line2D

    looks = looks_of(s.kind for panel in panels for s in panel.series if not s.color)
    hints: dict[str, str] = {}
    for number, (axes, panel) in enumerate(zip(every, panels, strict=True)):
        _draw_ground(axes, panel)
        for place, series in enumerate(panel.series):
            gid = f"points-{number}-{place}"
            hints[gid] = series.hint
            look = {"color": series.color, "marker": "o"} if series.color else looks[series.kind]
            if series.band:
                axes.fill_between(series.x, *series.band, color=look["color"], alpha=0.15, lw=0)
            line, size = "-" if panel.joined else "", 6.5 if panel.joined or panel.rows else None
            axes.plot(series.x, series.y, gid=gid, ls=line, ms=size, zorder=3, **look)
        axes.set(**panel.axes)
        if axes.get_xscale() == "linear" and "xticks" not in panel.axes:
            axes.locator_params("x", integer=True)
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() != "linear":
                axis.set_major_formatter("{x:g}")
                axis.minorticks_off()
        rightmost = ((s.label, max(zip(s.x, s.y, strict=True))) for s in panel.series)
        charts.write_labels(axes, [(label, point) for label, point in rightmost if label])
    if len(looks) > 1 and not panels[0].rows:
        handles = [Line2D([], [], ls="", label=kind, **look) for kind, look in looks.items()]
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.02)}
        every[0].legend(handles=handles, ncols=min(7, len(looks)), **above)
    return hints


def _draw_ground(axes: Axes, panel: Panel) -> None:
    """What lies under the points: guides, shades, and the names of rows."""
    for x, y in panel.guides:
        axes.plot(x, y, marker="", color=GREY, lw=0.8, alpha=0.6, zorder=1)
    if panel.level is not None:
        axes.axhline(panel.level, color=GREY, ls="--", zorder=1)
    for bound, alpha in zip(panel.shades, (0.30, 0.20, 0.12), strict=False):
        axes.axhspan(-bound, bound, color=GREEN, alpha=alpha, lw=0, zorder=0)
    if panel.shades:
        axes.set_yscale("symlog", linthresh=panel.shades[0])
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), labels=panel.rows)
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    for place, words in enumerate(panel.beside):
        axes.text(1.02, place, words, transform=axes.get_yaxis_transform(), va="center")


@cache
def known_looks() -> Mapping[str, tuple[str, str]]:
    """The colour and the marker of each kind in `drawing.toml`; spare ones last."""
    return read_typed(dict[str, tuple[str, str]], Path(__file__).with_suffix(".toml"))


def looks_of(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What Matplotlib draws each kind with; those that are not listed take the spare looks."""
    listed, wanted = known_looks(), sorted(set(kinds))
    spares = cycle(look for name, look in listed.items() if name.startswith(SPARE))
    looks = {kind: listed.get(kind) or next(spares) for kind in wanted}
    return {kind: {"color": color, "marker": marker} for kind, (color, marker) in looks.items()}
