"""Why a reader's number differs from a published one.

Four kinds of evidence are looked at, the strongest first:

1. The reader's number is printed elsewhere for the same encoder, under another protocol.
2. The encoder is trained, and another seed gives such a number.
3. A cause outside of protocols is known from public threads (`harness.results.causes`).
4. Another choice of the protocol moves the score by about the difference, by two
   published numbers of this encoder, or by measurements here on other encoders.

A post-processor that the row does not have is never suggested, since nobody applies one
by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from harness.results.causes import CERTAINTIES, Cause, Causes
from harness.results.choices import NEGLIGIBLE, OtherChoice
from harness.results.published import PublishedCell
from harness.results.settings import (
    ACCIDENTAL_CHOICES,
    PublishedNumber,
    ReportedNumber,
    Setting,
    accident_rank,
)

SUGGESTIONS_SHOWN = 3  # of a diagnosis, before the further ones

# Shares of the difference between the reader's number and the published one. A choice is
# suggested if it leaves at most the first unexplained, and is likely up to the second.
UNEXPLAINED_SHARE = 0.5
MISSED_SHARE = 0.25

# Standard deviations from the mean over seeds: up to the first, another seed explains a
# score; above the second, it does not.
SEED_DEVIATIONS = 2.0
FAR_DEVIATIONS = 5.0


@dataclass(frozen=True)
class SeedSpread:
    """The scores that trainings of one recipe gave under different seeds, in points.

    Attributes:
        cell: The published number that is their mean.
        seeds: How many trainings there were.
        mean: Their mean.
        sd: Their standard deviation.
        low: The lowest score; None where it is not published.
        high: The highest score.
    """

    cell: PublishedCell
    seeds: int
    mean: float
    sd: float
    low: float | None = None
    high: float | None = None

    def deviations(self, points: float) -> float:
        """How many standard deviations a score is above the mean."""
        return (points - self.mean) / self.sd

    def holds(self, points: float) -> bool:
        """Whether a score is between the lowest and the highest of the seeds."""
        if self.low is None or self.high is None:
            return abs(self.deviations(points)) <= SEED_DEVIATIONS
        return self.low <= points <= self.high


@dataclass(frozen=True)
class Suggestion:
    """One explanation of the difference.

    Attributes:
        about: What differs: names of choices of a protocol, or the id of a curated
            cause.
        certainty: `certain`, `likely` or `possible`.
        unexplained: The points of the difference that it does not explain; None where
            it explains no amount.
        published_cell: The published number under the other choices.
        changes: The other choices by name.
        spread: The spread over seeds that includes the number.
        cause: The curated cause.
        effects: The effect of the change on other encoders, in points by their names.
    """

    about: tuple[str, ...]
    certainty: str
    unexplained: float | None = None
    published_cell: PublishedCell | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    spread: SeedSpread | None = None
    cause: Cause | None = None
    effects: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """The answer to a reader.

    Attributes:
        numbers: The reader's numbers.
        setting: What the published numbers depend on.
        notes: The notes of the table on the row and the columns.
        suggestions: The first three explanations, the surest first.
        further_suggestions: All other explanations.
        is_rounding: Whether the numbers are the published ones up to rounding.
        distant_spread: A spread over seeds from which the numbers are so far away that
            another seed does not explain them.
    """

    numbers: tuple[ReportedNumber, ...]
    setting: Setting
    notes: tuple[str, ...]
    suggestions: tuple[Suggestion, ...] = ()
    further_suggestions: tuple[Suggestion, ...] = ()
    is_rounding: bool = False
    distant_spread: SeedSpread | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing that is known here explains the difference."""
        return not self.suggestions and not self.is_rounding

    @property
    def is_sure(self) -> bool:
        """Whether one of the explanations is certain or likely."""
        return _has_sure_one(self.suggestions)

    @property
    def nothing_is_wrong(self) -> bool:
        """Whether the first explanation is chance: rounding, or another seed."""
        if self.is_rounding:
            return True
        return bool(self.suggestions) and self.suggestions[0].spread is not None


def _has_sure_one(suggestions: Iterable[Suggestion]) -> bool:
    """Whether a suggestion is certain or likely."""
    return any(suggestion.certainty != "possible" for suggestion in suggestions)


def diagnose(
    numbers: Sequence[ReportedNumber],
    published_numbers: Mapping[str, PublishedNumber],
    causes: Causes,
    measured_choices: Iterable[OtherChoice] = (),
) -> Diagnosis:
    """Explain how a reader's numbers differ from the numbers of one published row.

    Args:
        numbers: The reader's numbers, all of one row, one a column.
        published_numbers: All published scores by id.
        causes: The curated causes.
        measured_choices: Changes of the first number's protocol with their measured
            effects. They are looked at where nothing surer is known.
    """
    first_published = published_numbers[numbers[0].cell.id]
    numbers_of_encoder, numbers_of_recipe = [], []
    for number in published_numbers.values():
        is_of_same_row = _row_name(number) == _row_name(first_published)
        if number.is_of_encoder(first_published) and not is_of_same_row:
            numbers_of_encoder.append(number)
        if number.is_of_recipe(first_published):
            numbers_of_recipe.append(number)
    rows = _by_row(numbers_of_encoder)
    spreads = _spreads(numbers, _by_row(numbers_of_recipe))
    is_rounding = max(abs(number.gap) for number in numbers) <= NEGLIGIBLE
    causes_by_certainty = _known_causes(numbers, causes, certain_alone=is_rounding)

    suggestions = [*causes_by_certainty["certain"]]
    printed_elsewhere = _printed_elsewhere(numbers, rows, published_numbers)
    suggestions += printed_elsewhere
    suggestions += _another_seed(spreads)
    if not printed_elsewhere:
        suggestions += _published_effects(numbers, rows, published_numbers)
    suggestions += causes_by_certainty["likely"]
    suggestions += causes_by_certainty["possible"]
    if not is_rounding and not _has_sure_one(suggestions):
        suggestions += _measured_effects(numbers[0], measured_choices)
    suggestions = _without_repetitions(suggestions)

    notes: dict[str, None] = {}  # in their order, each once
    for reported in numbers:
        notes |= dict.fromkeys(reported.cell.notes)
    return Diagnosis(
        numbers=tuple(numbers),
        setting=first_published.setting,
        notes=tuple(notes),
        suggestions=tuple(suggestions[:SUGGESTIONS_SHOWN]),
        further_suggestions=tuple(suggestions[SUGGESTIONS_SHOWN:]),
        is_rounding=is_rounding,
        distant_spread=_distant_spread(spreads),
    )


def _without_repetitions(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """The suggestions without those about the same choices or cause as an earlier one."""
    by_subject: dict[tuple[str, ...], Suggestion] = {}
    for suggestion in suggestions:
        by_subject.setdefault(suggestion.about, suggestion)
    return [*by_subject.values()]


# Published rows, column by column

# The numbers of one row with the same metric and split, by their tasks: one task, or the
# tasks of an average.
RowNumbers = Mapping[tuple[str, ...], PublishedNumber]


def _row_name(number: PublishedNumber) -> tuple[str, str]:
    """The ids of a number's table and row."""
    return number.cell.table.id, number.cell.row.id


def _by_row(numbers: Iterable[PublishedNumber]) -> list[RowNumbers]:
    """Published numbers by row, metric and split."""
    rows: dict[tuple[str, ...], dict[tuple[str, ...], PublishedNumber]] = {}
    for number in numbers:
        setting = number.setting
        is_average = len(setting.tasks) != 1
        split = "" if is_average else setting.choices.get("split", "")
        name = (*_row_name(number), number.cell.metric, split)
        rows.setdefault(name, {})[setting.tasks] = number
    return [*rows.values()]


@dataclass(frozen=True)
class NumberPair:
    """A reader's number, and the number that another row has for the same tasks.

    Attributes:
        reported: The reader's number.
        published: The published number that the reader compares it with.
        alternative: The number of the other row.
    """

    reported: ReportedNumber
    published: PublishedNumber
    alternative: PublishedNumber


def _pairs(
    numbers: Sequence[ReportedNumber],
    row: RowNumbers,
    published_numbers: Mapping[str, PublishedNumber],
) -> list[NumberPair]:
    """The reader's numbers with a row's numbers; none if the row has fewer than half of them."""
    pairs = []
    for number in numbers:
        published = published_numbers[number.cell.id]
        alternative = row.get(published.setting.tasks)
        if alternative is not None:
            pair = NumberPair(
                reported=number, published=published, alternative=alternative
            )
            pairs.append(pair)
    if 2 * len(pairs) < len(numbers):
        return []
    return pairs


def _changes(pairs: Iterable[NumberPair]) -> dict[str, str]:
    """The choices of the other row that differ from the choices of the published numbers."""
    changes: dict[str, str] = {}
    for pair in pairs:
        changes |= pair.published.setting.differences(pair.alternative.setting)
    return changes


# 1. The number is printed elsewhere


def _printed_elsewhere(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[RowNumbers],
    published_numbers: Mapping[str, PublishedNumber],
) -> list[Suggestion]:
    """Rows of the encoder that print the reader's numbers, the one with fewest changes first."""
    suggestions = []
    for row in rows:
        pairs = _pairs(numbers, row, published_numbers)
        if pairs and all(
            _prints(pair.alternative.cell, pair.reported) for pair in pairs
        ):
            changes = _changes(pairs)
            suggestion = Suggestion(
                about=tuple(changes) or ("the same protocol",),
                certainty=_certainty_of_equality(pairs),
                unexplained=0.0,
                published_cell=pairs[0].alternative.cell,
                changes=changes,
            )
            suggestions.append(suggestion)
    return sorted(suggestions, key=lambda suggestion: len(suggestion.changes))


def _prints(cell: PublishedCell, number: ReportedNumber) -> bool:
    """Whether a cell prints the reader's number as one run's score."""
    is_score = cell.row.statistic == "score"
    return is_score and number.equals(cell.score, _decimals(cell))


def _certainty_of_equality(pairs: Sequence[NumberPair]) -> str:
    """How certain it is that equal numbers have one protocol, and are not equal by chance."""
    if len(pairs) > 1:
        return "certain"
    return "likely" if _decimals(pairs[0].alternative.cell) >= 2 else "possible"


def _decimals(cell: PublishedCell) -> int:
    """How many decimals of a point a cell prints."""
    return len(str(cell.in_points).partition(".")[2])


# 2. Another seed


@dataclass(frozen=True)
class NumberAndSpread:
    """A reader's number, and the published spread of its column over seeds."""

    number: ReportedNumber
    spread: SeedSpread


def _spreads(
    numbers: Sequence[ReportedNumber], rows: Iterable[RowNumbers]
) -> list[NumberAndSpread]:
    """The reader's numbers whose spread over seeds is published, the average first."""
    # A table has the mean, the lowest and the highest score in rows of their own.
    cells_by_column: dict[tuple[str, str, str], dict[str, PublishedCell]] = {}
    for row in rows:
        for number in row.values():
            cell = number.cell
            name = (cell.table.id, cell.column.id, str(cell.row.n))
            cells_by_column.setdefault(name, {})[cell.row.statistic] = cell
    spreads = []
    for reported in numbers:
        for cell_by_statistic in cells_by_column.values():
            spread = _spread(cell_by_statistic)
            if spread and spread.cell.column.id == reported.cell.column.id:
                spreads.append(NumberAndSpread(number=reported, spread=spread))
    return sorted(spreads, key=lambda item: not item.number.cell.average_of)


def _spread(cell_by_statistic: Mapping[str, PublishedCell]) -> SeedSpread | None:
    """The spread of a column, from its mean, minimum and maximum; None without a mean and sd."""
    mean = cell_by_statistic.get("mean")
    if mean is None or mean.sd is None:
        return None
    low, high = cell_by_statistic.get("min"), cell_by_statistic.get("max")
    return SeedSpread(
        cell=mean,
        seeds=mean.row.n or 0,
        mean=mean.score,
        sd=mean.sd,
        low=low.points if low else None,
        high=high.points if high else None,
    )


def _another_seed(spreads: Sequence[NumberAndSpread]) -> list[Suggestion]:
    """The suggestion that the training had another seed, if most numbers are within a spread.

    If one of the numbers is an average, it decides alone.
    """
    averages = [item for item in spreads if item.number.cell.average_of]
    deciding_items = averages or spreads
    items_within = [
        item for item in deciding_items if item.spread.holds(item.number.points)
    ]
    if 2 * len(items_within) <= len(deciding_items):
        return []
    spread = items_within[0].spread
    return [
        Suggestion(about=("seed",), certainty="likely", unexplained=0.0, spread=spread)
    ]


def _distant_spread(spreads: Iterable[NumberAndSpread]) -> SeedSpread | None:
    """A spread from which a number is so far away that another seed does not explain it.

    If the published number is further away from a spread than the reader's, the spread
    belongs to another training and says nothing.
    """
    for item in spreads:
        reported_deviations = abs(item.spread.deviations(item.number.points))
        published_deviations = abs(item.spread.deviations(item.number.cell.score))
        if reported_deviations > max(FAR_DEVIATIONS, published_deviations):
            return item.spread
    return None


# 3. Causes outside of protocols


def _known_causes(
    numbers: Sequence[ReportedNumber], causes: Causes, *, certain_alone: bool
) -> dict[str, list[Suggestion]]:
    """The curated causes that fit row, columns and differences, by their certainty."""
    cell = numbers[0].cell
    gaps = {number.cell.column.id: number.gap for number in numbers}
    suggestions: dict[str, list[Suggestion]] = {name: [] for name in CERTAINTIES}
    for cause in causes.causes:
        is_certain = cause.certainty == "certain"
        if certain_alone and not is_certain:
            continue
        if cause.fits(f"{cell.table.id}/{cell.row.id}", cell.method or "", gaps):
            suggestion = Suggestion(
                about=(cause.id,), certainty=cause.certainty, cause=cause
            )
            suggestions[cause.certainty].append(suggestion)
    return suggestions


# 4. Choices that move the score by about the difference


def _published_effects(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[RowNumbers],
    published_numbers: Mapping[str, PublishedNumber],
) -> list[Suggestion]:
    """Rows of the encoder that differ in one choice and explain most of the difference."""
    # With the rank of the choice and what is unexplained, by which they are sorted.
    suggestions: list[tuple[int, float, Suggestion]] = []
    gap = fmean(abs(number.gap) for number in numbers)
    for row in rows:
        pairs = _pairs(numbers, row, published_numbers)
        changes = _changes(pairs)
        if len(changes) != 1 or pairs[0].alternative.cell.row.statistic != "score":
            continue
        [(choice, value)] = changes.items()
        is_other_corpus = choice == "fit_on" and value != "none"
        if choice not in ACCIDENTAL_CHOICES and not is_other_corpus:
            continue
        unexplained = fmean(
            abs(pair.reported.points - pair.alternative.cell.score) for pair in pairs
        )
        if unexplained > UNEXPLAINED_SHARE * gap:
            continue
        is_likely = unexplained <= MISSED_SHARE * gap
        suggestion = Suggestion(
            about=(choice,),
            certainty="likely" if is_likely else "possible",
            unexplained=unexplained,
            published_cell=pairs[0].alternative.cell,
            changes=changes,
        )
        suggestions.append((accident_rank(choice), unexplained, suggestion))
    suggestions.sort(key=lambda item: item[:2])
    return [suggestion for _, _, suggestion in suggestions]


def _measured_effects(
    number: ReportedNumber, measured_choices: Iterable[OtherChoice]
) -> Iterator[Suggestion]:
    """Accidental choices that move the scores of other encoders by about the difference."""
    allowed_miss = max(NEGLIGIBLE, MISSED_SHARE * abs(number.gap))
    for choice in measured_choices:
        names = tuple(choice.changes)
        if len(names) != 1 or names[0] not in ACCIDENTAL_CHOICES:
            continue
        smallest_miss = min(
            abs(effect - number.gap) for effect in choice.effects.values()
        )
        if smallest_miss <= allowed_miss:
            yield Suggestion(
                about=names,
                certainty="possible",
                unexplained=smallest_miss,
                changes=choice.changes,
                effects=choice.effects,
            )
