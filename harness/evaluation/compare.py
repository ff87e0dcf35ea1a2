"""Differences of methods by the paired bootstrap: more than the choice of items and seeds?

Both methods of a contrast are scored on the same resamples of a task's items
(`harness.evaluation.bootstrap`), from the similarities that are stored with their
records; seeds are resampled, too. This tests the claims of papers, neighbouring rows of
the leaderboard, the columns of `harness table`, and the two methods of its `--test`.

Axis letters: M methods or cells, R resamples, P pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from harness.evaluation.bootstrap import (
    ResampledMetric,
    bootstrap_scores,
    compare_resamples,
    draw_counts,
    generator_of,
    seed_weights,
)
from harness.evaluation.processes import results_of
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
from harness.tasks.loader import TaskLoader

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


@dataclass(frozen=True)
class ResampledCell:
    """A cell with the similarities of its pairs, and the digest of these pairs."""

    cell: Cell
    similarities: Float[np.ndarray, " P"]
    data: str


# The score of each cell on every resample.
ScoresByCell = Mapping[Cell, Float64[np.ndarray, " R"]]


@dataclass(frozen=True)
class Resampler:
    """Computes differences of methods on resamples of test items.

    Attributes:
        results: The results folder that holds the similarities.
        loader: Reads the texts and gold scores of the items.
        progress: Counts the scores.
        jobs: The number of processes that compute scores.
    """

    results: ResultsFolder
    loader: TaskLoader
    progress: Progress = Progress()  # noqa: RUF009 - it holds nothing
    jobs: int = 1

    def fault(self, contrast: Contrast) -> str:
        """Why methods have no difference that could be tested; empty where they have one."""
        folder = self.results
        tasks = ", ".join(task for task, _ in contrast.scores)
        for task, path in contrast.scores:
            if task not in folder.registry.tasks or path not in RESAMPLED:
                return f"{task}: wanted a score that resamples compute again, found {path[0]}"
        missing: dict[str, str] = {}  # the states of methods without a score
        sides = contrast.sides(folder.records, folder.registry)
        for method, side in zip(contrast.methods, sides, strict=True):
            if not side.scores:
                missing[method] = side.state
        if missing:
            return (
                f"found no record of {' and of '.join(missing)} on {tasks} "
                f"({', '.join(set(missing.values()))}); "
                f"{measuring_command([*missing], tasks.split(', '), folder)}"
            )
        if None in [side.value.mean for side in sides]:
            return f"{tasks}: a score is undefined"
        return ""

    def lacking(self, contrast: Contrast) -> list[str]:
        """The methods of a contrast that lack the similarities of a cell."""
        return [
            method
            for method in contrast.methods
            if any(
                self.results.similarities(cell) is None
                for _, cell in self._cells(method, contrast.scores)
            )
        ]

    def can_compare(self, contrast: Contrast) -> bool:
        """Whether resamples can compute the difference again."""
        return not self.fault(contrast) and not self.lacking(contrast)

    def differences(self, phase: str, contrasts: Collection[Contrast]) -> Differences:
        """The difference of each contrast by the bootstrap; p is not corrected.

        A score that several contrasts have is computed once. `phase` is the name of this
        work in a bar of progress.

        Raises:
            DataError: A record is of other pairs than the task's pairs of today.
        """
        scores_by_cell = self._scores_on_resamples(phase, contrasts)
        differences: dict[Contrast, Difference] = {}
        for contrast in contrasts:
            first, second = contrast.sides(self.results.records, self.results.registry)
            low, high, p = compare_resamples(
                *(
                    self._mean_score(method, contrast.scores, scores_by_cell)
                    for method in contrast.methods
                )
            )
            is_seeded = first.seeded or second.seeded
            differences[contrast] = Difference(
                contrast=contrast,
                # Both means are defined: others have a `fault`.
                points=(first.value.mean or 0.0) - (second.value.mean or 0.0),
                low=low,
                high=high,
                p=p,
                by=SEEDS_AND_ITEMS if is_seeded else ITEMS,
            )
        return differences

    def _seeds(self, method: str, scores: Sequence[TaskScore]) -> list[int]:
        """The seeds that a method was measured with on all of the tasks."""
        seeds_of_tasks = [
            {record.seed for record in self.results.records.records(method, task)}
            for task, _ in scores
        ]
        return sorted(set.intersection(*seeds_of_tasks))

    def _cells(
        self, method: str, scores: Sequence[TaskScore]
    ) -> Iterator[tuple[TaskScore, Cell]]:
        """The cells of a method that are resampled, each with its score."""
        for seed in self._seeds(method, scores):
            for score in scores:
                yield score, Cell(method, score[0], seed)

    def _scores_on_resamples(
        self, phase: str, contrasts: Iterable[Contrast]
    ) -> Mapping[TaskScore, ScoresByCell]:
        """Every score of the contrasts on every resample, of each cell that needs it."""
        # The cells of a score are keys of a dictionary: each once, in their order.
        cells_of_score: dict[TaskScore, dict[Cell, None]] = {}
        for contrast in contrasts:
            for method in contrast.methods:
                for score, cell in self._cells(method, contrast.scores):
                    cells_of_score.setdefault(score, {})[cell] = None
        if cells_of_score:
            self.progress.phase(phase, len(cells_of_score))
        loader = self.loader
        if self.jobs > 1:
            # The texts that a loader has read are not sent to other processes.
            loader = TaskLoader(loader.places, loader.corpora)
        calls = []
        for (task_name, path), cells in cells_of_score.items():
            task = self.results.registry.tasks[task_name]
            resampled = []
            for cell in cells:
                similarities = self.results.similarities(cell)
                if similarities is not None:  # else the method is `lacking`
                    resampled.append(
                        ResampledCell(cell, similarities, self._data(cell))
                    )
            calls.append(partial(_score_resamples, loader, task, path, resampled))
        scores_by_cell: dict[TaskScore, ScoresByCell] = {}
        for score, scores in results_of(calls, self.jobs):
            self.progress.step(1)
            scores_by_cell[score] = scores
        return scores_by_cell

    def _data(self, cell: Cell) -> str:
        """The digest of the pairs that a cell was scored on."""
        records = self.results.records.records(cell.method, cell.task)
        [data] = [
            record.digests["data"] for record in records if record.seed == cell.seed
        ]
        return str(data)

    def _mean_score(
        self,
        method: str,
        scores: Sequence[TaskScore],
        scores_by_cell: Mapping[TaskScore, ScoresByCell],
    ) -> Float64[np.ndarray, " R"]:
        """The mean over scores and seeds of a method on every resample; seeds are drawn, too."""
        seeds = self._seeds(method, scores)
        generator = generator_of(f"seeds of {method}", RESAMPLING_SEED)
        weights = seed_weights(len(seeds), RESAMPLES, generator)
        matrices = []  # seeds by resamples, for each score
        for score in scores:
            cells = [Cell(method, score[0], seed) for seed in seeds]
            matrices.append(np.stack([scores_by_cell[score][cell] for cell in cells]))
        mean: Float64[np.ndarray, " R"] = (weights * np.mean(matrices, axis=0)).sum(
            axis=0
        )
        return mean


def _score_resamples(
    loader: TaskLoader, task: Task, path: ScorePath, cells: Sequence[ResampledCell]
) -> tuple[TaskScore, ScoresByCell]:
    """A score of each cell on every resample of the task's items."""
    texts = loader.texts(task)
    for resampled in cells:
        if resampled.data != texts.digests["data"]:
            raise DataError(
                f"{resampled.cell.method} was scored on other pairs of {task.name} than it is "
                "compared on; run it again"
            )
    pairs = texts.pairs
    scores = bootstrap_scores(
        np.stack([resampled.similarities for resampled in cells]),
        token_distances(pairs) if path == ("edit_distance",) else pairs.gold,
        pairs.group,
        draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED),
        metric=RESAMPLED[path],
        aggregate="wmean" if path[1:] == ("wmean",) else "all",
    )
    names = [resampled.cell for resampled in cells]
    return (task.name, path), dict(zip(names, scores, strict=True))


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
    differences: dict[Contrast, Difference] = {}
    for task in tasks or folder.registry.tasks.values():
        score = (task.name, metric_of(task).main_score)
        contrast = Contrast(first, second, (score,))
        fault = resampler.fault(contrast)
        if fault and tasks:
            raise UsageError(fault)
        if not fault and (tasks or len(resampler.lacking(contrast)) < 2):
            sides = contrast.sides(folder.records, folder.registry)
            first_mean, second_mean = (side.value.mean or 0.0 for side in sides)
            differences[contrast] = Difference(
                contrast=contrast, points=first_mean - second_mean, by=NO_INTERVAL
            )
    if not differences:
        raise UsageError(
            f"found no task that {first} and {second} can be compared on; "
            f"{measuring_command((first, second), ['TASK'], folder)}"
        )
    testable = [contrast for contrast in differences if resampler.can_compare(contrast)]
    phase = f"comparing {first} with {second}"
    differences |= resampler.differences(phase, testable)
    return corrected([*differences.values()])


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
