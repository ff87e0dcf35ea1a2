"""Method against method: is the difference more than the choice of test items and seeds?

The paired bootstrap answers for claims, for neighbouring rows of the leaderboard, and
for `harness compare`: all methods are scored on the same resamples of a task's items.
Of a method that was measured with several seeds each seed is scored, and their mean is
drawn too. A mean over tasks is that of each resample's scores.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.metrics.edit_distance import token_distances
from harness.core.scores import ScorePath, score_at
from harness.core.types import Pairs, Progress, Record, Task
from harness.evaluation.engines import Engine, InProcess, Job, run_jobs
from harness.registry import nearest
from harness.results.bootstrap import (
    SIGNIFICANCE_LEVEL,
    ResampledMetric,
    bootstrap_scores,
    compare_resamples,
    draw_counts,
    generator_of,
    holm,
    seed_weights,
)
from harness.results.claim_tests import BASES_WITHOUT_INTERVAL, ClaimTests, Finding
from harness.results.claims import Claims
from harness.results.comparisons import Comparisons, Neighbours, rounded
from harness.results.folder import ResultsFolder
from harness.results.index import Results, column_value, methods_by_encoder
from harness.results.intervals import ITEMS_ALONE, SEEDS_AND_ITEMS, Interval, Intervals
from harness.results.records import Cell
from harness.results.scorings import COMPARED_SCORINGS, SEVEN, Scoring, averages
from harness.tasks.loader import TaskLoader

RESAMPLES = 10_000
RESAMPLING_SEED = 0
THIS_ENGINE = InProcess()

# The scores that a resample can compute again, and what similarities (or classes) are
# scored by.
RESAMPLED: Mapping[ScorePath, ResampledMetric] = {
    ("accuracy",): "accuracy",
    ("auc",): "auc",
    ("edit_distance",): "spearman",
    ("gold_similarity",): "spearman",
    ("spearman", "all"): "spearman",
    ("spearman", "wmean"): "spearman",
    ("pearson", "all"): "pearson",
    ("pearson", "wmean"): "pearson",
}


@dataclass(frozen=True)
class Scored:
    """Methods, the seeds of each, and the scores by whose mean they are compared.

    A score is a task and a path. Without `seeds`, seed 0 of each method is compared.
    """

    methods: tuple[str, ...]
    scores: tuple[tuple[Task, ScorePath], ...]
    seeds: tuple[tuple[int, ...], ...] = ()

    @property
    def sides(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each method with its seeds."""
        return tuple(
            zip(self.methods, self.seeds or ((0,),) * len(self.methods), strict=True)
        )

    @property
    def cells(self) -> tuple[tuple[str, int], ...]:
        """Every method and seed."""
        return tuple((method, seed) for method, seeds in self.sides for seed in seeds)


@dataclass(frozen=True)
class ResampledScore:
    """One score of several cells, method and seed, with the similarities of each cell's items."""

    task: Task
    path: ScorePath
    cells: tuple[tuple[str, int], ...]
    similarities: tuple[Float[np.ndarray, " P"], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ResamplingJob(Job):
    """A job that computes a score of several cells on all resamples."""

    part: ResampledScore


# The scores of one method and seed on every resample.
ScoresByCell = Mapping[tuple[str, int], Float64[np.ndarray, " R"]]


@dataclass(frozen=True)
class Resampler:
    """Scores of methods on resamples of test items, from the similarities in a results folder."""

    results: ResultsFolder
    loader: TaskLoader
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    engine: Engine = THIS_ENGINE

    def has_similarities(self, item: Scored) -> bool:
        """Whether resamples can compute the scores again from similarities that are stored."""
        if not all(seeds for _, seeds in item.sides):
            return False
        return all(
            path in RESAMPLED
            and self.results.similarities(Cell(method, task.name, seed)) is not None
            for task, path in item.scores
            for method, seed in item.cells
        )

    def scores(
        self, what: str, items: Collection[Scored]
    ) -> Iterator[tuple[Scored, Float64[np.ndarray, "M R"]]]:
        """Each item with the mean score of its methods, in points, on every resample.

        A score that several items have is computed once; `what` names the phase of the
        progress.
        """
        parts = self._parts(items)
        if parts:
            self.progress.phase(what, len(parts))
        # The texts that a loader has read are not sent to other processes.
        loader = self.loader
        if self.engine != THIS_ENGINE:
            loader = TaskLoader(loader.places, loader.corpora)
        on_resamples: dict[
            tuple[Task, ScorePath], dict[tuple[str, int], Float64[np.ndarray, " R"]]
        ] = {}
        jobs = [
            ResamplingJob(call=partial(_resampled, loader, part), part=part)
            for part in parts
        ]
        for job, scores in run_jobs(self.engine, jobs):
            part = job.part
            if isinstance(scores, HarnessError):
                raise scores
            self.progress.step(1)
            on_resamples[part.task, part.path] = dict(
                zip(part.cells, scores, strict=True)
            )
        for item in items:
            rows = []
            for method, seeds in item.sides:
                generator = generator_of(f"seeds of {method}", RESAMPLING_SEED)
                weights = seed_weights(len(seeds), RESAMPLES, generator)
                by_score = [
                    np.stack([on_resamples[score][method, seed] for seed in seeds])
                    for score in item.scores
                ]
                rows.append((weights * np.mean(by_score, axis=0)).sum(axis=0))
            yield item, np.stack(rows)

    def _parts(self, items: Iterable[Scored]) -> list[ResampledScore]:
        """The scores of all items, each once, with every cell that needs it."""
        cells_by_score: dict[tuple[Task, ScorePath], dict[tuple[str, int], None]] = {}
        for item in items:
            for score in item.scores:
                cells_by_score.setdefault(score, {}).update(dict.fromkeys(item.cells))
        parts = []
        for (task, path), cells in cells_by_score.items():
            similarities = [
                self.results.similarities(Cell(method, task.name, seed))
                for method, seed in cells
            ]
            stored = tuple(column for column in similarities if column is not None)
            parts.append(ResampledScore(task, path, tuple(cells), stored))
        return parts


def _resampled(loader: TaskLoader, part: ResampledScore) -> Float64[np.ndarray, "M R"]:
    """The score of every cell on every resample of the task's items."""
    pairs = loader.texts(part.task).pairs
    return bootstrap_scores(
        np.stack(part.similarities),
        token_distances(pairs) if part.path == ("edit_distance",) else pairs.gold,
        pairs.group,
        draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED),
        metric=RESAMPLED[part.path],
        aggregate="wmean" if part.path[1:] == ("wmean",) else "all",
    )


def compare_claims(
    claims: Claims, resampler: Resampler, stored: Intervals
) -> Intervals:
    """The claims' stored intervals, and one for each finding of a run that has none.

    None is made where a score is none that a resample can compute again, or where the
    similarities of a method are not stored with its record, for each of its seeds.
    """
    registry = resampler.results.registry
    tests = ClaimTests(resampler.results.records, registry, stored)
    findings = [
        finding
        for claim in claims.resolved
        for finding in tests.test(claim).all_findings
    ]
    intervals = {
        f.contrast: stored[f.contrast] for f in findings if f.contrast in stored
    }
    due: dict[Scored, Finding] = {}
    for finding in findings:
        contrast = finding.contrast
        if finding.decision.basis not in BASES_WITHOUT_INTERVAL or any(
            task not in registry.tasks for task, _ in contrast.scores
        ):
            continue
        scores = tuple((registry.tasks[task], path) for task, path in contrast.scores)
        seeds = tuple(tuple(sorted(side.scores)) for side in finding.sides)
        item = Scored((contrast.better, contrast.worse), scores, seeds)
        if resampler.has_similarities(item):
            due[item] = finding
    for item, matrix in resampler.scores("comparing the methods of claims", due):
        finding, test = due[item], compare_resamples(*matrix)
        above, below = (side.value.mean or 0.0 for side in finding.sides)
        intervals[finding.contrast] = Interval(
            contrast=finding.contrast,
            difference=round(above - below, 4),
            low=round(test.low, 4),
            high=round(test.high, 4),
            p=test.p,
            by=SEEDS_AND_ITEMS
            if any(side.seeded for side in finding.sides)
            else ITEMS_ALONE,
            resamples=RESAMPLES,
            seed=RESAMPLING_SEED,
        )
    return intervals


def compare_tables(
    resampler: Resampler, stored: Mapping[str, Comparisons]
) -> Iterator[Comparisons]:
    """Compare the rows of every leaderboard table that was measured in full in a run.

    A stored comparison that holds for a table's averages is yielded as it is.
    """
    registry, results = resampler.results.registry, resampler.results.records
    due: dict[Scored, tuple[str, Scoring, dict[str, float]]] = {}
    for encoder, methods in methods_by_encoder(results.methods).items():
        for scoring in COMPARED_SCORINGS:
            if not {*map(scoring.task, SEVEN)} <= registry.tasks.keys():
                continue
            scores = tuple(
                (registry.tasks[task], scoring.path)
                for task in map(scoring.task, SEVEN)
            )
            # A committed record without its per-pair similarities cannot be resampled.
            here = [
                m
                for m in methods
                if resampler.has_similarities(over_seeds((m,), scores, results))
            ]
            order = averages(results, here, scoring)
            comparisons = stored.get(f"{encoder}.{scoring.id}")
            if comparisons and comparisons.hold_for(order):
                yield comparisons
            elif len(order) > 1:
                due[over_seeds((*order,), scores, results)] = (encoder, scoring, order)
    for item, matrix in resampler.scores("comparing rows", due):
        encoder, scoring, order = due[item]
        tests = [compare_resamples(above, below) for above, below in pairwise(matrix)]
        adjusted = holm([test.p for test in tests])
        rows = tuple(
            Neighbours(
                above, below, round(test.low, 4), round(test.high, 4), test.p, p_holm
            )
            for (above, below), test, p_holm in zip(
                pairwise(item.methods), tests, adjusted, strict=True
            )
        )
        yield Comparisons(
            encoder,
            scoring.id,
            RESAMPLES,
            RESAMPLING_SEED,
            rounded(order),
            rows,
            over_seeds=True,
        )


def over_seeds(
    methods: tuple[str, ...],
    scores: tuple[tuple[Task, ScorePath], ...],
    results: Results,
) -> Scored:
    """The methods with the seeds that each of them has on all of the tasks."""

    def seeds_of(method: str) -> tuple[int, ...]:
        on_tasks = (
            {r.seed for r in results.records(method, task.name)} for task, _ in scores
        )
        return tuple(sorted(set.intersection(*on_tasks)))

    return Scored(methods, scores, tuple(map(seeds_of, methods)))


@dataclass(frozen=True)
class PairedTest:
    """One task: both scores, the first minus the second with its 95 % interval, and p-values.

    Scores and differences are in points; `p_holm` is corrected for the number of tasks.
    Where the similarities of a method are missing, it is named, and there is no test:
    no interval, no p.
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
        """Whether it is more than the choice of test pairs, at 5 %; None without a test."""
        return None if self.p_holm is None else self.p_holm <= SIGNIFICANCE_LEVEL


def compare_methods(
    first: str, second: str, tasks: Sequence[Task], resampler: Resampler
) -> list[PairedTest]:
    """Compare the main scores of seed 0 on each task, or on every task that has both.

    Without chosen tasks, those are left out on which both methods lack their
    similarities.
    """
    if first == second:
        raise UsageError(f"wanted two methods, found {first} twice")
    folder, methods = resampler.results, (first, second)
    for method in methods:
        _require_recorded_or_known(method, tasks, folder)
    faults = {
        task: _fault(methods, task, folder)
        for task in tasks or folder.registry.tasks.values()
    }
    if tasks and any(faults.values()):
        raise UsageError(next(filter(None, faults.values())))
    lacking = {
        task: tuple(
            m for m in methods if folder.similarities(Cell(m, task.name)) is None
        )
        for task, fault in faults.items()
        if not fault
    }
    comparable = [task for task, lack in lacking.items() if tasks or lack != methods]
    if not comparable:
        raise UsageError(
            f"found no task that {first} and {second} can be compared on; "
            f"{measuring_command(methods, ['TASK'], folder)}"
        )
    items: dict[Scored, list[Record]] = {}
    for task in comparable:
        records = [folder.records.records(method, task.name)[0] for method in methods]
        items[Scored(methods, ((task, metric_of(task).main_score),))] = records
        wanted = (
            records[0].digests
            if lacking[task]
            else resampler.loader.texts(task).digests
        )
        _require_data(records, wanted)
    what = f"comparing {first} with {second}"
    tested = [item for item in items if not lacking[item.scores[0][0]]]
    resampled = dict(resampler.scores(what, tested))
    tests = {item: compare_resamples(*matrix) for item, matrix in resampled.items()}
    p_holm = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
    rows = []
    for item, records in items.items():
        [(task, path)] = item.scores
        above, below = (score_at(record.scores, path) or 0.0 for record in records)
        row = PairedTest(
            task.name, path[0], above, below, above - below, missing=lacking[task]
        )
        if test := tests.get(item):
            row = replace(
                row, low=test.low, high=test.high, p=test.p, p_holm=p_holm[item]
            )
        rows.append(row)
    return rows


def measuring_command(
    methods: Sequence[str], tasks: Sequence[str], folder: ResultsFolder
) -> str:
    """The command that measures methods. One of an encoder that is not registered is given PATH."""
    names = dict.fromkeys(_encoder_of(method) for method in methods)
    unknown = [name for name in names if name not in folder.registry.encoders]
    encoders = "".join(f"--encoder {name}=PATH " for name in unknown)
    return f"harness run {encoders}-m {' '.join(methods)} -t {' '.join(tasks)} -o {folder.path}"


def _encoder_of(method: str) -> str:
    """The name of a method's encoder, without length and precision."""
    return base_name(method.partition(".")[0])


def _require_recorded_or_known(
    method: str, tasks: Sequence[Task], folder: ResultsFolder
) -> None:
    """Raise UsageError for a method without a record whose encoder is not registered."""
    name, encoders = _encoder_of(method), folder.registry.encoders
    if method in folder.records.methods or name in encoders:
        return
    offered = nearest(name, encoders) or "see harness list encoders."
    names = [task.name for task in tasks] or ["TASK"]
    raise UsageError(
        f"{method}: found no record of it and no encoder {name!r}; {offered} If it is your own: "
        f"{measuring_command([method], names, folder)}"
    )


def against_best(
    columns: Mapping[str, Scored], resampler: Resampler
) -> dict[str, dict[str, float]]:
    """Of each column of a table the methods that can be tested against its best, with Holm's p.

    The best has the highest mean over seeds and p = 1. A column is left out where a
    score is not one that resamples compute again, or where the similarities of a method
    are not stored with its record. Seeds are resampled as items are; the family is the
    column.
    """
    results = resampler.results.records
    names: dict[Scored, str] = {}
    for name, column in columns.items():
        item = over_seeds(column.methods, column.scores, results)
        if len(item.methods) > 1 and resampler.has_similarities(item):
            names[item] = name
            for task, _ in item.scores:
                records = [
                    results.records(method, task.name)[0] for method in item.methods
                ]
                _require_data(records, resampler.loader.texts(task).digests)
    tested = {}
    for item, matrix in resampler.scores("comparing methods", names):
        means = [
            column_value(results, m, item.scores).mean or -np.inf for m in item.methods
        ]
        best = int(np.argmax(means))
        others = [n for n in range(len(means)) if n != best]
        adjusted = holm([compare_resamples(matrix[best], matrix[n]).p for n in others])
        p_holm = {item.methods[n]: p for n, p in zip(others, adjusted, strict=True)}
        tested[names[item]] = {item.methods[best]: 1.0, **p_holm}
    return tested


def _require_data(records: Iterable[Record], wanted: Mapping[str, str]) -> None:
    """Raise DataError for a record of other pairs than those that it is compared on."""
    for record in records:
        if record.digests["data"] != wanted["data"]:
            raise DataError(
                f"{record.method} was scored on other pairs of {record.task} than those that "
                "it is compared on; run it again"
            )


def _fault(methods: tuple[str, str], task: Task, folder: ResultsFolder) -> str:
    """Why the methods cannot be compared on a task, and what to do; empty where they can."""
    records = [
        record for m in methods for record in folder.records.records(m, task.name)[:1]
    ]
    lacking = [
        m for m in methods if m not in {r.method for r in records if r.seed == 0}
    ]
    if lacking:
        return (
            f"found no record of {' and of '.join(lacking)} on {task.name}, seed 0; "
            f"{measuring_command(lacking, [task.name], folder)}"
        )
    path = metric_of(task).main_score
    if any(score_at(record.scores, path) is None for record in records):
        return f"{task.name}: a score is undefined"
    if path not in RESAMPLED:
        return (
            f"{task.name}: wanted a score that resamples compute again, found {path[0]}"
        )
    return ""


def item_texts(pairs: Pairs) -> list[str]:
    """The text of each item: alike for a pair in either order and in any text form.

    STS-B took 1,007 of its 1,379 test pairs from STS12 to STS16, and SST-2 most of its
    sentences from MR; raw and tokenised text differ in spaces and punctuation.
    """
    return [
        " ".join(sorted(map(_letters, sentences)))
        for sentences in zip(*pairs.columns, strict=True)
    ]


def _letters(text: str) -> str:
    """The letters and digits of a text, without case."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
