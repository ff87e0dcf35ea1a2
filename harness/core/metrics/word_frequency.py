"""Word frequency against the norm of word vectors and the distance of their neighbours.

BERT-flow, Table 1, finds that the vectors of rare words are long and far from each other. There
they are rows of BERT's embedding matrix, which `bert-base.input` reads; any other method encodes a
word as a text. Neighbours are sought among the words of the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.core.arrays import Bool, Float, Float64
from harness.core.errors import ScoreError
from harness.core.metrics import BLOCK, Metric, PairRows
from harness.core.metrics.correlation import spearman
from harness.core.types import Pairs

# The words of all ranks, then the ranges of BERT-flow's table: lowest and highest rank.
RANGES = {
    "all": (1, 10_000),
    "1-100": (1, 100),
    "101-500": (101, 500),
    "501-5000": (501, 5_000),
    "5001-10000": (5_001, 10_000),
}
NEIGHBOURS = (3, 5, 7)


def norms_and_neighbours(
    vectors: Float[np.ndarray, "N K"],
    scored: PairRows,
    labelled: Sequence[PairRows],  # noqa: ARG001 - norms learn nothing from labels
) -> tuple[Float64[np.ndarray, " P"], dict[str, Any]]:
    """The norm of each word's vector; by range of ranks its mean, and those of the neighbours.

    `distance` is the Euclidean distance of the k nearest, `dot_product` the product with the k
    that have the largest. A zero vector stands for a word that the encoder does not know: it is
    counted, and left out. Raises ScoreError for pairs, and for a vector that is not finite.
    """
    if len(scored.b):
        raise ScoreError("wanted single words, found pairs")
    words = vectors[scored.a].astype(np.float64)
    if not np.isfinite(words).all():
        raise ScoreError("a word's vector is not finite")
    norms = np.sqrt(np.einsum("nk,nk->n", words, words))
    nonzero = norms > 0
    kept, ranks = words[nonzero], scored.gold[nonzero]
    ranges = {name: (low <= ranks) & (ranks <= high) for name, (low, high) in RANGES.items()}
    near, large = _neighbours(kept)
    return norms, {
        "zero_vectors": int((~nonzero).sum()),
        "norm": _means(norms[nonzero], ranges),
        "distance": {f"k={k}": _means(near[:, :k].mean(axis=1), ranges) for k in NEIGHBOURS},
        "dot_product": {f"k={k}": _means(large[:, :k].mean(axis=1), ranges) for k in NEIGHBOURS},
    }


def _means(
    values: Float64[np.ndarray, " n"], ranges: dict[str, Bool[np.ndarray, " n"]]
) -> dict[str, float | None]:
    """The mean of each range; None where one is empty or a value is undefined."""
    return {
        name: float(values[rows].mean()) if rows.any() and np.isfinite(values[rows]).all() else None
        for name, rows in ranges.items()
    }


def _neighbours(
    words: Float64[np.ndarray, "n K"],
) -> tuple[Float64[np.ndarray, "n k"], Float64[np.ndarray, "n k"]]:
    """Of each word the least distances and the largest products, in order; NaN beyond the last."""
    most, count = max(NEIGHBOURS), len(words)
    near, large = np.full((2, count, most), np.nan)
    squares = np.einsum("nk,nk->n", words, words)
    others = min(most, count - 1)
    for start in range(0, count if others > 0 else 0, BLOCK):
        rows = slice(start, start + BLOCK)
        products = words[rows] @ words.T
        gaps = squares[rows, None] + squares - 2 * products
        itself = np.arange(len(products))
        gaps[itself, start + itself], products[itself, start + itself] = np.inf, -np.inf
        nearest = np.sort(np.partition(gaps, others - 1, axis=1)[:, :others], axis=1)
        near[rows, :others] = np.sqrt(np.maximum(nearest, 0))
        largest = -np.partition(-products, others - 1, axis=1)[:, :others]
        large[rows, :others] = -np.sort(-largest, axis=1)
    return near, large


def norm_by_rank(norms: Float64[np.ndarray, " P"], words: Pairs) -> dict[str, float | None]:
    """Spearman of norm and rank, x100, over the words that have a vector."""
    nonzero = norms > 0
    return {"norm_rank": spearman(norms[nonzero], words.gold[nonzero])}


METRIC = Metric(
    name="word-frequency",
    score=norm_by_rank,
    main_score=("norm_rank",),
    words={"norm_rank": "Spearman x100 of {} and frequency rank"},
    compared="norm",
    compare=norms_and_neighbours,
    further_scores=("norm", "distance", "dot_product"),
)
