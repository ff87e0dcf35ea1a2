"""The spectrum of a task's sentences: how evenly their vectors spread over directions.

SN, NATSV, whitening and flows are made to change it. Whitened vectors of the sentences that were
fitted on have equal eigenvalues and a participation ratio of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.metrics.metric import Metric, PairRows, cosines
from harness.core.types import Pairs

SHOWN = 32  # eigenvalues that are stored, by their place evenly spaced on a logarithmic axis
ROUNDING = 1e-9  # an eigenvalue below this share of the largest is rounding of float32 encodings


def compare(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The cosine of each pair, and the spectrum of all their sentences, repetitions included."""
    values, facts = cosines(vectors, scored, labelled)
    rows = vectors[np.concatenate([scored.a, scored.b])].astype(np.float64)
    return values, {**facts, **spectrum(rows)}


def spectrum(vectors: Float64[np.ndarray, "N K"]) -> dict[str, Any]:
    """Eigenvalues of the covariance, x100 of the largest, and their participation ratio.

    `spectrum` holds those at the places 1 (the largest) to K. `participation_ratio` is
    (sum l)^2 / (K sum l^2) x100: 100 where all K are equal, 100 / K where there is one direction.
    Vectors that do not vary have no spectrum, and the ratio None.
    """
    centred = vectors - vectors.mean(axis=0)
    found = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    if not len(found) or found[0] <= 0:
        return {"participation_ratio": None, "spectrum": {}}
    shares = np.where(found < ROUNDING * found[0], 0.0, found / found[0])
    places = np.unique(np.geomspace(1, len(shares), SHOWN).round().astype(int))
    return {
        "participation_ratio": float(100 * shares.sum() ** 2 / (len(shares) * shares @ shares)),
        "spectrum": {str(place): float(100 * shares[place - 1]) for place in places},
    }


def mean_cosine(values: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, float | None]:  # noqa: ARG001 - as metrics score
    """The mean cosine of the pairs, x100."""
    return {"mean_cosine": float(100 * values.mean()) if len(values) else None}


METRIC = Metric(
    name="spectrum",
    score=mean_cosine,
    main_score=("participation_ratio",),
    words={
        "mean_cosine": "mean {} x100",
        "participation_ratio": "participation ratio of the eigenvalues x100",
    },
    compare=compare,
    further_scores=("participation_ratio", "spectrum"),
)
