"""Causes of a different number outside of protocols, and lines of other programs.

Both are curated in `results/questions/causes.toml`, where a cause has the public thread
in which it was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.conclusions.numbers import ReportedNumber
from harness.core.toml import read_typed
from harness.registry import matches
from harness.results.published import PublishedNumber

CERTAINTIES = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Cause:
    """One cause of a different number, and the published rows that it may affect.

    Attributes:
        id: A name of lower-case words between hyphens.
        title: What happened, in one sentence without a full stop.
        check: How the reader finds out whether it happened.
        change: What to change in the reader's own program.
        source: The public thread or document in which the cause was confirmed.
        rows: Patterns of `TABLE/ROW`, or of the method that reproduces the row.
        gap: The smallest and the largest difference that the cause makes, in points: the
            reader's number minus the published one.
        columns: Patterns of the ids of the columns that it may move.
        above: The reader's numbers that it explains are above this one, in points.
        certainty: How certain the cause is where rows, columns and gap agree; `certain` is
            one that shows by itself, whatever the other columns are.
        gaps: Other bounds than `gap`, for single columns by their ids.
        needs: Columns that have to be among the reader's, and to be explained.
        signs: `mixed` for a cause that moves some columns up and others down.
        versions: The versions of packages that have it, by the name of the package, as
            pip writes them: `>=5.5.0,<5.6.1`. All of them together have it.
    """

    id: str
    title: str
    check: str
    change: str
    source: str
    rows: tuple[str, ...]
    gap: tuple[float, float]
    columns: tuple[str, ...] = ("*",)
    above: float = -100.0
    certainty: str = "possible"
    gaps: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    signs: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.certainty not in CERTAINTIES:
            raise ValueError(
                f"certainty: wanted one of {CERTAINTIES}, found {self.certainty!r}"
            )
        lowest, highest = self.gap
        if not lowest < highest:
            raise ValueError(
                f"gap: wanted two numbers in ascending order, found {self.gap}"
            )

    def is_of_versions(self, versions: Mapping[str, str]) -> bool:
        """Whether packages of these versions have it; False for a cause of no versions."""
        return bool(self.versions) and all(
            name in versions and _is_in(versions[name], specifier)
            for name, specifier in self.versions.items()
        )

    def applies_to(self, number: PublishedNumber) -> bool:
        """Whether it may affect the row of a published number."""
        rows = (number.row_id, number.method or "")
        return any(matches(row, self.rows) for row in rows)

    def may_move(self, number: ReportedNumber) -> bool:
        """Whether it may move the column of a reader's number."""
        return matches(number.published.column.id, self.columns)

    def explains(self, number: ReportedNumber) -> bool:
        """Whether it may make a reader's number of the one that is published."""
        is_within = self.misses(number) == 0 and number.points > self.above
        return is_within and self.may_move(number)

    def misses(self, number: ReportedNumber) -> float:
        """The points by which a reader's number is out of the bounds of the cause."""
        lowest, highest = self.gaps.get(number.published.column.id, self.gap)
        return max(lowest - number.gap, number.gap - highest, 0.0)

    def has_signs(self, numbers: Sequence[ReportedNumber]) -> bool:
        """Whether numbers are above and below the published ones, where the cause does both."""
        if self.signs != "mixed" or len(numbers) == 1:
            return True
        return min(each.gap for each in numbers) < 0 < max(each.gap for each in numbers)


def _is_in(version: str, specifier: str) -> bool:
    """Whether a version, a release candidate too, is among those of a specifier."""
    # Only what compares versions needs them, and explanations do not.
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except InvalidVersion:
        return False


@dataclass(frozen=True)
class ProgramLine:
    """The line of another program that makes one choice of a protocol.

    Attributes:
        choice: The name of the choice, as in `Protocol`: `aggregation`.
        value: The choice's value: `wmean`.
        line: The program's name and its line.
        rows: Patterns of the published rows whose readers use this program.
    """

    choice: str
    value: str
    line: str
    rows: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class Causes:
    """The content of the file: causes in the order of suggestions, and lines of programs."""

    causes: tuple[Cause, ...] = ()
    lines: tuple[ProgramLine, ...] = ()

    def __post_init__(self) -> None:
        names = [cause.id for cause in self.causes]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ValueError(f"causes: the id {min(repeated)!r} is there twice")

    def line(self, choice: str, value: str, row_id: str) -> str:
        """The line that makes a choice for readers of a row; empty where none is known."""
        for line in self.lines:
            is_choice = (line.choice, line.value) == (choice, value)
            if is_choice and matches(row_id, line.rows):
                return line.line
        return ""


def read_causes(path: Path) -> Causes:
    """The causes of a file; none where there is no file. Raises DataError for a damaged one."""
    return read_typed(Causes, path) if path.exists() else Causes()
