"""Is a model's card true? Its claims measured, and those that differ followed up.

Each claim is measured under the model's own modules and prompts. Where one differs, `follow_up`
tries what the card's author can have chosen, the cheapest first: another score of the same vectors,
then other encodings, then two choices at once. What gives the printed digits is the explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.errors import AssetMissing, HarnessError
from harness.core.metrics.similarity import CORRELATIONS, COSINE, SIMILARITIES, score_name
from harness.core.scores import score_at
from harness.core.types import AGGREGATIONS, Task
from harness.evaluation.model_choices import OWN_CHOICE, EncodingChoice, MeasuredModel
from harness.registry import Registry
from harness.results.cards import BEST_SIMILARITY, CardClaim
from harness.results.checked_claims import CheckedClaim, FoundChoices
from harness.results.verdict import Measured, Published, Verdict, verdict

# Two runs of one model agree no better than that, in points, however many digits are printed.
SAME_DIGITS = 2e-3


def score_of(claim: CardClaim, scores: Mapping[str, Any], aggregation: str = "all") -> float | None:
    """The score that a claim is of; of the best of four similarities the highest."""
    if claim.similarity != BEST_SIMILARITY:
        return score_at(scores, (claim.score, aggregation))
    names = (score_name(similarity, claim.correlation) for similarity in (COSINE, *SIMILARITIES))
    found = [score_at(scores, (name, aggregation)) for name in names]
    defined = [score for score in found if score is not None]
    return max(defined, default=None)


def judged(claim: CardClaim, measured: float) -> tuple[str, Verdict]:
    """The reading of a claim that is nearest to a measured score, and the verdict on it."""
    verdicts = [
        (reading, verdict(Published(reading), Measured((measured,)))) for reading in claim.readings
    ]
    return min(verdicts, key=lambda item: abs(item[1].difference or 0.0))


def check_claims(
    model: MeasuredModel, claims: Iterable[CardClaim], registry: Registry
) -> Iterator[CheckedClaim]:
    """Measure what each claim is of, under the model's own modules and prompts, and judge it."""
    failed: dict[str, CheckedClaim] = {}
    for claim in claims:
        if claim.why_not:
            yield CheckedClaim(claim, why_not=claim.why_not)
            continue
        if claim.task in failed:
            yield replace(failed[claim.task], claim=claim)
            continue
        try:
            scores = model.scores(OWN_CHOICE, registry.tasks[claim.task])
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            failed[claim.task] = CheckedClaim(claim, why_not=str(error), is_missing=is_missing)
            yield failed[claim.task]
            continue
        yield _checked(claim, score_of(claim, scores))


def _checked(claim: CardClaim, measured: float | None) -> CheckedClaim:
    if measured is None:
        return CheckedClaim(claim, why_not="the score is undefined: the similarities are constant")
    reading, found = judged(claim, measured)
    checked = CheckedClaim(claim, measured=measured, verdict=found, reading=reading)
    if checked.differs and claim.is_doubtful:
        return replace(checked, verdict=None, why_not=f"{claim.is_doubtful}, and it differs")
    return checked


# Following up what differs


def gives(claim: CardClaim, measured: float | None) -> bool:
    """Whether a score has the printed digits of a claim."""
    if measured is None:
        return False
    for reading in claim.readings:
        published = Published(reading)
        if round(abs(measured - published.points), 9) <= max(SAME_DIGITS, published.half_unit):
            return True
    return False


def follow_up(
    model: MeasuredModel, checked: Sequence[CheckedClaim], registry: Registry
) -> tuple[CheckedClaim, ...]:
    """The claims, those that differ with what gives their digits.

    The claims of one source on one task are of one run: a choice of encoding has to give all of
    those that differ, and none is looked for where others of the run hold.
    """
    explanations: dict[CheckedClaim, FoundChoices] = {}
    for run in _runs(checked):
        differing = [item for item in run if item.differs]
        if not differing:
            continue
        others_hold = any(item.holds for item in run)
        task = registry.tasks[run[0].claim.task]
        search = ChoiceSearch(model, task, registry)
        claims = [item.claim for item in differing]
        for item, explanation in zip(
            differing, search.explanations(claims, others_hold=others_hold), strict=True
        ):
            explanations[item] = explanation
    return tuple(replace(item, explanation=explanations.get(item)) for item in checked)


def _runs(checked: Sequence[CheckedClaim]) -> list[list[CheckedClaim]]:
    """The judged claims by source, task, split and revision."""
    runs: dict[tuple[str, ...], list[CheckedClaim]] = {}
    for item in checked:
        stated = item.claim.stated
        if item.verdict is not None:
            name = (stated.source, item.claim.task, stated.split, stated.revision)
            runs.setdefault(name, []).append(item)
    return [*runs.values()]


@dataclass
class ChoiceSearch:
    """A search for the choices that give claimed digits on one task; `tried` counts the scores."""

    model: MeasuredModel
    task: Task
    registry: Registry
    tried: int = 0
    seen: list[str] = field(default_factory=list)

    def explanations(
        self, claims: Sequence[CardClaim], *, others_hold: bool = False
    ) -> list[FoundChoices]:
        """What gives the digits of each claim.

        Args:
            claims: Claims of one run that differ.
            others_hold: Whether other claims of the run hold, so that the encoding was the own one.
        """
        of_scores = [self.other_score(claim) for claim in claims]
        if all(of_scores):
            return [found for found in of_scores if found is not None]
        if others_hold:
            reason = "other numbers of the same run hold, so the encoding is not the reason"
            unknown = FoundChoices(tried=self.tried, reason=reason)
            return [found or unknown for found in of_scores]
        for found in (self.other_encoding(claims), self.other_pairs(claims)):
            if found is not None:
                return found
        for found in (self.two_choices(claims),):
            if found is not None:
                return found
        unknown = FoundChoices(tried=self.tried, reason="nothing that was tried gives it")
        return [found or unknown for found in of_scores]

    def other_score(self, claim: CardClaim) -> FoundChoices | None:
        """Another score of the same vectors: correlation, similarity function, aggregation."""
        scores = self.model.scores(OWN_CHOICE, self.task)
        for aggregation in AGGREGATIONS:
            for correlation in CORRELATIONS:
                for similarity in (COSINE, *SIMILARITIES):
                    measured = score_at(scores, (score_name(similarity, correlation), aggregation))
                    self.tried += 1
                    if gives(claim, measured):
                        words = _score_words(claim, similarity, correlation, aggregation)
                        return FoundChoices(words, measured, self.tried)
        return None

    def other_encoding(self, claims: Sequence[CardClaim]) -> list[FoundChoices] | None:
        """One other choice of the encoding that gives the digits of all claims."""
        choices = self.model.single_choices(self.task)
        return self._first(choices, claims)

    def two_choices(self, claims: Sequence[CardClaim]) -> list[FoundChoices] | None:
        """Two choices of the encoding that give the digits of all claims."""
        return self._first(self.model.choices_of_two(self.task), claims)

    def other_pairs(self, claims: Sequence[CardClaim]) -> list[FoundChoices] | None:
        """Other pairs of the data set that give the digits: its other text form, another split."""
        base = self.task.name.partition(".")[0]
        for task in self.registry.tasks.values():
            is_other = task.name != self.task.name and task.metric == self.task.metric
            if task.name.partition(".")[0] == base and is_other:
                try:
                    scores = self.model.scores(OWN_CHOICE, task)
                except HarnessError:
                    continue
                words = (f"{task.text} text, split {'+'.join(task.scored)} ({task.name})",)
                if found := self._all_given(claims, scores, words):
                    return found
        return None

    def _first(
        self, choices: Iterable[EncodingChoice], claims: Sequence[CardClaim]
    ) -> list[FoundChoices] | None:
        for choice in choices:
            scores = self.model.possible(choice, self.task)
            if scores is not None and (found := self._all_given(claims, scores, choice.words)):
                return found
        return None

    def _all_given(
        self, claims: Sequence[CardClaim], scores: Mapping[str, Any], words: tuple[str, ...]
    ) -> list[FoundChoices] | None:
        """An explanation of each claim, if every one has its digits in these scores."""
        measured = [score_of(claim, scores) for claim in claims]
        self.tried += len(measured)
        if not all(gives(claim, score) for claim, score in zip(claims, measured, strict=True)):
            return None
        return [FoundChoices(words, score, self.tried) for score in measured]


def _score_words(
    claim: CardClaim, similarity: str, correlation: str, aggregation: str
) -> tuple[str, ...]:
    """What another score has in the place of the claim's."""
    words = []
    if correlation != claim.correlation:
        words.append(f"{correlation.capitalize()} for {claim.correlation.capitalize()}")
    if similarity != claim.similarity:
        words.append(f"{similarity} for {claim.similarity}")
    if aggregation != "all":
        words.append(f"aggregation {aggregation}")
    return tuple(words)
