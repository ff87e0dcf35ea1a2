"""How vectors lie: alignment and uniformity on the unit sphere, and the spectrum of a covariance.

Alignment and uniformity (Wang & Isola 2020) are measured beside the correlations of a task. The
metric `spectrum` asks how evenly a task's sentences spread over directions, which SN, NATSV,
whitening and flows are made to change: whitened vectors of the sentences that were fitted on have
equal eigenvalues and a participation ratio of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.core.arrays import Float, Float32, Float64, Int
from harness.core.metrics import BLOCK, Metric, PairRows, cosines

SHOWN = 32  # eigenvalues that are stored, by their place evenly spaced on a logarithmic axis
ROUNDING = 1e-9  # an eigenvalue below this share of the largest is rounding of float32 encodings


def alignment_uniformity(
    vectors: Float[np.ndarray, "N K"],
    a: Int[np.ndarray, " P"],
    b: Int[np.ndarray, " P"],
    positive: Sequence[bool] | np.ndarray,
) -> dict[str, float | None]:
    """Alignment and uniformity on the unit sphere, as SimCSE uses them.

    `vectors` are the distinct sentences', `a` and `b` each pair's rows in them. Alignment is the
    mean squared distance of the positive pairs, uniformity the log of the mean of exp(-2 d^2) over
    all pairs of sentences, repetitions included. Lower is better. None where undefined.
    """
    vectors = vectors.astype(np.float64, copy=False)
    norms = np.sqrt(np.einsum("nk,nk->n", vectors, vectors))[:, None]
    if (norms == 0).any():
        return {"alignment": None, "uniformity": None}
    unit = vectors / norms
    gap = unit[a[positive]] - unit[b[positive]]
    alignment = float(np.einsum("pk,pk->p", gap, gap).mean()) if len(gap) else None
    repeats = np.bincount(np.concatenate([a, b]), minlength=len(unit)).astype(np.float64)
    return {"alignment": alignment, "uniformity": _uniformity(unit.astype(np.float32), repeats)}


def _uniformity(
    unit: Float32[np.ndarray, "N K"], repeats: Float64[np.ndarray, " N"]
) -> float | None:
    """log E exp(-2 |f(x) - f(y)|^2) over unordered pairs of sentences, each `repeats` times."""
    total, count = 0.0, repeats.sum()
    weights = repeats.astype(np.float32)
    for start in range(0, len(unit), BLOCK):
        rows = unit[start : start + BLOCK]
        # exp(-2 |u - v|^2) = exp(4 u.v) / exp(4) on the sphere; later blocks only, since the matrix
        # is symmetric.
        kernel = (4 * rows) @ unit[start:].T
        np.exp(kernel, out=kernel)
        here = weights[start : start + BLOCK]
        later = float(here @ (kernel @ weights[start:]))
        total += 2 * later - float(here @ (kernel[:, : len(rows)] @ here))
    ordered = total - float(repeats @ np.exp(4.0 * np.einsum("nk,nk->n", unit, unit)))
    pairs = count * (count - 1)
    return float(np.log(ordered / pairs)) - 4.0 if pairs > 0 and ordered > 0 else None


def cosines_and_spectrum(
    vectors: Float[np.ndarray, "N K"], scored: PairRows, labelled: Sequence[PairRows]
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The cosine of each pair, and the spectrum of all their sentences, repetitions included.

    `spectrum` holds the eigenvalues of the covariance, x100 of the largest, at the places 1 (the
    largest) to K. `participation_ratio` is (sum l)^2 / (K sum l^2) x100: 100 where all K are equal,
    100 / K where there is one direction. Vectors that do not vary have no spectrum, and the ratio
    None.
    """
    values, facts = cosines(vectors, scored, labelled)
    rows = vectors[np.concatenate([scored.a, scored.b])].astype(np.float64)
    centred = rows - rows.mean(axis=0)
    eigenvalues = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    if not len(eigenvalues) or eigenvalues[0] <= 0:
        return values, {**facts, "participation_ratio": None, "spectrum": {}}
    largest = eigenvalues[0]
    shares = np.where(eigenvalues < ROUNDING * largest, 0.0, eigenvalues / largest)
    places = np.unique(np.geomspace(1, len(shares), SHOWN).round().astype(int))
    facts["participation_ratio"] = float(100 * shares.sum() ** 2 / (len(shares) * shares @ shares))
    facts["spectrum"] = {str(place): float(100 * shares[place - 1]) for place in places}
    return values, facts


METRIC = Metric(
    name="spectrum",
    score=lambda values, _: {"mean_cosine": float(100 * values.mean()) if len(values) else None},
    main_score=("participation_ratio",),
    words={
        "mean_cosine": "mean {} x100",
        "participation_ratio": "participation ratio of the eigenvalues x100",
    },
    compare=cosines_and_spectrum,
    further_scores=("participation_ratio", "spectrum"),
)
