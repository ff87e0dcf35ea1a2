"""Lexical similarity: does similarity follow edit distance (BERT-flow, Table 6)?"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Float64
from harness.core.metrics import Metric, tie_rounded
from harness.core.metrics.correlation import spearman
from harness.core.pairs import Pairs

NEAR_EDITS = 4  # edits of a near pair at most, as in the paper


def edit_distance(
    cosines: Float64[np.ndarray, " P"], pairs: Pairs
) -> dict[str, float | None]:
    """Spearman of similarity and Levenshtein distance, x100.

    The distance is over whitespace tokens and not normalised. Scores whose names end in
    `near` are over pairs at a distance of 4 at most. `gold_edit_distance` and
    `gold_edit_distance_near` are of gold in the place of similarity, and need no model;
    `gold_similarity` is of similarity and gold.
    """
    cosines = tie_rounded(cosines)
    distance = token_distances(pairs)
    is_near = distance <= NEAR_EDITS
    return {
        "edit_distance": spearman(cosines, distance),
        "edit_distance_near": spearman(cosines[is_near], distance[is_near]),
        "gold_edit_distance": spearman(pairs.gold, distance),
        "gold_edit_distance_near": spearman(pairs.gold[is_near], distance[is_near]),
        "gold_similarity": spearman(cosines, pairs.gold),
    }


def token_distances(pairs: Pairs) -> Float64[np.ndarray, " P"]:
    """Levenshtein distance between the whitespace tokens of each pair: insert, delete, replace."""
    from rapidfuzz.distance import Levenshtein

    distances = [
        Levenshtein.distance(a.split(), b.split())
        for a, b in zip(pairs.a, pairs.b, strict=True)
    ]
    return np.array(distances, dtype=np.float64)


METRIC = Metric(
    name="edit-distance",
    score=edit_distance,
    main_score=("edit_distance",),
    words={
        "edit_distance": "Spearman x100 of {} and token edit distance",
        "gold_similarity": "Spearman x100 of {} and gold",
    },
    direction="toward gold",
)
