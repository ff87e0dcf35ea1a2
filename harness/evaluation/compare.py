"""Method against method on tasks that both were run on: the paired bootstrap over test pairs.

Both are scored on the same resamples of a task's pairs, and the p-values of several tasks are
corrected by Holm's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import DataError, UsageError
from harness.core.types import Progress, Record, Task
from harness.evaluation.bootstrap_claims import (
    Scored,
    resamples_make,
    scores_on_resamples,
    similarities_of,
)
from harness.registry import Registry
from harness.results.bootstrap import Comparison, compare, holm
from harness.results.index import Results, main_path, score_at
from harness.results.records import Store
from harness.results.row_comparisons import LEVEL
from harness.tasks.loader import TaskLoader


@dataclass(frozen=True)
class PairedTest:
    """One task: both scores, the first minus the second with its 95 % interval, and p-values.

    Scores and differences are in points; `p_holm` is corrected for the number of tasks.
    """

    task: str
    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    @property
    def differs(self) -> bool:
        """Whether the difference is more than the choice of test pairs, at 5 %."""
        return self.p_holm <= LEVEL


def compare_methods(
    first: str,
    second: str,
    tasks: Sequence[Task],
    runs: Store,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
) -> list[PairedTest]:
    """Compare the main scores of seed 0 on each task, or on every task that has both.

    Raises UsageError for a task that cannot be compared, with what to do; DataError where the
    methods were scored on other pairs.
    """
    if first == second:
        raise UsageError(f"wanted two methods, found {first} twice")
    results = Results.read(runs)
    faults = {t: _fault(first, second, t, results, runs) for t in tasks or registry.tasks.values()}
    chosen = [task for task, fault in faults.items() if not fault]
    if tasks and (wrong := [fault for fault in faults.values() if fault]):
        raise UsageError(wrong[0])
    if not chosen:
        raise UsageError(
            f"{runs.folder} holds no task that {first} and {second} can be compared on; "
            f"harness run -m {first} {second} -t TASK -o {runs.folder}"
        )
    progress.phase(f"comparing {first} with {second}", len(chosen))
    found: list[tuple[Record, Record, Comparison]] = []
    for task in chosen:
        pair = [results.records(method, task.name)[0] for method in (first, second)]
        _require_pairs(pair, loader.inputs(task).digests["data"])
        path = main_path(pair[0].scores)
        sides = (scores_on_resamples(runs, loader, Scored(m, task, path)) for m in (first, second))
        found.append((pair[0], pair[1], compare(*sides)))
        progress.step(1)
    adjusted = holm([one.p for _, _, one in found])
    return [_test(*one, p) for one, p in zip(found, adjusted, strict=True)]


def _fault(first: str, second: str, task: Task, results: Results, runs: Store) -> str:
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
    if not similarities_of((first, second), (task.name,), runs):
        return (
            f"{task.name}: the similarities of {first} or {second} do not lie beside its record; "
            f"harness run --fresh -m {first} {second} -t {task.name} -o {runs.folder}"
        )
    return ""


def _require_pairs(records: Sequence[Record], digest: str) -> None:
    for record in records:
        if record.digests["data"] != digest:
            raise DataError(
                f"{record.method} was scored on other pairs of {record.task} than those that are "
                "here; run it again"
            )


def _test(first: Record, second: Record, found: Comparison, p_holm: float) -> PairedTest:
    path = main_path(first.scores)
    scores = [score_at(record.scores, path) for record in (first, second)]
    one, other = (score for score in scores if score is not None)
    return PairedTest(
        first.task, path[0], one, other, one - other, found.low, found.high, found.p, p_holm
    )
