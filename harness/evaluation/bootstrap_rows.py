"""Method against method: are neighbouring rows of a table distinguishable?

Paired bootstrap over the items of each task: every row is scored on the same resamples, the seven
scores of a resample are averaged, and the averages' difference is what is tested, with Holm's
correction over the table. Dear, so it is computed when cells are run and stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import HarnessError
from harness.core.types import Progress, Task
from harness.evaluation.engines import Engine, InProcess
from harness.registry import Registry
from harness.results.bootstrap import bootstrap_scores, compare, holm
from harness.results.index import Results, by_encoder
from harness.results.planned import PlannedCell
from harness.results.protocols import SEVEN, SIMCSE, WHITENING, Protocol, averages
from harness.results.records import Cell, Store
from harness.results.row_comparisons import Comparisons, Neighbours, rounded
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
SEED = 0
BOARDS = (SIMCSE, WHITENING)
PAIR_SECONDS = 2e-4  # on a core, for a pair of a row on all resamples
HERE = InProcess()


@dataclass(frozen=True)
class Board:
    """The rows of one encoder under one protocol, best first, and the protocol's seven tasks."""

    encoder: str
    protocol: Protocol
    methods: tuple[str, ...]
    tasks: tuple[Task, ...]


def compare_tables(
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    known: Mapping[str, Comparisons],
    engine: Engine = HERE,
) -> Iterator[Comparisons]:
    """Compare the rows of every leaderboard table that was measured in full in `runs`.

    A known comparison that holds for a table's averages is yielded as it is.
    """
    results = Results.read(runs)
    due = []
    for encoder, methods in by_encoder(results.methods).items():
        for protocol in BOARDS:
            # A committed record without its per-pair similarities cannot be resampled.
            here = [m for m in methods if _measured_here(runs, m, protocol)]
            order = averages(results, here, protocol)
            old = known.get(f"{encoder}.{protocol.id}")
            if old and old.hold_for(order):
                yield old
            elif len(order) > 1:
                tasks = tuple(registry.tasks[protocol.task(base)] for base in SEVEN)
                due.append((Board(encoder, protocol, tuple(order), tasks), rounded(order)))
    if due:
        progress.phase("comparing rows", len(due))
    shown, fresh = dict(due), TaskLoader(loader.places, loader.corpora)
    for board, rows in engine.map(partial(compare_rows, runs, fresh), list(shown)):
        if isinstance(rows, HarnessError):
            raise rows
        progress.step(1)
        name, protocol = board.encoder, board.protocol
        yield Comparisons(name, protocol.id, RESAMPLES, SEED, shown[board], rows)


def compare_rows(runs: Store, loader: TaskLoader, board: Board) -> tuple[Neighbours, ...]:
    """Each row against the next."""
    found = [compare(above, below) for above, below in pairwise(_resampled(runs, loader, board))]
    adjusted = holm([c.p for c in found])
    return tuple(
        Neighbours(above, below, round(c.low, 4), round(c.high, 4), c.p, p)
        for (above, below), c, p in zip(pairwise(board.methods), found, adjusted, strict=True)
    )


def row_seconds(
    cells: Sequence[PlannedCell], loader: TaskLoader, known: Iterable[Comparisons]
) -> float:
    """Seconds on a core to compare the rows of the leaderboard tables that cells fill.

    A known comparison of a table's rows counts as one that will hold.
    """
    compared = {(found.name, frozenset(found.averages)) for found in known}
    tasks = {cell.task.name: cell.task for cell in cells}
    on: dict[str, set[str]] = {}
    for cell in cells:
        on.setdefault(cell.method.id, set()).add(cell.task.name)
    seconds = 0.0
    for encoder, methods in by_encoder(list(on)).items():
        for protocol in BOARDS:
            seven = {protocol.task(base) for base in SEVEN}
            rows = frozenset(method for method in methods if seven <= on[method])
            if len(rows) > 1 and (f"{encoder}.{protocol.id}", rows) not in compared:
                with suppress(HarnessError):  # without data nothing is compared
                    pairs = sum(len(loader.inputs(tasks[name]).pairs) for name in seven)
                    seconds += PAIR_SECONDS * pairs * len(rows)
    return seconds


def _measured_here(runs: Store, method: str, protocol: Protocol) -> bool:
    """Whether the similarities of all seven tasks lie beside their records."""
    cells = (Cell(method, protocol.task(task)) for task in SEVEN)
    return all(runs.cosines(cell) is not None for cell in cells)


def _resampled(runs: Store, loader: TaskLoader, board: Board) -> Float64[np.ndarray, "M R"]:
    """The mean over the seven tasks of every method's score on every resample."""
    total = np.zeros((len(board.methods), RESAMPLES))
    for task in board.tasks:
        pairs = loader.inputs(task).pairs
        columns = [runs.cosines(Cell(method, task.name)) for method in board.methods]
        total += bootstrap_scores(
            np.stack([column for column in columns if column is not None]),
            pairs.gold,
            pairs.group,
            metric="spearman",
            aggregate="all" if board.protocol.aggregation == "all" else "wmean",
            resamples=RESAMPLES,
            rng=np.random.default_rng(SEED),
        )
    return total / len(SEVEN)
