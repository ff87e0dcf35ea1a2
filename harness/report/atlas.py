"""The page of atlases: what each choice changes on one encoder, with pictures.

An encoder of the papers' size comes first. The pictures are lines over layers and over k,
and alignment against uniformity of all encoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

from harness.conclusions.atlas import (
    CALIBRATIONS,
    GEOMETRY_TASK,
    Atlas,
    AtlasRow,
    Curve,
    GeometryPoint,
)
from harness.conclusions.folder import Conclusions
from harness.core.digests import digest_of_repr
from harness.core.terminal import signed
from harness.report.pictures import drawn
from harness.report.table import (
    HEADING,
    ShownCell,
    ShownTable,
    rendered,
    row_of,
    table_of,
)
from harness.results.scorings import SEVEN, TASK_LABELS

GEOMETRY_PICTURE = "atlas-geometry.svg"
HEAD = (*TASK_LABELS.values(), "Avg.")
# What a pooling is, in the sentence that tells a reader whose number his is.
POOLINGS_IN_WORDS: Mapping[str, str] = {
    "mean": "the mean of the last layer",
    "last2": "that of the last two",
    "last4": "that of the last four",
    "first-last": "that of layer 1 and the last",
    "static-last": "that of layer 0 and the last",
    "second-last": "that of the second-last",
    "mean-without-special": "that of the last layer without [CLS] and [SEP]",
    "cls": "the last layer's [CLS]",
    "pooler": "the pooler",
    "max": "the maximum over the last layer's tokens",
}


# The page


def atlas_page(folder: Conclusions) -> str:
    """A section for each encoder that has scores over layers or over k."""
    if not folder.atlases:
        return ""
    cells = [cell for atlas in folder.atlases for cell in atlas.cells]
    cells += [(point.method, GEOMETRY_TASK) for point in folder.geometry]
    return rendered(
        "atlas.md",
        title="Atlas of encoders",
        atlases=[
            {
                "encoder": atlas.encoder,
                "whose": _whose(atlas),
                "layers": _layers_table(atlas),
                "poolings": _table(["pooling", *HEAD], atlas.poolings),
                "effects": _effects_table(atlas),
                "curves": [(curve, _curve_table(curve)) for curve in atlas.curves],
                "pictures": {
                    kind: (picture.title, picture.file)
                    for kind, picture in line_pictures(atlas).items()
                },
            }
            for atlas in folder.atlases
        ],
        geometry=[
            [
                f"`{point.method}`",
                f"{point.alignment:.3f}",
                f"{point.uniformity:.3f}",
                f"{point.score:.2f}",
            ]
            for point in folder.geometry
            if point.calibration == CALIBRATIONS[0] and point.method.count(":") == 0
        ],
        geometry_picture=GEOMETRY_PICTURE,
        digest=folder.records.select(cells).digest,
    )


def _whose(atlas: Atlas) -> list[tuple[str, str]]:
    """The score on STS-B of each pooling that has a name in words."""
    by_pooling = {row.label: row for row in atlas.poolings}
    found = []
    for pooling, words in POOLINGS_IN_WORDS.items():
        if pooling in by_pooling:
            value = by_pooling[pooling].values[SEVEN.index("sts-b")]
            if value.mean is not None:
                found.append((f"{value.mean:.2f}", words))
    return found


def _table(head: Sequence[str], rows: Sequence[AtlasRow]) -> ShownTable:
    """Rows of scores, the best of each column in bold type."""
    best = _best(rows)
    return table_of(head, [_scores(row, best) for row in rows])


def _best(rows: Sequence[AtlasRow]) -> list[float]:
    """The best score of each column; nan for a column without any."""
    columns = zip(*(row.values for row in rows), strict=True)
    return [
        max((value.mean for value in column if value.mean is not None), default=nan)
        for column in columns
    ]


def _scores(row: AtlasRow, best: Sequence[float]) -> list[object]:
    """A label and its scores; a score that was not measured has its state."""
    cells: list[object] = [row.label]
    for value, highest in zip(row.values, best, strict=True):
        cells.append(ShownCell(str(value), bold=value.mean == highest))
    return cells


def _layers_table(atlas: Atlas) -> ShownTable | None:
    """The layers of each pooling, below its name."""
    if not atlas.layers:
        return None
    best = _best([row for rows in atlas.layers.values() for row in rows])
    shown = []
    for pooling, rows in atlas.layers.items():
        shown.append(row_of([pooling], HEADING))
        shown += [row_of(_scores(row, best)) for row in rows]
    return table_of(["layer", *HEAD], shown)


def _effects_table(atlas: Atlas) -> ShownTable | None:
    """The differences from each method, below its name."""
    shown = []
    for method, rows in atlas.effects.items():
        shown.append(row_of([f"from `{method}`"], HEADING))
        for row in rows:
            differences = [
                value.state if value.mean is None else signed(value.mean)
                for value in row.values
            ]
            shown.append(row_of([row.label, *differences]))
    return table_of(["choice", *HEAD], shown) if shown else None


def _curve_table(curve: Curve) -> ShownTable:
    """The scores over k, and those of the vectors that nothing was fitted on."""
    rows = list(curve.rows)
    if curve.rows[0].method != curve.plain.method:
        rows.append(AtlasRow("not calibrated", curve.plain.method, curve.plain.values))
    return _table(["k", *HEAD], rows)


# The pictures


@dataclass(frozen=True)
class LinePicture:
    """Average scores as lines.

    Attributes:
        file: Its file in `results/tables`.
        title: What is shown.
        x_label: What is on the horizontal axis.
        lines: By the label of each, its points; a score that is missing is nan.
        levels: By label, scores that do not depend on the horizontal axis.
        ticks: The texts of places on the horizontal axis; empty for numbers.
        records: The digest of the records that the numbers come from.
    """

    file: str
    title: str
    x_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float]
    ticks: Mapping[int, str]
    records: str

    @property
    def made_from(self) -> str:
        """The line of its file by which it is known to be up to date without drawing it."""
        data = digest_of_repr((self.title, self.x_label, self.lines, self.levels))
        return (
            f"Generated by harness report. Records: sha256 {self.records}. "
            f"Data: sha256 {data}"
        )

    def svg(self) -> str:
        """The text of its file."""
        return drawn(self.title, self.made_from, (7.9, 3.9), self._draw)

    def _draw(self, axes: Any) -> None:
        for label, points in self.lines.items():
            axes.plot(*zip(*points, strict=True), "o-", markersize=4, label=label)
        for place, (label, score) in enumerate(self.levels.items()):
            style = ("--", ":", "-.")[place % 3]
            axes.axhline(
                score, color="black", linewidth=1, linestyle=style, label=label
            )
        if self.ticks:
            axes.set_xticks([*self.ticks], labels=[*self.ticks.values()])
        axes.set(
            title=self.title,
            xlabel=self.x_label,
            ylabel="Spearman ×100, mean of seven sets",
        )
        axes.legend(frameon=False)


def line_pictures(atlas: Atlas) -> Mapping[str, LinePicture]:
    """The pictures of an atlas: over layers, over whitening's k and over NATSV's k."""
    records = atlas.results.select(atlas.cells).digest
    pictures = {}
    for kind, title, x_label in (
        ("layers", "Score over layers", "layer"),
        ("whitening", "Whitening", "directions kept, k"),
        ("natsv", "NATSV", "directions removed, k"),
    ):
        ticks: Mapping[int, str] = {}
        levels: dict[str, float] = {}
        if kind == "layers":
            lines = {
                pooling: [
                    (place, nan if row.average is None else row.average)
                    for place, row in enumerate(rows)
                ]
                for pooling, rows in atlas.layers.items()
            }
            for rows in atlas.layers.values():
                ticks = {place: row.label for place, row in enumerate(rows)}
        else:
            curves = [each for each in atlas.curves if f"{kind}:K" in each.post]
            lines = {
                each.method: [
                    (k, nan if row.average is None else row.average)
                    for k, row in zip(each.numbers, each.rows, strict=True)
                ]
                for each in curves
            }
            levels = {
                f"{each.plain.method}, not calibrated": each.plain.average
                for each in curves
                if each.plain.average is not None
            }
        if lines:
            pictures[kind] = LinePicture(
                file=f"atlas-{atlas.encoder}-{kind}.svg",
                title=f"{title}: {atlas.encoder}",
                x_label=x_label,
                lines=lines,
                levels=levels,
                ticks=ticks,
                records=records,
            )
    return pictures


@dataclass(frozen=True)
class GeometryPicture:
    """Alignment against uniformity, with the score as the colour (SimCSE's Figure 3)."""

    points: Sequence[GeometryPoint]
    file: str = GEOMETRY_PICTURE
    title: str = "Alignment against uniformity on STS-B"

    @cached_property
    def made_from(self) -> str:
        """The line of its file by which it is known to be up to date without drawing it."""
        data = digest_of_repr((self.title, self.points))
        return f"Generated by harness report. Data: sha256 {data}"

    def svg(self) -> str:
        """The text of its file."""
        return drawn(self.title, self.made_from, (7.9, 5.0), self._draw)

    def _draw(self, axes: Any) -> None:
        scores = [point.score for point in self.points]
        colours = {"vmin": min(scores), "vmax": max(scores), "cmap": "viridis"}
        for calibration, sign in zip(CALIBRATIONS, "osv^D", strict=True):
            of_kind = [each for each in self.points if each.calibration == calibration]
            drawn_points = axes.scatter(
                [point.uniformity for point in of_kind],
                [point.alignment for point in of_kind],
                c=[point.score for point in of_kind],
                marker=sign,
                label=calibration,
                **colours,
            )
        axes.figure.colorbar(drawn_points, label="Spearman ×100 on STS-B")
        axes.set(
            title=self.title,
            xlabel="uniformity (lower is more uniform)",
            ylabel="alignment (lower is closer)",
        )
        for sign in axes.legend(frameon=False).legend_handles:
            sign.set_array(None)  # a colour is a score, and no calibration's
            sign.set_color("black")


def atlas_pictures(folder: Conclusions) -> Iterable[LinePicture | GeometryPicture]:
    """Every picture of the page."""
    for atlas in folder.atlases:
        yield from line_pictures(atlas).values()
    if folder.atlases and folder.geometry:
        yield GeometryPicture(folder.geometry)
