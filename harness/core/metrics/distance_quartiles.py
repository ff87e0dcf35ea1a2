"""Similarity at each edit distance (BERT-flow, Figure 2), beside what `edit-distance` scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.arrays import Float64
from harness.core.metrics.edit_distance import METRIC as EDIT_DISTANCE
from harness.core.metrics.edit_distance import edit_distance, token_distances
from harness.core.types import Pairs

QUARTILES = {"lower": 25, "median": 50, "upper": 75}
FEWEST = 20  # pairs at a distance that has quartiles


def with_quartiles(cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, Any]:
    """The correlations with edit distance, and quartiles at each distance that 20 pairs have.

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
        name: {step: float(np.percentile(own, share)) for step, own in by_step.items()}
        for name, share in QUARTILES.items()
    }


METRIC = replace(EDIT_DISTANCE, name="distance-quartiles", score=with_quartiles)
