"""Method against method on tasks that both were run on: the paired bootstrap over test pairs.

Both are scored on the same resamples of a task's pairs, and the p-values of several tasks are
corrected by Holm's method.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
        found.append((one, other, _resampled(one, other, task, runs, loader, own)))
        progress.step(1)
    adjusted = iter(holm([tested.p for _, _, tested in found if tested]))
    return [
        _test(one, other, own, tested, next(adjusted) if tested else None)
        for one, other, tested in found
    ]


def _resampled(
    one: Record, other: Record, task: Task, runs: Store, loader: TaskLoader, own: Collection[Key]
) -> Comparison | None:
    """The paired bootstrap of two records; None where one of them is not in `runs`."""
    if (one.method, task.name) not in own or (other.method, task.name) not in own:
        _require_pairs([other], one.digests["data"])
        return None
    _require_pairs([one, other], loader.inputs(task).digests["data"])
    path = main_path(one.scores)
    return compare(
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
