"""Lexical similarity: does similarity follow edit distance (BERT-flow, Table 6)?"""

from __future__ import annotations

import numpy as np
from rapidfuzz.distance import Levenshtein

from harness.core.arrays import Float64
from harness.core.metrics import Metric
from harness.core.metrics.correlation import spearman
from harness.core.types import Pairs

NEAR_EDITS = 4  # edits of a near pair at most, as in the paper


def edit_distance(
    cosines: Float64[np.ndarray, " P"], pairs: Pairs
) -> dict[str, float | None]:
    """Spearman of similarity and Levenshtein distance, x100.

    The distance is over whitespace tokens and not normalised. Scores that end with
    `near` are over pairs at distance 4 or less, and those that begin with `gold` need
    no model, but for `gold_similarity`.
    """
    distance = token_distances(pairs)
    near = distance <= NEAR_EDITS
    return {
        "edit_distance": spearman(cosines, distance),
        "edit_distance_near": spearman(cosines[near], distance[near]),
        "gold_edit_distance": spearman(pairs.gold, distance),
        "gold_edit_distance_near": spearman(pairs.gold[near], distance[near]),
        "gold_similarity": spearman(cosines, pairs.gold),
    }


def token_distances(pairs: Pairs) -> Float64[np.ndarray, " P"]:
    """Levenshtein distance between the whitespace tokens of each pair: insert, delete, replace."""
    return np.array(
        [
            Levenshtein.distance(a.split(), b.split())
            for a, b in zip(pairs.a, pairs.b, strict=True)
        ],
        dtype=np.float64,
    )


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
