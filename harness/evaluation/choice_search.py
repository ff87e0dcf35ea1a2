"""A search for the choices under which a model gives the digits that its card claims.

The cheapest choices are tried first: other scores of the model's own vectors, then one
other choice of the encoding or other pairs of the data set, then two choices at once.
Most choices cost one encoding of the task's sentences, which the cache keeps. A trial
that gives the digits of all claims of a run explains them, and ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from harness.core.errors import HarnessError
from harness.core.hardware import FLOAT32
from harness.core.metrics.similarity import (
    CORRELATIONS,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.scores import score_at
from harness.core.terminal import duration
from harness.core.types import AGGREGATIONS, Task
from harness.evaluation.encoding_choice import OWN_CHOICE, EncodingChoice
from harness.evaluation.measured_model import MeasuredModel
from harness.registry import Registry
from harness.results.cards import BEST_SIMILARITY, CardClaim
from harness.results.checked_claims import SAME_DIGITS, FoundChoices, gives, score_of
from harness.results.verdict import Published

# Points that the scores of two programs differ by in half precision, where the order of
# sums decides more than the last digits.
DIGITS_OF_HALVES = 0.03

NEIGHBOURHOOD = 1.0  # points on each side of a claim in which tried scores are counted
# If more tried scores than this are expected to have the digits by chance, the explanation
# says so.
LIKELY_CHANCE = 0.1

# A task's name, and a choice reduced to the settings that need another encoding of the task
# (`EncodingChoice.encoding`).
TaskEncoding = tuple[str, EncodingChoice]


# Which score is read


@dataclass(frozen=True)
class ScoreChoice:
    """The score of given vectors that is compared with a claim.

    Attributes:
        similarity: The similarity function; empty for the claim's own.
        correlation: The correlation; empty for the claim's own.
        aggregation: The aggregation over subsets. Claims are of all pairs.
    """

    similarity: str = ""
    correlation: str = ""
    aggregation: str = "all"

    @property
    def change_count(self) -> int:
        """How many settings differ from the claim."""
        changes = (self.similarity, self.correlation, self.aggregation != "all")
        return sum(bool(change) for change in changes)

    def score(self, claim: CardClaim, scores: Mapping[str, Any]) -> float | None:
        """The score that is compared with a claim; None if it is undefined."""
        similarity = self.similarity or claim.similarity
        correlation = self.correlation or claim.correlation
        if similarity == BEST_SIMILARITY:
            return score_of(claim, scores, self.aggregation)
        return score_at(scores, (score_name(similarity, correlation), self.aggregation))

    def words(self, claim: CardClaim) -> tuple[str, ...]:
        """The differences from the claim, a phrase each."""
        phrases = []
        if self.correlation not in ("", claim.correlation):
            phrases.append(
                f"{self.correlation.capitalize()} for {claim.correlation.capitalize()}"
            )
        if self.similarity not in ("", claim.similarity):
            phrases.append(f"{self.similarity} for {claim.similarity}")
        if self.aggregation != "all":
            phrases.append(f"aggregation {self.aggregation}")
        return tuple(phrases)


AS_CLAIMED = ScoreChoice()


def _score_choices() -> Iterator[ScoreChoice]:
    """Every choice of a score."""
    for aggregation in AGGREGATIONS:
        for correlation in ("", *CORRELATIONS):
            for similarity in ("", COSINE, *SIMILARITIES):
                yield ScoreChoice(similarity, correlation, aggregation)


# First AS_CLAIMED, then the choices with one change, then all others.
TRIED_SCORE_CHOICES = tuple(
    sorted(_score_choices(), key=lambda choice: choice.change_count)
)


# Which vectors are read


@dataclass(frozen=True)
class ChoiceTrial:
    """A task whose sentences are encoded under a choice.

    Attributes:
        task: The task.
        choice: How its sentences are encoded.
        has_other_pairs: Whether the claim is about the pairs of another task.
    """

    task: Task
    choice: EncodingChoice = OWN_CHOICE
    has_other_pairs: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the claim, a phrase each."""
        if not self.has_other_pairs:
            return self.choice.words
        splits = "+".join(self.task.scored)
        pairs = f"{self.task.text} text, split {splits} ({self.task.name})"
        return (*self.choice.words, pairs)

    @property
    def encoding(self) -> TaskEncoding:
        """The encoding that it reads, which trials of several poolings share."""
        return self.task.name, self.choice.encoding

    @property
    def tolerance(self) -> float:
        """How far a score may be from a claim that it explains, in points."""
        return SAME_DIGITS if self.choice.dtype == FLOAT32 else DIGITS_OF_HALVES


@dataclass(frozen=True, kw_only=True)
class RunClaims:
    """Claims of one run of the model on one task.

    Attributes:
        differing: The claims that differ, which are to be explained.
        holding: The claims that hold. An explanation has to give their digits, too.
    """

    differing: Sequence[CardClaim]
    holding: Sequence[CardClaim] = ()


# The search


@dataclass
class ChoiceSearch:
    """A search on one task.

    Attributes:
        model: The model, which keeps what was measured of it.
        task: The pairs that the claims are of.
        registry: The tasks.
        most_encodings: How many encodings are measured at most; None for no limit.
        likely_choices: Choices that are tried before all others, since they explained
            other tasks of the card.
        note: Is called with a sentence on how long the search takes at most, before
            anything is encoded.
        tried_scores: The scores that were compared so far with the first of the claims.
        encodings: The encodings that were measured so far.
        explained_by: The choice of the encoding that gave all digits; None until one
            did.
    """

    model: MeasuredModel
    task: Task
    registry: Registry
    most_encodings: int | None = None
    likely_choices: Sequence[EncodingChoice] = ()
    note: Callable[[str], None] = field(default=lambda _: None)
    tried_scores: list[float] = field(default_factory=list)
    encodings: set[TaskEncoding] = field(default_factory=set)
    explained_by: EncodingChoice | None = None

    def explanations(
        self,
        claims: Sequence[CardClaim],
        holding: Sequence[CardClaim] = (),
        *,
        depth: int = 2,
    ) -> list[FoundChoices]:
        """The explanation of each claim: choices that give its digits, or why there are none.

        Args:
            claims: Claims of one run that differ.
            holding: Claims of the same run that hold. A choice has to give their digits,
                too.
            depth: How many choices of the encoding are tried at once. With 0 only the
                ones are tried that move few sentences or last digits: other numbers of
                the run hold, so that most choices are known to be right.
        """
        run = RunClaims(differing=claims, holding=holding)
        other_scores = [self.other_score(claim) for claim in claims]
        if all(other_scores):
            return [choices for choices in other_scores if choices is not None]
        single_trials = list(self.single_trials() if depth else self.small_trials())
        double_trials = list(self.double_trials() if depth > 1 else ())
        all_trials = [*single_trials, *double_trials]
        self._announce(all_trials)
        for trials in (single_trials, double_trials):
            explanations = self._explained_by_trial(trials, run)
            if explanations is None:
                explanations = self._explained_by_score_of_trial(trials, run)
            if explanations is not None:
                return explanations
        reason = "nothing that was tried gives it"
        if self._exceeds_limit(all_trials):
            reason = (
                f"no choice among the first {len(self.encodings)} encodings gives it"
            )
        no_choices = FoundChoices(tried=len(self.tried_scores), reason=reason)
        return [choices or no_choices for choices in other_scores]

    # The trials

    def small_trials(self) -> Iterator[ChoiceTrial]:
        """One other choice of the encoding that moves few sentences, or last digits."""
        for choice in self.model.single_choices(self.task):
            is_small = (
                choice.max_length is not None
                or choice.dtype != FLOAT32
                or choice.unit_length is not None
            )
            if is_small:
                yield ChoiceTrial(self.task, choice)

    def single_trials(self) -> Iterator[ChoiceTrial]:
        """One other choice: of the encoding, or other pairs of the data set."""
        training_tasks, scored_tasks = self._other_tasks_by_use()
        for choice in (*self.likely_choices, *self.model.single_choices(self.task)):
            yield ChoiceTrial(self.task, choice)
        for task in scored_tasks:
            yield ChoiceTrial(task, has_other_pairs=True)
        for choice in self.model.rare_choices(self.task):
            yield ChoiceTrial(self.task, choice)
        for task in training_tasks:
            yield ChoiceTrial(task, has_other_pairs=True)

    def double_trials(self) -> Iterator[ChoiceTrial]:
        """Two other choices: both of the encoding, or one and other pairs of the data set."""
        for choice in self.model.choices_of_two(self.task):
            yield ChoiceTrial(self.task, choice)
        _, scored_tasks = self._other_tasks_by_use()
        for task in scored_tasks:
            for choice in self.model.single_choices(task):
                yield ChoiceTrial(task, choice, has_other_pairs=True)

    def other_tasks(self) -> list[Task]:
        """The other text form and the other splits of the data set that are on this machine."""
        tasks = []
        for task in self.registry.tasks.values():
            is_other_task = task.name != self.task.name
            is_same_data_set = _data_set(task) == _data_set(self.task)
            has_same_metric = task.metric == self.task.metric
            if is_other_task and is_same_data_set and has_same_metric:
                tasks.append(task)
        return [task for task in tasks if self.model.places.has_data(task.asset)]

    def _other_tasks_by_use(self) -> tuple[list[Task], list[Task]]:
        """The other tasks that score training pairs, and the ones that do not."""
        training_tasks: list[Task] = []
        scored_tasks: list[Task] = []
        for task in self.other_tasks():
            if "train" in task.scored:
                training_tasks.append(task)
            else:
                scored_tasks.append(task)
        return training_tasks, scored_tasks

    # The limit on encodings

    def _announce(self, trials: Sequence[ChoiceTrial]) -> None:
        """Say how many encodings there are at most, and how long they take."""
        further_trials = self._further_encodings(trials).values()
        trials_in_limit = list(islice(further_trials, self.most_encodings))
        characters = sum(
            self.model.characters(trial.choice, trial.task) for trial in trials_in_limit
        )
        note = f"{self.task.name}: a search of at most {len(trials_in_limit)} encodings"
        rate = self.model.characters_per_second
        if rate is not None:
            note += f", about {duration(characters / rate)} if none gives it"
        self.note(note)

    def _exceeds_limit(self, trials: Sequence[ChoiceTrial]) -> bool:
        """Whether these trials need more encodings than are allowed."""
        limit = self.most_encodings
        return limit is not None and len(self._further_encodings(trials)) > limit

    def _further_encodings(
        self, trials: Iterable[ChoiceTrial]
    ) -> Mapping[TaskEncoding, ChoiceTrial]:
        """The encodings that trials read, each with a trial that reads it.

        The model's own encoding of the task of the claims is not among them, since it is
        measured already.
        """
        trial_by_encoding = {}
        for trial in trials:
            if trial.encoding != self._own_encoding:
                trial_by_encoding[trial.encoding] = trial
        return trial_by_encoding

    @property
    def _own_encoding(self) -> TaskEncoding:
        """The model's own encoding of the task of the claims."""
        return ChoiceTrial(self.task).encoding

    # Scores under the trials

    def other_score(self, claim: CardClaim) -> FoundChoices | None:
        """The score of the model's own vectors that has the digits of a claim; None without one.

        It has another correlation, similarity function or aggregation than the claim.
        """
        scores = self.model.scores(OWN_CHOICE, self.task)
        for choice in TRIED_SCORE_CHOICES:
            measured = choice.score(claim, scores)
            self._count(measured)
            if gives(claim, measured):
                return FoundChoices(
                    words=choice.words(claim),
                    measured=measured,
                    tried=len(self.tried_scores),
                    is_chance=self._is_chance([claim], SAME_DIGITS),
                )
        return None

    def _explained_by_trial(
        self, trials: Iterable[ChoiceTrial], run: RunClaims
    ) -> list[FoundChoices] | None:
        """The explanations by the first trial that gives all digits of a run; None without one."""
        for trial in trials:
            scores = self._scores(trial)
            if scores is None:
                continue
            explanations = self._all_given(trial, AS_CLAIMED, scores, run)
            if explanations is not None:
                return explanations
        return None

    def _explained_by_score_of_trial(
        self, trials: Iterable[ChoiceTrial], run: RunClaims
    ) -> list[FoundChoices] | None:
        """The explanations by another score under a trial; None without one.

        Only trials that were measured are looked at, so that nothing is encoded. If some
        claims of the run hold, their scores are known to be the right ones.
        """
        if run.holding:
            return None
        for trial in trials:
            scores = self.model.scores_by_choice.get((trial.choice, trial.task.name))
            if scores is None:
                continue
            for choice in TRIED_SCORE_CHOICES:
                if choice == AS_CLAIMED:
                    continue
                explanations = self._all_given(trial, choice, scores, run)
                if explanations is not None:
                    return explanations
        return None

    def _scores(self, trial: ChoiceTrial) -> Mapping[str, Any] | None:
        """The scores under a trial.

        None if the model does not have the choice, if the data are not on this machine, or
        if its encoding would exceed the limit.
        """
        is_new = trial.encoding not in (self._own_encoding, *self.encodings)
        limit = self.most_encodings
        if is_new and limit is not None and len(self.encodings) >= limit:
            return None
        try:
            scores = self.model.scores(trial.choice, trial.task)
        except HarnessError:
            return None
        if is_new:
            self.encodings.add(trial.encoding)
        return scores

    def _all_given(
        self,
        trial: ChoiceTrial,
        choice: ScoreChoice,
        scores: Mapping[str, Any],
        run: RunClaims,
    ) -> list[FoundChoices] | None:
        """An explanation of each claim that differs; None unless all claims have their digits.

        Args:
            trial: The trial.
            choice: Which of its scores are compared with the claims that differ.
            scores: The scores under the trial, as a record has them.
            run: The claims.
        """
        measured_scores = [choice.score(claim, scores) for claim in run.differing]
        self._count(measured_scores[0])
        for claim, score in zip(run.differing, measured_scores, strict=True):
            if not gives(claim, score, trial.tolerance):
                return None
        for claim in run.holding:
            if not gives(claim, score_of(claim, scores), trial.tolerance):
                return None
        self.explained_by = trial.choice
        claims = [*run.differing, *run.holding]
        is_chance = self._is_chance(claims, trial.tolerance)
        return [
            FoundChoices(
                words=(*choice.words(claim), *trial.words),
                measured=score,
                tried=len(self.tried_scores),
                is_chance=is_chance,
            )
            for claim, score in zip(run.differing, measured_scores, strict=True)
        ]

    def _count(self, score: float | None) -> None:
        """Count a score that is compared with a claim, unless it is undefined."""
        if score is not None:
            self.tried_scores.append(score)

    def _is_chance(self, claims: Sequence[CardClaim], tolerance: float) -> bool:
        """Whether one of the tried scores is likely to have the digits by chance.

        The expected number of such scores is the number of tried scores within a point of
        the claim that lack its digits, times the share of these two points in which a
        score has the digits. It is unlikely that several claims of one run have their
        digits by chance.
        """
        if len(claims) > 1:
            return False
        [claim] = claims
        half_units = [Published(reading).half_unit for reading in claim.readings]
        near_misses = 0
        for score in set(self.tried_scores):
            is_near = gives(claim, score, NEIGHBOURHOOD)
            if is_near and not gives(claim, score, tolerance):
                near_misses += 1
        half_width = max(tolerance, min(half_units))
        share = min(half_width / NEIGHBOURHOOD, 1.0)
        return near_misses * share > LIKELY_CHANCE


def _data_set(task: Task) -> str:
    """The name of a task's data set, without text form and split."""
    return task.name.partition(".")[0]
