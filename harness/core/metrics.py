"""From two columns of vectors to scores, in points (x100).

Every aggregation and both correlations are computed at once, since that is free; a published
number then picks its own. `all` correlates the year's concatenated subsets (SBERT, SimCSE), `mean`
averages the subsets' correlations, `wmean` weighs them by their number of pairs (BERT-flow,
BERT-whitening).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from harness.core.arrays import Float, Float32, Float64, Int
from harness.core.errors import ScoreError
from harness.core.types import Pairs, Task

# Cosines that differ by rounding alone must tie: STS12 holds 61 identical and 194 repeated pairs.
TIE_DECIMALS = 10

# BERT-flow makes its point about similarity and edit distance on pairs at most this far apart.
NEAR = 4

BLOCK = 512  # rows at a time, so that they stay in the processor's cache


def cosine(
    a: Float[np.ndarray, "P K"], b: Float[np.ndarray, "P K"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """Cosine of each pair, in float64, and how many pairs hold a zero vector.

    A zero vector has no direction; its cosine counts as 0, as in SentEval, and is reported.
    Raises ScoreError for a value that is not finite.
    """
    pairs = np.arange(len(a))
    return pair_cosines(np.concatenate([a, b]), pairs, pairs + len(a))


def pair_cosines(
    vectors: Float[np.ndarray, "N K"], a: Int[np.ndarray, " P"], b: Int[np.ndarray, " P"]
) -> tuple[Float64[np.ndarray, " P"], int]:
    """The same of pairs of rows."""
    vectors = vectors.astype(np.float64, copy=False)
    products = np.empty(len(a))
    with np.errstate(invalid="ignore", over="ignore"):  # refused below, by number
        squares = np.einsum("nk,nk->n", vectors, vectors)
        norms = np.sqrt(squares[a] * squares[b])
        for some in (slice(start, start + BLOCK) for start in range(0, len(a), BLOCK)):
            products[some] = np.einsum("pk,pk->p", vectors[a[some]], vectors[b[some]])
    if not np.isfinite(norms).all():
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        raise ScoreError(f"pair {bad + 1}: a vector to score is not finite")
    zero = norms == 0
    values = products / np.where(zero, 1.0, norms)
    return np.where(zero, 0.0, np.clip(values, -1.0, 1.0)), int(zero.sum())


def score(task: Task, cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, Any]:
    """All scores of one task; a score that is undefined (a constant column) is None."""
    if not np.isfinite(cosines).all():
        raise ScoreError("a similarity to score is not finite")
    cosines = np.round(cosines, TIE_DECIMALS)
    if task.metric == "auc":
        return {"auc": roc_auc(cosines, pairs.gold)}
    if task.metric == "edit-distance":
        return edit_distance(cosines, pairs)
    return {
        "spearman": aggregations(spearman, cosines, pairs),
        "pearson": aggregations(pearson, cosines, pairs),
    }


def aggregations(correlation: Any, cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> Any:
    """`all`, `mean`, `wmean` and every group of one correlation.

    A mean over groups exists only if each group's score does.
    """
    groups: dict[str, float | None] = {}
    sizes: list[int] = []
    for name, chosen in _members(pairs.group):
        groups[name] = correlation(cosines[chosen], pairs.gold[chosen])
        sizes.append(len(chosen))
    values = [value for value in groups.values() if value is not None]
    whole = 0 < len(values) == len(groups)
    return {
        "all": correlation(cosines, pairs.gold),
        "mean": float(np.mean(values)) if whole else None,
        "wmean": float(np.average(values, weights=sizes)) if whole else None,
        "groups": groups,
    }


@lru_cache(maxsize=128)  # every cell of a task asks for the same
def _members(group: tuple[str, ...]) -> tuple[tuple[str, Int[np.ndarray, " n"]], ...]:
    """The groups by first appearance, and where their pairs stand."""
    labels = np.array(group)
    return tuple((name, np.flatnonzero(labels == name)) for name in dict.fromkeys(group))


def spearman(x: Float64[np.ndarray, " P"], y: Float64[np.ndarray, " P"]) -> float | None:
    """Spearman's rank correlation with mid-ranks for ties, x100; None if a column is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def pearson(x: Float64[np.ndarray, " P"], y: Float64[np.ndarray, " P"]) -> float | None:
    """Pearson's correlation, x100; None if a column is constant or there are fewer than two."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x, y = x - x.mean(), y - y.mean()
    return float(100 * np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def roc_auc(x: Float64[np.ndarray, " P"], positive: Float64[np.ndarray, " P"]) -> float | None:
    """Area under the ROC curve of x for gold 1 against 0, x100 (Mann-Whitney, ties count half)."""
    from scipy.stats import rankdata

    chosen = positive == 1
    n, m = int(chosen.sum()), int((~chosen).sum())
    if n == 0 or m == 0:
        return None
    return float(100 * (rankdata(x)[chosen].sum() - n * (n + 1) / 2) / (n * m))


def edit_distance(cosines: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, float | None]:
    """Spearman of similarity with un-normalised Levenshtein distance over whitespace tokens, x100.

    BERT-flow, Table 6. The gold row needs no model; `near` keeps the pairs at distance 4 or less.
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


def alignment_uniformity(
    vectors: Float[np.ndarray, "N K"],
    a: Int[np.ndarray, " P"],
    b: Int[np.ndarray, " P"],
    positive: Sequence[bool] | np.ndarray,
) -> dict[str, float | None]:
    """Alignment and uniformity on the unit sphere (Wang & Isola 2020), as SimCSE uses them.

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
    return {"alignment": alignment, "uniformity": uniformity(unit.astype(np.float32), repeats)}


def uniformity(
    unit: Float32[np.ndarray, "N K"], repeats: Float64[np.ndarray, " N"], block: int = BLOCK
) -> float | None:
    """log E exp(-2 |f(x) - f(y)|^2) over unordered pairs of sentences, each `repeats` times."""
    total, count = 0.0, repeats.sum()
    weights = repeats.astype(np.float32)
    for start in range(0, len(unit), block):
        rows = unit[start : start + block]
        # exp(-2 |u - v|^2) = exp(4 u.v) / exp(4) on the sphere; later blocks only, since the matrix
        # is symmetric.
        kernel = (4 * rows) @ unit[start:].T
        np.exp(kernel, out=kernel)
        own = weights[start : start + block]
        later = float(own @ (kernel @ weights[start:]))
        total += 2 * later - float(own @ (kernel[:, : len(rows)] @ own))
    ordered = total - float(repeats @ np.exp(4.0 * np.einsum("nk,nk->n", unit, unit)))
    pairs = count * (count - 1)
    return float(np.log(ordered / pairs)) - 4.0 if pairs > 0 and ordered > 0 else None
