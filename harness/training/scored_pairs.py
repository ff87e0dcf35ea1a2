"""Pairs with graded gold as training data: a task's sentences, their scores brought to 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass

from harness.assets.places import Places
from harness.core.digests import pairs_digest
from harness.core.errors import UsageError
from harness.core.types import Task
from harness.training.nli import Columns


@dataclass(frozen=True)
class ScoredPairs:
    """Two columns of sentences and a score from 0 to 1 for each row; the digest of their source."""

    columns: Columns
    scores: tuple[float, ...]
    digest: str

    @classmethod
    def of(cls, task: Task, places: Places) -> ScoredPairs:
        """The scored pairs of a task: of `sts-b.train` those of the train split.

        Raises UsageError where gold is no degree, AssetMissing, DataError.
        """
        if task.graded is None:
            raise UsageError(f"--task {task.name}: wanted pairs with graded gold, as sts-b.train")
        pairs = task.pairs(places.require_data(task.asset))
        low, high = task.graded
        scores = ((gold - low) / (high - low) for gold in pairs.gold.tolist())
        return cls(pairs.columns, tuple(scores), pairs_digest(pairs))
