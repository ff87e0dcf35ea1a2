"""Charts as SVG text, drawn by Matplotlib in the style of `charts.mplstyle` and `charts.css`.

The same numbers give the same bytes. Colours are readable on light and dark pages, and the
background follows the reader's preference.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import BboxBase

STYLE = Path(__file__).with_suffix(".mplstyle")
CSS = Path(__file__).with_suffix(".css")

# Places on the figure, in points: two decimals are finer than any screen.
PLACED = re.compile(r' (?:d|x|y|transform)="[^"]*"')
FINER = re.compile(r"(\d\.\d\d)\d+")

Point = tuple[int | float, int | float]
# Where a label may stand beside its point, by preference.
PLACES: Sequence[Point] = [
    (8, 0),
    *((x, y) for y in (12, -12, 20, -20, 0, 32, -32) for x in (8, -8)),
]


def style() -> AbstractContextManager[None]:
    """The context in which a chart is made and written, whatever the user's own style is."""
    import matplotlib

    return matplotlib.rc_context(fname=STYLE)


def panels(
    title: str,
    notes: Sequence[str],
    heights: Sequence[int],
    inches: float = 0.0,
    columns: int = 1,
    sides: tuple[float, float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure with rows of panels, by their relative heights; notes below its title.

    It is `inches` tall, or as the style has it; the edges above and below the panels are as wide
    in both. `sides` are the shares of the width at which panels begin and end.
    """
    from matplotlib.figure import Figure

    figure = Figure()
    usual, left = figure.get_figheight(), figure.subplotpars.left
    figure.set_figheight(inches or usual)
    edges = usual / figure.get_figheight()
    figure.suptitle(title, x=left, y=1 - 0.02 * edges, horizontalalignment="left")
    under = 1 - 0.065 * edges
    figure.text(left, under, "\n".join(notes), color="#59636e", verticalalignment="top")
    below = figure.subplotpars.bottom * edges
    figure.subplots_adjust(bottom=below, top=1 - (0.07 + 0.075 * len(notes)) * edges)
    if sides:
        figure.subplots_adjust(left=sides[0], right=sides[1])
    axes = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False)
    return figure, list(axes.flat)


def write_labels(axes: Axes, labels: Sequence[tuple[str, Point]]) -> None:
    """Write each label beside its point, inside the panel and over few earlier labels."""
    axes.autoscale_view()
    taken: list[BboxBase] = []
    for text, point in labels:
        label = axes.annotate(text, point, (0, 0), "data", "offset points")
        label.set_verticalalignment("center")
        boxes = {place: _moved(label, place) for place in PLACES}
        cost = {
            place: (4 - axes.bbox.count_contains(box.corners()), box.count_overlaps(taken))
            for place, box in boxes.items()
        }
        taken.append(_moved(label, min(PLACES, key=cost.__getitem__)))


def _moved(label: Annotation, place: Point) -> BboxBase:
    """The box of a label at a place beside its point."""
    label.set_position(place)
    label.set_horizontalalignment("left" if place[0] > 0 else "right")
    return label.get_window_extent().padded(2)


def svg(figure: Figure, hints: Mapping[str, str], about: str = "") -> str:
    """The text of a figure. A hint shows over what has its name as gid; `about` is for machines."""
    buffer, title = io.StringIO(), figure.get_suptitle()
    metadata = {"Title": title, "Description": about, "Date": None, "Creator": None}
    figure.savefig(buffer, format="svg", metadata=metadata)
    text = PLACED.sub(lambda place: FINER.sub(r"\1", place[0]), buffer.getvalue())
    text = text.replace("</style>", f"{CSS.read_text('utf-8')}</style>", 1)
    for name, hint in hints.items():
        group = f'<g id="{name}">'
        text = text.replace(group, f"{group}<title>{escape(hint)}</title>", 1)
    return text
