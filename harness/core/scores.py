"""The scores of a record as a tree, and the path of a score in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Where a score is in a record: the keys from the metric down. `("spearman", "all")` is
# Spearman's correlation over all pairs, `("spearman", "groups", "MSRpar")` that of a
# subset, `("auc",)` a score without aggregations.
ScorePath = tuple[str, ...]

ScoreTree = Mapping[str, Any]  # numbers, None for an undefined score, and further trees


def score_at(scores: ScoreTree, path: ScorePath) -> float | None:
    """The score at a path; None where the path does not lead to a number."""
    score: Any = scores
    for key in path:
        score = score.get(key) if isinstance(score, Mapping) else None
    return score if isinstance(score, int | float) else None


def score_paths(scores: ScoreTree, above: ScorePath = ()) -> Iterator[ScorePath]:
    """The path of every score, in the order of the tree; `above` leads to the tree."""
    for key, value in scores.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            yield from score_paths(value, path)
        else:
            yield path
