"""Small charts as SVG text: dots, lines, axes, and labels that keep out of each other's way.

The same numbers give the same bytes. Colours are readable on light and dark pages, and the
background follows the reader's preference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 760, 62, 24
LINE, LETTER = 17, 7.1  # pixels: height of a label, and mean width of a letter
COLOURS = ("#2f81f7", "#e8590c", "#12a150", "#c05bd6", "#d4a106", "#0ca5b8", "#e5484d", "#8b949e")
STYLE = """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
text { fill: #1f2328 } .head { font-size: 17px; font-weight: 600 } .quiet { fill: #59636e }
.name { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
.paper { fill: #ffffff } .grid { stroke: #d1d9e0 } .dot { stroke: #ffffff; stroke-width: 1.5 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.edge { fill: none; stroke: #8b949e; stroke-width: 1.5; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .name, .dot { stroke: #0d1117 }
.paper { fill: #0d1117 } .grid { stroke: #2a313c } }
</style>"""

Number = int | float
Point = tuple[Number, Number]
Box = tuple[Number, Number, Number, Number]  # left, top, right, bottom


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its ends, whether it is logarithmic."""

    label: str
    low: Number
    high: Number
    log: bool = False

    @classmethod
    def around(cls, label: str, values: Iterable[Number], log: bool = False) -> Axis:
        """An axis that holds these values with a margin; on a logarithmic one all are above 0."""
        seen = [math.log10(v) if log else v for v in values]
        low, high = min(seen), max(seen)
        margin = (high - low) * 0.08 or (0.3 if log else abs(high) * 0.1 or 1.0)
        low, high = low - margin, high + margin
        return cls(label, 10**low if log else low, 10**high if log else high, log)

    def share(self, value: Number) -> float:
        """The position of a value: 0 at the beginning of the axis, 1 at its end."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)

    def ticks(self) -> list[Number]:
        """Round numbers along the axis."""
        if not self.log:
            raw = (self.high - self.low) / 6
            power = 10 ** math.floor(math.log10(raw))
            step = next(power * n for n in (1, 2, 5, 10) if power * n >= raw)
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            return [round(n * step, 12) for n in range(first, last + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every: list[Number] = [float(f"{n}e{power}") for power in powers for n in (1, 2, 5)]
        inside = [tick for tick in every if self.low <= tick <= self.high]
        return inside if len(inside) < 10 else [t for t in inside if f"{t:e}".startswith("1.0")]


@dataclass(frozen=True)
class Dot:
    """A point of a series, with a label beside it and a title that shows under the pointer."""

    x: Number
    y: Number
    series: str
    label: str = ""
    title: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a series; one of no series is an edge, thin and dashed."""

    points: Sequence[Point]
    series: str = ""


@dataclass(frozen=True)
class Panel:
    """A frame with two axes, lines and dots; the last dots and lines are on top."""

    x: Axis
    y: Axis
    dots: Sequence[Dot] = ()
    lines: Sequence[Line] = ()
    height: int = 330


def svg(title: str, notes: Sequence[str], panels: Sequence[Panel], about: str = "") -> str:
    """The panels under one another. `notes` stand below the title, `about` is for machines."""
    series = [{d.series for d in p.dots} | {d.series for d in p.lines} - {""} for p in panels]
    colours = dict(zip(sorted(set().union(*series)), COLOURS * 9, strict=False))
    parts, top = [_text(LEFT, 30, title, "head")], 50
    for note in notes:
        parts, top = [*parts, _text(LEFT, top, note, "quiet")], top + 19
    if max(map(len, series)) > 1:  # else the axis says it
        x: Number = LEFT
        for name, colour in colours.items():
            parts += [_dot(x + 5, top + 4, colour, 5), _text(x + 15, top + 8.5, name)]
            x += 28 + LETTER * len(name)
        top += 26
    for panel in panels:
        parts += _panel(panel, top, colours)
        top += panel.height + (60 if panel.x.label else 36)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" role="img">\n<title>{escape(title)}</title>\n<desc>{escape(about)}</desc>'
    )
    paper = f'<rect class="paper" width="{WIDTH}" height="{top}" rx="8"/>'
    return "\n".join([head, STYLE, paper, *parts, "</svg>"]) + "\n"


def _panel(panel: Panel, top: int, colours: dict[str, str]) -> list[str]:
    width, bottom, middle = WIDTH - LEFT - RIGHT, top + panel.height, top + panel.height / 2

    def place(x: Number, y: Number) -> Point:
        return LEFT + width * panel.x.share(x), bottom - panel.height * panel.y.share(y)

    parts, taken = [], []
    for tick in panel.y.ticks():
        y = place(panel.x.low, tick)[1]
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y + 4.5, number(tick), "quiet", "end"))
    for tick in panel.x.ticks():
        x = place(tick, panel.y.low)[0]
        parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
        parts.append(_text(x, bottom + 19, number(tick), "quiet", "middle"))
    if panel.x.label:
        parts.append(_text(LEFT + width / 2, bottom + 40, panel.x.label, "", "middle"))
    turned = f' transform="rotate(-90 18 {middle:.1f})"'
    parts.append(_text(18, middle, panel.y.label, "", "middle", turned))
    for line in panel.lines:
        points = [place(*point) for point in line.points]
        look = f'class="line" stroke="{colours[line.series]}"' if line.series else 'class="edge"'
        parts.append(f'<path {look} d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>')
        for (ax, ay), (bx, by) in pairwise(points):
            steps = 1 + int(math.dist((ax, ay), (bx, by)) / 6)
            along = ((ax + (bx - ax) * n / steps, ay + (by - ay) * n / steps) for n in range(steps))
            taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in along]
    centres = [place(dot.x, dot.y) for dot in panel.dots]
    taken += [(x - 7, y - 7, x + 7, y + 7) for x, y in centres]
    names = []
    for dot, (x, y) in zip(panel.dots, centres, strict=True):
        parts.append(_dot(x, y, colours[dot.series], 6, dot.title))
        if dot.label:
            frame = (LEFT + 2, top + 2, WIDTH - RIGHT - 2, bottom - 2)
            box, anchor = _free(x, y, LETTER * len(dot.label), taken, frame)
            taken.append(box)
            side = box[2] if anchor else box[0]
            names.append(_text(side, box[3] - 4, dot.label, "name", anchor))
    return [*parts, *names]


def _free(x: Number, y: Number, width: float, taken: Sequence[Box], frame: Box) -> tuple[Box, str]:
    """The place beside a point where a label covers least, by preference on its right."""
    places: list[tuple[Number, Box, str]] = []
    near = [box for box in taken if abs(box[0] - x) < 2 * width + 20 and abs(box[1] - y) < 70]
    for up in (0, -14, 14, -22, 22, -36, 36):
        for left, anchor in ((x + 10, ""), (x - 10 - width, "end")):
            box = (left, y + up - LINE / 2, left + width, y + up + LINE / 2)
            outside = width * LINE - _shared(box, frame)
            covered = sum(_shared(box, other) for other in near)
            places.append((1000 * outside + covered, box, anchor))
    _, box, anchor = min(places, key=lambda place: place[0])
    return box, anchor


def _shared(a: Box, b: Box) -> Number:
    """The area that two boxes share."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, across) * max(0.0, down)


def _text(x: Number, y: Number, text: str, look: str = "", anchor: str = "", more: str = "") -> str:
    look = f' class="{look}"' if look else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}{anchor}{more}>{escape(text)}</text>'


def _dot(x: Number, y: Number, colour: str, radius: int, title: str = "") -> str:
    inside = f"><title>{escape(title)}</title></circle>" if title else "/>"
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"{inside}'


def number(value: Number) -> str:
    """A tick as people read it: `0.05`, `12,500`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
