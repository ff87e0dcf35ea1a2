"""The check of a model's card: its numbers are measured, and differences are explained.

`check_numbers` measures each number under the model's own modules and prompts. The numbers
of one source for one task are a run: one setting has to give the digits of all of them.
`Explainer` looks for that setting among other scores of the same vectors, other pairs of
the data set, and variants of the encoding, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, product
from typing import Any

from harness.core.errors import AssetMissing, HarnessError, UsageError
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
from harness.evaluation.variants import AS_IT_IS, Variant, VariantScores
from harness.registry import Registry
from harness.results.cards import BEST_SIMILARITY, CardNumber
from harness.results.checked_numbers import (
    SAME_DIGITS,
    CheckedNumber,
    FoundChoices,
    checked_number,
    gives,
    score_of,
)
from harness.results.verdict import Published

# Points that the scores of two programs differ by in half precision, where the order of
# sums decides more than the last digits.
DIGITS_OF_HALVES = 0.03
# Points by which a score under other choices may miss the digits of a number. Runs of one
# model years apart differ by 4e-5; a number with two decimals is known to 0.005 alone.
DIGITS_OF_EXPLANATIONS = 5e-4
NEIGHBOURHOOD = 1.0  # points on each side of a number in which tried scores are counted
# If more tried scores than this are expected to have the digits by chance, the explanation
# says so.
LIKELY_CHANCE = 0.1


def check_numbers(
    model: VariantScores, numbers: Iterable[CardNumber], registry: Registry
) -> Iterator[CheckedNumber]:
    """Measure and judge each number, under the model's own modules and prompts."""
    failed_tasks: dict[str, CheckedNumber] = {}
    for number in numbers:
        if number.why_not:
            yield CheckedNumber(number, why_not=number.why_not)
        elif number.task in failed_tasks:
            yield replace(failed_tasks[number.task], number=number)
        else:
            try:
                checked = _check(number, model, registry)
            except HarnessError as error:
                failed_tasks[number.task] = CheckedNumber(
                    number,
                    why_not=str(error),
                    is_missing=isinstance(error, AssetMissing),
                )
                yield failed_tasks[number.task]
            else:
                yield checked


def _check(
    number: CardNumber, model: VariantScores, registry: Registry
) -> CheckedNumber:
    """Measure and judge a number; where it may be of either of two tasks, on both.

    It is measured under the settings of its run, where these are stated. If it holds on
    the second task alone, it is a number of that task.
    """
    try:
        variant = model.stated_variant(number.statement.settings)
    except UsageError as error:
        return CheckedNumber(number, why_not=str(error))
    scores = model.scores(variant, registry.tasks[number.task])
    checked = checked_number(number, score_of(number, scores))
    if checked.holds or not number.or_task:
        return checked
    other_number = replace(number, task=number.or_task)
    scores = model.scores(variant, registry.tasks[number.or_task])
    other_checked = checked_number(other_number, score_of(other_number, scores))
    return other_checked if other_checked.holds else checked


# What a number may have meant


@dataclass(frozen=True)
class OtherScore:
    """Another score of given vectors than the stated one; empty settings are the number's."""

    similarity: str = ""
    correlation: str = ""
    aggregation: str = "all"

    def score(self, number: CardNumber, scores: Mapping[str, Any]) -> float | None:
        """The score that is compared with a number; None if it is undefined."""
        similarity = self.similarity or number.similarity
        correlation = self.correlation or number.correlation
        if similarity == BEST_SIMILARITY:
            return score_of(number, scores, self.aggregation)
        return score_at(scores, (score_name(similarity, correlation), self.aggregation))

    def words(self, number: CardNumber) -> tuple[str, ...]:
        """The differences from the number, a phrase each."""
        phrases = []
        if self.correlation not in ("", number.correlation):
            phrases.append(
                f"{self.correlation.capitalize()} for {number.correlation.capitalize()}"
            )
        if self.similarity not in ("", number.similarity):
            phrases.append(f"{self.similarity} for {number.similarity}")
        if self.aggregation != "all":
            phrases.append(f"aggregation {self.aggregation}")
        return tuple(phrases)


AS_STATED = OtherScore()
# First the score as it is stated, then those with one change, then all others.
SCORES = sorted(
    (
        OtherScore(similarity, correlation, aggregation)
        for aggregation, correlation, similarity in product(
            AGGREGATIONS, ("", *CORRELATIONS), ("", COSINE, *SIMILARITIES)
        )
    ),
    key=lambda other: (
        bool(other.similarity) + bool(other.correlation) + (other.aggregation != "all")
    ),
)


@dataclass(frozen=True)
class Trial:
    """A task whose sentences are encoded under a variant.

    Attributes:
        task: The task.
        variant: How its sentences are encoded.
        has_other_pairs: Whether the number is about the pairs of another task.
    """

    task: Task
    variant: Variant = AS_IT_IS
    has_other_pairs: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The differences from the number, a phrase each."""
        if not self.has_other_pairs:
            return self.variant.words
        splits = "+".join(self.task.scored)
        pairs = f"{self.task.text} text, split {splits} ({self.task.name})"
        return (*self.variant.words, pairs)

    @property
    def tolerance(self) -> float:
        """The points by which its scores may miss a number's digits."""
        is_whole = self.variant.dtype == FLOAT32
        return DIGITS_OF_EXPLANATIONS if is_whole else DIGITS_OF_HALVES


@dataclass
class Explainer:
    """Looks for what numbers may have meant.

    Attributes:
        model: The model, which keeps what was measured of it.
        registry: The tasks.
        most_encodings: How many encodings are made for a run of numbers at most; what the
            cache has does not count. None for no limit.
        note: Is called with a sentence on how long each search takes at most.
        likely: The variants that explained earlier runs, which are tried first.
    """

    model: VariantScores
    registry: Registry
    most_encodings: int | None = None
    note: Callable[[str], None] = field(default=lambda _: None)
    likely: list[Variant] = field(default_factory=list)

    def explained(self, checked: Sequence[CheckedNumber]) -> tuple[CheckedNumber, ...]:
        """The numbers; those whose digits were not measured have an explanation."""
        explanations: dict[CheckedNumber, FoundChoices] = {}
        judged = [item for item in checked if item.verdict is not None]
        for _, group in groupby(sorted(judged, key=_run_of), _run_of):
            run = list(group)
            open_items = []
            for item in run:
                other_row = None if item.has_its_digits else _other_row(item, judged)
                if other_row is not None:
                    explanations[item] = other_row
                elif not item.has_its_digits:
                    open_items.append(item)
            if open_items:
                explanations |= self._explain_run(run, open_items)
        return tuple(
            replace(item, explanation=explanations.get(item)) for item in checked
        )

    def _explain_run(
        self, run: Sequence[CheckedNumber], open_items: Sequence[CheckedNumber]
    ) -> dict[CheckedNumber, FoundChoices]:
        """The explanations of numbers of a run that are not reproduced to their digits."""
        holding = [item for item in run if item.has_its_digits and item.is_fine]
        is_small = bool(holding) or not any(item.differs for item in run)
        explained = self.search(
            self.registry.tasks[run[0].number.task],
            [item.number for item in open_items],
            [item.number for item in holding],
            only_small=is_small,
        )
        explanations = {}
        for item, explanation in zip(open_items, explained, strict=True):
            is_found = explanation.measured is not None
            if not is_found and holding:
                reason = f"{len(holding)} other numbers of this run are reproduced, this one is not"
                explanation = replace(explanation, reason=reason)
            # A number that holds but for its last digits needs no explanation.
            if is_found or item.differs or holding:
                explanations[item] = explanation
        return explanations

    def search(
        self,
        task: Task,
        numbers: Sequence[CardNumber],
        holding: Sequence[CardNumber] = (),
        *,
        only_small: bool = False,
    ) -> list[FoundChoices]:
        """The explanation of each number on a task: what gives its digits, or why nothing does.

        Args:
            task: The pairs that the numbers are of.
            numbers: Numbers of one run that differ.
            holding: Numbers of the same run that hold; a setting has to give them, too.
            only_small: Whether only variants are tried that move few sentences or last
                digits: other numbers of the run hold, so that most settings are right.
        """
        tried: list[float] = []
        stated = self.model.stated_variant(numbers[0].statement.settings)
        own_scores = self.model.scores(stated, task)
        by_score = [
            _other_score(number, own_scores, tried, is_alone=not holding)
            for number in numbers
        ]
        if all(by_score):
            return [explanation for explanation in by_score if explanation]
        trials = [
            trial
            for trial in self._trials(task)
            if not only_small
            or (trial.variant.moves_little and not trial.has_other_pairs)
        ]
        self._announce(task, trials)
        further_trials = [] if only_small else self._trials_of_mteb(task)
        encodings = skipped = 0
        for trial in chain(trials, further_trials):
            variant = stated | trial.variant
            try:
                is_costly = self.model.needs_encoding(variant, trial.task)
                if is_costly and encodings == self.most_encodings:
                    skipped += 1
                    continue
                encodings += is_costly
                scores = self.model.scores(variant, trial.task)
            except (
                HarnessError
            ):  # the model has no such variant, or the data are elsewhere
                continue
            # Half precision gives no digits for sure, so that other scores of it prove nothing.
            is_half = trial.variant.dtype != FLOAT32
            for other in [AS_STATED] if holding or is_half else SCORES:
                explanations = _all_given(trial, other, scores, numbers, holding, tried)
                if explanations is not None:
                    self.likely.insert(0, trial.variant)
                    return explanations
        reason = "nothing that was tried gives it"
        if skipped:
            reason = f"no choice among the first {encodings} encodings gives it"
        nothing = FoundChoices(tried=len(tried), reason=reason)
        return [explanation or nothing for explanation in by_score]

    def _trials(self, task: Task) -> list[Trial]:
        """The trials in their order: other pairs of the data set, one variant, then two of them."""
        others = self._other_tasks(task)
        scored = [other for other in others if "train" not in other.scored]
        trials = [Trial(task, variant) for variant in self.likely]
        trials += [Trial(other, has_other_pairs=True) for other in scored]
        trials += [Trial(task, variant) for variant in self.model.variants(task)]
        trials += [Trial(other, has_other_pairs=True) for other in others]
        trials += [Trial(task, pair) for pair in self.model.pairs_of_variants(task)]
        for other in scored:
            for variant in self.model.variants(other):
                trials.append(Trial(other, variant, has_other_pairs=True))
        by_name: dict[tuple[str, Variant], Trial] = {}  # a trial is made once
        for trial in trials:
            by_name.setdefault((trial.task.name, trial.variant), trial)
        return list(by_name.values())

    def _trials_of_mteb(self, task: Task) -> Iterator[Trial]:
        """The prompts of mteb's implementation of the model, when everything else was tried."""
        trials = [Trial(task, variant) for variant in self.model.variants_of_mteb()]
        if trials:
            self._announce(task, trials)
        yield from trials

    def _other_tasks(self, task: Task) -> list[Task]:
        """The other text forms and splits of a data set that are on this machine."""
        data_set = task.name.partition(".")[0]
        tasks = []
        for other in self.registry.tasks.values():
            is_same_data_set = other.name.partition(".")[0] == data_set
            has_same_metric = other.metric == task.metric
            if other.name != task.name and is_same_data_set and has_same_metric:
                tasks.append(other)
        return [other for other in tasks if self.model.places.has_data(other.asset)]

    def _announce(self, task: Task, trials: Sequence[Trial]) -> None:
        """Say how many encodings there are at most, and how long they take."""
        trial_of_encoding: dict[tuple[Any, ...], Trial] = {}
        for trial in trials:
            with suppress(HarnessError):
                encoding = self.model.encoding(trial.variant, trial.task)
                trial_of_encoding[encoding] = trial
        trial_of_encoding.pop(self.model.encoding(AS_IT_IS, task), None)
        allowed = list(trial_of_encoding.values())[: self.most_encodings]
        note = f"{task.name}: a search of at most {len(allowed)} encodings"
        rate = self.model.characters_per_second
        if rate is not None:
            characters = 0
            for trial in allowed:
                characters += self.model.characters(trial.variant, trial.task)
            note += f", about {duration(characters / rate)} if none gives it"
        self.note(note)


def _run_of(item: CheckedNumber) -> tuple[str, ...]:
    """The facts that the numbers of one run of a model have in common."""
    statement = item.number.statement
    return (
        statement.source,
        statement.model,
        item.number.task,
        statement.split,
        statement.revision,
        repr(statement.settings),
    )


def _other_row(
    item: CheckedNumber, judged: Sequence[CheckedNumber]
) -> FoundChoices | None:
    """The explanation that the number was measured for another task of the card."""
    if not item.is_fine:
        return None
    for other in judged:
        is_other_task = other.number.task != item.number.task
        is_same_score = other.number.score == item.number.score
        if (
            is_other_task
            and is_same_score
            and gives(item.number, other.measured, DIGITS_OF_EXPLANATIONS)
        ):
            statement = other.number.statement
            names = [statement.data_set, statement.split, statement.metric]
            place = " ".join(name for name in names if name)
            return FoundChoices(
                words=(f"the number of {place} in its place",),
                measured=other.measured,
                tried=len(judged),
            )
    return None


def _other_score(
    number: CardNumber, scores: Mapping[str, Any], tried: list[float], *, is_alone: bool
) -> FoundChoices | None:
    """Another score of the model's own vectors that has a number's digits; None without one."""
    for other in SCORES:
        measured = other.score(number, scores)
        if measured is not None:
            tried.append(measured)
        if gives(number, measured, DIGITS_OF_EXPLANATIONS):
            return FoundChoices(
                words=other.words(number),
                measured=measured,
                tried=len(tried),
                is_chance=is_alone
                and _is_chance(number, tried, DIGITS_OF_EXPLANATIONS),
            )
    return None


def _all_given(
    trial: Trial,
    other: OtherScore,
    scores: Mapping[str, Any],
    numbers: Sequence[CardNumber],
    holding: Sequence[CardNumber],
    tried: list[float],
) -> list[FoundChoices] | None:
    """An explanation of each number; None unless all numbers of the run have their digits."""
    measured_scores = [other.score(number, scores) for number in numbers]
    if measured_scores[0] is not None:
        tried.append(measured_scores[0])
    for number, measured in zip(numbers, measured_scores, strict=True):
        if not gives(number, measured, trial.tolerance):
            return None
    for number in holding:
        # A number that holds was compared with the tolerance of a verdict.
        if not gives(
            number, score_of(number, scores), max(trial.tolerance, SAME_DIGITS)
        ):
            return None
    is_alone = len(numbers) + len(holding) == 1
    is_chance = is_alone and _is_chance(numbers[0], tried, trial.tolerance)
    return [
        FoundChoices(
            words=(*other.words(number), *trial.words),
            measured=measured,
            tried=len(tried),
            is_chance=is_chance,
        )
        for number, measured in zip(numbers, measured_scores, strict=True)
    ]


def _is_chance(number: CardNumber, tried: Sequence[float], tolerance: float) -> bool:
    """Whether one of the tried scores is likely to have the digits by chance.

    The expected number of such scores is the number of tried scores within a point of
    the number that lack its digits, times the share of these two points in which a score
    has the digits.
    """
    half_units = [Published(reading).half_unit for reading in number.readings]
    near_misses = 0
    for score in set(tried):
        is_near = gives(number, score, NEIGHBOURHOOD)
        if is_near and not gives(number, score, tolerance):
            near_misses += 1
    half_width = max(tolerance, min(half_units))
    share = min(half_width / NEIGHBOURHOOD, 1.0)
    return near_misses * share > LIKELY_CHANCE
