"""Scores of mteb's public results that contradict each other.

Compared are the cosine Spearman correlations of STS tasks: the sources of one score
(runs, revisions, cards, former versions of a file), two tasks that hold the same pairs,
and the models among each other. No model is run. A contradiction says what can be seen,
which is not always the cause: whether a prompt was left out is in no file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from harness.conclusions.stored_scores import (
    ScoredSubset,
    StoredScore,
    newest_commit,
    read_scores,
)

# Differences up to this many points are put down to processors and batches: of 70 models
# with STSBenchmark and the English part of its multilingual twin, 69 agree within it.
AGREEMENT = 0.05
# No model with usual scores has so few points on English pairs.
SMALL_POINTS, USUAL_POINTS = 2.0, 20.0

# Tasks that hold the same pairs: a task's subset, and the task and subset of its twin.
TWINS = (
    ("STSBenchmark", "default", "STSBenchmarkMultilingualSTS", "en"),
)  # validation is called dev by the twin
TWIN_SPLITS = (("test", "test"), ("validation", "dev"))
# The subsets of English pairs.
ENGLISH_SUBSETS: Mapping[str, Sequence[str]] = {
    **{f"STS{year}": ("default",) for year in range(12, 17)},
    "STSBenchmark": ("default",),
    "SICK-R": ("default",),
    "STSBenchmarkMultilingualSTS": ("en",),
    "STS17": ("en-en",),
    "STS22": ("en",),
    "STS22.v2": ("en",),
    "SemRel24STS": ("eng",),
}
SAME_RATIO = 0.001  # by which two ratios may differ and be the same scale
CARD_FOLDER = "external"  # the folder of scores that were copied from a model's card


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Two scores that cannot both be right.

    Attributes:
        kind: A key of `CONTRADICTION_KINDS`.
        first: The score of today.
        second: The score that it is compared with; None where one file is enough.
        seen: What differs between the two files beside the score.
        others: How many more scores of the same two files differ.
    """

    kind: str
    first: StoredScore
    second: StoredScore | None
    seen: str
    others: int = 0

    @property
    def difference(self) -> float:
        """The first score less the second, in points."""
        return self.first.points - (self.second.points if self.second else 0.0)


@dataclass(frozen=True)
class PublicScores:
    """The scores of a clone, by cell and by model.

    Attributes:
        scores: Every score of every commit, the oldest first.
        commit: The commit that is checked out, or a bare repository's newest.
        date: Its date, as in 2026-08-20.
    """

    scores: Sequence[StoredScore]
    commit: str = ""
    date: str = ""

    @classmethod
    def read(cls, repository: Path) -> PublicScores:
        """The scores of a clone of mteb's results; raises UsageError for another folder."""
        scores = read_scores(repository)
        commit, date = newest_commit(repository)
        return cls(scores, commit=commit, date=date)

    @property
    def file_count(self) -> int:
        """The number of files of today that have a score."""
        return len({score.path for score in self.today.values()})

    @cached_property
    def by_cell(self) -> Mapping[ScoredSubset, Sequence[StoredScore]]:
        """All versions of each cell's score, the oldest first."""
        cells: dict[ScoredSubset, list[StoredScore]] = defaultdict(list)
        for score in self.scores:
            cells[score.cell].append(score)
        return cells

    @cached_property
    def today(self) -> Mapping[ScoredSubset, StoredScore]:
        """The newest score of each cell that a file of today has."""
        return {
            cell: live[-1]
            for cell, scores in self.by_cell.items()
            if (live := [score for score in scores if not score.until])
        }

    def findings(self) -> list[Contradiction]:
        """Every contradiction, the largest difference of each kind first."""
        findings = [
            *self.wrong_tasks(),
            *self.wrong_scales(),
            *self.differing_sources(),
            *self.differing_twins(),
            *self.same_models(),
        ]
        kinds = list(CONTRADICTION_KINDS)
        return sorted(
            findings,
            key=lambda finding: (
                kinds.index(finding.kind),
                -abs(finding.difference),
                finding.first.path,
            ),
        )

    def wrong_tasks(self) -> Iterator[Contradiction]:
        """Files that state another task than their name."""
        found: dict[str, Contradiction] = {}
        for score in self.today.values():
            if score.stated_task not in ("", score.cell.task):
                finding = Contradiction(
                    kind="task",
                    first=score,
                    second=None,
                    seen=f"the file says that it is of {score.stated_task}",
                )
                found.setdefault(score.path, finding)
        yield from found.values()

    def wrong_scales(self) -> Iterator[Contradiction]:
        """Scores near or below 0 on English pairs, of a model with usual scores elsewhere.

        In other languages many a model is near 0 in truth.
        """
        points_of_model: dict[str, list[float]] = defaultdict(list)
        for cell, score in self.today.items():
            points_of_model[cell.model].append(abs(score.points))
        for cell, score in self.today.items():
            is_english = cell.subset in ENGLISH_SUBSETS.get(cell.task, ())
            usual = median(points_of_model[cell.model])
            if is_english and score.points < SMALL_POINTS and usual > USUAL_POINTS:
                place = "near 0" if score.points > -SMALL_POINTS else "negative"
                seen = f"{place}, and half of the model's scores are above {usual:.0f}"
                yield Contradiction(kind="scale", first=score, second=None, seen=seen)

    def differing_sources(self) -> Iterator[Contradiction]:
        """Two sources of one cell, a finding for each two files.

        The newest score of today is compared with every other one, of today or of a file
        that is gone. Of the cells that two files share the one with the largest
        difference is shown.
        """
        pairs: dict[tuple[str, str], list[Contradiction]] = defaultdict(list)
        for cell, newest in self.today.items():
            for other in self.by_cell[cell]:
                if abs(newest.points - other.points) <= AGREEMENT:
                    continue
                key = (newest.path, other.path)
                finding = Contradiction(
                    kind="sources",
                    first=newest,
                    second=other,
                    seen=self._seen(newest, other),
                )
                pairs[key].append(finding)
        for found in pairs.values():
            largest = max(found, key=lambda finding: abs(finding.difference))
            yield replace(largest, others=len(found) - 1)

    def differing_twins(self) -> Iterator[Contradiction]:
        """Scores of one model on two tasks that hold the same pairs."""
        for figures in self.by_model_today.values():
            for task, subset, twin_task, twin_subset in TWINS:
                for split, twin_split in TWIN_SPLITS:
                    first = figures.get((task, split, subset))
                    second = figures.get((twin_task, twin_split, twin_subset))
                    if first is None or second is None:
                        continue
                    if abs(first.points - second.points) > AGREEMENT:
                        seen = self._seen(first, second)
                        yield Contradiction(
                            kind="twins", first=first, second=second, seen=seen
                        )

    @cached_property
    def by_model_today(
        self,
    ) -> Mapping[str, Mapping[tuple[str, str, str], StoredScore]]:
        """The scores of today by model, and by task, split and subset."""
        models: dict[str, dict[tuple[str, str, str], StoredScore]] = defaultdict(dict)
        for cell, score in self.today.items():
            models[cell.model][cell.task, cell.split, cell.subset] = score
        return models

    def same_models(self) -> Iterator[Contradiction]:
        """Models that have the same figures under different names.

        A figure is a Spearman and a Pearson correlation of the same cell; both must be
        the same to a ten-thousandth of a point.
        """
        scores_of_figure: dict[Any, list[StoredScore]] = defaultdict(list)
        for cell, score in self.today.items():
            if score.pearson is not None:
                figure = (round(score.points, 4), round(score.pearson, 4))
                scores_of_figure[replace(cell, model=""), figure].append(score)
        pairs: dict[tuple[str, str], list[Contradiction]] = defaultdict(list)
        for scores in scores_of_figure.values():
            for first, second in combinations(scores, 2):
                finding = Contradiction(
                    kind="models", first=first, second=second, seen=""
                )
                pairs[first.cell.model, second.cell.model].append(finding)
        for (model, other_model), found in pairs.items():
            figures = self.by_model_today[model]
            common = figures.keys() & self.by_model_today[other_model].keys()
            shown = min(found, key=lambda finding: str(finding.first.cell))
            yield replace(
                shown,
                seen=f"{len(found)} of {len(common)} figures are the same",
                others=len(found) - 1,
            )

    def _seen(self, first: StoredScore, second: StoredScore) -> str:
        """What differs between two files beside their scores, the most telling first."""
        if abs(first.points + second.points) <= AGREEMENT:
            return "the sign"
        factor = second.points / first.points if first.points else 0.0
        if any(abs(factor * scale - 1) < SAME_RATIO for scale in (0.01, 100)):
            return "the scale"
        seen = []
        namesake = self._own_namesake(second)
        if namesake:
            seen.append(f"the other is {namesake}")
        is_of_one_set = first.cell.task == second.cell.task
        if is_of_one_set and first.data and second.data and first.data != second.data:
            seen.append(f"data {second.data[:7]}, now {first.data[:7]}")
        if (
            CARD_FOLDER in (first.folder, second.folder)
            and first.folder != second.folder
        ):
            seen.append("copied from the model's card")
        elif first.folder != second.folder:
            seen.append("revision of the model")
        if first.mteb and second.mteb and first.mteb != second.mteb:
            seen.append(f"mteb {second.mteb}, now {first.mteb}")
        return "; ".join(seen) or "nothing"

    def _own_namesake(self, score: StoredScore) -> str:
        """Another task on which the model has this very figure today, as after a swap."""
        for (task, split, subset), other in self.by_model_today[
            score.cell.model
        ].items():
            is_other = (task, split) != (score.cell.task, score.cell.split)
            is_same = abs(other.points - score.points) < 0.0001
            if is_other and is_same and not _are_twins(task, score.cell.task):
                return f"its {task} {split} {subset}".replace(" default", "")
        return ""


def _are_twins(first: str, second: str) -> bool:
    """Whether two tasks hold the same pairs."""
    return any({first, second} == {task, twin} for task, _, twin, _ in TWINS)


CONTRADICTION_KINDS: Mapping[str, str] = {
    "task": "A file of another task",
    "scale": "A score near or below 0",
    "twins": "Two tasks with the same pairs",
    "models": "Two models with the same figures",
    "sources": "Two sources of one score",
}
