"""Differences of methods by the paired bootstrap: more than the choice of items and seeds?

Both methods of a contrast are scored on the same resamples of a task's items
(`harness.evaluation.bootstrap`), from the similarities that are stored with their
records; seeds are resampled, too. This tests the two methods of `harness table --test`,
the columns of `harness table`, and the claims and neighbouring rows that pages show.

Axis letters: S seeds, R resamples, P pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np

from harness.conclusions.folder import Conclusions
from harness.core.arrays import Float, Float64
from harness.core.errors import DataError, UsageError
from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.pairs import Pairs
from harness.core.types import Progress, Task
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.bootstrap import (
    RESAMPLED,
    bootstrap_scores,
    draw_counts,
    generator_of,
    interval_and_p,
    item_texts,
    seed_weights,
)
from harness.evaluation.processes import Jobs, results_of
from harness.results.differences import (
    ITEMS,
    SEEDS_AND_ITEMS,
    WITHOUT_BOOTSTRAP,
    BestTests,
    Contrast,
    Difference,
    Differences,
    corrected,
    measured,
    neighbours,
    with_test,
)
from harness.results.index import (
    TaskScore,
    column_value,
    encoder_of_method,
    methods_by_encoder,
)
from harness.results.records import Cell
from harness.results.scorings import COMPARED_SCORINGS, averages

RESAMPLES = 10_000

# A method, and the seeds over which its mean is taken.
Side = tuple[str, tuple[int, ...]]
# The score of each side on every resample: its mean over the seeds, which are drawn, too.
ScoresOnResamples = Mapping[Side, Float64[np.ndarray, " R"]]


@dataclass(frozen=True)
class Resampler:
    """Computes differences of methods on resamples of test items.

    Attributes:
        results: The results folder that holds the similarities.
        loader: Reads the texts and gold scores of the items.
        progress: Counts the scores.
        jobs: The number of processes that compute scores, or a scheduler.
    """

    results: Conclusions
    loader: TaskLoader
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    jobs: Jobs = 1

    def measured(self, contrast: Contrast) -> Difference:
        """The difference of a contrast by its records, without a test."""
        return measured(contrast, self.results.records, self.results.registry)

    def fault(self, contrast: Contrast) -> str:
        """Why methods have no difference that could be tested; empty where they have one."""
        tasks = [task for task, _ in contrast.scores]
        for task, path in contrast.scores:
            if task not in self.results.registry.tasks or path not in RESAMPLED:
                return f"{task}: wanted a score that resamples compute again, found {path[0]}"
        found, missing = [], []
        for method, side in zip(
            contrast.methods, self.measured(contrast).sides, strict=True
        ):
            found.append(f"{method}: {side}")
            if side.value.mean is None:
                missing.append(method)
        if not missing:
            return ""
        return (
            f"{', '.join(tasks)}: wanted a score of each method, found {', '.join(found)}; "
            f"{measuring_command(missing, tasks, self.results)}"
        )

    def lacking(self, contrast: Contrast) -> list[str]:
        """The methods of a contrast that lack the similarities of a cell."""
        lacking: dict[str, None] = {}  # each once, in order
        for method, seeds in self._sides(contrast):
            for (task, _), seed in product(contrast.scores, seeds):
                if self.results.similarities(Cell(method, task, seed)) is None:
                    lacking[method] = None
        return [*lacking]

    def can_compare(self, contrast: Contrast) -> bool:
        """Whether resamples can compute the difference again."""
        return not self.fault(contrast) and not self.lacking(contrast)

    def differences(self, phase: str, contrasts: Collection[Contrast]) -> Differences:
        """The difference of each contrast by the bootstrap; p is not corrected.

        A score that several contrasts have is computed once. `phase` is the name of this
        work in a bar of progress. No method of a contrast lacks similarities.

        Raises:
            DataError: A record is of other pairs than the task's pairs of today.
        """
        sides_by_score: dict[TaskScore, dict[Side, Any]] = {}
        for contrast in contrasts:
            for side, score in product(self._sides(contrast), contrast.scores):
                method, seeds = side
                cells = [Cell(method, score[0], seed) for seed in seeds]
                similarities = [self.results.similarities(cell) for cell in cells]
                sides_by_score.setdefault(score, {})[side] = similarities
        calls = [
            partial(_score_resamples, score, self._pairs(score[0], sides), sides)
            for score, sides in sides_by_score.items()
        ]
        if calls:
            self.progress.phase(phase, len(calls))
        resampled: dict[TaskScore, ScoresOnResamples] = {}
        for score, scores in results_of(calls, self.jobs):
            self.progress.step(1)
            resampled[score] = scores
        differences: dict[Contrast, Difference] = {}
        for contrast in contrasts:
            first, second = (
                np.mean([resampled[score][side] for score in contrast.scores], axis=0)
                for side in self._sides(contrast)
            )
            low, high, p = interval_and_p(first, second)
            difference = self.measured(contrast)
            is_seeded = any(side.seeded for side in difference.sides)
            by = SEEDS_AND_ITEMS if is_seeded else ITEMS
            differences[contrast] = replace(difference, low=low, high=high, p=p, by=by)
        return differences

    def _sides(self, contrast: Contrast) -> list[Side]:
        """Both methods, each with the seeds that it has on all of the tasks."""
        sides = zip(contrast.methods, self.measured(contrast).sides, strict=True)
        return [(method, tuple(sorted(scores.scores))) for method, scores in sides]

    def _pairs(self, task: str, sides: Iterable[Side]) -> Pairs:
        """The pairs of a task. Raises DataError if a method was scored on other ones."""
        texts = self.loader.texts(self.results.registry.tasks[task])
        for method, _ in sides:
            for record in self.results.records.records(method, task):
                if record.digests["data"] != texts.digests["data"]:
                    raise DataError(
                        f"{method} was scored on other pairs of {task} than it is "
                        "compared on; run it again"
                    )
        return texts.pairs


def _score_resamples(
    score: TaskScore,
    pairs: Pairs,
    similarities: Mapping[Side, Sequence[Float[np.ndarray, " P"]]],
) -> tuple[TaskScore, ScoresOnResamples]:
    """A score of both sides on every resample of the task's items."""
    counts = draw_counts(item_texts(pairs), RESAMPLES)
    columns = np.stack([*chain.from_iterable(similarities.values())])
    scores = bootstrap_scores(columns, pairs, score[1], counts)
    means = {}
    for method, seeds in similarities:
        of_seeds, scores = np.split(scores, [len(seeds)])
        generator = generator_of(f"seeds of {method}")
        weights = seed_weights(len(seeds), RESAMPLES, generator)
        means[method, seeds] = (weights * of_seeds).sum(axis=0)
    return score, means


# The differences that pages show


def shown_differences(folder: Conclusions, stored: Differences) -> dict[Contrast, bool]:
    """The contrasts of claims and of neighbouring rows, and whether each lacks a bootstrap.

    Args:
        folder: The records and the claims.
        stored: The stored differences.
    """
    records = folder.records
    is_open: dict[Contrast, bool] = {}
    for methods in methods_by_encoder(records.methods).values():
        for scoring in COMPARED_SCORINGS:
            means = averages(records, methods, scoring)
            for contrast, points in neighbours(means, scoring).items():
                tested = stored.get(contrast)
                is_open[contrast] = tested is None or not tested.is_of(points)
    for claim in folder.claims.resolved if folder.claims else ():
        for _, _, contrast in claim.parts:
            difference = measured(contrast, records, folder.registry)
            tested = stored.get(contrast)
            is_open[contrast] = with_test(difference, tested).by in WITHOUT_BOOTSTRAP
    return is_open


def compare_shown(resampler: Resampler, stored: Differences) -> Differences:
    """The stored differences of what pages show, and new ones where these are no answer.

    There is no new one of scores that resamples cannot compute again, nor if the
    similarities of a method are not stored with its records, for each of its seeds.
    """
    is_open = shown_differences(resampler.results, stored)
    kept = {contrast: stored[contrast] for contrast in is_open if contrast in stored}
    open_contrasts = [contrast for contrast in is_open if is_open[contrast]]
    to_compute = [*filter(resampler.can_compare, open_contrasts)]
    return {**kept, **resampler.differences("comparing rows", to_compute)}


# Two methods


def compare_methods(
    first: str, second: str, tasks: Sequence[Task], resampler: Resampler
) -> list[Difference]:
    """Compare the main scores of two methods, corrected for the number of tasks.

    Where the similarities of a method are missing, there is a difference without a test.

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
    folder = resampler.results
    contrasts = []
    for task in tasks or folder.registry.tasks.values():
        score = (task.name, metric_of(task).main_score)
        contrast = Contrast(first, second, (score,))
        fault = resampler.fault(contrast)
        if fault and tasks:
            raise UsageError(fault)
        if not fault and (tasks or len(resampler.lacking(contrast)) < 2):
            contrasts.append(contrast)
    if not contrasts:
        raise UsageError(
            f"found no task that {first} and {second} can be compared on; "
            f"{measuring_command((first, second), ['TASK'], folder)}"
        )
    tests = resampler.differences(
        f"comparing {first} with {second}",
        [contrast for contrast in contrasts if not resampler.lacking(contrast)],
    )
    return corrected(
        [tests.get(contrast) or resampler.measured(contrast) for contrast in contrasts]
    )


def measuring_command(
    methods: Sequence[str], tasks: Sequence[str], folder: Conclusions
) -> str:
    """The command that measures methods, with PATH for an encoder that is not registered."""
    words = ["harness run"]
    for method in methods:
        name = base_name(encoder_of_method(method))
        option = f"--encoder {name}=PATH"
        if name not in folder.registry.encoders and option not in words:
            words.append(option)
    words += ["-m", *methods, "-t", *tasks, f"-o {folder.path}"]
    return " ".join(words)


# Columns of a table


def ties_with_best(
    methods: Sequence[str],
    columns: Mapping[str, tuple[TaskScore, ...]],
    resampler: Resampler,
) -> dict[str, BestTests]:
    """The methods that do not differ from the best of a column, corrected for its methods.

    Every method with a score whose similarities are stored is tested. A column is left out
    if none can be: resamples do not compute its score, or the best method lacks
    similarities.

    Args:
        methods: The methods.
        columns: The scores of each column, by its name.
        resampler: Computes them on resamples.

    Returns:
        The tied and the untested methods by column. The best method has the highest mean
        over seeds.
    """
    contrasts: dict[str, list[Contrast]] = {}
    untested: dict[str, frozenset[str]] = {}
    for name, scores in columns.items():
        means = {}
        for method in methods:
            mean = column_value(resampler.results.records, method, scores).mean
            if mean is not None:
                means[method] = mean
        best = max(means, key=means.__getitem__, default="")
        of_column = [Contrast(best, other, scores) for other in means if other != best]
        testable = [each for each in of_column if resampler.can_compare(each)]
        if testable:
            contrasts[name] = testable
            tested = {contrast.second for contrast in testable}
            untested[name] = frozenset(means.keys() - tested - {best})
    of_all_columns = [*chain.from_iterable(contrasts.values())]
    tests = resampler.differences("comparing methods", of_all_columns)
    columns_tested: dict[str, BestTests] = {}
    for name, of_column in contrasts.items():
        of_best = corrected([tests[contrast] for contrast in of_column])
        tied = frozenset(test.contrast.second for test in of_best if test.is_tie)
        columns_tested[name] = BestTests(tied=tied, untested=untested[name])
    return columns_tested
