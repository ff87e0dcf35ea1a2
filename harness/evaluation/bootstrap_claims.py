"""Claims between methods without seeds: is the difference more than the choice of test pairs?

The paired bootstrap over the pairs of each task: both methods are scored on the same resamples. An
average over tasks is that of each resample's scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import HarnessError
from harness.core.types import Progress, Task
from harness.evaluation.engines import Engine, InProcess
from harness.registry import Registry
from harness.results.bootstrap import bootstrap_scores, compare
from harness.results.claim_intervals import Contrast, Interval, Intervals
from harness.results.claim_tests import SIGN, ClaimTests
from harness.results.claims import Claims
from harness.results.index import Results
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
SEED = 0
HERE = InProcess()

# What a resample can compute again: correlations with gold, and the share of right classes.
Metric = Literal["spearman", "pearson", "accuracy"]
METRICS: Mapping[str, Metric] = {name: name for name in get_args(Metric)}
CORRELATIONS = {(name, way) for name in ("spearman", "pearson") for way in ("all", "wmean")}


@dataclass(frozen=True)
class Scored:
    """A method on a task, and the path of one of its scores."""

    method: str
    task: Task
    path: tuple[str, ...]


def compare_claims(
    claims: Claims,
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    known: Intervals,
    engine: Engine = HERE,
) -> Intervals:
    """The claims' known intervals, and one for each finding that the sign alone decides in `runs`.

    None is made where a score is neither a correlation with gold nor an accuracy, or where the
    similarities of a method do not lie beside its record.
    """
    tests = ClaimTests(Results.read(runs), registry, known)
    every = [one for claim in claims.resolved for one in tests.test(claim).every]
    signs = [one for one in every if one.decision.by == SIGN]
    ready = [one for one in signs if _can_be_resampled(one.contrast, runs)]
    intervals = {one.contrast: known[one.contrast] for one in every if one.contrast in known}
    due = dict.fromkeys(
        Scored(method, registry.tasks[task], tuple(path))
        for one in ready
        for method in (one.contrast.better, one.contrast.worse)
        for task, path in one.contrast.scores
    )
    if due:
        progress.phase("comparing the methods of claims", len(due))
    fresh = TaskLoader(loader.places, loader.corpora)
    resampled = {}
    for scored, made in engine.map(partial(scores_on_resamples, runs, fresh), list(due)):
        if isinstance(made, HarnessError):
            raise made
        resampled[scored.method, scored.task.name, scored.path] = made
        progress.step(1)
    for one in ready:
        sides = (
            np.mean([resampled[method, task, path] for task, path in one.contrast.scores], axis=0)
            for method in (one.contrast.better, one.contrast.worse)
        )
        found, (above, below) = compare(*sides), (side.value.mean or 0.0 for side in one.sides)
        low, high = round(found.low, 4), round(found.high, 4)
        intervals[one.contrast] = Interval(round(above - below, 4), low, high, RESAMPLES, SEED)
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
    runs: Store, loader: TaskLoader, scored: Scored
) -> Float64[np.ndarray, " R"]:
    """The score of a method's seed 0, in points, on every resample of a task's pairs."""
    metric, *aggregation = scored.path
    cosines = runs.cosines(Cell(scored.method, scored.task.name))
    pairs = loader.inputs(scored.task).pairs
    return bootstrap_scores(
        np.stack([column for column in [cosines] if column is not None]),
        pairs.gold,
        pairs.group,
        metric=METRICS[metric],
        aggregate="wmean" if aggregation == ["wmean"] else "all",
        resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    )[0]
