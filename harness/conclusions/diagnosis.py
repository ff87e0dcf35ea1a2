"""Why a reader's numbers differ from those of a published row.

All of the reader's numbers are weighed together: an explanation holds if it fits most of
them, and names those that it does not fit. The kinds of evidence, the strongest first:

1. The numbers are printed elsewhere, for the same encoder under another protocol, or for
   another model.
2. They are near a row of the same encoder that differs in choices made by accident.
3. The encoder is trained, and another seed gives such numbers.
4. A cause outside of protocols is known from public threads (`harness.conclusions.causes`).
5. Another choice of the protocol was measured here to move the scores by about the
   differences, on other encoders.

A post-processor that the row does not have is never suggested, since nobody applies one
by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean

from harness.conclusions.causes import CERTAINTIES, Cause, Causes
from harness.conclusions.effects import NEGLIGIBLE, Effect
from harness.conclusions.numbers import (
    ACCIDENTAL_CHOICES,
    COLUMNS_OF_A_MODEL,
    ComparedRow,
    PublishedRow,
    ReportedNumber,
    accident_rank,
    compared_rows,
)
from harness.results.published import PublishedNumber

SUGGESTIONS_SHOWN = 3  # of a diagnosis, before the further ones

# Shares of the difference between the reader's numbers and the published ones. A row or a
# choice is suggested if it leaves at most the first unexplained, and is likely up to the
# second.
UNEXPLAINED_SHARE = 0.5
MISSED_SHARE = 0.25
# Points that each choice after the first counts for when rows are ranked, so that of two
# rows that are as near the one with fewer changes comes first.
FURTHER_CHOICE = 0.25
MOST_CHANGES = 3  # choices that a person makes differently at once

# Standard deviations from the mean over seeds: up to the first, another seed explains a
# score; above the second, it does not.
SEED_DEVIATIONS = 2.0
FAR_DEVIATIONS = 5.0


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """A reader's number among the scores that trainings gave under different seeds.

    Attributes:
        number: The reader's number.
        seeds: How many trainings of the recipe there were.
        mean: The published number that is their mean.
        sd: Their standard deviation, in points.
        low: The lowest score; None where it is not published.
        high: The highest score.
    """

    number: ReportedNumber
    seeds: int
    mean: PublishedNumber
    sd: float
    low: float | None
    high: float | None

    def deviations(self, points: float) -> float:
        """How many standard deviations a score is above the mean."""
        return (points - self.mean.score) / self.sd

    @property
    def holds(self) -> bool:
        """Whether the reader's number is between the lowest and the highest of the seeds."""
        points = self.number.points
        if self.low is None or self.high is None:
            return abs(self.deviations(points)) <= SEED_DEVIATIONS
        return self.low <= points <= self.high

    @property
    def is_far(self) -> bool:
        """Whether the number is so far away that another seed does not explain it.

        If the published number is further away than the reader's, the spread belongs to
        another training and says nothing.
        """
        reported = abs(self.deviations(self.number.points))
        published = abs(self.deviations(self.number.published.score))
        return reported > max(FAR_DEVIATIONS, published)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One explanation of the differences.

    Attributes:
        about: What differs: names of choices of a protocol, `seed`, `model`, or the id of
            a curated cause.
        certainty: `certain`, `likely` or `possible`.
        misfits: The columns that it does not fit.
        row: The published row that prints the reader's numbers, or is near to them.
        changes: The other choices by name.
        spread: The spread over seeds that includes the numbers.
        cause: The curated cause.
        effects: The effect of the change on other encoders, in points by their names,
            the one that is nearest to the difference first.
    """

    about: tuple[str, ...]
    certainty: str
    misfits: tuple[str, ...] = ()
    row: ComparedRow | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    spread: SeedSpread | None = None
    cause: Cause | None = None
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def printed_number(self) -> PublishedNumber | None:
        """The first number of its row; None without a row."""
        return None if self.row is None else self.row.pairs[0].other

    @property
    def is_printed(self) -> bool:
        """Whether its row prints most of the reader's numbers."""
        return self.row is not None and self.row.prints_most

    @property
    def unexplained(self) -> float | None:
        """The points of the differences that its row leaves; None without a row."""
        if self.row is None:
            return None
        return 0.0 if self.is_printed else self.row.unexplained


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The answer to a reader.

    Attributes:
        numbers: The reader's numbers.
        notes: The notes of the table on the row and the columns.
        explanations: All explanations, the surest first.
        is_rounding: Whether the numbers are the published ones up to rounding.
        distant_spread: A spread over seeds from which the numbers are so far away that
            another seed does not explain them.
        unknown_columns: The columns that the reader named and the row does not have.
    """

    numbers: tuple[ReportedNumber, ...]
    notes: tuple[str, ...]
    explanations: tuple[Suggestion, ...] = ()
    is_rounding: bool = False
    distant_spread: SeedSpread | None = None
    unknown_columns: tuple[str, ...] = ()

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """The first three explanations."""
        return self.explanations[:SUGGESTIONS_SHOWN]

    @property
    def is_unknown(self) -> bool:
        """Whether nothing that is known here explains the difference."""
        return not self.explanations and not self.is_rounding

    @property
    def is_sure(self) -> bool:
        """Whether one of the explanations is certain or likely, or none is needed."""
        is_sure = any(each.certainty != "possible" for each in self.explanations)
        return self.is_rounding or is_sure

    @property
    def nothing_is_wrong(self) -> bool:
        """Whether the first explanation is chance: rounding, or another seed."""
        if self.is_rounding:
            return True
        return bool(self.explanations) and self.explanations[0].spread is not None


def diagnose(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[PublishedRow],
    causes: Causes,
    unknown_columns: tuple[str, ...] = (),
) -> Diagnosis:
    """Explain how a reader's numbers differ from the numbers of one published row.

    Args:
        numbers: The reader's numbers, all of one row, one a column.
        rows: All published scores by row.
        causes: The curated causes.
        unknown_columns: Columns that the reader named and the row does not have.
    """
    first = numbers[0].published
    of_encoder, of_recipe, of_others = [], [], []
    for row in rows:
        is_of_recipe = row.first.is_of_recipe(first)
        if is_of_recipe:
            of_recipe.append(row)
        if row.first.is_of_encoder(first):
            if row.id != first.row_id:
                of_encoder.append(row)
        elif not is_of_recipe:
            of_others.append(row)
    own_rows = [*compared_rows(numbers, of_encoder)]
    other_rows = compared_rows(numbers, of_others)
    spreads = _spreads(numbers, of_recipe)
    is_rounding = max(abs(number.gap) for number in numbers) <= NEGLIGIBLE
    causes_by_certainty = _known_causes(numbers, causes, certain_alone=is_rounding)

    suggestions = [*causes_by_certainty["certain"]]
    printed_elsewhere = _printed_elsewhere(own_rows)
    suggestions += printed_elsewhere
    is_model_told = len(numbers) >= COLUMNS_OF_A_MODEL
    if is_model_told and not printed_elsewhere and not is_rounding:
        suggestions += _other_models(other_rows)
    near_rows = [] if printed_elsewhere else [*_near_rows(numbers, own_rows)]
    # A score near one of the development set is one before it is a seed's.
    near_development = [each for each in near_rows if _is_of_development_set(each)]
    suggestions += near_development
    suggestions += _another_seed(spreads)
    suggestions += near_rows
    suggestions += causes_by_certainty["likely"]
    if not any(suggestion.certainty == "certain" for suggestion in suggestions):
        suggestions += causes_by_certainty["possible"]
    suggestions = _without_repetitions(suggestions)
    is_found = any(suggestion.certainty == "certain" for suggestion in suggestions)

    distant_spread = next((spread for spread in spreads if spread.is_far), None)
    notes: dict[str, None] = {}  # in their order, each once
    for reported in numbers:
        notes |= dict.fromkeys(reported.published.notes)
    return Diagnosis(
        numbers=tuple(numbers),
        notes=tuple(notes),
        explanations=tuple(suggestions),
        is_rounding=is_rounding,
        distant_spread=None if is_found else distant_spread,
        unknown_columns=unknown_columns,
    )


def _without_repetitions(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """The suggestions without those about the same choices or cause as an earlier one."""
    by_subject: dict[tuple[str, ...], Suggestion] = {}
    for suggestion in suggestions:
        by_subject.setdefault(suggestion.about, suggestion)
    return [*by_subject.values()]


# 1. The numbers are printed elsewhere


def _printed_elsewhere(rows: Iterable[ComparedRow]) -> list[Suggestion]:
    """Rows of the encoder that print most of the reader's numbers.

    Those that print more come first, and of these the ones with fewer changes.
    """
    printing_rows = [row for row in rows if row.prints_most]
    printing_rows.sort(key=lambda row: (-row.equal, len(row.changes)))
    return [
        Suggestion(
            about=tuple(row.changes) or ("no known difference",),
            certainty=_certainty_of_equality(row),
            misfits=row.misfits,
            row=row,
            changes=row.changes,
        )
        for row in printing_rows
    ]


def _certainty_of_equality(row: ComparedRow) -> str:
    """How certain it is that equal numbers have one protocol, and are not equal by chance."""
    if row.equal > 1 and not row.misfits:
        return "certain"
    if row.equal >= COLUMNS_OF_A_MODEL or row.least_decimals >= 2:
        return "likely"
    return "possible"


def _other_models(rows: Iterable[ComparedRow]) -> list[Suggestion]:
    """The other model whose row prints the reader's numbers: at least three, and most of them."""
    printing_rows = []
    for row in rows:
        is_most = 3 * row.equal >= 2 * len(row.pairs)
        if row.equal >= COLUMNS_OF_A_MODEL and is_most and row.least_decimals >= 2:
            printing_rows.append(row)
    if not printing_rows:
        return []
    row = max(printing_rows, key=lambda row: row.equal)
    return [
        Suggestion(about=("model",), certainty="certain", misfits=row.misfits, row=row)
    ]


# 2. The numbers are near another row


def _near_rows(
    numbers: Sequence[ReportedNumber], rows: Iterable[ComparedRow]
) -> Iterator[Suggestion]:
    """Rows of the encoder that explain most of the differences by accidental choices.

    The row that leaves least unexplained comes first. Another fit corpus is a choice of a
    row that has one.
    """
    gap = fmean(abs(number.gap) for number in numbers)
    near_rows = []
    for row in rows:
        changes = row.changes
        if not 1 <= len(changes) <= MOST_CHANGES:
            continue
        is_accident = all(
            choice in ACCIDENTAL_CHOICES or (choice == "fit_on" and value)
            for choice, value in changes.items()
        )
        if is_accident and row.unexplained <= UNEXPLAINED_SHARE * gap:
            near_rows.append(row)
    near_rows.sort(key=_cost)
    for row in near_rows:
        is_near = row.unexplained <= MISSED_SHARE * gap
        is_likely = is_near and (len(row.changes) == 1 or len(row.pairs) > 1)
        yield Suggestion(
            about=tuple(row.changes),
            certainty="likely" if is_likely else "possible",
            row=row,
            changes=row.changes,
        )


def _cost(row: ComparedRow) -> tuple[float, int]:
    """Sorts rows by what they leave unexplained, with a charge for each further change."""
    further_choices = len(row.changes) - 1
    ranks = [accident_rank(choice) for choice in row.changes]
    return row.unexplained + FURTHER_CHOICE * further_choices, min(ranks)


def _is_of_development_set(suggestion: Suggestion) -> bool:
    """Whether a likely suggestion is that the numbers are of the development set alone."""
    is_likely = suggestion.certainty == "likely"
    return is_likely and dict(suggestion.changes) == {"split": "dev"}


# 3. Another seed


def _spreads(
    numbers: Sequence[ReportedNumber], rows: Iterable[PublishedRow]
) -> list[SeedSpread]:
    """The reader's numbers whose spread over seeds is published, the average first."""
    # A table has the mean, the lowest and the highest score in rows of their own.
    statistics: dict[tuple[str, str, str], dict[str, PublishedNumber]] = {}
    for row in rows:
        for published in row.numbers.values():
            name = (published.table.id, published.column.id, str(published.row.n))
            statistics.setdefault(name, {})[published.row.statistic] = published
    spreads = []
    for number, (name, of_column) in product(numbers, statistics.items()):
        mean, low, high = (of_column.get(which) for which in ("mean", "min", "max"))
        is_of_column = name[1] == number.published.column.id
        if is_of_column and mean is not None and mean.sd is not None:
            spread = SeedSpread(
                number=number,
                seeds=mean.row.n or 0,
                mean=mean,
                sd=mean.sd,
                low=low.points if low else None,
                high=high.points if high else None,
            )
            spreads.append(spread)
    return sorted(spreads, key=lambda spread: not spread.number.published.average_of)


def _another_seed(spreads: Sequence[SeedSpread]) -> list[Suggestion]:
    """The suggestion that the training had another seed, if most numbers are within a spread.

    If one of the numbers is an average, it decides alone.
    """
    averages = [spread for spread in spreads if spread.number.published.average_of]
    deciding = averages or spreads
    holding = [spread for spread in deciding if spread.holds]
    if 2 * len(holding) <= len(deciding):
        return []
    return [Suggestion(about=("seed",), certainty="likely", spread=holding[0])]


# 4. Causes outside of protocols


def _known_causes(
    numbers: Sequence[ReportedNumber], causes: Causes, *, certain_alone: bool
) -> dict[str, list[Suggestion]]:
    """The curated causes of the row that explain most of what they may move, by certainty.

    Of one certainty those that explain more columns come first.
    """
    suggestions: dict[str, list[Suggestion]] = {name: [] for name in CERTAINTIES}
    for cause in causes.causes:
        if certain_alone and cause.certainty != "certain":
            continue
        if not cause.applies_to(numbers[0].published):
            continue
        movable = [number for number in numbers if cause.may_move(number)]
        explained = [number for number in movable if cause.explains(number)]
        if 2 * len(explained) <= len(movable):
            continue
        certainty = cause.certainty
        if certainty == "certain" and len(explained) < len(movable):
            certainty = "likely"
        if 2 * len(explained) < len(numbers):
            certainty = "possible"
        misfits = [number for number in numbers if number not in explained]
        suggestion = Suggestion(
            about=(cause.id,),
            certainty=certainty,
            misfits=tuple(number.published.column.id for number in misfits),
            cause=cause,
        )
        suggestions[certainty].append(suggestion)
    for suggestions_of_certainty in suggestions.values():
        suggestions_of_certainty.sort(key=lambda suggestion: len(suggestion.misfits))
    return suggestions


# 5. Choices that were measured to move scores by about the differences

# One of a reader's numbers, with the measured effects of accidental choices.
EffectsOfNumber = tuple[ReportedNumber, Sequence[Effect]]


def with_effects(
    diagnosis: Diagnosis, effects_of_numbers: Sequence[EffectsOfNumber]
) -> Diagnosis:
    """A diagnosis with the choices that moved other encoders' scores by about the differences.

    A choice has to fit all of these numbers, each on some encoder.
    """
    fits: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for number, effects in effects_of_numbers:
        for effect in effects:
            fitting_effects = _fitting_effects(number.gap, effect)
            if fitting_effects:
                [change] = effect.changes.items()
                fits.setdefault(change, []).append(fitting_effects)
    suggestions = list(diagnosis.explanations)
    for (choice, value), fits_of_numbers in fits.items():
        if len(fits_of_numbers) == len(effects_of_numbers):
            suggestion = Suggestion(
                about=(choice,),
                certainty="possible",
                changes={choice: value},
                effects=fits_of_numbers[0],
            )
            suggestions.append(suggestion)
    return replace(diagnosis, explanations=tuple(_without_repetitions(suggestions)))


def _fitting_effects(gap: float, effect: Effect) -> Mapping[str, float]:
    """The effects of a choice that are near a difference, by encoder, the nearest first."""
    allowed_miss = max(NEGLIGIBLE, MISSED_SHARE * abs(gap))
    near_encoders = [
        encoder
        for encoder, points in effect.effects.items()
        if abs(points - gap) <= allowed_miss
    ]
    near_encoders.sort(key=lambda encoder: abs(effect.effects[encoder] - gap))
    return {encoder: effect.effects[encoder] for encoder in near_encoders}
