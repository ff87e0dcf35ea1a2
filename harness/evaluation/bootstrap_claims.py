"""Claims between methods without seeds: is the difference more than the choice of test pairs?

The paired bootstrap over the pairs of each task: both methods are scored on the same resamples. An
average over tasks is that of each resample's scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Literal, get_args

import numpy as np

from harness.core.arrays import Float64
from harness.core.types import Progress
from harness.registry import Registry
from harness.results.bootstrap import bootstrap_scores, compare
from harness.results.claim_intervals import Contrast, Interval, Intervals, Score
from harness.results.claim_tests import SIGN, ClaimTests
from harness.results.claims import Claims
from harness.results.index import Results
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
SEED = 0

# What a resample can compute again: correlations with gold, and the share of right classes.
Metric = Literal["spearman", "pearson", "accuracy"]
METRICS: Mapping[str, Metric] = {name: name for name in get_args(Metric)}
CORRELATIONS = {(name, way) for name in ("spearman", "pearson") for way in ("all", "wmean")}

# The scores of a method on every resample of a task's pairs.
Resampled = Callable[[str, Score], Float64[np.ndarray, " R"]]


def compare_claims(
    claims: Claims,
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    known: Intervals,
) -> Intervals:
    """The claims' known intervals, and one for each finding that the sign alone decides in `runs`.

    None is made where a score is neither a correlation with gold nor an accuracy, or where the
    similarities of a method do not lie beside its record.
    """
    tests = ClaimTests(Results.read(runs), registry, known)
    every = [one for claim in claims.resolved for one in tests.test(claim).every]
    due = [one for one in every if one.decision.by == SIGN]
    ready = [one for one in due if _can_be_resampled(one.contrast, runs)]
    resampled = cache(partial(scores_on_resamples, runs, loader, registry))
    intervals = {one.contrast: known[one.contrast] for one in every if one.contrast in known}
    progress.phase("comparing the methods of claims", len(ready))
    for one in ready:
        sides = (
            np.mean([resampled(method, score) for score in one.contrast.scores], axis=0)
            for method in (one.contrast.better, one.contrast.worse)
        )
        found, (above, below) = compare(*sides), (side.value.mean or 0.0 for side in one.sides)
        low, high = round(found.low, 4), round(found.high, 4)
        intervals[one.contrast] = Interval(round(above - below, 4), low, high, RESAMPLES, SEED)
        progress.step(1)
    return intervals


def _can_be_resampled(contrast: Contrast, runs: Store) -> bool:
    tasks = tuple(task for task, _ in contrast.scores)
    computable = all(resamples_make(path) for _, path in contrast.scores)
    return computable and similarities_of((contrast.better, contrast.worse), tasks, runs)


def resamples_make(path: tuple[str, ...]) -> bool:
    """Whether the score at a path can be computed on a resample: a correlation or an accuracy."""
    return path == ("accuracy",) or path in CORRELATIONS


def similarities_of(methods: Sequence[str], tasks: Sequence[str], runs: Store) -> bool:
    """Whether the similarities of every method on every task lie in `runs`."""
    return all(runs.cosines(Cell(m, task)) is not None for m in methods for task in tasks)


def scores_on_resamples(
    runs: Store, loader: TaskLoader, registry: Registry, method: str, score: Score
) -> Float64[np.ndarray, " R"]:
    """The score of a method's seed 0, in points, on every resample of a task's pairs."""
    task, (metric, *aggregation) = score
    pairs, cosines = loader.inputs(registry.tasks[task]).pairs, runs.cosines(Cell(method, task))
    return bootstrap_scores(
        np.stack([column for column in [cosines] if column is not None]),
        pairs.gold,
        pairs.group,
        metric=METRICS[metric],
        aggregate="wmean" if aggregation == ["wmean"] else "all",
        resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    )[0]
