"""Scores of methods on resamples of test items, for the paired bootstrap.

All methods are scored on the same resamples of a task's items, from the similarities
that are stored with their records. If a method was measured with several seeds, each of
them is scored, and seeds are resampled, too. The mean of several scores is computed for
each resample.

Axis letters: M methods or cells, S seeds, R resamples, P pairs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from harness.core.arrays import Float, Float64
from harness.core.metrics.edit_distance import token_distances
from harness.core.pairs import Pairs
from harness.core.scores import ScorePath
from harness.core.types import Progress, Task
from harness.evaluation.processes import results_of
from harness.results.bootstrap import (
    ResampledMetric,
    bootstrap_scores,
    draw_counts,
    generator_of,
    seed_weights,
)
from harness.results.folder import ResultsFolder
from harness.results.records import Cell
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

ScoreOfTask = tuple[Task, ScorePath]  # a task, and the path of one of its scores
MethodSeed = tuple[str, int]  # the id of a method, and one of its seeds


@dataclass(frozen=True)
class MethodGroup:
    """Methods that are compared by the mean of the same scores.

    Attributes:
        methods: The ids of the methods.
        scores: The scores whose mean is compared.
        seeds: The seeds of each method, in the order of the methods; if empty, each
            method has seed 0 alone.
    """

    methods: tuple[str, ...]
    scores: tuple[ScoreOfTask, ...]
    seeds: tuple[tuple[int, ...], ...] = ()

    @property
    def methods_with_seeds(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each method with its seeds."""
        if not self.seeds:
            return tuple((method, (0,)) for method in self.methods)
        return tuple(zip(self.methods, self.seeds, strict=True))

    @property
    def cells(self) -> tuple[MethodSeed, ...]:
        """Each method with one of its seeds, for all seeds."""
        cells: list[MethodSeed] = []
        for method, seeds in self.methods_with_seeds:
            cells += [(method, seed) for seed in seeds]
        return tuple(cells)


@dataclass(frozen=True)
class ResampledScore:
    """One score that is computed on resamples, for several cells of its task.

    Attributes:
        task: The task.
        path: The path of the score.
        cells: Method and seed of each cell.
        similarities: The similarities of each cell's pairs, in the order of the cells.
    """

    task: Task
    path: ScorePath
    cells: tuple[MethodSeed, ...]
    similarities: tuple[Float[np.ndarray, " P"], ...]


# The score of each cell on every resample.
ScoresByCell = Mapping[MethodSeed, Float64[np.ndarray, " R"]]


@dataclass(frozen=True)
class Resampler:
    """Computes scores of methods on resamples of test items.

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

    def has_similarities(self, group: MethodGroup) -> bool:
        """Whether resamples can compute the scores again, for each method and seed."""
        if not all(seeds for _, seeds in group.methods_with_seeds):
            return False
        for task, path in group.scores:
            if path not in RESAMPLED:
                return False
            for method, seed in group.cells:
                cell = Cell(method, task.name, seed)
                if self.results.similarities(cell) is None:
                    return False
        return True

    def scores(
        self, phase: str, groups: Collection[MethodGroup]
    ) -> Iterator[tuple[MethodGroup, Float64[np.ndarray, "M R"]]]:
        """Each group with the mean score of its methods, in points, on every resample.

        A score that several groups have is computed once. `phase` is the name of this
        work in a bar of progress.
        """
        scores_by_cell = self._scores_on_resamples(phase, groups)
        for group in groups:
            mean_scores = [
                _mean_score(method, seeds, group.scores, scores_by_cell)
                for method, seeds in group.methods_with_seeds
            ]
            yield group, np.stack(mean_scores)

    def _scores_on_resamples(
        self, phase: str, groups: Iterable[MethodGroup]
    ) -> Mapping[ScoreOfTask, ScoresByCell]:
        """Every score of the groups on every resample, of each cell that needs it."""
        resampled_scores = self._resampled_scores(groups)
        if resampled_scores:
            self.progress.phase(phase, len(resampled_scores))
        loader = self.loader
        if self.jobs > 1:
            # The texts that a loader has read are not sent to other processes.
            loader = TaskLoader(loader.places, loader.corpora)
        calls = [
            partial(_score_resamples, loader, number, score)
            for number, score in enumerate(resampled_scores)
        ]
        scores_by_cell: dict[ScoreOfTask, ScoresByCell] = {}
        for number, scores in results_of(calls, self.jobs):
            self.progress.step(1)
            score = resampled_scores[number]
            key = (score.task, score.path)
            scores_by_cell[key] = dict(zip(score.cells, scores, strict=True))
        return scores_by_cell

    def _resampled_scores(self, groups: Iterable[MethodGroup]) -> list[ResampledScore]:
        """The scores of all groups, each once, with every cell that needs it."""
        # The cells of a score are keys of a dictionary: each once, in their order.
        cells_by_score: dict[ScoreOfTask, dict[MethodSeed, None]] = {}
        for group in groups:
            for score in group.scores:
                cells = cells_by_score.setdefault(score, {})
                cells.update(dict.fromkeys(group.cells))
        resampled_scores = []
        for (task, path), cells in cells_by_score.items():
            similarities = []
            for method, seed in cells:
                cell_similarities = self.results.similarities(
                    Cell(method, task.name, seed)
                )
                if cell_similarities is not None:
                    similarities.append(cell_similarities)
            resampled_scores.append(
                ResampledScore(
                    task=task,
                    path=path,
                    cells=tuple(cells),
                    similarities=tuple(similarities),
                )
            )
        return resampled_scores


def _score_resamples(
    loader: TaskLoader, number: int, score: ResampledScore
) -> tuple[int, Float64[np.ndarray, "M R"]]:
    """The score of every cell on every resample of the task's items, after its number."""
    pairs = loader.texts(score.task).pairs
    is_edit_distance = score.path == ("edit_distance",)
    is_weighted_mean = score.path[1:] == ("wmean",)
    scores = bootstrap_scores(
        np.stack(score.similarities),
        token_distances(pairs) if is_edit_distance else pairs.gold,
        pairs.group,
        draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED),
        metric=RESAMPLED[score.path],
        aggregate="wmean" if is_weighted_mean else "all",
    )
    return number, scores


def _mean_score(
    method: str,
    seeds: tuple[int, ...],
    scores: Iterable[ScoreOfTask],
    scores_by_cell: Mapping[ScoreOfTask, ScoresByCell],
) -> Float64[np.ndarray, " R"]:
    """The mean over scores and seeds of a method on every resample; seeds are drawn, too."""
    generator = generator_of(f"seeds of {method}", RESAMPLING_SEED)
    weights = seed_weights(len(seeds), RESAMPLES, generator)  # (S, R)
    matrices = []  # a matrix (S, R) for each score
    for score in scores:
        rows = [scores_by_cell[score][method, seed] for seed in seeds]
        matrices.append(np.stack(rows))
    mean_over_scores = np.mean(matrices, axis=0)
    mean: Float64[np.ndarray, " R"] = (weights * mean_over_scores).sum(axis=0)
    return mean


# Items


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
