"""A search for the choices under which a model gives the digits that a card claims.

The cheapest are tried first: other scores of the vectors that are here, then one other
choice of the encoding or other pairs of the data set, then two choices at once. Each
choice of an encoding is one encoding of the task, kept in the cache. What gives the
digits of all numbers of a run is the explanation, and ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from harness.evaluation.model_choices import OWN_CHOICE, EncodingChoice, MeasuredModel
from harness.registry import Registry
from harness.results.cards import BEST_SIMILARITY, CardClaim
from harness.results.checked_claims import SAME_DIGITS, FoundChoices, gives, score_of
from harness.results.verdict import Published

# In half precision the order of sums decides more than the last digits: points that two
# programs differ by.
DIGITS_OF_HALVES = 0.03

NEIGHBOURHOOD = 1.0  # points on each side of a claim in which tried scores are counted
LIKELY_CHANCE = (
    0.1  # scores that have the digits by chance: then the explanation says so
)


@dataclass(frozen=True)
class ScoreChoice:
    """Which score of the same vectors is read; what is empty is as the claim says."""

    similarity: str = ""
    correlation: str = ""
    aggregation: str = "all"

    def score(self, claim: CardClaim, scores: Mapping[str, Any]) -> float | None:
        """The score that is read for a claim."""
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

# Those with one change are first.
CHOSEN_SCORES = tuple(
    sorted(
        (
            ScoreChoice(similarity, correlation, aggregation)
            for aggregation in AGGREGATIONS
            for correlation in ("", *CORRELATIONS)
            for similarity in ("", COSINE, *SIMILARITIES)
        ),
        key=lambda choice: (
            bool(choice.similarity)
            + bool(choice.correlation)
            + (choice.aggregation != "all")
        ),
    )
)


@dataclass(frozen=True)
class ChoiceTrial:
    """A task under a choice of the encoding.

    Attributes:
        task: The pairs.
        choice: How their sentences are encoded.
        is_other: Whether these are other pairs than those of the claim.
    """

    task: Task
    choice: EncodingChoice = OWN_CHOICE
    is_other: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """What differs from the claim, a phrase each."""
        splits = "+".join(self.task.scored)
        pairs = (f"{self.task.text} text, split {splits} ({self.task.name})",)
        return (*self.choice.words, *(pairs if self.is_other else ()))

    @property
    def encoding(self) -> tuple[str, EncodingChoice]:
        """What of it makes another encoding; poolings of hidden states share one."""
        return self.task.name, self.choice.encoding

    @property
    def tolerance(self) -> float:
        """How near a score is to a claim under this choice, in points."""
        return SAME_DIGITS if self.choice.dtype == FLOAT32 else DIGITS_OF_HALVES


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
    encodings: set[tuple[str, EncodingChoice]] = field(default_factory=set)
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
        by_score = [self.other_score(claim) for claim in claims]
        if all(by_score):
            return [found for found in by_score if found is not None]
        singles = [*self.single_trials()] if depth else [*self.small_trials()]
        doubles = [*self.double_trials()] if depth > 1 else []
        self._announce([*singles, *doubles])
        for trials in (singles, doubles):
            found = self._first(trials, claims, holding)
            found = found or self._other_score_of(trials, claims, holding)
            if found is not None:
                return found
        reason = "nothing that was tried gives it"
        if self._is_spent([*singles, *doubles]):
            reason = (
                f"no choice among the first {len(self.encodings)} encodings gives it"
            )
        unknown = FoundChoices(tried=len(self.tried), reason=reason)
        return [found or unknown for found in by_score]

    # What is tried

    def small_trials(self) -> Iterator[ChoiceTrial]:
        """Choices that move few sentences, or last digits."""
        for choice in self.model.single_choices(self.task):
            is_small = (
                choice.max_length
                or choice.dtype != FLOAT32
                or choice.unit_length is not None
            )
            if is_small:
                yield ChoiceTrial(self.task, choice)

    def single_trials(self) -> Iterator[ChoiceTrial]:
        """One other choice: of the encoding, or other pairs of the data set."""
        yield from (ChoiceTrial(self.task, choice) for choice in self.first)
        yield from (
            ChoiceTrial(self.task, choice)
            for choice in self.model.single_choices(self.task)
        )
        others = self.other_tasks()
        yield from (
            ChoiceTrial(task, is_other=True)
            for task in others
            if "train" not in task.scored
        )
        yield from (
            ChoiceTrial(self.task, choice)
            for choice in self.model.rare_choices(self.task)
        )
        yield from (
            ChoiceTrial(task, is_other=True)
            for task in others
            if "train" in task.scored
        )

    def double_trials(self) -> Iterator[ChoiceTrial]:
        """Two other choices: both of the encoding, or one and other pairs of the data set."""
        yield from (
            ChoiceTrial(self.task, choice)
            for choice in self.model.choices_of_two(self.task)
        )
        for task in self.other_tasks():
            if "train" not in task.scored:
                for choice in self.model.single_choices(task):
                    yield ChoiceTrial(task, choice, is_other=True)

    def other_tasks(self) -> list[Task]:
        """The other text form of the data set, and its other splits, where they are here."""
        base = self.task.name.partition(".")[0]
        return [
            task
            for task in self.registry.tasks.values()
            if task.name.partition(".")[0] == base
            and task.name != self.task.name
            and task.metric == self.task.metric
            and self.model.places.has_data(task.asset)
        ]

    def _announce(self, trials: Sequence[ChoiceTrial]) -> None:
        """Say how many encodings there are at most, and what they take where none ends it."""
        few = [*self._further_encodings(trials).values()][: self.most_encodings]
        letters = sum(self.model.letters(trial.choice, trial.task) for trial in few)
        rate = self.model.letters_per_second
        time = (
            ""
            if rate is None
            else f", about {duration(letters / rate)} if none gives it"
        )
        self.note(f"{self.task.name}: a search of at most {len(few)} encodings{time}")

    def _is_spent(self, trials: Sequence[ChoiceTrial]) -> bool:
        limit = self.most_encodings
        return limit is not None and len(self._further_encodings(trials)) > limit

    def _further_encodings(
        self, trials: Iterable[ChoiceTrial]
    ) -> Mapping[tuple[str, EncodingChoice], ChoiceTrial]:
        """A trial of each encoding but the model's own of the task, which is measured already."""
        own = ChoiceTrial(self.task).encoding
        return {trial.encoding: trial for trial in trials if trial.encoding != own}

    # Trying

    def other_score(self, claim: CardClaim) -> FoundChoices | None:
        """Another score of the model's own vectors: correlation, similarity, aggregation."""
        scores = self.model.scores(OWN_CHOICE, self.task)
        for choice in CHOSEN_SCORES:
            measured = choice.score(claim, scores)
            self._count(measured)
            if gives(claim, measured):
                words = choice.words(claim)
                return FoundChoices(
                    words, measured, len(self.tried), is_chance=self._is_chance([claim])
                )
        return None

    def _first(
        self,
        trials: Iterable[ChoiceTrial],
        claims: Sequence[CardClaim],
        holding: Sequence[CardClaim],
    ) -> list[FoundChoices] | None:
        """The first trial that gives all digits."""
        for trial in trials:
            scores = self._scores(trial)
            if scores is None:
                continue
            found = self._all_given(trial, AS_CLAIMED, scores, claims, holding)
            if found is not None:
                return found
        return None

    def _other_score_of(
        self,
        trials: Iterable[ChoiceTrial],
        claims: Sequence[CardClaim],
        holding: Sequence[CardClaim],
    ) -> list[FoundChoices] | None:
        """Another score of vectors that a trial has measured: nothing is encoded for it."""
        if holding:
            return None
        for trial in trials:
            scores = self.model.scores_by_choice.get((trial.choice, trial.task.name))
            if scores is None:
                continue
            for choice in CHOSEN_SCORES[1:]:
                found = self._all_given(trial, choice, scores, claims, ())
                if found is not None:
                    return found
        return None

    def _scores(self, trial: ChoiceTrial) -> Mapping[str, Any] | None:
        """The scores of a trial; None for one that the model or this machine does not have."""
        is_known = trial.encoding in self.encodings or not self._further_encodings(
            [trial]
        )
        limit = self.most_encodings
        if not is_known and limit is not None and len(self.encodings) >= limit:
            return None
        try:
            scores = self.model.scores(trial.choice, trial.task)
        except HarnessError:
            return None
        if not is_known:
            self.encodings.add(trial.encoding)
        return scores

    def _all_given(
        self,
        trial: ChoiceTrial,
        choice: ScoreChoice,
        scores: Mapping[str, Any],
        claims: Sequence[CardClaim],
        holding: Sequence[CardClaim],
    ) -> list[FoundChoices] | None:
        """An explanation of each claim, if every one has its digits in these scores."""
        measured = [choice.score(claim, scores) for claim in claims]
        self._count(measured[0])
        given = [
            *(
                gives(c, score, trial.tolerance)
                for c, score in zip(claims, measured, strict=True)
            ),
            *(gives(c, score_of(c, scores), trial.tolerance) for c in holding),
        ]
        if not all(given):
            return None
        is_chance = self._is_chance([*claims, *holding], trial.tolerance)
        self.explained_by = trial.choice
        return [
            FoundChoices(
                (*choice.words(claim), *trial.words),
                score,
                len(self.tried),
                is_chance=is_chance,
            )
            for claim, score in zip(claims, measured, strict=True)
        ]

    def _count(self, measured: float | None) -> None:
        if measured is not None:
            self.tried.append(measured)

    def _is_chance(
        self, claims: Sequence[CardClaim], tolerance: float = SAME_DIGITS
    ) -> bool:
        """Whether one of the scores that were tried is expected to have the digits by chance.

        Expected are as many as are within a point of the claim, times the share of
        these two points that has its digits; several claims of one run are hardly met
        by chance.
        """
        if len(claims) > 1:
            return False
        [claim] = claims
        units = [Published(reading).half_unit for reading in claim.readings]
        near = sum(
            gives(claim, score, NEIGHBOURHOOD) and not gives(claim, score, tolerance)
            for score in set(self.tried)
        )
        width = max(tolerance, min(units))
        return near * min(width / NEIGHBOURHOOD, 1.0) > LIKELY_CHANCE
