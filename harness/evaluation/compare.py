"""Differences of methods by the paired bootstrap: more than the choice of items and seeds?

Both methods of a contrast are scored on the same resamples of a task's items
(`harness.evaluation.bootstrap`), from the similarities that are stored with their
records; seeds are resampled, too. This tests the claims of papers, neighbouring rows of
the leaderboard, the columns of `harness table`, and the two methods of its `--test`.

Axis letters: M methods or cells, R resamples, P pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.errors import DataError, UsageError
from harness.core.hardware import base_name
from harness.core.metrics import metric_of
from harness.core.metrics.edit_distance import token_distances
from harness.core.pairs import Pairs
from harness.core.scores import ScorePath
from harness.core.types import Progress, Task
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.bootstrap import (
    ResampledMetric,
    bootstrap_scores,
    compare_resamples,
    draw_counts,
    generator_of,
    seed_weights,
)
from harness.evaluation.processes import Jobs, results_of
from harness.results.claims import Claims, claim_result
from harness.results.differences import (
    ITEMS,
    NO_INTERVAL,
    SEEDS_AND_ITEMS,
    SIGNIFICANCE_LEVEL,
    WITHOUT_BOOTSTRAP,
    Contrast,
    Difference,
    Differences,
    TaskScore,
    corrected,
    neighbours,
)
from harness.results.folder import ResultsFolder
from harness.results.index import column_value, encoder_of_method, methods_by_encoder
from harness.results.records import Cell
from harness.results.scorings import COMPARED_SCORINGS, averages

RESAMPLES = 10_000
RESAMPLING_SEED = 0

# The scores that a resample can compute again, and the metric that computes each of them
# from the similarities or predicted classes of the pairs.
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


# The score of each cell on every resample.
ScoresByCell = Mapping[Cell, Float64[np.ndarray, " R"]]


@dataclass(frozen=True)
class Resampler:
    """Computes differences of methods on resamples of test items.

    Attributes:
        results: The results folder that holds the similarities.
        loader: Reads the texts and gold scores of the items.
        progress: Counts the scores.
        jobs: The number of processes that compute scores, or a scheduler.
    """

    results: ResultsFolder
    loader: TaskLoader
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    jobs: Jobs = 1

    def fault(self, contrast: Contrast) -> str:
        """Why methods have no difference that could be tested; empty where they have one."""
        folder = self.results
        for task, path in contrast.scores:
            if task not in folder.registry.tasks or path not in RESAMPLED:
                return f"{task}: wanted a score that resamples compute again, found {path[0]}"
        sides = contrast.sides(folder.records, folder.registry)
        by_method = dict(zip(contrast.methods, sides, strict=True))
        missing = [m for m, side in by_method.items() if side.value.mean is None]
        if not missing:
            return ""
        tasks = [task for task, _ in contrast.scores]
        found = ", ".join(f"{method}: {side}" for method, side in by_method.items())
        return (
            f"{', '.join(tasks)}: wanted a score of each method, found {found}; "
            f"{measuring_command(missing, tasks, folder)}"
        )

    def lacking(self, contrast: Contrast) -> list[str]:
        """The methods of a contrast that lack the similarities of a cell."""
        return [
            method
            for method in contrast.methods
            if any(
                self.results.similarities(cell) is None
                for cells in self._cells(contrast, method).values()
                for cell in cells
            )
        ]

    def can_compare(self, contrast: Contrast) -> bool:
        """Whether resamples can compute the difference again."""
        return not self.fault(contrast) and not self.lacking(contrast)

    def untested(self, contrast: Contrast) -> Difference:
        """The difference of a contrast without a fault, without a test."""
        first, second = contrast.sides(self.results.records, self.results.registry)
        points = (first.value.mean or 0.0) - (second.value.mean or 0.0)
        return Difference(contrast=contrast, points=points, by=NO_INTERVAL)

    def differences(self, phase: str, contrasts: Collection[Contrast]) -> Differences:
        """The difference of each contrast by the bootstrap; p is not corrected.

        A score that several contrasts have is computed once. `phase` is the name of this
        work in a bar of progress.

        Raises:
            DataError: A record is of other pairs than the task's pairs of today.
        """
        similarities: dict[TaskScore, dict[Cell, Float[np.ndarray, " P"]]] = {}
        for contrast in contrasts:
            for method in contrast.methods:
                for score, cells in self._cells(contrast, method).items():
                    of_score = similarities.setdefault(score, {})
                    for cell in cells:
                        cosines = self.results.similarities(cell)
                        if cosines is not None:  # else its method is `lacking`
                            of_score[cell] = cosines
        resampled = self._scores_on_resamples(phase, similarities)
        differences: dict[Contrast, Difference] = {}
        for contrast in contrasts:
            first, second = (
                _mean_score(method, self._cells(contrast, method), resampled)
                for method in contrast.methods
            )
            low, high, p = compare_resamples(first, second)
            sides = contrast.sides(self.results.records, self.results.registry)
            by = SEEDS_AND_ITEMS if any(side.seeded for side in sides) else ITEMS
            untested = self.untested(contrast)
            differences[contrast] = replace(untested, low=low, high=high, p=p, by=by)
        return differences

    def _cells(self, contrast: Contrast, method: str) -> dict[TaskScore, list[Cell]]:
        """For each score, a method's cell of each seed that it has on all of the tasks."""
        seeds_of_tasks = [
            {record.seed for record in self.results.records.records(method, task)}
            for task, _ in contrast.scores
        ]
        seeds = sorted(set.intersection(*seeds_of_tasks))
        return {
            score: [Cell(method, score[0], seed) for seed in seeds]
            for score in contrast.scores
        }

    def _scores_on_resamples(
        self,
        phase: str,
        similarities: Mapping[TaskScore, Mapping[Cell, Float[np.ndarray, " P"]]],
    ) -> Mapping[TaskScore, ScoresByCell]:
        """Every score on every resample, of each cell whose similarities these are."""
        if similarities:
            self.progress.phase(phase, len(similarities))
        loader = self.loader
        if self.jobs != 1:
            # The texts that a loader has read are not sent to other processes.
            loader = TaskLoader(loader.places, loader.corpora)
        calls = []
        for (name, path), of_cells in similarities.items():
            task = self.results.registry.tasks[name]
            data = self.loader.texts(task).digests["data"]
            for method in {cell.method for cell in of_cells}:
                for record in self.results.records.records(method, name):
                    if record.digests["data"] != data:
                        raise DataError(
                            f"{method} was scored on other pairs of {name} than it is "
                            "compared on; run it again"
                        )
            calls.append(partial(_score_resamples, loader, task, path, of_cells))
        scores_by_cell: dict[TaskScore, ScoresByCell] = {}
        for score, scores in results_of(calls, self.jobs):
            self.progress.step(1)
            scores_by_cell[score] = scores
        return scores_by_cell


def _mean_score(
    method: str,
    cells_of_score: Mapping[TaskScore, Sequence[Cell]],
    resampled: Mapping[TaskScore, ScoresByCell],
) -> Float64[np.ndarray, " R"]:
    """The mean over scores and seeds of a method on every resample; seeds are drawn, too."""
    by_seed = [  # a matrix of seeds and resamples for each score
        np.stack([resampled[score][cell] for cell in cells])
        for score, cells in cells_of_score.items()
    ]
    generator = generator_of(f"seeds of {method}", RESAMPLING_SEED)
    weights = seed_weights(len(by_seed[0]), RESAMPLES, generator)
    mean: Float64[np.ndarray, " R"] = (weights * np.mean(by_seed, axis=0)).sum(axis=0)
    return mean


def _score_resamples(
    loader: TaskLoader,
    task: Task,
    path: ScorePath,
    similarities: Mapping[Cell, Float[np.ndarray, " P"]],
) -> tuple[TaskScore, ScoresByCell]:
    """A score of each cell on every resample of the task's items."""
    pairs = loader.texts(task).pairs
    scores = bootstrap_scores(
        np.stack([*similarities.values()]),
        token_distances(pairs) if path == ("edit_distance",) else pairs.gold,
        pairs.group,
        draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED),
        metric=RESAMPLED[path],
        aggregate="wmean" if path[1:] == ("wmean",) else "all",
    )
    return (task.name, path), dict(zip(similarities, scores, strict=True))


def item_texts(pairs: Pairs) -> list[str]:
    """The text of each item, by which items are drawn.

    A pair has the same text in either order and in any text form, so tasks that share
    pairs draw the same ones: STS-B took 1,007 of its 1,379 test pairs from STS12 to
    STS16, and SST-2 most of its sentences from MR; raw and tokenised text differ in
    spaces and punctuation.
    """
    texts = []
    for sentences in zip(*pairs.columns, strict=True):
        letters = sorted(_letters_and_digits(sentence) for sentence in sentences)
        texts.append(" ".join(letters))
    return texts


def _letters_and_digits(text: str) -> str:
    """The letters and digits of a text, without case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


# The differences that pages show


def shown_differences(
    folder: ResultsFolder, claims: Claims | None, stored: Differences
) -> dict[Contrast, bool]:
    """The contrasts of claims and of neighbouring rows, and whether each lacks a bootstrap.

    Args:
        folder: The records.
        claims: The claims; None without any.
        stored: The stored differences.
    """
    records = folder.records
    is_open: dict[Contrast, bool] = {}
    for methods in methods_by_encoder(records.methods).values():
        for scoring in COMPARED_SCORINGS:
            means = averages(records, methods, scoring)
            for contrast, points in neighbours(means, scoring).items():
                known = stored.get(contrast)
                is_open[contrast] = known is None or not known.is_of(points)
    for claim in claims.resolved if claims else ():
        result = claim_result(claim, records, folder.registry, stored)
        for finding in result.all_findings:
            difference = finding.difference
            is_open[difference.contrast] = difference.by in WITHOUT_BOOTSTRAP
    return is_open


def compare_shown(
    claims: Claims | None, resampler: Resampler, stored: Differences
) -> Differences:
    """The stored differences of what pages show, and new ones where these are no answer.

    There is no new one of scores that resamples cannot compute again, nor if the
    similarities of a method are not stored with its records, for each of its seeds.
    """
    is_open = shown_differences(resampler.results, claims, stored)
    kept = {contrast: stored[contrast] for contrast in is_open if contrast in stored}
    to_compute = [
        contrast
        for contrast in is_open
        if is_open[contrast] and resampler.can_compare(contrast)
    ]
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
        [tests.get(contrast) or resampler.untested(contrast) for contrast in contrasts]
    )


def measuring_command(
    methods: Sequence[str], tasks: Sequence[str], folder: ResultsFolder
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
    columns: Mapping[str, Sequence[tuple[Task, ScorePath]]],
    resampler: Resampler,
) -> dict[str, set[str]]:
    """The methods that do not differ from the best of a column, corrected for its methods.

    A column is left out if resamples cannot compute a score again, or if the similarities
    of a method are not stored.

    Args:
        methods: The methods.
        columns: The scores of each column, by its name.
        resampler: Computes them on resamples.

    Returns:
        The tied methods by column. The best method has the highest mean over seeds.
    """
    contrasts: dict[str, list[Contrast]] = {}
    for name, scores in columns.items():
        means = {}
        for method in methods:
            mean = column_value(resampler.results.records, method, scores).mean
            means[method] = -np.inf if mean is None else mean
        best = max(means, key=means.__getitem__)
        task_scores = tuple((task.name, path) for task, path in scores)
        of_column = [
            Contrast(best, other, task_scores) for other in methods if other != best
        ]
        if of_column and all(map(resampler.can_compare, of_column)):
            contrasts[name] = of_column
    every = [contrast for of_column in contrasts.values() for contrast in of_column]
    tests = resampler.differences("comparing methods", every)
    ties: dict[str, set[str]] = {}
    for name, of_column in contrasts.items():
        ties[name] = {
            test.contrast.second
            for test in corrected([tests[contrast] for contrast in of_column])
            if (test.p_holm or 0.0) > SIGNIFICANCE_LEVEL
        }
    return ties
