"""Records by method and task, and scores over their seeds, or why there is none."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from harness.core.metrics import metrics
from harness.core.types import MethodId, Record, ScorePath, ScoreTree, score_at
from harness.encoders.fingerprints import Fingerprint
from harness.results.records import CellName, encode
from harness.results.store import Store
from harness.results.verdict import CellState

# The state of a claim, a training or a ratio without a measurement.
NOT_MEASURED = "not measured"
# A task, and the path of a score in its records: `("sts12", ("spearman", "all"))`.
TaskScore = tuple[str, ScorePath]
DIGEST_DIGITS_SHOWN = 12  # hexadecimal digits of a digest that a message shows
# The coverage is the share of tokens that have a word vector. Vector files for general
# use cover 88 to 99 % of the tokens of the STS, transfer and embedded tasks (the smallest
# one, of 15,000 words, covers 88 % of SST-2); a subset made for another task, 46 to 79 %.
LOW_COVERAGE = 0.85
MISSING = "–"  # the state of an average if one of its cells has no score


class Value(NamedTuple):
    """A score in points: mean and sample standard deviation over seeds, or why there is none."""

    mean: float | None
    sd: float | None = None
    seeds: int = 0
    state: str = ""

    def __str__(self) -> str:
        if self.mean is None:
            return self.state
        if self.sd is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.sd:.2f}"


@dataclass(frozen=True)
class SeedScores:
    """The scores of a method by seed.

    Attributes:
        scores: The score of each seed, in points; None is undefined.
        seeded: Whether another seed can give another score.
        state: Why there are no scores, where there are none.
    """

    scores: Mapping[int, float | None]
    seeded: bool = False
    state: str = CellState.NOT_RUN

    @property
    def value(self) -> Value:
        """Mean and spread over the seeds, or the state."""
        if not self.scores:
            return Value(None, state=self.state)
        return value([*self.scores.values()])

    def __str__(self) -> str:
        if self.seeded and self.scores:
            return f"{self.value} (k={len(self.scores)})"
        return str(self.value)


@dataclass(frozen=True)
class Copy:
    """The files of an encoder that were read.

    Attributes:
        weights: The sha256 of the weights.
        fingerprint: What the checkpoint is, whatever form its files have; older records
            have none.
        revision: The commit of a download from the hub; None for a copy by hand.
    """

    weights: str
    fingerprint: Fingerprint = field(default_factory=dict)
    revision: str | None = None

    @classmethod
    def of(cls, record: Record) -> Copy:
        """The files that a record was measured with."""
        facts = record.facts
        weights = record.digests.get("weights", "")
        return cls(weights, facts.get("fingerprint", {}), facts.get("revision"))


def mean_over_tasks(tasks: Sequence[SeedScores]) -> SeedScores:
    """The mean over the tasks for each seed that all tasks have; undefined if a score is."""
    if len(tasks) == 1:
        return tasks[0]
    common_seeds = set(tasks[0].scores)
    for task in tasks:
        common_seeds &= task.scores.keys()
    means: dict[int, float | None] = {}
    for seed in sorted(common_seeds):
        means[seed] = average([Value(task.scores[seed]) for task in tasks]).mean
    return SeedScores(means, any(task.seeded for task in tasks), state=MISSING)


@dataclass(frozen=True)
class Results:
    """Records by method and task: all of a folder, or those that a page is made from.

    Attributes:
        by_cell: The records of each cell, one a seed.
        packaged: The methods whose records all come with the harness.
        stale: The cells that were measured with other settings than their method has now.
        folders: The results folder that each cell was read from.
        lines: The records of each cell as lines of JSON, as they were read from files,
            over which the digest of the records is taken.
    """

    by_cell: Mapping[CellName, Sequence[Record]]
    packaged: frozenset[str] = frozenset()
    stale: frozenset[CellName] = frozenset()
    folders: Mapping[CellName, Path] = field(
        default_factory=dict, repr=False, compare=False
    )
    lines: Mapping[CellName, bytes] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        """Records in memory."""
        by_cell: dict[CellName, list[Record]] = defaultdict(list)
        for record in records:
            by_cell[record.method, record.task].append(record)
        return cls(dict(by_cell))

    @classmethod
    def read(cls, *stores: Store, methods: Sequence[str] = ()) -> Results:
        """The records of these folders, all of a cell from the first folder that has it.

        `methods` are ids and globs of the methods that are read, by default all.
        """
        by_cell: dict[CellName, list[Record]] = defaultdict(list)
        lines: dict[CellName, bytes] = defaultdict(bytes)
        folders: dict[CellName, Path] = {}
        for store in stores:
            for line in store.lines(methods):
                cell = line.record.method, line.record.task
                if folders.setdefault(cell, store.folder) is store.folder:
                    by_cell[cell].append(line.record)
                    lines[cell] += line.text
        return cls(dict(by_cell), folders=folders, lines=dict(lines))

    def select(self, cells: Iterable[CellName]) -> Results:
        """The records of these cells alone; a cell without records is left out."""
        by_cell = {cell: self.by_cell[cell] for cell in cells if cell in self.by_cell}
        return replace(self, by_cell=by_cell)

    @cached_property
    def by_method(self) -> Mapping[str, Sequence[Sequence[Record]]]:
        """The records of each method, cell by cell."""
        records_by_method: dict[str, list[Sequence[Record]]] = {}
        for (method, _), records in self.by_cell.items():
            records_by_method.setdefault(method, []).append(records)
        return records_by_method

    @cached_property
    def by_parts(self) -> Mapping[MethodId, Sequence[str]]:
        """The methods with the same encoder, pooling and post-processors, whatever the corpus."""
        methods: dict[MethodId, list[str]] = {}
        for method in self.by_method:
            parts = MethodId.parse(method)
            if parts is not None:
                methods.setdefault(replace(parts, fit_on=None), []).append(method)
        return methods

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that has a record, in the order of their files."""
        return tuple(self.by_method)

    def value(self, method: str, task: str, *path: str) -> Value:
        """The score at a path (`spearman`, `all`), over all seeds of the cell."""
        cell = method, task
        if cell in self.stale:
            return Value(None, state=CellState.STALE)
        records = self.by_cell.get(cell, ())
        return value([score_at(record.scores, path) for record in records])

    def records(self, method: str, task: str) -> Sequence[Record]:
        """The records of a cell, one a seed."""
        return self.by_cell.get((method, task), ())

    def copies(self, method: str, task: str = "") -> Sequence[Copy]:
        """The different copies of its encoder that a method read, for all tasks or for one."""
        return self._copies.get((method, task), ())

    @cached_property
    def _copies(self) -> Mapping[CellName, Sequence[Copy]]:
        """Copies by cell, and by method with an empty task: most methods read a single one."""
        copies: dict[CellName, list[Copy]] = defaultdict(list)
        for (method, task), records in self.by_cell.items():
            of_method, of_cell = copies[method, ""], copies[method, task]
            for record in records:
                copy = Copy.of(record)
                if copy not in of_cell:
                    of_cell.append(copy)
                    if copy not in of_method:
                        of_method.append(copy)
        return dict(copies)

    @cached_property
    def by_task(self) -> Mapping[str, Sequence[str]]:
        """The methods that have a record of a task, for each task."""
        methods_by_task: dict[str, list[str]] = {}
        for method, task in self.by_cell:
            methods_by_task.setdefault(task, []).append(method)
        return methods_by_task

    def any_records(self, task: str) -> Sequence[Record]:
        """The records of the first method that has the task; none without one."""
        methods = self.by_task.get(task)
        if not methods:
            return ()
        return self.records(methods[0], task)

    def subsets(self, task: str) -> Sequence[str]:
        """The subsets of a task that records score separately; none without a record."""
        records = self.any_records(task)
        if not records:
            return ()
        correlation = records[0].scores.get("spearman")
        if not isinstance(correlation, Mapping):
            return ()
        return tuple(correlation["groups"])

    @cached_property
    def digest(self) -> str:
        """sha256 over the records, in the order of methods and tasks; empty if there are none."""
        if not self.by_cell:
            return ""
        digest = hashlib.sha256()
        for cell in sorted(self.by_cell):
            if cell in self.lines:
                digest.update(self.lines[cell])
            else:
                for record in self.by_cell[cell]:
                    digest.update(encode(record))
        return digest.hexdigest()


def main_score(scores: ScoreTree) -> tuple[str, float | None]:
    """The metric and value of a record's main score; None if the score is undefined."""
    path = main_path(scores)
    return path[0], score_at(scores, path)


def main_path(scores: ScoreTree) -> ScorePath:
    """The path of a record's main score; one empty name if it has none."""
    # The metrics of plug-ins are registered last, and are looked for first.
    metrics_in_order = [*metrics().values()]
    for metric in reversed(metrics_in_order):
        if metric.main_score[0] in scores:
            return metric.main_score
    return ("",)


def value(scores: Sequence[float | None]) -> Value:
    """The mean and deviation of scores over seeds; undefined if one of the scores is."""
    if not scores:
        return Value(None, state=CellState.NOT_RUN)
    if len(scores) == 1 and scores[0] is not None:  # as most cells have
        return Value(scores[0], seeds=1)
    numbers = [score for score in scores if score is not None]
    if len(numbers) < len(scores):
        return Value(None, state=CellState.UNDEFINED)
    count = len(numbers)
    mean = fmean(numbers)
    # `statistics.stdev` gives the same, but its exact fractions take a tenth of the time
    # of a report.
    variance = math.fsum((score - mean) ** 2 for score in numbers) / (count - 1)
    return Value(mean, sd=math.sqrt(variance), seeds=count)


def average(values: Sequence[Value]) -> Value:
    """The mean over a row; missing if one of its cells has no score."""
    means = [value.mean for value in values if value.mean is not None]
    if len(means) < len(values):
        return Value(None, state=MISSING)
    return Value(fmean(means))


def column_value(results: Results, method: str, scores: Sequence[TaskScore]) -> Value:
    """The value of a method in a column of a table: its only score, or the average of several."""
    values = [results.value(method, task, *path) for task, path in scores]
    if len(values) == 1:
        return values[0]
    return average(values)


def encoder_of_method(method: str) -> str:
    """The encoder in a method's id, with its length and precision: `minilm:64.cls` -> `minilm:64`.

    A text that is no id, such as the name of a training, is returned as it is.
    """
    return method.partition(".")[0]


def methods_by_encoder(methods: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Methods of each encoder, in order."""
    groups: dict[str, list[str]] = {}
    for method in methods:
        groups.setdefault(encoder_of_method(method), []).append(method)
    return groups


def coverage(records: Iterable[Record]) -> float | None:
    """The lowest coverage in records; None for records without word vectors."""
    shares = [record.facts.get("coverage") for record in records]
    known_shares = [share for share in shares if share is not None]
    return min(known_shares, default=None)
