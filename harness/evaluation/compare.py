"""Method against method: is the difference more than the choice of test items?

The paired bootstrap answers for claims between methods without seeds, for neighbouring rows of the
leaderboard, and for `harness compare`: all methods are scored on the same resamples of a task's
items. A mean over tasks is that of each resample's scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import cast

import numpy as np

from harness.core.arrays import Float64
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.types import Progress, Task
from harness.evaluation.engines import Engine, InProcess
from harness.registry import Registry
from harness.results.claims import SIGN, Claims, ClaimTests, Interval, Intervals
from harness.results.comparisons import (
    LEVEL,
    Comparisons,
    Metric,
    Neighbours,
    bootstrap_scores,
    compare_resamples,
    holm,
    rounded,
)
from harness.results.index import Results, main_path, methods_by_encoder, score_at
from harness.results.protocols import SEVEN, SIMCSE, WHITENING, Scoring, averages
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
SEED = 0
SCORINGS = (SIMCSE, WHITENING)  # of the leaderboard tables whose rows are compared
HERE = InProcess()

# The scores that a resample can compute again: correlations with gold, the share of right classes.
RESAMPLED = {("accuracy",), *product(("spearman", "pearson"), ("all", "wmean"))}

Path = tuple[str, ...]  # of a score in a record: metric and aggregation


@dataclass(frozen=True)
class Scored:
    """Methods and the scores by whose mean they are compared: each a task and a path."""

    methods: tuple[str, ...]
    scores: tuple[tuple[Task, Path], ...]


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
    findings = [finding for claim in claims.resolved for finding in tests.test(claim).every]
    intervals = {f.contrast: known[f.contrast] for f in findings if f.contrast in known}
    due = []
    methods_by_score: dict[tuple[str, Path], dict[str, None]] = {}
    for finding in findings:
        scores, methods = finding.contrast.scores, (finding.contrast.better, finding.contrast.worse)
        if finding.decision.by == SIGN and all(
            path in RESAMPLED and _similarities_lie_in(runs, methods, task) for task, path in scores
        ):
            due.append(finding)
            for score in scores:
                methods_by_score.setdefault(score, {}).update(dict.fromkeys(methods))
    scored = {
        Scored((*methods,), ((registry.tasks[task], path),)): (task, path)
        for (task, path), methods in methods_by_score.items()
    }
    what = "comparing the methods of claims"
    resampled = {
        (method, *scored[item]): scores
        for item, matrix in _on_resamples(what, [*scored], runs, loader, progress, engine)
        for method, scores in zip(item.methods, matrix, strict=True)
    }
    for finding in due:
        contrast = finding.contrast
        better, worse = (
            np.mean([resampled[method, *score] for score in contrast.scores], axis=0)
            for method in (contrast.better, contrast.worse)
        )
        test = compare_resamples(better, worse)
        above, below = (side.value.mean or 0.0 for side in finding.sides)
        low, high = round(test.low, 4), round(test.high, 4)
        difference = round(above - below, 4)
        intervals[contrast] = Interval(contrast, difference, low, high, RESAMPLES, SEED)
    return intervals


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
    due: dict[Scored, tuple[str, Scoring, dict[str, float]]] = {}
    for encoder, methods in methods_by_encoder(results.methods).items():
        for scoring in SCORINGS:
            tasks = list(map(scoring.task, SEVEN))
            # A committed record without its per-pair similarities cannot be resampled.
            here = [m for m in methods if all(_similarities_lie_in(runs, [m], t) for t in tasks)]
            order = averages(results, here, scoring)
            stored = known.get(f"{encoder}.{scoring.id}")
            if stored and stored.hold_for(order):
                yield stored
            elif len(order) > 1:
                path = (scoring.correlation, scoring.aggregation)
                item = Scored((*order,), tuple((registry.tasks[task], path) for task in tasks))
                due[item] = (encoder, scoring, order)
    for item, matrix in _on_resamples("comparing rows", [*due], runs, loader, progress, engine):
        encoder, scoring, order = due[item]
        tests = [compare_resamples(above, below) for above, below in pairwise(matrix)]
        adjusted = holm([test.p for test in tests])
        rows = tuple(
            Neighbours(above, below, round(test.low, 4), round(test.high, 4), test.p, p_holm)
            for (above, below), test, p_holm in zip(
                pairwise(item.methods), tests, adjusted, strict=True
            )
        )
        yield Comparisons(encoder, scoring.id, RESAMPLES, SEED, rounded(order), rows)


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
    methods = (first, second)
    if first == second:
        raise UsageError(f"wanted two methods, found {first} twice")
    measured = Results.read(runs).by_cell
    results = Results({**(Results.read(packaged).by_cell if packaged else {}), **measured})
    faults = {
        task: _fault(methods, task, results, runs, measured)
        for task in tasks or registry.tasks.values()
        if tasks or any((method, task.name) in measured for method in methods)
    }
    chosen = [task for task, fault in faults.items() if not fault]
    if tasks and len(chosen) < len(faults):
        raise UsageError(next(filter(None, faults.values())))
    if not chosen:
        raise UsageError(
            f"{runs.folder} holds no task that {first} and {second} can be compared on; "
            f"harness run -m {first} {second} -t TASK -o {runs.folder}"
        )
    scores, paths, sources, tested = {}, {}, {}, {}
    for task in chosen:
        records = [results.records(method, task.name)[0] for method in methods]
        paths[task] = main_path(records[0].scores)
        scores[task] = [score_at(record.scores, paths[task]) or 0.0 for record in records]
        sources[task] = ["own" if (m, task.name) in measured else "packaged" for m in methods]
        digest = records[0].digests["data"]
        if "packaged" not in sources[task]:
            tested[Scored(methods, ((task, paths[task]),))] = task
            digest = loader.inputs(task).digests["data"]
        for record in records:
            if record.digests["data"] != digest:
                raise DataError(
                    f"{record.method} was scored on other pairs of {record.task} than those that "
                    "it is compared on; run it again"
                )
    resampled = _on_resamples(
        f"comparing {first} with {second}", [*tested], runs, loader, progress, HERE
    )
    tests = {tested[item]: compare_resamples(*matrix) for item, matrix in resampled}
    p_holm = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    rows = []
    for task, (one, other) in scores.items():
        test = tests.get(task)
        interval = (test.low, test.high, test.p, p_holm[task]) if test else (None,) * 4
        numbers = (one, other, one - other, *interval)
        rows.append(PairedTest(task.name, paths[task][0], *numbers, *sources[task]))
    return rows


def _fault(
    methods: tuple[str, str],
    task: Task,
    results: Results,
    runs: Store,
    measured: Collection[tuple[str, str]],
) -> str:
    """Why the methods cannot be compared on a task, and what to do; empty where they can."""
    again = f"{' '.join(methods)} -t {task.name} -o {runs.folder}"
    records = [record for m in methods for record in results.records(m, task.name)[:1]]
    lacking = [m for m in methods if m not in {r.method for r in records if r.seed == 0}]
    if lacking:
        return (
            f"{runs.folder} lacks a record of {' and of '.join(lacking)} on {task.name}, seed 0; "
            f"harness run -m {' '.join(lacking)} -t {task.name} -o {runs.folder}"
        )
    path = main_path(records[0].scores)
    if any(score_at(record.scores, path) is None for record in records):
        return f"{task.name}: a score is undefined"
    if path not in RESAMPLED:
        return f"{task.name}: wanted a correlation or an accuracy, found {path[0]}"
    both_measured = all((method, task.name) in measured for method in methods)
    if both_measured and not _similarities_lie_in(runs, methods, task.name):
        return (
            f"{task.name}: the similarities of {' or '.join(methods)} do not lie beside its "
            f"record; harness run --fresh -m {again}"
        )
    return ""


def _similarities_lie_in(runs: Store, methods: Iterable[str], task: str) -> bool:
    """Whether the similarities of every method on a task lie beside its record."""
    return all(runs.cosines(Cell(method, task)) is not None for method in methods)


def _on_resamples(
    what: str,
    due: Sequence[Scored],
    runs: Store,
    loader: TaskLoader,
    progress: Progress,
    engine: Engine,
) -> Iterator[tuple[Scored, Float64[np.ndarray, "M R"]]]:
    """Each item with the mean score of its methods, in points, on every resample, as it is done."""
    if due:
        progress.phase(what, len(due))
    # The texts that a loader has read are not sent to other processes.
    unread = loader if engine == HERE else TaskLoader(loader.places, loader.corpora)
    for item, scores in engine.map(partial(_resampled, runs, unread), due):
        if isinstance(scores, HarnessError):
            raise scores
        progress.step(1)
        yield item, scores


def _resampled(runs: Store, loader: TaskLoader, item: Scored) -> Float64[np.ndarray, "M R"]:
    """The mean of each method's scores of seed 0 on every resample of the tasks' items."""
    matrices = []
    for task, (metric, *aggregation) in item.scores:
        pairs = loader.inputs(task).pairs
        cosines = [runs.cosines(Cell(method, task.name)) for method in item.methods]
        matrix = bootstrap_scores(
            np.stack([column for column in cosines if column is not None]),
            pairs.gold,
            pairs.group,
            metric=cast(Metric, metric),
            aggregate="wmean" if aggregation == ["wmean"] else "all",
            resamples=RESAMPLES,
            rng=np.random.default_rng(SEED),
        )
        matrices.append(matrix)
    mean: Float64[np.ndarray, "M R"] = np.mean(matrices, axis=0)
    return mean
