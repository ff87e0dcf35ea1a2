"""Metrics, from vectors of pairs to scores in points (x100).

A module in this folder registers a metric by a constant, METRIC. Every score of a metric is
computed at once, since that is free; a published number then picks its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import HarnessError, ScoreError, UsageError
from harness.core.metrics.auc import roc_auc
from harness.core.metrics.correlation import aggregations, pearson, spearman
from harness.core.metrics.edit_distance import edit_distance, token_distances
from harness.core.metrics.geometry import alignment_uniformity, uniformity
from harness.core.metrics.metric import TIE_DECIMALS, Metric, PairRows, cosine, pair_cosines
from harness.core.types import Pairs, Task

__all__ = [
    "TIE_DECIMALS",
    "Metric",
    "PairRows",
    "aggregations",
    "alignment_uniformity",
    "cosine",
    "edit_distance",
    "labelled_splits",
    "metric_of",
    "metrics",
    "pair_cosines",
    "pearson",
    "roc_auc",
    "score",
    "spearman",
    "token_distances",
    "uniformity",
    "why_undefined",
]


@cache
def metrics() -> Mapping[str, Metric]:
    """Every registered metric by its name."""
    registered: dict[str, Metric] = {}
    for name in (module.name for module in iter_modules(__path__)):
        for metric in vars(import_module(f"{__name__}.{name}")).values():
            if not isinstance(metric, Metric):
                continue
            if registered.setdefault(metric.name, metric) is not metric:
                raise HarnessError(
                    f"two files register the metric {metric.name!r}: rename one of them"
                )
    return registered


def metric_of(task: Task) -> Metric:
    """The metric of a task. Raises UsageError for a name that no module registers."""
    if task.metric not in metrics():
        raise UsageError(
            f"{task.name}: unknown metric {task.metric!r}: known are {', '.join(metrics())}"
        )
    return metrics()[task.metric]


def labelled_splits(task: Task) -> tuple[str, ...]:
    """The splits whose labels the task's metric learns from: those that are not scored, or none."""
    learns = metric_of(task).learns
    return tuple(split for split in task.splits if learns and split not in task.scored)


def score(task: Task, values: Float64[np.ndarray, " P"], pairs: Pairs) -> dict[str, Any]:
    """All scores of one task; a score that is undefined (a constant column) is None."""
    if not np.isfinite(values).all():
        raise ScoreError("a similarity to score is not finite")
    return metric_of(task).score(np.round(values, TIE_DECIMALS), pairs)


def why_undefined(
    task: Task, scores: Mapping[str, Any], values: Float64[np.ndarray, " P"], pairs: Pairs
) -> str | None:
    """The reason why a task's main score is undefined; None where it is defined."""
    main: Any = scores
    for name in metric_of(task).main_score:
        main = main[name]
    if main is not None:
        return None
    if len(values) < 2:
        return "fewer than two pairs"
    if np.ptp(np.round(values, TIE_DECIMALS)) == 0:
        return "all similarities are equal"
    return "all gold scores are equal" if np.ptp(pairs.gold) == 0 else "a subset has no score"
