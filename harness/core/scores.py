"""The names of aggregations, and the columns of the leaderboard that show scores."""

from __future__ import annotations

from dataclasses import dataclass
from string import Formatter
from typing import Literal, get_args

# How the subsets of a task become one score: concatenated, averaged, averaged by their pairs.
Aggregation = Literal["all", "mean", "wmean"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)

# The sections of the leaderboard beside the seven STS tasks of the papers.
Section = Literal["other", "transfer", "embedded"]


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column of the leaderboard: its section, its heading, and where a record holds its score.

    Without `score` it is the task's main score. `legend` is a sentence for the section; names in
    braces are scores of a record that need no model, such as `{gold_edit_distance}`.
    """

    section: Section
    heading: str
    score: tuple[str, ...] = ()
    legend: str = ""

    @property
    def legend_scores(self) -> tuple[str, ...]:
        """The scores that the legend names."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.legend) if name)
