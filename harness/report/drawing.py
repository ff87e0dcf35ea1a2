"""How the pictures are drawn: the panels that `figures` chose, as SVG text by Matplotlib.

The style is `drawing.mplstyle` and `drawing.css`: colours are readable on light and
dark pages, and the background follows the reader's preference. A kind of
post-processing has one colour and one marker in all pictures, given in `drawing.toml`.
The same numbers give the same bytes.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.toml import read_typed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

GREY, GREEN, RED = "#8b949e", "#12a150", "#e5484d"
SPARE_PREFIX = "spare "  # what the looks begin with that any further kind takes

# Places on the figure, in points: two decimals are finer than any screen.
COORDINATES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
LONG_FRACTION = re.compile(r"(\d\.\d\d)\d+")

Numbers = Sequence[int | float]


@dataclass(frozen=True)
class Figure:
    """Title, caption and size of a picture, read from `figures.toml`.

    Attributes:
        about: What it shows, for those who do not see it.
        notes: Lines below the title.
        inches: Its height without rows, and for each row of its panel; 0 is the usual
            height.
        heights: The relative heights of its panels.
        sides: The shares of the width at which its panels begin and end.
    """

    title: str
    about: str
    notes: tuple[str, ...]
    inches: tuple[float, float] = (0.0, 0.0)
    heights: tuple[int, ...] = (1,)
    sides: tuple[float, float] = (0.085, 0.97)


@dataclass(frozen=True)
class Series:
    """Points of one kind, in its colour and marker, or in a colour of their own.

    `hint` is shown when a reader points at them.
    """

    kind: str
    x: Numbers
    y: Numbers
    hint: str
    color: str = ""


@dataclass(frozen=True)
class Panel:
    """What a panel plots.

    Attributes:
        axes: What Matplotlib's `Axes.set` takes.
        joined: Whether the points of a series are joined by a line.
        guides: Thin lines, each by its x and y.
        shades: Bounds of bands on both sides of 0; the scale is linear within the
            first.
        rows: The names of rows, on the left.
        row_labels: Texts on the right of the rows.
    """

    series: Sequence[Series]
    axes: Mapping[str, Any] = field(default_factory=dict)
    joined: bool = False
    guides: Sequence[tuple[Numbers, Numbers]] = ()
    shades: Sequence[float] = ()
    rows: Sequence[str] = ()
    row_labels: Sequence[str] = ()


def svg(figure: Figure, panels: Sequence[Panel], about: str = "") -> str:
    """The text of a picture's file; `about` is its description in the metadata."""
    import matplotlib

    with matplotlib.rc_context(fname=Path(__file__).with_suffix(".mplstyle")):
        drawn, axes = laid_out(figure, panels)
        hints = _draw(axes, panels)
        metadata = {
            "Title": figure.title,
            "Description": about,
            "Date": None,
            "Creator": None,
        }
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata=metadata)
    text = COORDINATES.sub(
        lambda place: LONG_FRACTION.sub(r"\1", place[0]), buffer.getvalue()
    )
    rules = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    text = text.replace("</style>", f"{rules}</style>", 1)
    for name, hint in hints.items():
        group = f'<g id="{name}">'
        text = text.replace(
            group, f"{group}<title>{html.escape(hint, quote=False)}</title>", 1
        )
    return text


def laid_out(
    figure: Figure, panels: Sequence[Panel]
) -> tuple[MatplotlibFigure, Sequence[Axes]]:
    """Empty panels below the title and the notes; the edges around them are as wide in all."""
    from matplotlib.figure import Figure as MatplotlibFigure

    drawn = MatplotlibFigure()
    left = drawn.subplotpars.left
    usual_height = drawn.get_figheight()
    height, height_of_row = figure.inches
    drawn.set_figheight(height + height_of_row * len(panels[0].rows) or usual_height)
    # Shares of the height are of the usual one.
    scale = usual_height / drawn.get_figheight()
    drawn.suptitle(figure.title, x=left, y=1 - 0.02 * scale, horizontalalignment="left")
    notes = "\n".join(figure.notes)
    drawn.text(left, 1 - 0.065 * scale, notes, color="#59636e", verticalalignment="top")
    drawn.subplots_adjust(
        bottom=drawn.subplotpars.bottom * scale,
        top=1 - (0.07 + 0.075 * len(figure.notes)) * scale,
    )
    drawn.subplots_adjust(left=figure.sides[0], right=figure.sides[1])
    axes = drawn.subplots(len(panels), height_ratios=figure.heights, squeeze=False)
    return drawn, list(axes.flat)


def _draw(all_axes: Sequence[Axes], panels: Sequence[Panel]) -> dict[str, str]:
    """Draw the panels in their order; returns the hint of each element by its gid."""
    kinds = [
        series.kind for panel in panels for series in panel.series if not series.color
    ]
    looks = looks_of(kinds)
    hints: dict[str, str] = {}
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        _draw_ground(axes, panel)
        for index, series in enumerate(panel.series):
            gid = f"points-{number}-{index}"
            hints[gid] = series.hint
            look = (
                {"color": series.color, "marker": "o"}
                if series.color
                else looks[series.kind]
            )
            line = "-" if panel.joined else ""
            size = 6.5 if panel.joined or panel.rows else None
            axes.plot(series.x, series.y, gid=gid, ls=line, ms=size, zorder=3, **look)
        axes.set(**panel.axes)
        if axes.get_xscale() == "linear" and "xticks" not in panel.axes:
            axes.locator_params("x", integer=True)
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() != "linear":
                axis.set_major_formatter("{x:g}")
                axis.minorticks_off()
    if len(looks) > 1 and not panels[0].rows:
        _draw_legend(all_axes[0], looks)
    return hints


def _draw_legend(axes: Axes, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The kinds with their colours and markers, above a panel."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", label=kind, **look) for kind, look in looks.items()
    ]
    columns = min(7, len(looks))
    axes.legend(
        handles=handles, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.02)
    )


def _draw_ground(axes: Axes, panel: Panel) -> None:
    """Draw the background of a panel: its guides, its shades and the names of its rows."""
    for x, y in panel.guides:
        axes.plot(x, y, marker="", color=GREY, lw=0.8, alpha=0.6, zorder=1)
    for bound, alpha in zip(panel.shades, (0.30, 0.20, 0.12), strict=False):
        axes.axhspan(-bound, bound, color=GREEN, alpha=alpha, lw=0, zorder=0)
    if panel.shades:
        axes.set_yscale("symlog", linthresh=panel.shades[0])
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), labels=panel.rows)
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    for row, label in enumerate(panel.row_labels):
        axes.text(1.02, row, label, transform=axes.get_yaxis_transform(), va="center")


@cache
def known_looks() -> Mapping[str, tuple[str, str]]:
    """The colour and the marker of each kind in `drawing.toml`; spare ones last."""
    return read_typed(dict[str, tuple[str, str]], Path(__file__).with_suffix(".toml"))


def looks_of(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What Matplotlib draws each kind with; those that are not listed take the spare looks."""
    listed = known_looks()
    spare_looks = cycle(
        look for name, look in listed.items() if name.startswith(SPARE_PREFIX)
    )
    looks = {}
    for kind in sorted(set(kinds)):
        color, marker = listed[kind] if kind in listed else next(spare_looks)
        looks[kind] = {"color": color, "marker": marker}
    return looks
