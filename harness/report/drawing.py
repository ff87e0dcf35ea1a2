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
SHADE_ALPHAS = (0.30, 0.20, 0.12)  # of the bands, from the innermost
# The beginning of the names of looks that are for kinds without a look of their own.
SPARE_PREFIX = "spare "

# Coordinates on the figure, in points: two decimals are finer than any screen.
COORDINATES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
LONG_FRACTION = re.compile(r"(\d\.\d\d)\d+")

Numbers = Sequence[int | float]


@dataclass(frozen=True)
class Figure:
    """Title, caption and size of a picture, read from `figures.toml`.

    Attributes:
        title: Its title.
        about: A description for those who do not see it.
        notes: Lines below the title.
        inches: The height of a picture without rows, and what each row of its panel adds;
            two zeros are the usual height.
        heights: The relative heights of its panels.
        sides: The left and the right edge of its panels, as shares of the width.
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
    """The content of a panel.

    Attributes:
        series: Its points.
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


def svg(figure: Figure, panels: Sequence[Panel], description: str = "") -> str:
    """The text of a picture's file.

    Args:
        figure: Its words and sizes.
        panels: What it shows.
        description: Its description in the metadata.
    """
    import matplotlib

    with matplotlib.rc_context(fname=Path(__file__).with_suffix(".mplstyle")):
        picture, axes = lay_out(figure, panels)
        hints = _draw(axes, panels)
        metadata = {
            "Title": figure.title,
            "Description": description,
            "Date": None,
            "Creator": None,
        }
        buffer = io.StringIO()
        picture.savefig(buffer, format="svg", metadata=metadata)
    text = COORDINATES.sub(_with_two_decimals, buffer.getvalue())
    style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    text = text.replace("</style>", f"{style}</style>", 1)
    for gid, hint in hints.items():
        group = f'<g id="{gid}">'
        title = f"<title>{html.escape(hint, quote=False)}</title>"
        text = text.replace(group, f"{group}{title}", 1)
    return text


def _with_two_decimals(coordinates: re.Match[str]) -> str:
    """An attribute with coordinates, each cut after two decimals."""
    return LONG_FRACTION.sub(r"\1", coordinates[0])


def lay_out(
    figure: Figure, panels: Sequence[Panel]
) -> tuple[MatplotlibFigure, Sequence[Axes]]:
    """Empty panels below the title and the notes; the edges around them are as wide in all."""
    from matplotlib.figure import Figure as MatplotlibFigure

    picture = MatplotlibFigure()
    left = picture.subplotpars.left
    usual_height = picture.get_figheight()
    height_without_rows, height_of_row = figure.inches
    height = height_without_rows + height_of_row * len(panels[0].rows)
    picture.set_figheight(height or usual_height)
    # The shares of the height below are of the usual height.
    scale = usual_height / picture.get_figheight()
    title_y = 1 - 0.02 * scale
    picture.suptitle(figure.title, x=left, y=title_y, horizontalalignment="left")
    notes = "\n".join(figure.notes)
    notes_y = 1 - 0.065 * scale
    picture.text(left, notes_y, notes, color="#59636e", verticalalignment="top")
    picture.subplots_adjust(
        bottom=picture.subplotpars.bottom * scale,
        top=1 - (0.07 + 0.075 * len(figure.notes)) * scale,
    )
    left_edge, right_edge = figure.sides
    picture.subplots_adjust(left=left_edge, right=right_edge)
    axes = picture.subplots(len(panels), height_ratios=figure.heights, squeeze=False)
    return picture, list(axes.flat)


def _draw(all_axes: Sequence[Axes], panels: Sequence[Panel]) -> dict[str, str]:
    """Draw the panels in their order; returns the hint of each element by its gid."""
    kinds: list[str] = []
    for panel in panels:
        kinds += [series.kind for series in panel.series if not series.color]
    looks = looks_of(kinds)
    hints: dict[str, str] = {}
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        _draw_background(axes, panel)
        for index, series in enumerate(panel.series):
            gid = f"points-{number}-{index}"
            hints[gid] = series.hint
            look: Mapping[str, Any] = {"color": series.color, "marker": "o"}
            if not series.color:
                look = looks[series.kind]
            _draw_series(axes, panel, series, gid, look)
        _set_axes(axes, panel)
    if len(looks) > 1 and not panels[0].rows:
        _draw_legend(all_axes[0], looks)
    return hints


def _draw_series(
    axes: Axes, panel: Panel, series: Series, gid: str, look: Mapping[str, Any]
) -> None:
    """Draw points in their colour and marker, joined by a line where the panel says so."""
    axes.plot(
        series.x,
        series.y,
        gid=gid,
        linestyle="-" if panel.joined else "",
        markersize=6.5 if panel.joined or panel.rows else None,
        zorder=3,
        **look,
    )


def _set_axes(axes: Axes, panel: Panel) -> None:
    """Set labels, limits and ticks; ticks of a logarithmic axis are plain numbers."""
    axes.set(**panel.axes)
    if axes.get_xscale() == "linear" and "xticks" not in panel.axes:
        axes.locator_params("x", integer=True)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() != "linear":
            axis.set_major_formatter("{x:g}")
            axis.minorticks_off()


def _draw_legend(axes: Axes, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The kinds with their colours and markers, above a panel."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", label=kind, **look) for kind, look in looks.items()
    ]
    columns = min(7, len(looks))
    axes.legend(
        handles=handles, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.02)
    )


def _draw_background(axes: Axes, panel: Panel) -> None:
    """Draw the background of a panel: its guides, its shades and the names of its rows."""
    for x, y in panel.guides:
        axes.plot(x, y, marker="", color=GREY, linewidth=0.8, alpha=0.6, zorder=1)
    for bound, alpha in zip(panel.shades, SHADE_ALPHAS, strict=False):
        axes.axhspan(-bound, bound, color=GREEN, alpha=alpha, linewidth=0, zorder=0)
    if panel.shades:
        axes.set_yscale("symlog", linthresh=panel.shades[0])
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), labels=panel.rows)
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    for row, label in enumerate(panel.row_labels):
        axes.text(1.02, row, label, transform=axes.get_yaxis_transform(), va="center")


@cache
def listed_looks() -> Mapping[str, tuple[str, str]]:
    """The colour and the marker of each kind in `drawing.toml`; the spare looks come last."""
    return read_typed(dict[str, tuple[str, str]], Path(__file__).with_suffix(".toml"))


def looks_of(kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The colour and the marker of each kind, as Matplotlib's `plot` takes them.

    A kind that is not in `drawing.toml` takes the next spare look.
    """
    look_by_kind = listed_looks()
    spare_looks = cycle(
        look for name, look in look_by_kind.items() if name.startswith(SPARE_PREFIX)
    )
    looks = {}
    for kind in sorted(set(kinds)):
        if kind in look_by_kind:
            color, marker = look_by_kind[kind]
        else:
            color, marker = next(spare_looks)
        looks[kind] = {"color": color, "marker": marker}
    return looks
