"""Method against method: are neighbouring rows of a table distinguishable?

Paired bootstrap over the items of each task: every row is scored on the same resamples, the seven
scores of a resample are averaged, and the averages' difference is what is tested, with Holm's
correction over the table. Dear, so it is computed when cells are run and stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from harness.core.arrays import Float64
from harness.core.types import Progress
from harness.registry import Registry
from harness.results.bootstrap import bootstrap_scores, compare, holm
from harness.results.index import Results, by_encoder
from harness.results.protocols import SEVEN, SIMCSE, WHITENING, Protocol, averages
from harness.results.records import Cell, Store
from harness.results.row_comparisons import Comparisons, Neighbours, rounded
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
SEED = 0


def compare_tables(
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    known: Mapping[str, Comparisons],
) -> Iterator[Comparisons]:
    """Compare the rows of every leaderboard table that was measured in full in `runs`.

    A known comparison that holds for a table's averages is yielded as it is.
    """
    results = Results.read(runs)
    for encoder, methods in by_encoder(results.methods).items():
        for protocol in (SIMCSE, WHITENING):
            # A committed record without its per-pair similarities cannot be resampled.
            here = [m for m in methods if _measured_here(runs, m, protocol)]
            order = averages(results, here, protocol)
            old = known.get(f"{encoder}.{protocol.id}")
            if old and old.hold_for(order):
                yield old
                continue
            if len(order) < 2:
                continue
            progress.phase(f"{encoder}: comparing rows, {protocol.title}", len(SEVEN))
            scores = _resampled(runs, loader, registry, tuple(order), protocol, progress)
            found = [compare(above, below) for above, below in pairwise(scores)]
            adjusted = holm([c.p for c in found])
            rows = tuple(
                Neighbours(above, below, round(c.low, 4), round(c.high, 4), c.p, p)
                for (above, below), c, p in zip(pairwise(order), found, adjusted, strict=True)
            )
            yield Comparisons(encoder, protocol.id, RESAMPLES, SEED, rounded(order), rows)


def _measured_here(runs: Store, method: str, protocol: Protocol) -> bool:
    """Whether the similarities of all seven tasks lie beside their records."""
    cells = (Cell(method, protocol.task(task)) for task in SEVEN)
    return all(runs.cosines(cell) is not None for cell in cells)


def _resampled(
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    methods: Sequence[str],
    protocol: Protocol,
    progress: Progress,
) -> Float64[np.ndarray, "M R"]:
    """The mean over the seven tasks of every method's score on every resample."""
    total = np.zeros((len(methods), RESAMPLES))
    for base in SEVEN:
        task = registry.tasks[protocol.task(base)]
        pairs = loader.inputs(task).pairs
        columns = [runs.cosines(Cell(method, task.name)) for method in methods]
        total += bootstrap_scores(
            np.stack([column for column in columns if column is not None]),
            pairs.gold,
            pairs.group,
            metric="spearman",
            aggregate="all" if protocol.aggregation == "all" else "wmean",
            resamples=RESAMPLES,
            rng=np.random.default_rng(SEED),
        )
        progress.step(1)
    return total / len(SEVEN)
