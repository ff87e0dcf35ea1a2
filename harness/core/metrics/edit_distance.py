"""Lexical similarity: does similarity follow edit distance (BERT-flow, Table 6 and Figure 2)?

`edit-distance` scores the correlations of Table 6; `distance-quartiles` adds what Figure 2 plots,
the similarity of the pairs at each edit distance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from harness.core.arrays import Float64
from harness.core.metrics import Metric
from harness.core.metrics.correlation import spearman
from harness.core.types import Pairs

NEAR = 4  # edits: the paper makes its point on pairs at most this far apart
QUARTILES = {"lower": 25, "median": 50, "upper": 75}
FEWEST = 20  # pairs at a distance that has quartiles


def edit_distance(cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, float | None]:
    """Spearman of similarity with un-normalised Levenshtein distance over whitespace tokens, x100.

    The gold row needs no model; `near` keeps the pairs at distance 4 or less.
    """
    distance = token_distances(pairs)
    near = distance <= NEAR
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
        [Levenshtein.distance(a.split(), b.split()) for a, b in zip(pairs.a, pairs.b, strict=True)],
        dtype=np.float64,
    )


def with_quartiles(cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, Any]:
    """The scores of `edit_distance`, and quartiles at each distance that 20 pairs have.

    `quartiles` are of the similarity, x100, `gold_quartiles` of gold on its own scale; each by the
    name of the quartile, then by the distance.
    """
    distance = token_distances(pairs).astype(int)
    return {
        **edit_distance(cosines, pairs),
        "quartiles": _quartiles(100 * cosines, distance),
        "gold_quartiles": _quartiles(pairs.gold, distance),
    }


def _quartiles(
    values: Float64[np.ndarray, " P"], distance: np.ndarray
) -> dict[str, dict[str, float]]:
    steps, counts = np.unique(distance, return_counts=True)
    by_step = {str(step): values[distance == step] for step in steps[counts >= FEWEST]}
    return {
        name: {step: float(np.percentile(at_step, percent)) for step, at_step in by_step.items()}
        for name, percent in QUARTILES.items()
    }


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
QUARTILES_METRIC = replace(METRIC, name="distance-quartiles", score=with_quartiles)
