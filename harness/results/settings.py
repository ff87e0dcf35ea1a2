"""What a published number depends on, and the numbers that readers report for it.

A `Setting` has the choices that a published number depends on. Two published numbers of
one encoder are compared by the choices in which their settings differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.errors import UsageError
from harness.core.metrics.similarity import CORRELATION_SCORES, COSINE
from harness.registry import Registry
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell, Table
from harness.results.published_tables import published_cell

# The choice of a setting that holds the kinds of post-processing, `flow` or
# `sn+whitening`. It is known for every row, also without a method that reproduces it.
CALIBRATION = "calibration"


@dataclass(frozen=True)
class Setting:
    """Everything that a published number depends on, by the names of a protocol's choices.

    A `Protocol` belongs to a method here on one task. A setting belongs to any published
    number, also to an average, or of a row that no method here reproduces.

    Attributes:
        encoder: The encoder's name here; empty where no method here reproduces the row.
        start: The checkpoint of the encoder, or from which it was trained.
        training: The data that it was trained on.
        tasks: The task without text form and split, or the tasks of an average.
        choices: The choices by their names in `Protocol`, and the kinds of
            post-processing under `calibration`. An unknown choice is empty.
    """

    encoder: str
    start: str
    training: str
    tasks: tuple[str, ...]
    choices: Mapping[str, str]

    @classmethod
    def from_cell(cls, cell: PublishedCell, registry: Registry) -> Setting:
        """The setting of a published number."""
        similarity, correlation = CORRELATION_SCORES.get(
            cell.metric, (COSINE, cell.metric)
        )
        choices = {"metric": correlation, "aggregation": _aggregation(cell)}
        if similarity != COSINE:
            choices["scored_by"] = similarity
        encoder = ""
        protocols = protocols_of(cell, registry)
        if protocols:
            # The protocols of an average differ in their tasks, and may differ in text
            # form and split, but in no other choice.
            encoder = protocols[0].encoder
            for name in ("pooling", "post", "fit_on", "max_length", "scored_by"):
                choices[name] = getattr(protocols[0], name) or "none"
            for name in ("text", "split"):
                choices[name] = _common(protocols, name)
        elif cell.row.fit != "none":
            choices["fit_on"] = cell.row.fit
        choices[CALIBRATION] = _calibration(cell, registry)
        return cls(
            encoder=encoder,
            start=_start(cell),
            training=f"{cell.row.supervision}, {cell.row.trained_on or ''}",
            tasks=tuple(task.partition(".")[0] for task in cell.tasks),
            choices=choices,
        )

    def differences(self, other: Setting) -> dict[str, str]:
        """The other setting's choices that differ from these, where both are known."""
        differences = {}
        for name, choice in other.choices.items():
            own_choice = self.choices.get(name)
            if own_choice and choice and choice != own_choice:
                differences[name] = choice
        # Other kinds of post-processing are one difference, under the name `post`.
        calibration = differences.pop(CALIBRATION, None)
        if calibration is not None:
            differences.setdefault("post", calibration)
        return differences


def _calibration(cell: PublishedCell, registry: Registry) -> str:
    """The kinds of post-processing in the name of a method or row; `none` where there are none."""
    text = cell.row.label
    if cell.method:
        text = cell.method.partition("@")[0].partition("+")[2]
    words = set(re.findall(r"[a-z]+", text.lower()))
    return "+".join(sorted(words & registry.posts.keys())) or "none"


def _aggregation(cell: PublishedCell) -> str:
    """The aggregation of the subsets; empty where no task of the number has subsets."""
    has_subsets = any(re.match(r"sts1\d", task) for task in cell.tasks)
    return str(cell.aggregation or "") if has_subsets else ""


def _common(protocols: Sequence[Protocol], name: str) -> str:
    """The choice of this name that all protocols share; empty where they differ."""
    values = {getattr(protocol, name) for protocol in protocols}
    return values.pop() if len(values) == 1 else ""


def _start(cell: PublishedCell) -> str:
    """The checkpoint's name without organisation, revision and remarks: `bert-base-uncased`."""
    name = cell.row.backbone.partition(" (")[0].partition("@")[0]
    return name.rpartition("/")[2].lower()


@dataclass(frozen=True)
class PublishedNumber:
    """A published number with its setting, which is worked out once."""

    cell: PublishedCell
    setting: Setting

    def is_of_encoder(self, other: PublishedNumber) -> bool:
        """Whether two published numbers are of one encoder, as far as the rows state it."""
        if self.cell.method and other.cell.method:
            return self.setting.encoder == other.setting.encoder
        return self.is_of_recipe(other)

    def is_of_recipe(self, other: PublishedNumber) -> bool:
        """Whether two numbers are of encoders with the same start and training data."""
        same_start = self.setting.start == other.setting.start
        return same_start and self.setting.training == other.setting.training


def published_numbers(
    tables: Iterable[Table], registry: Registry
) -> dict[str, PublishedNumber]:
    """Every published score with its setting, by its id."""
    numbers = {}
    for table in tables:
        for cell in table.cells:
            if cell.points is not None:
                setting = Setting.from_cell(cell, registry)
                numbers[cell.id] = PublishedNumber(cell=cell, setting=setting)
    return numbers


# Choices that are made by accident, the most frequent first.
ACCIDENTAL_CHOICES = (
    "aggregation",
    "split",
    "metric",
    "pooling",
    "text",
    "scored_by",
    "max_length",
)


def accident_rank(choice: str) -> int:
    """The index of a choice in `ACCIDENTAL_CHOICES`; one more than the last for any other."""
    if choice in ACCIDENTAL_CHOICES:
        return ACCIDENTAL_CHOICES.index(choice)
    return len(ACCIDENTAL_CHOICES)


NEIGHBOURS_SHOWN = 8  # published numbers that differ in one choice


class PublishedNeighbour(NamedTuple):
    """Another published number, and the one choice in which it differs."""

    changes: Mapping[str, str]
    number: PublishedNumber


def published_neighbours(
    number: PublishedNumber, published_numbers: Mapping[str, PublishedNumber]
) -> list[PublishedNeighbour]:
    """Other published numbers of the encoder on the same tasks that differ in one choice.

    They are in the order of `ACCIDENTAL_CHOICES`, with other choices last. Of equal
    numbers with the same change, the first is taken.
    """
    # By the changed choice, its value and the score.
    neighbours: dict[tuple[str, str, float], PublishedNeighbour] = {}
    for candidate in published_numbers.values():
        is_score = candidate.cell.row.statistic == "score"
        same_tasks = candidate.setting.tasks == number.setting.tasks
        if candidate is number or not is_score or not same_tasks:
            continue
        if not candidate.is_of_encoder(number):
            continue
        changes = number.setting.differences(candidate.setting)
        if len(changes) != 1:
            continue
        [(choice, value)] = changes.items()
        key = (choice, value, candidate.cell.score)
        neighbours.setdefault(key, PublishedNeighbour(changes, candidate))
    keys_in_order = sorted(neighbours, key=lambda key: accident_rank(key[0]))
    return [neighbours[key] for key in keys_in_order[:NEIGHBOURS_SHOWN]]


# A reader's numbers

# Points by which the same score may differ after different rounding.
ROUNDING_DIFFERENCE = 0.011
COLUMN_AND_NUMBER = re.compile(r"([\w.-]+)=(.*)")
REPORTED_FRACTION = re.compile(r"[-+]?(0?\.\d{3,}|1\.0+)")
REPORTED_DIGITS = re.compile(r"[-+]?\d+(\.\d+)?|[-+]?\.\d+")


@dataclass(frozen=True)
class ReportedNumber:
    """A reader's number for a published one.

    Attributes:
        cell: The published number.
        points: The reader's number, in points (x100).
        decimals: How many decimals of a point the reader gave.
        is_fraction: Whether the reader gave a fraction, 0.4729 for 47.29.
    """

    cell: PublishedCell
    points: float
    decimals: int
    is_fraction: bool = False

    @property
    def gap(self) -> float:
        """By how many points the reader's number is above the published one."""
        return self.points - self.cell.score

    def equals(self, points: float, decimals: int) -> bool:
        """Whether a printed number is equal, to the decimals of the number that has fewer."""
        half_unit = 0.5 * 10.0 ** -min(self.decimals, decimals)
        return abs(points - self.points) <= max(ROUNDING_DIFFERENCE, half_unit)


def reported_numbers(
    place: str, text: str, tables: Sequence[Table]
) -> tuple[ReportedNumber, ...]:
    """Read a reader's numbers for a published row.

    Args:
        place: `TABLE/ROW/COLUMN` for one number, or `TABLE/ROW` for several.
        text: `47.29`, or `sts12=45.09,sts13=64.30`.
        tables: All published tables.

    Raises:
        UsageError: There is no such row or column, or the text has no such numbers.
    """
    if "=" not in text:
        if place.count("/") < 2:
            raise UsageError(
                f"--mine {text}: wanted COLUMN=NUMBER, as in sts12=45.09,sts13=64.30, or the "
                f"column with the row: {place}/COLUMN"
            )
        return (reported_number(published_cell(place, tables), text),)
    row = "/".join(place.split("/")[:2])  # TABLE/ROW
    numbers = []
    for part in text.split(","):
        match = COLUMN_AND_NUMBER.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--mine {part}: wanted COLUMN=NUMBER, as in sts12=45.09")
        column, number = match.groups()
        cell = published_cell(f"{row}/{column}", tables)
        numbers.append(reported_number(cell, number))
    return tuple(numbers)


def reported_number(cell: PublishedCell, text: str) -> ReportedNumber:
    """Read a reader's number: points (x100), or a fraction with three decimals or more.

    Raises:
        UsageError: The text is no number, or not a possible score of the cell's metric.
    """
    text = text.strip().removesuffix("%")
    if not REPORTED_DIGITS.fullmatch(text):
        raise UsageError(
            f"--mine {text}: wanted a number such as 47.29, found {text!r}"
        )
    if cell.points is None:
        raise UsageError(f"--mine: {cell.id} is no score; choose another column")
    is_fraction = bool(REPORTED_FRACTION.fullmatch(text)) and abs(cell.points) > 1
    points = float(text) * (100 if is_fraction else 1)
    lowest = 0 if cell.metric in ("accuracy", "auc") else -100
    if not lowest <= points <= 100:
        raise UsageError(f"--mine {text}: wanted a score x100, from {lowest} to 100")
    decimals = len(text.partition(".")[2]) - (2 if is_fraction else 0)
    return ReportedNumber(
        cell=cell, points=round(points, 6), decimals=decimals, is_fraction=is_fraction
    )
