"""How the pictures are drawn: Matplotlib's panels from the numbers that `figures` chose.

A kind of post-processing has one colour and one marker in all pictures, given in `drawing.toml`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from harness.core import charts
from harness.core.metrics.word_frequency import RANGES
from harness.core.toml import read_typed
from harness.report.sentences import signed
from harness.results.reproduction import frontier, post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY, GREEN, RED, DARK_GREY = "#8b949e", "#12a150", "#e5484d", "#6e7781"
GOLD = "gold"  # the kind of gold scores
AS_ENCODED = post_processing("")

Numbers = Sequence[int | float]
Hints = dict[str, str]  # what shows over an element, by its gid


@dataclass(frozen=True)
class Series:
    """Points of one kind, in its colour and marker.

    `label` stands beside the last point; `band` holds the lower and the upper edge of an area.
    """

    kind: str
    x: Numbers
    y: Numbers
    hint: str
    label: str = ""
    band: tuple[Numbers, Numbers] | None = None


Panels = Mapping[str, Sequence[Series]]


def draw_published(panels: Sequence[Axes], data: tuple[Sequence[Series], Sequence[float]]) -> Hints:
    """Published numbers against measured ones; below, differences in the bands of the verdicts."""
    (above, below), (points, bounds) = panels, data
    looks = looks_of(one.kind for one in points)
    ends = [edge(v for one in points for v in (*one.x, *one.y)) for edge in (min, max)]
    above.plot(ends, ends, marker="", color=GREY, ls="--", zorder=1)
    for bound, shade in zip(bounds, (0.30, 0.20, 0.12), strict=True):
        below.axhspan(-bound, bound, color=GREEN, alpha=shade, lw=0, zorder=0)
    differences = [replace(one, y=[one.y[0] - one.x[0]]) for one in points]
    hints = _plot(above, points, looks, "dot-0", ls="", clip_on=False)
    hints |= _plot(below, differences, looks, "dot-1", ls="", clip_on=False)
    below.set_yscale("symlog", linthresh=bounds[0])
    furthest = max(1.0, *(abs(one.y[0]) * 1.5 for one in differences))
    below.set(ylim=(-furthest, furthest), xlim=above.get_xlim(), xlabel="published, points")
    below.set_yticks(sorted([0, *bounds, *(-bound for bound in bounds)]))
    below.yaxis.set_major_formatter("{x:g}")
    below.minorticks_off()
    above.set_ylabel("measured, points")
    below.set_ylabel("difference")
    charts.legend([above], list(looks))
    return hints


def draw_steps(panels: Sequence[Axes], bars: Sequence[tuple[str, float]]) -> Hints:
    """A mark for each score, and a bar from the score before."""
    (axes,) = panels
    axes.figure.subplots_adjust(left=0.36, bottom=0.17)
    values = [value for _, value in bars]
    room = 0.25 * (max(values) - min(values)) or 1.0
    hints = {}
    for place, (what, value) in enumerate(bars):
        before = values[max(0, place - 1)]
        gid, text = f"step-{place}", f"{value:.2f}"
        hints[gid] = f"{what}: {text}"
        if place:
            moved = value - before
            color = GREEN if moved > 0 else RED
            axes.barh(place, moved, left=before, height=0.55, color=color, zorder=2)
            ends = [before, before], [place - 1, place]
            axes.plot(*ends, marker="", color=DARK_GREY, lw=1, zorder=1)
            text += f" ({signed(moved)})"
        axes.plot(value, place, marker="|", ms=16, mew=2.5, mec=DARK_GREY, ls="", gid=gid)
        axes.annotate(text, (max(value, before), place), (8, 0), "data", "offset points")
        axes.texts[-1].set_verticalalignment("center")
    axes.set_yticks(range(len(bars)), labels=[what for what, _ in bars])
    axes.invert_yaxis()
    axes.set(xlim=(min(values) - room, max(values) + 2 * room), xlabel="points")
    return hints


def draw_directions(panels: Sequence[Axes], data: Panels) -> Hints:
    """Differences by the number of directions, a panel a post-processor."""
    from matplotlib.ticker import MaxNLocator

    looks = looks_of(data)
    hints: Hints = {}
    for axes, (post, series) in zip(panels, data.items(), strict=True):
        axes.axhline(0, color=GREY, ls="--", zorder=1)
        hints |= _plot(axes, series, looks, f"line-{post}", ms=6.5)
        axes.set(ylabel=f"+{post}: difference", xlabel="k" if axes is panels[-1] else "")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _write_labels(axes, series)
    return hints


def draw_seeds(panels: Sequence[Axes], data: Mapping[str, Sequence[float]]) -> Hints:
    """A line of points a method, their mean, and on the right their number and deviation."""
    (axes,) = panels
    axes.figure.subplots_adjust(left=0.44, right=0.86)
    looks = looks_of(map(post_processing, data))
    hints: Hints = {}
    for place, (method, scores) in enumerate(data.items()):
        hint = f"{method}: {', '.join(f'{score:.2f}' for score in scores)}"
        series = Series(post_processing(method), scores, [place] * len(scores), hint)
        bar = [fmean(scores)] * 2, [place - 0.32, place + 0.32]
        axes.plot(*bar, marker="", color=GREY, zorder=1)
        hints |= _plot(axes, [series], looks, "seeds", first=place, ls="", ms=6, alpha=0.85)
        right = (1.02, place)
        text = f"{len(scores)}: {stdev(scores):.2f}"
        axes.annotate(text, right, xycoords=axes.get_yaxis_transform())
        axes.texts[-1].set_verticalalignment("center")
    axes.set_yticks(range(len(data)), labels=list(data))
    axes.set(xlabel="points", ylim=(-0.7, len(data) - 0.3))
    return hints


def draw_alignment(panels: Sequence[Axes], data: Mapping[tuple[str, str], Series]) -> Hints:
    """Methods at their uniformity and alignment, joined to the encoder as it is."""
    (axes,) = panels
    series = list(data.values())
    looks = looks_of(one.kind for one in series)
    hints = _plot(axes, series, looks, "method", ls="", zorder=3)
    axes.set(xlabel="uniformity", ylabel="alignment")
    charts.legend([axes], list(looks))
    _write_labels(axes, series)
    for (encoder, _), one in data.items():
        if plain := data.get((encoder, AS_ENCODED)):
            ends = [*plain.x, *one.x], [*plain.y, *one.y]
            axes.plot(*ends, marker="", color=GREY, lw=0.7, alpha=0.6, zorder=1)
    return hints


LEAST = 0.01  # percent: what is below leaves the frame


def draw_spectrum(panels: Sequence[Axes], data: Panels) -> Hints:
    """Eigenvalues by their place, a panel an encoder."""
    hints = _plot_panels(panels, data, "spectrum")
    low = min(v for every in data.values() for one in every for v in one.y if v >= LEAST) / 2
    for axes, plain in zip(panels, data, strict=True):
        axes.set(xscale="log", yscale="log", ylabel=f"{plain}: %", ylim=(low, 200))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    panels[-1].set_xlabel("place of the eigenvalue")
    return hints


def draw_distance(panels: Sequence[Axes], data: Panels) -> Hints:
    """Medians by edit distance with their bands, a panel for gold and one an encoder."""
    hints = _plot_panels(panels, data, "distance")
    for axes, plain in zip(panels, data, strict=True):
        axes.set_ylabel(GOLD if plain == GOLD else f"{plain}: cosine x100")
    panels[-1].set_xlabel("edit distance, tokens")
    return hints


MARGIN = 0.03  # above the largest ratio and below the least


def draw_words(panels: Sequence[Axes], data: Mapping[str, Panels]) -> Hints:
    """Ratios by ranges of ranks: a row of panels an encoder, a column a statistic."""
    every = [one for row in data.values() for series in row.values() for one in series]
    looks = looks_of(one.kind for one in every)
    ratios = [ratio for one in every for ratio in one.y]
    hints: Hints = {}
    left = iter(panels)
    for label, row in data.items():
        for column, (statistic, series) in enumerate(row.items()):
            axes = next(left)
            axes.axhline(1, color=GREY, ls="--", zorder=1)
            hints |= _plot(axes, series, looks, f"words-{label.split()[0]}-{column}", ms=6)
            # As all panels: a flat line looks flat.
            axes.set_ylim(min(ratios) - MARGIN, max(ratios) + MARGIN)
            axes.set_xticks(range(len(RANGES) - 1), labels=list(RANGES)[1:])
            axes.set_ylabel("" if column else label)
            axes.set_xlabel(f"{statistic}, by rank" if row is [*data.values()][-1] else "")
    charts.legend(panels, list(looks))
    return hints


def draw_cost(panels: Sequence[Axes], data: Sequence[Series]) -> Hints:
    """Averages against costs, and the frontier of what nothing beats in both."""
    from matplotlib.ticker import LogLocator

    (axes,) = panels
    axes.set(xscale="log", xlabel="milliseconds a sentence", ylabel="average of seven STS tasks")
    looks = looks_of(one.kind for one in data)
    hints = _plot(axes, data, looks, "dot", ls="")
    for n, line in enumerate(axes.lines):
        line.set_zorder(3 - n / len(data))  # the best are drawn over the others
    costs, scores = zip(*frontier([(one.x[0], one.y[0]) for one in data]), strict=True)
    charts.legend([axes], list(looks))
    axes.stairs(scores, [*costs, costs[-1]], baseline=None, color=GREY, ls="--")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    _write_labels(axes, data)
    return hints


def _plot(
    axes: Axes, every: Sequence[Series], looks: Looks, name: str, first: int = 0, **style: Any
) -> Hints:
    """Plot each series with the look of its kind; returns the hints."""
    hints = {}
    for number, series in enumerate(every, start=first):
        look, gid = looks[series.kind], f"{name}-{number}"
        if series.band:
            lower, upper = series.band
            axes.fill_between(
                series.x, lower, upper, color=look["color"], alpha=0.15, lw=0, zorder=0
            )
        axes.plot(series.x, series.y, label=series.kind, gid=gid, **style, **look)
        hints[gid] = series.hint
    return hints


def _plot_panels(panels: Sequence[Axes], data: Panels, name: str) -> Hints:
    """Plot the series of each panel, with one legend for all."""
    looks = looks_of(one.kind for series in data.values() for one in series if one.kind != GOLD)
    hints: Hints = {}
    for row, (axes, series) in enumerate(zip(panels, data.values(), strict=True)):
        hints |= _plot(axes, series, looks | {GOLD: {"color": GREY}}, f"{name}-{row}", ms=5)
    charts.legend(panels, list(looks))
    return hints


def _write_labels(axes: Axes, every: Iterable[Series]) -> None:
    charts.write_labels(axes, {one.label: (one.x[-1], one.y[-1]) for one in every if one.label})


Looks = dict[str, dict[str, Any]]  # the colour and marker of each kind, as Matplotlib takes them


@dataclass(frozen=True)
class Look:
    """The colour and marker of a kind of post-processing."""

    name: str
    color: str
    marker: str


@dataclass(frozen=True)
class Kinds:
    """The looks of known kinds, and those that are left for others."""

    looks: tuple[Look, ...]
    spares: tuple[Look, ...]


@cache
def known_kinds() -> Kinds:
    """The looks of `drawing.toml`."""
    return read_typed(Kinds, Path(__file__).with_suffix(".toml"))


def looks_of(kinds: Iterable[str]) -> Looks:
    """What Matplotlib draws each kind with.

    A kind that is not listed takes the spare that the digest of its name points to, or the next
    that is free: another kind beside it changes that only where both point to one. Beyond the
    spares, looks repeat.
    """
    listed, spares = {look.name: look for look in known_kinds().looks}, known_kinds().spares
    looks: dict[str, Look] = {}
    for kind in sorted(set(kinds)):
        first = int(hashlib.sha256(kind.encode()).hexdigest(), 16) % len(spares)
        ordered = [*spares[first:], *spares[:first]]
        free = (look for look in ordered if look not in looks.values())
        looks[kind] = listed.get(kind) or next(free, ordered[0])
    return {kind: {"color": look.color, "marker": look.marker} for kind, look in looks.items()}
