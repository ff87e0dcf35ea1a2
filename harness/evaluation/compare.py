"""Claims between methods without seeds: is the difference more than the choice of test pairs?

The paired bootstrap over the pairs of each task: both methods are scored on the same resamples. An
average over tasks is that of each resample's scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import Progress, Record, Task
from harness.evaluation.engines import Engine, InProcess
from harness.registry import Registry
from harness.results.claim_tests import SIGN, ClaimTests
from harness.results.claims import Claims, Contrast, Interval, Intervals
from harness.results.comparisons import (
    LEVEL,
    Comparison,
    Comparisons,
    Neighbours,
    bootstrap_scores,
    compare_resamples,
    holm,
    rounded,
)
from harness.results.index import Results, by_encoder, main_path, score_at
from harness.results.planned import PlannedCell
from harness.results.protocols import SEVEN, SIMCSE, WHITENING, Scoring, averages
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

CLAIM_RESAMPLES = 10_000
CLAIM_SEED = 0
CLAIMS_HERE = InProcess()

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
    engine: Engine = CLAIMS_HERE,
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
        found, (above, below) = (
            compare_resamples(*sides),
            (side.value.mean or 0.0 for side in one.sides),
        )
        low, high = round(found.low, 4), round(found.high, 4)
        intervals[one.contrast] = Interval(
            round(above - below, 4), low, high, CLAIM_RESAMPLES, CLAIM_SEED
        )
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
        resamples=CLAIM_RESAMPLES,
        rng=np.random.default_rng(CLAIM_SEED),
    )[0]


RESAMPLES = 10_000
SEED = 0
BOARDS = (SIMCSE, WHITENING)
PAIR_SECONDS = 2e-4  # on a core, for a pair of a row on all resamples
HERE = InProcess()


@dataclass(frozen=True)
class Board:
    """The rows of one encoder under one protocol, best first, and the protocol's seven tasks."""

    encoder: str
    protocol: Scoring
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
    found = [
        compare_resamples(above, below)
        for above, below in pairwise(_resampled(runs, loader, board))
    ]
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


def _measured_here(runs: Store, method: str, protocol: Scoring) -> bool:
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


Key = tuple[str, str]  # method and task


@dataclass(frozen=True)
class PairedTest:
    """One task: both scores, the first minus the second with its 95 % interval, and p-values.

    Scores and differences are in points; `p_holm` is corrected for the number of tested tasks.
    Interval and p-values are None where a score is of the packaged results, as its source says:
    these hold no similarities of the pairs.
    """

    task: str
    metric: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    first_source: str
    second_source: str

    @property
    def differs(self) -> bool | None:
        """Whether it is more than the choice of test pairs, at 5 %; None where it is not tested."""
        return None if self.p_holm is None else self.p_holm <= LEVEL


def compare_methods(
    first: str,
    second: str,
    tasks: Sequence[Task],
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    packaged: Store | None = None,
) -> list[PairedTest]:
    """Compare the main scores of seed 0 on each task, or on every task that has both.

    A cell that `runs` lacks is taken from `packaged`; without `tasks`, one of both is in `runs`.
    Raises UsageError for a task that cannot be compared, with what to do; DataError where the
    methods were scored on other pairs.
    """
    if first == second:
        raise UsageError(f"wanted two methods, found {first} twice")
    own = Results.read(runs).by_cell
    results = Results({**(Results.read(packaged).by_cell if packaged else {}), **own})
    faults = {
        task: _fault(first, second, task, results, runs, own)
        for task in tasks or registry.tasks.values()
        if tasks or (first, task.name) in own or (second, task.name) in own
    }
    chosen = [task for task, fault in faults.items() if not fault]
    if tasks and (wrong := [fault for fault in faults.values() if fault]):
        raise UsageError(wrong[0])
    if not chosen:
        raise UsageError(
            f"{runs.folder} holds no task that {first} and {second} can be compared on; "
            f"harness run -m {first} {second} -t TASK -o {runs.folder}"
        )
    progress.phase(f"comparing {first} with {second}", len(chosen))
    found: list[tuple[Record, Record, Comparison | None]] = []
    for task in chosen:
        one, other = (results.records(method, task.name)[0] for method in (first, second))
        found.append((one, other, _compare_resampled(one, other, task, runs, loader, own)))
        progress.step(1)
    adjusted = iter(holm([tested.p for _, _, tested in found if tested]))
    return [
        _test(one, other, own, tested, next(adjusted) if tested else None)
        for one, other, tested in found
    ]


def _compare_resampled(
    one: Record, other: Record, task: Task, runs: Store, loader: TaskLoader, own: Collection[Key]
) -> Comparison | None:
    """The paired bootstrap of two records; None where one of them is not in `runs`."""
    if (one.method, task.name) not in own or (other.method, task.name) not in own:
        _require_pairs([other], one.digests["data"])
        return None
    _require_pairs([one, other], loader.inputs(task).digests["data"])
    path = main_path(one.scores)
    return compare_resamples(
        *(scores_on_resamples(runs, loader, Scored(r.method, task, path)) for r in (one, other))
    )


def _fault(
    first: str, second: str, task: Task, results: Results, runs: Store, own: Collection[Key]
) -> str:
    """Why the methods cannot be compared on a task; empty where they can."""
    records = [results.records(method, task.name)[:1] for method in (first, second)]
    both = zip((first, second), records, strict=True)
    lacking = [method for method, found in both if not found or found[0].seed]
    if lacking:
        return (
            f"{runs.folder} lacks a record of {' and of '.join(lacking)} on {task.name}, seed 0; "
            f"harness run -m {' '.join(lacking)} -t {task.name} -o {runs.folder}"
        )
    path = main_path(records[0][0].scores)
    if any(score_at(record.scores, path) is None for [record] in records):
        return f"{task.name}: a score is undefined"
    if not resamples_make(path):
        return f"{task.name}: wanted a correlation or an accuracy, found {path[0]}"
    both_own = (first, task.name) in own and (second, task.name) in own
    if both_own and not similarities_of((first, second), (task.name,), runs):
        return (
            f"{task.name}: the similarities of {first} or {second} do not lie beside its record; "
            f"harness run --fresh -m {first} {second} -t {task.name} -o {runs.folder}"
        )
    return ""


def _require_pairs(records: Sequence[Record], digest: str) -> None:
    for record in records:
        if record.digests["data"] != digest:
            raise DataError(
                f"{record.method} was scored on other pairs of {record.task} than those that it "
                "is compared on; run it again"
            )


def _test(
    first: Record,
    second: Record,
    own: Collection[Key],
    found: Comparison | None,
    p_holm: float | None,
) -> PairedTest:
    path = main_path(first.scores)
    scores = [score_at(record.scores, path) for record in (first, second)]
    one, other = (score for score in scores if score is not None)
    return PairedTest(
        task=first.task,
        metric=path[0],
        first=one,
        second=other,
        difference=one - other,
        low=found.low if found else None,
        high=found.high if found else None,
        p=found.p if found else None,
        p_holm=p_holm,
        first_source="own" if (first.method, first.task) in own else "packaged",
        second_source="own" if (second.method, second.task) in own else "packaged",
    )
