"""Why a reader's number differs from a published one.

Four kinds of evidence are looked at, the strongest first:

1. the reader's number is printed elsewhere for the same encoder, under another protocol;
2. for a trained encoder, the number is one of those that another seed gives;
3. a cause that no protocol holds is known from public threads (`harness.results.causes`);
4. another choice of the protocol is known to move the score by about the difference: from two
   published numbers of this encoder, or from what was measured here on an encoder of
   its kind.

A post-processor that the row does not have is never suggested: nobody applies one by
accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from harness.results.causes import Cause, Causes
from harness.results.choices import NEGLIGIBLE, OtherChoice
from harness.results.published import PublishedCell
from harness.results.settings import PublishedNumber, ReportedNumber, Setting

SUGGESTIONS_SHOWN = 3  # suggestions of a diagnosis
UNEXPLAINED_SHARE = 0.5  # of the difference: a choice that leaves more explains little
MISSED_SHARE = (
    0.25  # of the difference, by which an effect on another encoder may miss it
)
FAR_DEVIATIONS = (
    5.0  # standard deviations from the mean of the seeds: no seed gives that
)

# Choices that are made by accident, the most frequent first. `fit_on` counts where the
# row is fitted on something.
ACCIDENTAL_CHOICES = (
    "aggregation",
    "split",
    "metric",
    "pooling",
    "text",
    "scored_by",
    "max_length",
)


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
        """Whether a seed gave that, or less and another seed more."""
        if self.low is None or self.high is None:
            return abs(self.deviations(points)) <= 2
        return self.low <= points <= self.high


@dataclass(frozen=True)
class Suggestion:
    """One explanation of the difference.

    Attributes:
        about: What differs: names of choices of a protocol, or the id of a curated
            cause.
        certainty: `certain`, `likely` or `possible`.
        leaves: The points that it does not explain; None where it explains no amount.
        printed: The published number under the other choices.
        changes: The other choices by name.
        spread: The spread of the seeds that the number is one of.
        cause: The curated cause.
        effects: What the change does on other encoders, in points by their names.
    """

    about: tuple[str, ...]
    certainty: str
    leaves: float | None = None
    printed: PublishedCell | None = None
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
        notes: What the row and the columns say of themselves.
        suggestions: The explanations, the surest first.
        further: Those beyond the first three.
        is_rounding: Whether the numbers are the published ones up to rounding.
        outside: The spread of seeds that the numbers are far outside of, so that
            another seed does not explain them.
    """

    numbers: tuple[ReportedNumber, ...]
    setting: Setting
    notes: tuple[str, ...]
    suggestions: tuple[Suggestion, ...] = ()
    further: tuple[Suggestion, ...] = ()
    is_rounding: bool = False
    outside: SeedSpread | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether nothing that is known here explains the difference."""
        return not self.suggestions and not self.is_rounding

    @property
    def is_sure(self) -> bool:
        """Whether one of the explanations is certain or likely."""
        return any(
            suggestion.certainty != "possible" for suggestion in self.suggestions
        )

    @property
    def nothing_is_wrong(self) -> bool:
        """Whether the first explanation is chance: rounding, or another seed."""
        return self.is_rounding or any(
            s.spread is not None for s in self.suggestions[:1]
        )


def diagnose(
    numbers: Sequence[ReportedNumber],
    published: Mapping[str, PublishedNumber],
    causes: Causes,
    measured: Iterable[OtherChoice] = (),
) -> Diagnosis:
    """Explain how a reader's numbers differ from the numbers of one published row.

    Args:
        numbers: The reader's numbers, all of one row, one a column.
        published: All published scores by id.
        causes: The curated causes.
        measured: What other choices were measured to do to the first number's protocol;
            looked at where nothing surer is known.
    """
    asked = published[numbers[0].cell.id]
    others = [
        other
        for other in published.values()
        if not (
            other.cell.row is asked.cell.row and other.cell.table is asked.cell.table
        )
    ]
    own_rows = _by_row(other for other in others if other.is_of_encoder(asked))
    trainings = _by_row(
        other for other in published.values() if other.is_of_recipe(asked)
    )
    spreads = _spreads(numbers, trainings)
    printed = [*_printed_elsewhere(numbers, own_rows, published)]
    is_rounding = max(abs(number.gap) for number in numbers) <= NEGLIGIBLE
    known_causes = [
        suggestion
        for suggestion in _known_causes(numbers, causes)
        if suggestion.certainty == "certain" or not is_rounding
    ]
    suggestions = [
        *(
            suggestion
            for suggestion in known_causes
            if suggestion.certainty == "certain"
        ),
        *printed,
        *_another_seed(spreads),
        *([] if printed else _published_effects(numbers, own_rows, published)),
        *(
            suggestion
            for suggestion in known_causes
            if suggestion.certainty == "likely"
        ),
        *(
            suggestion
            for suggestion in known_causes
            if suggestion.certainty == "possible"
        ),
    ]
    is_sure = any(suggestion.certainty != "possible" for suggestion in suggestions)
    if not is_sure and not is_rounding:
        suggestions += _measured_effects(numbers[0], measured)
    distinct = _without_repetitions(suggestions)
    return Diagnosis(
        numbers=tuple(numbers),
        setting=asked.setting,
        notes=tuple(
            dict.fromkeys(note for number in numbers for note in number.cell.notes)
        ),
        suggestions=distinct[:SUGGESTIONS_SHOWN],
        further=distinct[SUGGESTIONS_SHOWN:],
        is_rounding=is_rounding,
        outside=_far_outside(spreads),
    )


def _without_repetitions(suggestions: Iterable[Suggestion]) -> tuple[Suggestion, ...]:
    """The suggestions without those about the same as an earlier one."""
    by_subject: dict[tuple[str, ...], Suggestion] = {}
    for suggestion in suggestions:
        by_subject.setdefault(suggestion.about, suggestion)
    return tuple(by_subject.values())


# Other published rows

# Of one row, the numbers of one metric and split by the tasks that they are of.
RowNumbers = Mapping[tuple[str, ...], PublishedNumber]


def _by_row(numbers: Iterable[PublishedNumber]) -> list[RowNumbers]:
    """Published numbers by row, metric and split."""
    rows: dict[tuple[str, ...], dict[tuple[str, ...], PublishedNumber]] = {}
    for number in numbers:
        cell, setting = number.cell, number.setting
        split = setting.choices.get("split", "") if len(setting.tasks) == 1 else ""
        name = (cell.table.id, cell.row.id, cell.metric, split)
        rows.setdefault(name, {})[setting.tasks] = number
    return [*rows.values()]


Pair = tuple[ReportedNumber, PublishedNumber]


def _pairs(
    numbers: Sequence[ReportedNumber],
    row: RowNumbers,
    published: Mapping[str, PublishedNumber],
) -> list[Pair]:
    """The reader's numbers with a row's on the same tasks; none if the row has under half."""
    pairs = []
    for number in numbers:
        tasks = published[number.cell.id].setting.tasks
        if tasks in row:
            pairs.append((number, row[tasks]))
    return pairs if 2 * len(pairs) >= len(numbers) else []


def _changes(
    pairs: Sequence[Pair], published: Mapping[str, PublishedNumber]
) -> dict[str, str]:
    """The choices in which a row's numbers differ from those that the reader asks about."""
    changes: dict[str, str] = {}
    for number, other in pairs:
        changes |= published[number.cell.id].setting.differences(other.setting)
    return changes


def _printed_elsewhere(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[RowNumbers],
    published: Mapping[str, PublishedNumber],
) -> Iterator[Suggestion]:
    """Rows of the same encoder that print the reader's numbers, those with few changes first."""
    found: list[tuple[int, Suggestion]] = []
    for row in rows:
        pairs = _pairs(numbers, row, published)
        if not pairs or not all(
            _is_printed(number, other.cell) for number, other in pairs
        ):
            continue
        changes = _changes(pairs, published)
        is_coarse = min(_decimals(other.cell) for _, other in pairs) < 2
        certainty = (
            "certain" if len(pairs) > 1 else "possible" if is_coarse else "likely"
        )
        suggestion = Suggestion(
            about=tuple(changes) or ("the same protocol",),
            certainty=certainty,
            leaves=0.0,
            printed=pairs[0][1].cell,
            changes=changes,
        )
        found.append((len(changes), suggestion))
    found.sort(key=lambda pair: pair[0])
    yield from (suggestion for _, suggestion in found)


def _is_printed(number: ReportedNumber, cell: PublishedCell) -> bool:
    """Whether a cell prints the reader's number as one run's score."""
    is_score = cell.row.statistic == "score" and cell.points is not None
    return is_score and number.equals(cell.points or 0.0, _decimals(cell))


def _decimals(cell: PublishedCell) -> int:
    return len(str(cell.in_points).partition(".")[2])


def _published_effects(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[RowNumbers],
    published: Mapping[str, PublishedNumber],
) -> Iterator[Suggestion]:
    """Single choices by which a published row of this encoder explains most of the difference."""
    found: list[tuple[int, float, Suggestion]] = []
    gap = fmean(abs(number.gap) for number in numbers)
    for row in rows:
        pairs = _pairs(numbers, row, published)
        changes = _changes(pairs, published)
        if len(changes) != 1 or pairs[0][1].cell.row.statistic != "score":
            continue
        [choice] = changes
        is_accident = choice in ACCIDENTAL_CHOICES or (
            choice == "fit_on" and changes[choice] != "none"
        )
        leaves = fmean(
            abs(number.points - (other.cell.points or 0.0)) for number, other in pairs
        )
        if not is_accident or leaves > UNEXPLAINED_SHARE * gap:
            continue
        order = (
            ACCIDENTAL_CHOICES.index(choice)
            if choice in ACCIDENTAL_CHOICES
            else len(ACCIDENTAL_CHOICES)
        )
        suggestion = Suggestion(
            about=(choice,),
            certainty="likely" if leaves <= MISSED_SHARE * gap else "possible",
            leaves=leaves,
            printed=pairs[0][1].cell,
            changes=changes,
        )
        found.append((order, leaves, suggestion))
    found.sort(key=lambda item: item[:2])
    yield from (suggestion for *_, suggestion in found)


NEIGHBOURS_SHOWN = 8  # published numbers that differ in one choice


def neighbours_of(
    number: PublishedNumber, published: Mapping[str, PublishedNumber]
) -> list[tuple[Mapping[str, str], PublishedNumber]]:
    """Other published numbers of an encoder on the same tasks that differ in one choice.

    Those of `ACCIDENTAL_CHOICES` are first, in that order; of equal numbers there is
    one.
    """
    found: dict[object, tuple[int, Mapping[str, str], PublishedNumber]] = {}
    for other in published.values():
        is_score = other.cell.row.statistic == "score"
        same_tasks = other.setting.tasks == number.setting.tasks
        if other is number or not (
            is_score and same_tasks and other.is_of_encoder(number)
        ):
            continue
        changes = number.setting.differences(other.setting)
        if len(changes) != 1:
            continue
        [(choice, value)] = changes.items()
        order = (
            ACCIDENTAL_CHOICES.index(choice)
            if choice in ACCIDENTAL_CHOICES
            else len(ACCIDENTAL_CHOICES)
        )
        found.setdefault((choice, value, other.cell.points), (order, changes, other))
    in_order = sorted(found.values(), key=lambda item: item[0])
    return [(changes, other) for _, changes, other in in_order[:NEIGHBOURS_SHOWN]]


# Another seed


def _spreads(
    numbers: Sequence[ReportedNumber], rows: Iterable[RowNumbers]
) -> list[tuple[ReportedNumber, SeedSpread]]:
    """The reader's numbers whose spread over seeds is published, the average first."""
    statistics: dict[tuple[str, str, str], dict[str, PublishedCell]] = {}
    for row in rows:
        for published in row.values():
            cell = published.cell
            name = (cell.table.id, cell.column.id, str(cell.row.n))
            statistics.setdefault(name, {})[cell.row.statistic] = cell
    spreads = []
    for number in numbers:
        for by_statistic in statistics.values():
            mean = by_statistic.get("mean")
            if (
                mean is None
                or mean.sd is None
                or mean.column.id != number.cell.column.id
            ):
                continue
            low, high = by_statistic.get("min"), by_statistic.get("max")
            spread = SeedSpread(
                cell=mean,
                seeds=mean.row.n or 0,
                mean=mean.points or 0.0,
                sd=mean.sd,
                low=low.points if low else None,
                high=high.points if high else None,
            )
            spreads.append((number, spread))
    spreads.sort(key=lambda pair: not pair[0].cell.average_of)
    return spreads


def _another_seed(
    spreads: Sequence[tuple[ReportedNumber, SeedSpread]],
) -> Iterator[Suggestion]:
    """That the training had another seed: of the average if there is one, else of most columns."""
    averages = [pair for pair in spreads if pair[0].cell.average_of]
    asked = averages or spreads
    inside = [pair for pair in asked if pair[1].holds(pair[0].points)]
    if inside and 2 * len(inside) > len(asked):
        yield Suggestion(
            about=("seed",), certainty="likely", leaves=0.0, spread=inside[0][1]
        )


def _far_outside(
    spreads: Sequence[tuple[ReportedNumber, SeedSpread]],
) -> SeedSpread | None:
    """The spread that a number is so far outside that another seed does not explain it.

    Where the published number is further outside, the spread is of another training
    than it.
    """
    for number, spread in spreads:
        published = abs(spread.deviations(number.cell.points or 0.0))
        if abs(spread.deviations(number.points)) > max(FAR_DEVIATIONS, published):
            return spread
    return None


# Causes that no protocol holds, and effects on other encoders


def _known_causes(
    numbers: Sequence[ReportedNumber], causes: Causes
) -> Iterator[Suggestion]:
    """The curated causes at whose rows, columns and differences the numbers are."""
    cell = numbers[0].cell
    gaps = {number.cell.column.id: number.gap for number in numbers}
    for cause in causes.causes:
        if cause.fits(f"{cell.table.id}/{cell.row.id}", cell.method or "", gaps):
            yield Suggestion(about=(cause.id,), certainty=cause.certainty, cause=cause)


def _measured_effects(
    number: ReportedNumber, measured: Iterable[OtherChoice]
) -> Iterator[Suggestion]:
    """Single accidental choices that move other encoders by about the difference."""
    for choice in measured:
        names = tuple(choice.changes)
        misses = {
            name: abs(effect - number.gap) for name, effect in choice.effects.items()
        }
        allowed = max(NEGLIGIBLE, MISSED_SHARE * abs(number.gap))
        if (
            len(names) != 1
            or names[0] not in ACCIDENTAL_CHOICES
            or min(misses.values()) > allowed
        ):
            continue
        yield Suggestion(
            about=names,
            certainty="possible",
            leaves=min(misses.values()),
            changes=choice.changes,
            effects=choice.effects,
        )
