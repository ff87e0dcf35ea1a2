"""Scores of mteb's public results that contradict each other.

Compared are the cosine Spearman correlations of STS tasks: the sources of one score
(runs, revisions, cards, former versions of a file), two tasks that hold the same pairs,
the numbers of one file, and the models among each other. No model is run. A contradiction
says what can be seen, which is not always the cause: whether a prompt was left out is in no
file.

Two numbers contradict each other if `harness.results.verdict.agreement` calls them
different. What is said of files that are there today, of a former version of a file, and of
two revisions of a model or of data, where both may be right, are three lists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from harness.conclusions.numbers import COLUMNS_OF_A_MODEL
from harness.conclusions.stored_scores import (
    CARD_FOLDER,
    UNKNOWN_REVISIONS,
    ScoredSubset,
    StoredScore,
    newest_commit,
    read_scores,
)
from harness.results.verdict import TOLERANCES, Agreement, agreement

# Of 70 models with STSBenchmark and the English part of its multilingual twin, 69 agree
# within the 0.05 points that unrounded numbers may differ by.
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
# The tasks of other languages whose names are near those of English ones.
SAME_NAMES: Mapping[str, Sequence[str]] = {"STSBenchmark": ("STSB",)}
NOTHING_SEEN = "nothing"  # that two files differ in beside the number
SAME_RATIO = 0.001  # by which two ratios may differ and be the same scale
SAME_FIGURE = 1e-4  # points by which two tasks of one model have the very same figure


class FindingList(StrEnum):
    """Whether two numbers that differ are both there, and of the same."""

    TODAY = "findings of today"
    HISTORY = "findings of history"
    REVISIONS = "differs by revision"


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Two scores that differ, or one that cannot be right.

    Attributes:
        kind: A key of `CONTRADICTION_KINDS`.
        first: The score of today.
        second: The score that it is compared with; None where one file is enough.
        seen: What differs between the two files beside the score.
        others: How many more scores of the same two files differ.
        others_paths: The files of these, where they are of other files.
    """

    kind: str
    first: StoredScore
    second: StoredScore | None
    seen: str
    others: int = 0
    others_paths: frozenset[str] = frozenset()

    @property
    def list(self) -> FindingList:
        """The list that it is on."""
        if self.second is None or self.kind == "models":
            return FindingList.TODAY
        if _differ_in_revision(self.first, self.second):
            return FindingList.REVISIONS
        return FindingList.HISTORY if self.second.until else FindingList.TODAY

    def is_of(self, files: frozenset[str]) -> bool:
        """Whether one of some files has one of its scores."""
        paths = {score.path for score in (self.first, self.second) if score}
        return not files.isdisjoint(paths | self.others_paths)

    @property
    def difference(self) -> float:
        """The first score less the second, in points."""
        return self.first.points - (self.second.points if self.second else 0.0)


def _differ(first: StoredScore, second: StoredScore) -> bool:
    """Whether two scores cannot be of one model on the same pairs."""
    return agreement(first.printed, second.printed) is Agreement.DIFFERENT


def _differ_in_revision(first: StoredScore, second: StoredScore) -> bool:
    """Whether two scores name two revisions of the model, or of one data set.

    Then both may be right. That of a model's card is not known.
    """
    folders = {first.folder, second.folder}
    of_two_models = len(folders) > 1 and folders.isdisjoint(UNKNOWN_REVISIONS)
    is_of_one_set = first.cell.task == second.cell.task
    data = {first.data, second.data} - {""}
    return of_two_models or (is_of_one_set and len(data) > 1)


@dataclass(frozen=True)
class PublicScores:
    """The scores of a clone, by cell and by model.

    Attributes:
        scores: Every score of every commit, the oldest first, with those that are null.
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
            if score.is_number:
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

    @cached_property
    def by_run_today(
        self,
    ) -> Mapping[tuple[str, str], Mapping[tuple[str, str, str], StoredScore]]:
        """The scores of today by model and folder, and by task, split and subset."""
        runs: dict[Any, dict[tuple[str, str, str], StoredScore]] = defaultdict(dict)
        for cell, scores in self.by_cell.items():
            for score in scores:
                if not score.until:
                    run = runs[cell.model, score.folder]
                    run[cell.task, cell.split, cell.subset] = score
        return runs

    def findings(self, files: frozenset[str] | None = None) -> list[Contradiction]:
        """Every contradiction, or those of some files; the largest of each kind first.

        Args:
            files: Files of today, as those that a branch has changed.
        """
        findings = [
            *self.wrong_tasks(),
            *self.wrong_numbers(),
            *self.wrong_scales(),
            *self.differing_sources(),
            *self.differing_twins(),
            *self.same_models(),
        ]
        kinds = list(CONTRADICTION_KINDS)
        return sorted(
            (each for each in findings if files is None or each.is_of(files)),
            key=lambda finding: (
                kinds.index(finding.kind),
                -abs(finding.difference),
                finding.first.path,
            ),
        )

    def wrong_tasks(self) -> Iterator[Contradiction]:
        """Files that state another task than their name, or have another's very figures."""
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
        for figures in self.by_run_today.values():
            for english, score in figures.items():
                task, split, subset = english
                if subset not in ENGLISH_SUBSETS.get(task, ()):
                    continue
                for language_task in SAME_NAMES.get(task, ()):
                    other = figures.get((language_task, split, subset))
                    if other is not None and _is_same_figure(score, other):
                        seen = f"its figures are those of {task}, to all digits"
                        found[other.path] = Contradiction(
                            kind="task", first=other, second=None, seen=seen
                        )
        yield from found.values()

    def wrong_numbers(self) -> Iterator[Contradiction]:
        """Numbers that are none, that differ from the main score, or have their own scale.

        The first of each file is told.
        """
        found: dict[tuple[str, str], Contradiction] = {}
        for score in self.scores:
            if score.until:
                continue
            kind = seen = ""
            if not score.is_number:
                kind, seen = "null", "the file has null or NaN in its place"
            elif score.has_own_scale:
                kind = "scale"
                seen = "points among fractions, or a fraction among points"
            elif score.main is not None:
                distance = abs(score.main - score.points)
                if distance > TOLERANCES.match:
                    kind, seen = "main", f"the main score beside it is {score.main:.4f}"
            if kind:
                finding = Contradiction(kind=kind, first=score, second=None, seen=seen)
                found.setdefault((kind, score.path), finding)
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
                if not _differ(newest, other):
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
        """Scores of one revision of a model on two tasks that hold the same pairs."""
        for figures in self.by_run_today.values():
            for task, subset, twin_task, twin_subset in TWINS:
                for split, twin_split in TWIN_SPLITS:
                    first = figures.get((task, split, subset))
                    second = figures.get((twin_task, twin_split, twin_subset))
                    if first is None or second is None:
                        continue
                    if _differ(first, second):
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
        """Models that have three figures or more in common under different names.

        A figure is a Spearman and a Pearson correlation of the same cell; both must have
        the same digits, so that a rounded copy or a second run is one, too.
        """
        by_cell: dict[ScoredSubset, list[StoredScore]] = defaultdict(list)
        for cell, score in self.today.items():
            if score.pearson is not None:
                by_cell[replace(cell, model="")].append(score)
        pairs: dict[tuple[str, str], list[Contradiction]] = defaultdict(list)
        for scores in by_cell.values():
            scores.sort(key=lambda score: score.points)
            for place, first in enumerate(scores):
                for second in scores[place + 1 :]:
                    if second.points - first.points > TOLERANCES.exact:
                        break
                    distance = abs((first.pearson or 0.0) - (second.pearson or 0.0))
                    if distance <= TOLERANCES.exact:
                        one, other = sorted(
                            (first, second), key=lambda score: score.since_date
                        )
                        finding = Contradiction(
                            kind="models", first=one, second=other, seen=""
                        )
                        pairs[one.cell.model, other.cell.model].append(finding)
        for (model, other_model), found in pairs.items():
            if len(found) < COLUMNS_OF_A_MODEL:
                continue
            figures = self.by_model_today[model]
            common = figures.keys() & self.by_model_today[other_model].keys()
            shown = min(found, key=lambda finding: str(finding.first.cell))
            paths = {
                score.path
                for finding in found
                for score in (finding.first, finding.second)
                if score
            }
            yield replace(
                shown,
                seen=f"{len(found)} of {len(common)} figures are the same",
                others=len(found) - 1,
                others_paths=frozenset(paths),
            )

    def _seen(self, first: StoredScore, second: StoredScore) -> str:
        """What differs between two files beside their scores, the most telling first."""
        if abs(first.points + second.points) <= TOLERANCES.match:
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
        versions, others = _versions(first), _versions(second)
        for package in versions:
            if others.get(package, versions[package]) != versions[package]:
                words = f"{package} {others[package]}, now {versions[package]}"
                seen.append(words)
        return "; ".join(seen) or NOTHING_SEEN

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


def _versions(score: StoredScore) -> Mapping[str, str]:
    """The versions of packages that a score is known to be made with, by name."""
    of_file = {"mteb": score.mteb} if score.mteb else {}
    return {**score.versions, **of_file}


def _is_same_figure(first: StoredScore, second: StoredScore) -> bool:
    """Whether two scores have equal correlations to all digits, as a copied file has."""
    if first.pearson is None or second.pearson is None:
        return False
    distances = (first.points - second.points, first.pearson - second.pearson)
    return max(map(abs, distances)) < SAME_FIGURE


def _are_twins(first: str, second: str) -> bool:
    """Whether two tasks hold the same pairs."""
    return any({first, second} == {task, twin} for task, _, twin, _ in TWINS)


CONTRADICTION_KINDS: Mapping[str, str] = {
    "task": "A file of another task",
    "null": "A score that is no number",
    "main": "A main score that is another number",
    "scale": "A score near or below 0, or on another scale",
    "twins": "Two tasks with the same pairs",
    "models": "Two models with the same figures",
    "sources": "Two sources of one score",
}
