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
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.path import Path as Outline
    from matplotlib.text import Annotation
    from matplotlib.transforms import BboxBase

STYLE = Path(__file__).with_suffix(".mplstyle")
CSS = Path(__file__).with_suffix(".css")

STYLED = re.compile(r'style="([^"]*)"')  # of an element
SELECTOR = re.compile(r'\[style\*="([^"]*)"\]')  # in CSS, of elements whose style has a part
# Places on the figure, in points: two decimals are finer than any screen.
PLACED = re.compile(r' (?:d|x|y|transform)="[^"]*"')
FINER = re.compile(r"(\d\.\d\d)\d+")

Point = tuple[int | float, int | float]
# Where a label may stand beside its point, by preference.
PLACES: Sequence[Point] = [(x, y) for y in (0, -10, 10, -16, 16, -26, 26) for x in (8, -8)]


def style() -> AbstractContextManager[None]:
    """The context in which a chart is made and written, whatever the user's own style is."""
    import matplotlib

    return matplotlib.rc_context(fname=STYLE)


def panels(
    title: str,
    notes: Sequence[str],
    heights: Sequence[int],
    inches: float | None = None,
    columns: int = 1,
) -> tuple[Figure, list[Axes]]:
    """A figure with rows of panels, by their relative heights; notes below its title.

    It is `inches` tall, or as the style has it; the edges around the panels are as wide in both.
    """
    from matplotlib.figure import Figure

    figure = Figure()
    usual = figure.get_figheight()
    figure.set_figheight(inches or usual)
    edges, left = usual / figure.get_figheight(), figure.subplotpars.left
    figure.suptitle(title, x=left, y=1 - 0.02 * edges, horizontalalignment="left")
    under = 1 - 0.065 * edges
    figure.text(left, under, "\n".join(notes), color="#59636e", verticalalignment="top")
    below = figure.subplotpars.bottom * edges
    figure.subplots_adjust(bottom=below, top=1 - (0.07 + 0.075 * len(notes)) * edges)
    axes = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False)
    return figure, list(axes.flat)


def write_labels(axes: Axes, labels: Mapping[str, Point]) -> None:
    """Write each label beside its point, where it covers fewest points, lines and labels."""
    axes.autoscale_view()
    shapes: list[Line2D | Patch] = [*axes.lines, *axes.patches]
    drawn = [shape.get_path().transformed(shape.get_transform()) for shape in shapes]
    taken: list[BboxBase] = []
    for text, point in labels.items():
        label = axes.annotate(text, point, (0, 0), "data", "offset points")
        label.set_verticalalignment("center")
        covered = {
            place: _covered(_moved(label, place), axes.bbox, drawn, taken) for place in PLACES
        }
        taken.append(_moved(label, min(PLACES, key=covered.__getitem__)))


def _moved(label: Annotation, place: Point) -> BboxBase:
    """The box of a label at a place beside its point."""
    label.set_position(place)
    label.set_horizontalalignment("left" if place[0] > 0 else "right")
    return label.get_window_extent().padded(2)


def _covered(
    box: BboxBase, frame: BboxBase, drawn: Sequence[Outline], taken: Sequence[BboxBase]
) -> int:
    """How much a label in a box would cover; most of all counts a corner outside the frame."""
    outside = 4 - frame.count_contains(box.corners())
    points = sum(box.padded(3).count_contains(path.vertices) for path in drawn)
    lines = sum(path.intersects_bbox(box.frozen(), filled=False) for path in drawn)
    return int(100 * outside + points + lines + box.count_overlaps(taken))


def legend(panels: Sequence[Axes], labels: Sequence[str]) -> None:
    """A legend above the first panel for the lines with these labels, in whichever panel."""
    axes = panels[0]
    shown = {line.get_label(): line for panel in panels for line in panel.lines}
    handles = [shown[label] for label in labels]
    columns = min(7, len(labels))
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.02), ncols=columns)


def pdf(figure: Figure) -> bytes:
    """A figure as a PDF without a date."""
    buffer = io.BytesIO()
    metadata = {"Title": figure.get_suptitle(), "CreationDate": None, "Creator": None}
    figure.savefig(buffer, format="pdf", metadata=metadata)
    return buffer.getvalue()


def svg(figure: Figure, hints: Mapping[str, str], about: str = "") -> str:
    """The text of a figure. A hint shows over what has its name as gid; `about` is for machines."""
    buffer, title = io.StringIO(), figure.get_suptitle()
    metadata = {"Title": title, "Description": about, "Date": None, "Creator": None}
    figure.savefig(buffer, format="svg", metadata=metadata)
    text = _styled(PLACED.sub(lambda found: FINER.sub(r"\1", found[0]), buffer.getvalue()))
    for name, hint in hints.items():
        group = f'<g id="{name}">'
        text = text.replace(group, f"{group}<title>{escape(hint)}</title>", 1)
    return text


def _styled(text: str) -> str:
    """The text with a class for each style of its elements, stated once, and the rules of CSS.

    Some thousand elements share a few dozen styles, which were half of a file.
    """
    names = {style: f"s{n}" for n, style in enumerate(dict.fromkeys(STYLED.findall(text)))}
    classes = "".join(f".{name} {{ {style} }}\n" for style, name in names.items())

    def having(found: re.Match[str]) -> str:
        return ", ".join(f".{name}" for style, name in names.items() if found[1] in style) or ".s"

    rules = SELECTOR.sub(having, CSS.read_text("utf-8"))
    text = STYLED.sub(lambda found: f'class="{names[found[1]]}"', text)
    return text.replace("</style>", f"{classes}{rules}</style>", 1)
