"""One cell, the straight line: sentences -> vectors -> fitted maps -> cosines -> scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import ScoreError, UsageError
from harness.core.interfaces import Transform
from harness.core.metrics import (
    PairRows,
    alignment_uniformity,
    labelled_splits,
    metric_of,
    score,
    why_undefined,
)
from harness.core.types import Clock, Method, Pairs, Task
from harness.evaluation.corpus_files import apply_in_chunks, moments_of
from harness.evaluation.embeddings import PooledEmbeddings
from harness.transforms.affine import Affine, Moments

# SimCSE takes the pairs with a gold score above 4 of 5 as positives for alignment.
POSITIVE_ABOVE = 4.0


@dataclass(frozen=True, eq=False)
class FitData:
    """Data for fitting post-processors: vectors, with repetitions, or their moments.

    Vectors may be mapped from a file and larger than memory: then `scratch` is a folder for what a
    chain makes of them on its way, and `share` says how much of a corpus they are. `seconds` were
    paid for them, once for all cells that share them.
    """

    vectors: Moments | Float[np.ndarray, "n D"]
    scratch: Path | None = None
    share: float = 1.0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Measurement:
    """The measurement of one cell: scores in points, per-pair cosines, seconds, further facts.

    (A task that is scored by regression has predictions in the place of cosines.)
    """

    scores: Mapping[str, Any]
    cosines: Float64[np.ndarray, " P"]
    timings: Mapping[str, float]
    facts: Mapping[str, Any]


def measure(
    method: Method,
    task: Task,
    pairs: Pairs,
    pooled: PooledEmbeddings,
    fit_data: FitData | None,
    seed: int,
    clock: Clock,
    labelled: Sequence[Pairs] = (),
) -> Measurement:
    """Measure one method on one task's pairs, whose sentences are among the pooled ones.

    `fit_data` is None for a method without post-processors; `labelled` are the pairs of the splits
    that the task's metric learns from. Raises ScoreError where a number would be meaningless.
    """
    metric = metric_of(task)
    if len(labelled) != len(labelled_splits(task)):
        raise ScoreError(f"{task.name}: labelled splits go with a metric that learns, and only so")
    start = clock()
    transforms = fit(method, fit_data, np.random.default_rng(seed)) if fit_data else ()
    fitted = clock()
    every = (pairs, *labelled)
    texts = sum((p.sentences for p in every), ())
    rows, where = np.unique(pooled.rows(texts), return_inverse=True)
    vectors = pooled.matrix[rows]
    for transform in transforms:
        vectors = transform(vectors)
    applied = clock()
    sides = np.split(where, np.cumsum([len(side) for p in every for side in (p.a, p.b)])[:-1])
    scored, *learned = (
        PairRows(a, b, p.gold) for a, b, p in zip(sides[::2], sides[1::2], every, strict=True)
    )
    values, facts = metric.compare(vectors, scored, learned)
    facts = {"dimensions": int(vectors.shape[1]), **facts}
    scores = score(task, values, pairs) | {name: facts.pop(name) for name in metric.further_scores}
    if (why := why_undefined(task, scores, values, pairs)) is not None:
        facts["undefined"] = why
    if task.geometry:
        scores |= alignment_uniformity(vectors, scored.a, scored.b, scored.gold > POSITIVE_ABOVE)
    finished = clock()
    if transforms and isinstance(transforms[-1], Affine):
        facts["rank"] = transforms[-1].rank
    timings = {
        "fit": fitted - start + (fit_data.seconds if fit_data else 0.0),
        "apply": applied - fitted,
        "score": finished - applied,
    }
    return Measurement(scores, values, timings, facts)


def fit(method: Method, data: FitData, rng: np.random.Generator) -> tuple[Transform, ...]:
    """Fit the post-processors in the written order, each on what the ones before it give.

    A chain of affine maps is fitted from moments alone and never looks at the vectors again. A
    post-processor that is given a share of a corpus is told so, if moments do not suffice it.
    """
    vectors: Any = data.vectors
    transforms: list[Transform] = []
    for post in method.post:
        if transforms:
            vectors = _mapped(transforms[-1], vectors, data.scratch)
        if post.from_moments:
            transform = post.fit(_in_memory(vectors, data.scratch), rng)
        elif data.share < 1:
            fit: Any = post.fit
            transform = fit(vectors, rng, share=data.share)
        else:
            transform = post.fit(vectors, rng)
        if isinstance(vectors, Moments) and not isinstance(transform, Affine):
            raise UsageError(f"{post.name}: fitted from moments, it must give an affine map")
        transforms.append(transform)
    return tuple(transforms)


def _mapped(transform: Transform, vectors: Any, scratch: Path | None) -> Any:
    """The moments or the vectors behind a map."""
    if isinstance(vectors, Moments):
        return vectors.after(cast(Affine, transform))
    return transform(vectors) if scratch is None else apply_in_chunks(transform, vectors, scratch)


def _in_memory(vectors: Any, scratch: Path | None) -> Any:
    """Vectors that may not fit in memory as their moments; anything else as it is."""
    return vectors if scratch is None or isinstance(vectors, Moments) else moments_of(vectors)
