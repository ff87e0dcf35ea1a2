"""Fit the post-processors of one cell as a run does, for the export of a method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.interfaces import Identity, Transform
from harness.core.types import Clock, Progress
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.evaluate import fit
from harness.evaluation.fit_corpus import FitCorpora
from harness.results.planned import PlannedCell
from harness.tasks.loader import TaskLoader


@dataclass(frozen=True, eq=False)
class FittedCell:
    """A cell's encoder and fitted maps, and the digest of what they are fitted on, if any."""

    identity: Identity
    transforms: tuple[Transform, ...] = ()
    fitted_on: str | None = None


def fit_cell(cell: PlannedCell, loader: TaskLoader, progress: Progress, clock: Clock) -> FittedCell:
    """Fit the maps of a cell exactly as a run does, through its cache.

    Raises AssetMissing for an encoder, data or a corpus that is not here, ScoreError for vectors
    that cannot be fitted.
    """
    encoder = CachedEncoder.open(cell.encoder, loader.places, clock)
    text = loader.inputs(cell.task, cell.method.fit_on).fit if cell.method.post else None
    if text is None:
        return FittedCell(encoder.identity)
    corpora = FitCorpora(encoder, progress, {cell: text})
    own = ["one sentence"] if text.streams else sorted(set(text.sentences()))
    if missing := encoder.cache.missing(own):
        progress.phase(f"{cell.encoder.name}: encoding", len(missing))
        encoder.ensure(missing, progress)
    data = corpora.data(cell, encoder.pooled(cell.method.pooling, own))
    transforms = fit(cell.method, data, np.random.default_rng(cell.seed)) if data else ()
    return FittedCell(encoder.identity, tuple(transforms), corpora.digest(cell))
