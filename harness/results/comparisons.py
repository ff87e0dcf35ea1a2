"""Stored comparisons of the neighbouring rows of a leaderboard table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.files import file_name
from harness.core.json_text import write_json
from harness.core.toml import read_typed
from harness.results.bootstrap import SIGNIFICANCE_LEVEL
from harness.results.layout import RECORDS

COMPARISONS = Path(RECORDS) / "comparisons"  # of a results folder


@dataclass(frozen=True)
class Neighbours:
    """A row and the row above it, compared by the bootstrap.

    Attributes:
        above: The method of the row above.
        below: The method of the row.
        low: The lower end of the 95 % interval of the difference of their averages, in
            points.
        high: The upper end.
        p: The two-sided p of no difference.
        p_holm: p corrected for the number of rows.
    """

    above: str
    below: str
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparisons:
    """All neighbouring rows of one table.

    Attributes:
        encoder: The encoder of all rows.
        protocol: The id of the table's `Scoring`.
        resamples: How many resamples there were.
        seed: The seed of the bootstrap.
        averages: The averages that were compared, by method, best first.
        rows: Each row with the row above it.
        over_seeds: Whether the means over all seeds of a row were compared, and both
            seeds and items resampled; otherwise seed 0 of each row, with items alone.
    """

    encoder: str
    protocol: str
    resamples: int
    seed: int
    averages: Mapping[str, float]
    rows: tuple[Neighbours, ...]
    over_seeds: bool = False

    @property
    def name(self) -> str:
        """The name of the table, and of its file."""
        return f"{self.encoder}.{self.protocol}"

    def hold_for(self, averages: Mapping[str, float]) -> bool:
        """Whether the averages are those that were compared, in the same order."""
        return [*self.averages.items()] == [*printed_averages(averages).items()]

    @property
    def indistinguishable(self) -> set[str]:
        """The methods whose average is not distinguishable from the average of the row above."""
        return {
            neighbours.below
            for neighbours in self.rows
            if neighbours.p_holm > SIGNIFICANCE_LEVEL
        }


def printed_averages(averages: Mapping[str, float]) -> dict[str, float]:
    """Averages as they are printed, with two decimals."""
    return {method: round(average, 2) for method, average in averages.items()}


def read_comparisons(results: Path) -> Mapping[str, Comparisons]:
    """Every stored comparison by name. Raises DataError for a damaged file."""
    comparisons: dict[str, Comparisons] = {}
    for path in sorted((results / COMPARISONS).glob("*.json")):
        table = read_typed(Comparisons, path)
        comparisons[table.name] = table
    return comparisons


def write_comparisons(results: Path, comparisons: Comparisons) -> None:
    """Store comparisons; an equal file is not written again."""
    path = results / COMPARISONS / f"{file_name(comparisons.name)}.json"
    write_json(path, asdict(comparisons))
