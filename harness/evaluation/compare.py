"""Comparisons of methods: is a difference more than the choice of test items and seeds?

The paired bootstrap (`resampler`) tests the claims of papers, neighbouring rows of the
leaderboard, the columns of `harness table`, and the two methods of its `--test`. A
difference is the first method's score minus the second's, in points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harness.core.errors import DataError, UsageError
from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.scores import score_at
from harness.core.types import Record, Task
from harness.evaluation.resampler import (
    RESAMPLED,
    RESAMPLES,
    RESAMPLING_SEED,
    MethodGroup,
    Resampler,
    ScoreOfTask,
)
from harness.registry import Registry, nearest
from harness.results.bootstrap import (
    SIGNIFICANCE_LEVEL,
    PairedComparison,
    compare_resamples,
    holm,
)
from harness.results.claim_tests import BASES_WITHOUT_INTERVAL, ClaimTests, Finding
from harness.results.claims import Claims
from harness.results.comparisons import Comparisons, Neighbours, printed_averages
from harness.results.folder import ResultsFolder
from harness.results.index import Results, column_value, methods_by_encoder
from harness.results.intervals import ITEMS_ALONE, SEEDS_AND_ITEMS, Interval, Intervals
from harness.results.records import Cell
from harness.results.scorings import COMPARED_SCORINGS, SEVEN, Scoring, averages

# Claims


def compare_claims(
    claims: Claims, resampler: Resampler, stored: Intervals
) -> Intervals:
    """The claims' stored intervals, and a new one for each finding of a run without one.

    No interval is made for scores that resamples cannot compute again, nor if the
    similarities of a method are not stored with its records, for each of its seeds.
    """
    registry = resampler.results.registry
    tests = ClaimTests(resampler.results.records, registry, stored)
    findings: list[Finding] = []
    for claim in claims.resolved:
        findings += tests.test(claim).all_findings
    intervals = {
        finding.contrast: stored[finding.contrast]
        for finding in findings
        if finding.contrast in stored
    }
    finding_by_group: dict[MethodGroup, Finding] = {}
    for finding in findings:
        group = _group_of_finding(finding, registry)
        if group is not None and resampler.has_similarities(group):
            finding_by_group[group] = finding
    phase = "comparing the methods of claims"
    for group, scores in resampler.scores(phase, finding_by_group):
        finding = finding_by_group[group]
        comparison = compare_resamples(*scores)
        intervals[finding.contrast] = _interval(finding, comparison)
    return intervals


def _group_of_finding(finding: Finding, registry: Registry) -> MethodGroup | None:
    """The methods of a finding that needs a new interval; None if none is needed or possible."""
    contrast = finding.contrast
    needs_interval = finding.decision.basis in BASES_WITHOUT_INTERVAL
    tasks_are_known = all(task in registry.tasks for task, _ in contrast.scores)
    if not needs_interval or not tasks_are_known:
        return None
    return MethodGroup(
        methods=(contrast.better, contrast.worse),
        scores=tuple((registry.tasks[task], path) for task, path in contrast.scores),
        seeds=tuple(tuple(sorted(side.scores)) for side in finding.sides),
    )


def _interval(finding: Finding, comparison: PairedComparison) -> Interval:
    """The interval of a finding's difference."""
    # Both means are defined: a finding with an undefined one needs no interval.
    first_mean, second_mean = (side.value.mean or 0.0 for side in finding.sides)
    is_seeded = any(side.seeded for side in finding.sides)
    return Interval(
        contrast=finding.contrast,
        difference=round(first_mean - second_mean, 4),
        low=round(comparison.low, 4),
        high=round(comparison.high, 4),
        p=comparison.p,
        by=SEEDS_AND_ITEMS if is_seeded else ITEMS_ALONE,
        resamples=RESAMPLES,
        seed=RESAMPLING_SEED,
    )


# Tables of the leaderboard


@dataclass(frozen=True, kw_only=True)
class ComparedTable:
    """A table of the leaderboard whose rows are compared.

    Attributes:
        encoder: The encoder of all rows.
        scoring: How the seven tasks are scored.
        averages: The average of each row over the seven tasks, by method, best first.
    """

    encoder: str
    scoring: Scoring
    averages: Mapping[str, float]


def compare_tables(
    resampler: Resampler, stored: Mapping[str, Comparisons]
) -> Iterator[Comparisons]:
    """Compare the neighbouring rows of every table of the leaderboard.

    A table has the methods of an encoder whose similarities are stored for all of its
    tasks. A stored comparison that holds for a table's averages is yielded as it is.
    """
    results = resampler.results.records
    table_by_group: dict[MethodGroup, ComparedTable] = {}
    for encoder, methods in methods_by_encoder(results.methods).items():
        for scoring in COMPARED_SCORINGS:
            scores = _scores_of_tasks(scoring, resampler.results.registry)
            if scores is None:
                continue
            # A committed record without its similarities cannot be resampled.
            resampled_methods = [
                method
                for method in methods
                if resampler.has_similarities(over_seeds((method,), scores, results))
            ]
            table = ComparedTable(
                encoder=encoder,
                scoring=scoring,
                averages=averages(results, resampled_methods, scoring),
            )
            comparisons = stored.get(f"{encoder}.{scoring.id}")
            if comparisons is not None and comparisons.hold_for(table.averages):
                yield comparisons
            elif len(table.averages) > 1:
                group = over_seeds(tuple(table.averages), scores, results)
                table_by_group[group] = table
    for group, matrix in resampler.scores("comparing rows", table_by_group):
        table = table_by_group[group]
        tests = [compare_resamples(above, below) for above, below in pairwise(matrix)]
        yield Comparisons(
            encoder=table.encoder,
            protocol=table.scoring.id,
            resamples=RESAMPLES,
            seed=RESAMPLING_SEED,
            averages=printed_averages(table.averages),
            rows=_neighbours(group.methods, tests),
            over_seeds=True,
        )


def _scores_of_tasks(
    scoring: Scoring, registry: Registry
) -> tuple[ScoreOfTask, ...] | None:
    """The scores of the seven tasks under a scoring; None if a task is not registered."""
    task_names = [scoring.task(task) for task in SEVEN]
    if not all(name in registry.tasks for name in task_names):
        return None
    return tuple((registry.tasks[name], scoring.path) for name in task_names)


def _neighbours(
    methods: Sequence[str], tests: Sequence[PairedComparison]
) -> tuple[Neighbours, ...]:
    """Each row with the row above it and their test, by Holm corrected for all of the rows."""
    adjusted = holm([test.p for test in tests])
    rows = []
    for neighbours, test, p_holm in zip(
        pairwise(methods), tests, adjusted, strict=True
    ):
        above, below = neighbours
        rows.append(
            Neighbours(
                above=above,
                below=below,
                low=round(test.low, 4),
                high=round(test.high, 4),
                p=test.p,
                p_holm=p_holm,
            )
        )
    return tuple(rows)


def over_seeds(
    methods: tuple[str, ...], scores: tuple[ScoreOfTask, ...], results: Results
) -> MethodGroup:
    """The methods with the seeds that each of them has on all of the tasks."""
    seeds = tuple(_common_seeds(method, scores, results) for method in methods)
    return MethodGroup(methods=methods, scores=scores, seeds=seeds)


def _common_seeds(
    method: str, scores: Iterable[ScoreOfTask], results: Results
) -> tuple[int, ...]:
    """The seeds that a method was measured with on all of the tasks."""
    seeds_by_task = [
        {record.seed for record in results.records(method, task.name)}
        for task, _ in scores
    ]
    return tuple(sorted(set.intersection(*seeds_by_task)))


# Two methods


@dataclass(frozen=True)
class PairedTest:
    """The comparison of two methods on one task.

    There is no test if the similarities of a method are missing.

    Attributes:
        task: The name of the task.
        metric: The name of its main score.
        first: The score of the first method, in points.
        second: The score of the second method, in points.
        difference: The first score minus the second.
        low: The lower end of the 95 % interval of the difference; None without a test.
        high: Its upper end; None without a test.
        p: The p-value of no difference; None without a test.
        p_holm: The p-value corrected for the number of tasks; None without a test.
        missing: The methods whose similarities are missing.
    """

    task: str
    metric: str
    first: float
    second: float
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    missing: tuple[str, ...] = ()

    @property
    def differs(self) -> bool | None:
        """Whether the methods differ, at the level of 5 %; None without a test."""
        return None if self.p_holm is None else self.p_holm <= SIGNIFICANCE_LEVEL


@dataclass(frozen=True, kw_only=True)
class SharedTask:
    """A task that two methods can be compared on.

    Attributes:
        task: The task.
        methods: The methods.
        records: The record of each method's seed 0.
        missing: The methods whose similarities are not stored; their difference has no
            test.
    """

    task: Task
    methods: tuple[str, str]
    records: tuple[Record, Record]
    missing: tuple[str, ...]

    @property
    def group(self) -> MethodGroup:
        """The methods, compared by the main score of the task."""
        score = (self.task, metric_of(self.task).main_score)
        return MethodGroup(methods=self.methods, scores=(score,))

    def without_test(self) -> PairedTest:
        """Both scores and their difference."""
        path = metric_of(self.task).main_score
        # Both scores are defined: other tasks are not compared.
        first_score, second_score = (
            score_at(record.scores, path) or 0.0 for record in self.records
        )
        return PairedTest(
            task=self.task.name,
            metric=path[0],
            first=first_score,
            second=second_score,
            difference=first_score - second_score,
            missing=self.missing,
        )


def compare_methods(
    first: str, second: str, tasks: Sequence[Task], resampler: Resampler
) -> list[PairedTest]:
    """Compare the main scores of two methods with seed 0.

    Args:
        first: The id of the first method.
        second: The id of the second method.
        tasks: The tasks that they are compared on; without any, all tasks that both
            were measured on, but those on which both lack their similarities.
        resampler: Computes their scores on resamples.

    Raises:
        UsageError: The methods cannot be compared on a chosen task, or on any.
        DataError: A record is of other pairs than the task's pairs of today.
    """
    if first == second:
        raise UsageError(f"wanted two methods, found {first} twice")
    folder, methods = resampler.results, (first, second)
    for method in methods:
        _require_recorded_or_known(method, tasks, folder)
    shared_tasks = _shared_tasks(methods, tasks, folder)
    if not shared_tasks:
        raise UsageError(
            f"found no task that {first} and {second} can be compared on; "
            f"{measuring_command(methods, ['TASK'], folder)}"
        )
    for shared_task in shared_tasks:
        if shared_task.missing:
            # Without a test no texts are needed: both records must be of the same pairs.
            digests = shared_task.records[0].digests
        else:
            digests = resampler.loader.texts(shared_task.task).digests
        _require_data(shared_task.records, digests)
    groups = [
        shared_task.group for shared_task in shared_tasks if not shared_task.missing
    ]
    phase = f"comparing {first} with {second}"
    tests = {
        group: compare_resamples(*scores)
        for group, scores in resampler.scores(phase, groups)
    }
    adjusted = holm([test.p for test in tests.values()])
    p_holm = dict(zip(tests, adjusted, strict=True))
    rows = []
    for shared_task in shared_tasks:
        row = shared_task.without_test()
        group = shared_task.group
        if group in tests:
            test = tests[group]
            row = replace(
                row, low=test.low, high=test.high, p=test.p, p_holm=p_holm[group]
            )
        rows.append(row)
    return rows


def _shared_tasks(
    methods: tuple[str, str], chosen_tasks: Sequence[Task], folder: ResultsFolder
) -> list[SharedTask]:
    """The chosen tasks, or without any the registered tasks that both can be compared on.

    Raises UsageError for a chosen task that they cannot be compared on.
    """
    first, second = methods
    shared_tasks = []
    for task in chosen_tasks or folder.registry.tasks.values():
        fault = _fault(methods, task, folder)
        if fault and chosen_tasks:
            raise UsageError(fault)
        if fault:
            continue
        missing = tuple(
            method
            for method in methods
            if folder.similarities(Cell(method, task.name)) is None
        )
        if missing == methods and not chosen_tasks:
            continue
        records = (
            folder.records.records(first, task.name)[0],
            folder.records.records(second, task.name)[0],
        )
        shared_tasks.append(
            SharedTask(task=task, methods=methods, records=records, missing=missing)
        )
    return shared_tasks


def _fault(methods: tuple[str, str], task: Task, folder: ResultsFolder) -> str:
    """Why the methods cannot be compared on a task, and what to do; empty if they can."""
    record_by_method: dict[str, Record] = {}
    for method in methods:
        records = folder.records.records(method, task.name)
        if records and records[0].seed == 0:
            record_by_method[method] = records[0]
    unrecorded = [method for method in methods if method not in record_by_method]
    if unrecorded:
        return (
            f"found no record of {' and of '.join(unrecorded)} on {task.name}, seed 0; "
            f"{measuring_command(unrecorded, [task.name], folder)}"
        )
    path = metric_of(task).main_score
    scores = [score_at(record.scores, path) for record in record_by_method.values()]
    if None in scores:
        return f"{task.name}: a score is undefined"
    if path not in RESAMPLED:
        return (
            f"{task.name}: wanted a score that resamples compute again, found {path[0]}"
        )
    return ""


def measuring_command(
    methods: Sequence[str], tasks: Sequence[str], folder: ResultsFolder
) -> str:
    """The command that measures methods, with PATH for an encoder that is not registered."""
    words = ["harness run"]
    for name in dict.fromkeys(_encoder_name(method) for method in methods):
        if name not in folder.registry.encoders:
            words.append(f"--encoder {name}=PATH")
    words += ["-m", *methods, "-t", *tasks, f"-o {folder.path}"]
    return " ".join(words)


def _encoder_name(method: str) -> str:
    """The name of a method's encoder, without length and precision."""
    return base_name(method.partition(".")[0])


def _require_recorded_or_known(
    method: str, tasks: Sequence[Task], folder: ResultsFolder
) -> None:
    """Raise UsageError for a method without a record whose encoder is not registered."""
    name, encoders = _encoder_name(method), folder.registry.encoders
    if method in folder.records.methods or name in encoders:
        return
    offered = nearest(name, encoders) or "see harness list encoders."
    task_names = [task.name for task in tasks] or ["TASK"]
    raise UsageError(
        f"{method}: found no record of it and no encoder {name!r}; {offered} If it is your own: "
        f"{measuring_command([method], task_names, folder)}"
    )


# Columns of a table


def against_best(
    columns: Mapping[str, MethodGroup], resampler: Resampler
) -> dict[str, dict[str, float]]:
    """Test the methods of each column of a table against the best one, with Holm's correction.

    Seeds are resampled as items are. A column is left out if resamples cannot compute a
    score again, or if the similarities of a method are not stored.

    Args:
        columns: The methods and scores of each column, by its name.
        resampler: Computes their scores on resamples.

    Returns:
        By column and method, the p-value of no difference from the best method, corrected
        for the methods of the column. The best method has the highest mean over seeds,
        and p = 1.
    """
    results = resampler.results.records
    name_by_group: dict[MethodGroup, str] = {}
    for name, column in columns.items():
        group = over_seeds(column.methods, column.scores, results)
        if len(group.methods) > 1 and resampler.has_similarities(group):
            name_by_group[group] = name
            for task, _ in group.scores:
                records = [
                    results.records(method, task.name)[0] for method in group.methods
                ]
                _require_data(records, resampler.loader.texts(task).digests)
    p_by_column: dict[str, dict[str, float]] = {}
    for group, scores in resampler.scores("comparing methods", name_by_group):
        means = [
            _mean_or_lowest(results, method, group.scores) for method in group.methods
        ]
        best = int(np.argmax(means))
        worse = [number for number in range(len(means)) if number != best]
        tests = [compare_resamples(scores[best], scores[number]) for number in worse]
        adjusted = holm([test.p for test in tests])
        p_holm = {group.methods[best]: 1.0}
        for number, p in zip(worse, adjusted, strict=True):
            p_holm[group.methods[number]] = p
        p_by_column[name_by_group[group]] = p_holm
    return p_by_column


def _mean_or_lowest(
    results: Results, method: str, scores: Sequence[ScoreOfTask]
) -> float:
    """The mean over seeds of a method's value in a column; -inf if it is undefined."""
    mean = column_value(results, method, scores).mean
    return -np.inf if mean is None else mean


# The data of records


def _require_data(records: Iterable[Record], digests: Mapping[str, str]) -> None:
    """Raise DataError for a record of other pairs than the ones that these digests are of."""
    for record in records:
        if record.digests["data"] != digests["data"]:
            raise DataError(
                f"{record.method} was scored on other pairs of {record.task} than it is "
                "compared on; run it again"
            )
