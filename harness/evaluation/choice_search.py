"""A search for the choices under which a model gives the digits that a card claims.

The cheapest choices are tried first: other scores of the model's own vectors, then one
other choice of the encoding or other pairs of the data set, then two choices at once.
Each choice of an encoding costs one encoding of the task, which is kept in the cache.
A trial that gives the digits of all claims of a run is the explanation, and ends the
search.
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

# In half precision the order of sums decides more than the last digits: points that two
# programs differ by.
DIGITS_OF_HALVES = 0.03

NEIGHBOURHOOD = 1.0  # points on each side of a claim in which tried scores are counted
# The expected number of tried scores that have the digits by chance, above which the
# explanation says so.
LIKELY_CHANCE = 0.1

# A task's name, and a choice as far as it makes another encoding of the task.
TaskEncoding = tuple[str, EncodingChoice]


# Which score is read


@dataclass(frozen=True)
class ScoreChoice:
    """Which score of the same vectors is read.

    Attributes:
        similarity: The similarity function; empty is the claim's own.
        correlation: The correlation; empty is the claim's own.
        aggregation: The aggregation over subsets; a claim is of all pairs.
    """

    similarity: str = ""
    correlation: str = ""
    aggregation: str = "all"

    @property
    def change_count(self) -> int:
        """How many settings are not as the claim says."""
        changes = (self.similarity, self.correlation, self.aggregation != "all")
        return sum(bool(change) for change in changes)

    def score(self, claim: CardClaim, scores: Mapping[str, Any]) -> float | None:
        """The score that is read for a claim; None if it is undefined."""
        similarity = self.similarity or claim.similarity
        correlation = self.correlation or claim.correlation
        if similarity == BEST_SIMILARITY:
            return score_of(claim, scores, self.aggregation)
        return score_at(scores, (score_name(similarity, correlation), self.aggregation))

    def words(self, claim: CardClaim) -> tuple[str, ...]:
        """What differs from the claim, a phrase each."""
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
    for aggregation in AGGREGATIONS:
        for correlation in ("", *CORRELATIONS):
            for similarity in ("", COSINE, *SIMILARITIES):
                yield ScoreChoice(similarity, correlation, aggregation)


# All of them, AS_CLAIMED and those with one change first.
TRIED_SCORE_CHOICES = tuple(
    sorted(_score_choices(), key=lambda choice: choice.change_count)
)


# Which vectors are read


@dataclass(frozen=True)
class ChoiceTrial:
    """A task under a choice of the encoding.

    Attributes:
        task: The pairs.
        choice: How their sentences are encoded.
        is_other: Whether the claim is about other pairs than these.
    """

    task: Task
    choice: EncodingChoice = OWN_CHOICE
    is_other: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the claim, a phrase each."""
        if not self.is_other:
            return self.choice.words
        splits = "+".join(self.task.scored)
        pairs = f"{self.task.text} text, split {splits} ({self.task.name})"
        return (*self.choice.words, pairs)

    @property
    def encoding(self) -> TaskEncoding:
        """The encoding that it reads; trials of several poolings share one."""
        return self.task.name, self.choice.encoding

    @property
    def tolerance(self) -> float:
        """How near a score is to a claim under this choice, in points."""
        return SAME_DIGITS if self.choice.dtype == FLOAT32 else DIGITS_OF_HALVES


@dataclass(frozen=True, kw_only=True)
class RunClaims:
    """Claims of one run of the model on one task.

    Attributes:
        differing: The claims that differ, and that are to be explained.
        holding: The claims that hold: an explanation has to give their digits, too.
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
        most_encodings: How many encodings are measured at most; None is no bound.
        first: Choices that are tried before all others: they explained other tasks of
            the card.
        note: Is told how long the search takes at most, before it encodes.
        tried: The scores that were looked at, for the first of the claims.
        encodings: The encodings that were measured.
        explained_by: The choice of the encoding that gave all digits, once one did.
    """

    model: MeasuredModel
    task: Task
    registry: Registry
    most_encodings: int | None = None
    first: Sequence[EncodingChoice] = ()
    note: Callable[[str], None] = field(default=lambda _: None)
    tried: list[float] = field(default_factory=list)
    encodings: set[TaskEncoding] = field(default_factory=set)
    explained_by: EncodingChoice | None = None

    def explanations(
        self,
        claims: Sequence[CardClaim],
        holding: Sequence[CardClaim] = (),
        *,
        depth: int = 2,
    ) -> list[FoundChoices]:
        """What gives the digits of each claim.

        Args:
            claims: Claims of one run that differ.
            holding: Claims of the same run that hold: a choice has to give their
                digits, too.
            depth: How many choices of the encoding are tried at once; with 0 only those
                that move few sentences or last digits, as where other numbers of the
                run hold.
        """
        run = RunClaims(differing=claims, holding=holding)
        by_score = [self.other_score(claim) for claim in claims]
        if all(by_score):
            return [choices for choices in by_score if choices is not None]
        singles = list(self.single_trials() if depth else self.small_trials())
        doubles = list(self.double_trials() if depth > 1 else ())
        self._announce([*singles, *doubles])
        for trials in (singles, doubles):
            explanations = self._first_that_gives(trials, run)
            if explanations is None:
                explanations = self._other_score_of(trials, run)
            if explanations is not None:
                return explanations
        reason = "nothing that was tried gives it"
        if self._exceeds_bound([*singles, *doubles]):
            reason = (
                f"no choice among the first {len(self.encodings)} encodings gives it"
            )
        unknown = FoundChoices(tried=len(self.tried), reason=reason)
        return [choices or unknown for choices in by_score]

    # What is tried

    def small_trials(self) -> Iterator[ChoiceTrial]:
        """Choices that move few sentences, or last digits."""
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
        for choice in (*self.first, *self.model.single_choices(self.task)):
            yield ChoiceTrial(self.task, choice)
        for task in scored_tasks:
            yield ChoiceTrial(task, is_other=True)
        for choice in self.model.rare_choices(self.task):
            yield ChoiceTrial(self.task, choice)
        for task in training_tasks:
            yield ChoiceTrial(task, is_other=True)

    def double_trials(self) -> Iterator[ChoiceTrial]:
        """Two other choices: both of the encoding, or one and other pairs of the data set."""
        for choice in self.model.choices_of_two(self.task):
            yield ChoiceTrial(self.task, choice)
        _, scored_tasks = self._other_tasks_by_use()
        for task in scored_tasks:
            for choice in self.model.single_choices(task):
                yield ChoiceTrial(task, choice, is_other=True)

    def other_tasks(self) -> list[Task]:
        """The other text form of the data set, and its other splits, where they are here."""
        data_set = _data_set(self.task)
        return [
            task
            for task in self.registry.tasks.values()
            if _data_set(task) == data_set
            and task.name != self.task.name
            and task.metric == self.task.metric
            and self.model.places.has_data(task.asset)
        ]

    def _other_tasks_by_use(self) -> tuple[list[Task], list[Task]]:
        """The other tasks that score training pairs, and those that do not."""
        others = self.other_tasks()
        training_tasks = [task for task in others if "train" in task.scored]
        scored_tasks = [task for task in others if "train" not in task.scored]
        return training_tasks, scored_tasks

    # The bound on encodings

    def _announce(self, trials: Sequence[ChoiceTrial]) -> None:
        """Say how many encodings there are at most, and how long they take."""
        further = self._further_encodings(trials)
        trials_in_bound = list(islice(further.values(), self.most_encodings))
        characters = sum(
            self.model.characters(trial.choice, trial.task) for trial in trials_in_bound
        )
        note = f"{self.task.name}: a search of at most {len(trials_in_bound)} encodings"
        rate = self.model.characters_per_second
        if rate is not None:
            note += f", about {duration(characters / rate)} if none gives it"
        self.note(note)

    def _exceeds_bound(self, trials: Sequence[ChoiceTrial]) -> bool:
        """Whether these trials need more encodings than are allowed."""
        limit = self.most_encodings
        return limit is not None and len(self._further_encodings(trials)) > limit

    def _further_encodings(
        self, trials: Iterable[ChoiceTrial]
    ) -> Mapping[TaskEncoding, ChoiceTrial]:
        """The encodings that trials read, each with a trial.

        The model's own encoding of the task of the claims is not among them: it is
        measured already.
        """
        further = {}
        for trial in trials:
            if trial.encoding != self._own_encoding:
                further[trial.encoding] = trial
        return further

    @property
    def _own_encoding(self) -> TaskEncoding:
        """The model's own encoding of the task of the claims."""
        return ChoiceTrial(self.task).encoding

    # Trying

    def other_score(self, claim: CardClaim) -> FoundChoices | None:
        """Another score of the model's own vectors: correlation, similarity, aggregation."""
        scores = self.model.scores(OWN_CHOICE, self.task)
        for choice in TRIED_SCORE_CHOICES:
            measured = choice.score(claim, scores)
            self._count(measured)
            if gives(claim, measured):
                return FoundChoices(
                    words=choice.words(claim),
                    measured=measured,
                    tried=len(self.tried),
                    is_chance=self._is_chance([claim], SAME_DIGITS),
                )
        return None

    def _first_that_gives(
        self, trials: Iterable[ChoiceTrial], run: RunClaims
    ) -> list[FoundChoices] | None:
        """The explanations by the first trial that gives all digits of a run."""
        for trial in trials:
            scores = self._scores(trial)
            if scores is None:
                continue
            explanations = self._all_given(trial, AS_CLAIMED, scores, run)
            if explanations is not None:
                return explanations
        return None

    def _other_score_of(
        self, trials: Iterable[ChoiceTrial], run: RunClaims
    ) -> list[FoundChoices] | None:
        """Another score of vectors that a trial has measured: nothing is encoded for it."""
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
        """The scores of a trial.

        None for one that the model or this machine does not have, and for one that
        would exceed the bound.
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
        """An explanation of each claim that differs, if all of a run have their digits."""
        measured = [choice.score(claim, scores) for claim in run.differing]
        self._count(measured[0])
        for claim, score in zip(run.differing, measured, strict=True):
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
                tried=len(self.tried),
                is_chance=is_chance,
            )
            for claim, score in zip(run.differing, measured, strict=True)
        ]

    def _count(self, measured: float | None) -> None:
        """Note a score that was looked at."""
        if measured is not None:
            self.tried.append(measured)

    def _is_chance(self, claims: Sequence[CardClaim], tolerance: float) -> bool:
        """Whether one of the scores that were tried is expected to have the digits by chance.

        The expected number is the number of tried scores within a point of the claim,
        times the share of these two points in which a score has the digits. Several
        claims of one run are hardly met by chance.
        """
        if len(claims) > 1:
            return False
        [claim] = claims
        half_units = [Published(reading).half_unit for reading in claim.readings]
        near_misses = 0
        for score in set(self.tried):
            is_near = gives(claim, score, NEIGHBOURHOOD)
            if is_near and not gives(claim, score, tolerance):
                near_misses += 1
        half_width = max(tolerance, min(half_units))
        share = min(half_width / NEIGHBOURHOOD, 1.0)
        return near_misses * share > LIKELY_CHANCE


def _data_set(task: Task) -> str:
    """The name of a task's data set, without text form and split."""
    return task.name.partition(".")[0]
