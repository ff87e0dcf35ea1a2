"""The scores of a record as a tree, and the path of a score in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# The keys that lead to a score. `("spearman", "all")` is Spearman's correlation over all
# pairs, `("spearman", "groups", "MSRpar")` the correlation in a subset, `("auc",)` a
# score without aggregations.
ScorePath = tuple[str, ...]

# Numbers, None for an undefined score, and further trees.
ScoreTree = Mapping[str, Any]


def score_at(scores: ScoreTree, path: ScorePath) -> float | None:
    """The score at a path; None where the path does not lead to a number."""
    value: Any = scores
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value if isinstance(value, int | float) else None


def score_paths(scores: ScoreTree, root: ScorePath = ()) -> Iterator[ScorePath]:
    """The path of every score, in the order of the tree; `root` is the path of the tree."""
    for key, value in scores.items():
        path = (*root, key)
        if isinstance(value, Mapping):
            yield from score_paths(value, path)
        else:
            yield path
