"""Why a reader's numbers differ from those of a published row.

First the reader's own numbers are checked: an average that is not the mean of its columns,
two columns that are exchanged, a value that cannot be. Such a fault is certain, and its
columns are not explained in any other way. `harness.conclusions.readings` explains the
rest, where each reading is weighed over all columns, and the surest comes first.

A post-processor that the row does not have is never suggested, since nobody applies one
by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.conclusions.causes import CERTAINTIES, Causes
from harness.conclusions.effects import (
    ACCIDENTS,
    NEGLIGIBLE,
    Effect,
    EffectsOfAccidents,
)
from harness.conclusions.numbers import (
    COLUMNS_OF_A_MODEL,
    PublishedRow,
    ReportedNumber,
    compared_rows,
)
from harness.conclusions.readings import (
    MISSED_SHARE,
    SEED_DEVIATIONS,
    Evidence,
    SeedSpread,
    Suggestion,
    another_aggregation,
    another_seed,
    known_causes,
    names,
    near_rows,
    other_models,
    printed_elsewhere,
    spreads,
)
from harness.conclusions.wrong_figures import (
    DISTINCT_COLUMNS,
    average_fault,
    mended_column,
    wrong_figures,
)
from harness.results.protocols import Protocol

SUGGESTIONS_SHOWN = 3  # of a diagnosis, before the further ones
SEED = ("one-training",)  # the cause where no spread over seeds is published
EXCHANGE_TOLERANCE = 0.2  # points by which exchanged columns differ from each other's


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The answer to a reader.

    Attributes:
        numbers: The reader's numbers.
        notes: The notes of the table on the row and the columns.
        faults: What is wrong with the reader's own numbers, or with a published one.
        rest: The numbers without those of the faults.
        explanations: All readings of the rest, the surest first.
        is_rounding: Whether the rest is the published numbers up to rounding.
        distant: The spread over seeds from whose mean a number is furthest, where it is
            beyond all of them.
        unknown_columns: The columns that the reader named and the row does not have.
    """

    numbers: tuple[ReportedNumber, ...]
    notes: tuple[str, ...]
    faults: tuple[Suggestion, ...] = ()
    rest: tuple[ReportedNumber, ...] = ()
    explanations: tuple[Suggestion, ...] = ()
    is_rounding: bool = False
    distant: SeedSpread | None = None
    unknown_columns: tuple[str, ...] = ()

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """The faults, and the first three readings of the rest."""
        return (*self.faults, *self.explanations[:SUGGESTIONS_SHOWN])

    @property
    def is_unknown(self) -> bool:
        """Whether nothing that is known here explains the difference."""
        return not self.suggestions and not self.is_rounding

    @property
    def is_sure(self) -> bool:
        """Whether one of the readings is certain or likely, or none is needed."""
        is_sure = any(each.certainty != "possible" for each in self.explanations)
        return self.is_rounding or is_sure or not self.rest

    @property
    def nothing_is_wrong(self) -> bool:
        """Whether all that there is to explain is rounding, or a seed that is usual."""
        if self.faults:
            return False
        if self.is_rounding:
            return True
        first = next(iter(self.explanations), None)
        is_seed = first is not None and first.spread is not None
        return is_seed and first is not None and first.certainty == "likely"


def diagnose(
    numbers: Sequence[ReportedNumber],
    rows: Iterable[PublishedRow],
    causes: Causes,
    measured: Sequence[Suggestion] = (),
    unknown_columns: tuple[str, ...] = (),
) -> Diagnosis:
    """Explain how a reader's numbers differ from the numbers of one published row.

    Args:
        numbers: The reader's numbers, all of one row, one a column.
        rows: All published scores by row.
        causes: The curated causes.
        measured: The measured methods of the row's encoder that give the numbers.
        unknown_columns: Columns that the reader named and the row does not have.
    """
    faults = [*_faults(numbers), *_printed_faults(numbers, measured)]
    told = {column for fault in faults for column in fault.columns}
    rest = [each for each in numbers if each.published.column.id not in told]
    # An average is told by its columns, where all of them are there.
    singles = [number for number in rest if not number.published.is_average]
    if any(_columns_of(number, numbers) for number in rest) and singles:
        rest = singles
    impossible = (
        [
            each
            for each in known_causes(rest, causes)
            if each.cause is not None and each.cause.certainty == "certain"
        ]
        if rest
        else []
    )
    for each in impossible:
        faults.append(replace(each, misfits=()))
        rest = [n for n in rest if n.published.column.id not in each.columns]
    readings, distant = (
        _readings(rest, [*rows], causes, measured) if rest else ([], None)
    )
    is_rounding = bool(rest) and all(map(_is_rounding, rest))
    if is_rounding:
        readings = []
    is_found = any(each.certainty == "certain" for each in readings)
    notes: dict[str, None] = {}  # in their order, each once
    for reported in numbers:
        notes |= dict.fromkeys(reported.published.notes)
    return Diagnosis(
        numbers=tuple(numbers),
        notes=tuple(notes),
        faults=tuple(faults),
        rest=tuple(rest),
        explanations=tuple(readings),
        is_rounding=is_rounding,
        distant=None if is_found or is_rounding else distant,
        unknown_columns=unknown_columns,
    )


def _is_rounding(number: ReportedNumber) -> bool:
    """Whether a number is the published one but for rounding, or another processor."""
    half_unit = max(number.given.half_unit, number.published.half_unit)
    if not number.given.decimals:
        half_unit = 0.0
    return abs(number.gap) <= max(NEGLIGIBLE, half_unit)


# What is wrong with the reader's own numbers


def _columns_of(
    average: ReportedNumber, numbers: Sequence[ReportedNumber]
) -> list[ReportedNumber]:
    """The reader's numbers that an average averages, if all of them are there."""
    if not average.published.is_average:
        return []
    columns = {
        number.published.data_sets: number
        for number in numbers
        if not number.published.is_average
    }
    keys = [(data_set,) for data_set in average.published.data_sets]
    return [columns[key] for key in keys] if all(key in columns for key in keys) else []


def _faults(numbers: Sequence[ReportedNumber]) -> list[Suggestion]:
    """An average that is not the mean of its columns, and columns that are exchanged."""
    figures = {number.published.column.id: number for number in numbers}
    printed = {name: number.published for name, number in figures.items()}
    faults = []
    for name, number in figures.items():
        columns = _columns_of(number, numbers)
        fault = None
        own = {each.published.column.id: each for each in columns}
        if columns:
            fault = average_fault((name, number), own)
        if fault is None:
            continue
        told = (
            f"the {name} {fault.average:.2f} is not the mean of your columns, "
            f"{fault.mean:.2f}"
        )
        mended = mended_column(fault, own, printed)
        if mended is not None:
            told += f"; with {mended[0]} {mended[1]:.2f} it would be"
        faults.append(_fault("average", told, (name,)))
    candidates = {
        name: number
        for name, number in figures.items()
        if abs(number.gap) > DISTINCT_COLUMNS
    }
    done: set[str] = set()
    for wrong in wrong_figures(candidates, printed, EXCHANGE_TOLERANCE):
        if wrong.is_exchange and wrong.column not in done:
            pair = (wrong.column, wrong.with_column)
            done |= {*pair}
            told = (
                f"columns {pair[0]} and {pair[1]} are exchanged: yours are the paper's "
                f"{printed[pair[1]].value} and {printed[pair[0]].value}"
            )
            faults.append(_fault("columns", told, pair))
    return faults


def _fault(about: str, told: str, columns: tuple[str, ...]) -> Suggestion:
    evidence = Evidence(kind="arithmetic", fits=len(columns), columns=len(columns))
    return Suggestion(about=(about,), evidence=evidence, columns=columns, fault=told)


def _printed_faults(
    numbers: Sequence[ReportedNumber], measured: Sequence[Suggestion]
) -> list[Suggestion]:
    """The reader's numbers that are right where the paper has a misprint."""
    own_method = [each for each in measured if each.about == ("published",)]
    faults = []
    for number in numbers:
        published = number.published
        if not published.is_misprint or _is_rounding(number):
            continue
        what = published.row.misprints[published.column.id]
        told = (
            f"the paper's {published.column.id} {published.value} is a misprint: {what} "
            f"stands in its place, and your {number.points:.2f} may be right"
        )
        if any(published.column.id in each.columns for each in own_method):
            told = told.replace(
                "may be right", f"is right: {own_method[0].method} gives it here, too"
            )
        faults.append(_fault("published", told, (published.column.id,)))
    return faults


# Readings of the rest


def _readings(
    numbers: Sequence[ReportedNumber],
    rows: Sequence[PublishedRow],
    causes: Causes,
    measured: Sequence[Suggestion],
) -> tuple[list[Suggestion], SeedSpread | None]:
    """All readings, the surest first; and the spread that a number is furthest outside of."""
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
    of_seeds = spreads(numbers, of_recipe)
    readings = printed_elsewhere(own_rows)
    own_columns = set(names(numbers))
    is_printed = any(each.certainty == "certain" for each in readings)
    readings += [
        each for each in measured if own_columns & {*each.columns} and not is_printed
    ]
    if len(numbers) >= COLUMNS_OF_A_MODEL and not readings:
        readings += other_models(numbers, of_others)
    near = [] if readings else [*near_rows(numbers, own_rows)]
    readings += [each for each in near if _is_nearer_than_seeds(each, of_seeds)]
    seed = another_seed(numbers, of_seeds)
    # A seed that is not usual comes after causes, unless the average is.
    is_seed_first = bool(seed) and any(
        abs(each.deviations(each.number.points)) <= SEED_DEVIATIONS
        and (each.number.published.is_average or seed[0].spread is each)
        for each in of_seeds
    )
    readings += seed if is_seed_first else []
    readings += another_aggregation(numbers)
    readings += near
    if not any(each.certainty == "certain" for each in readings):
        known = known_causes(numbers, causes)
        # Where the spread over seeds is published, it says what the cause would.
        readings += [each for each in known if not (of_seeds and each.about == SEED)]
    readings += seed
    by_subject: dict[tuple[str, ...], Suggestion] = {}
    for reading in readings:
        by_subject.setdefault(reading.about, reading)
    readings = sorted(
        by_subject.values(), key=lambda each: CERTAINTIES.index(each.certainty)
    )
    beyond = [each for each in of_seeds if not each.holds]
    distant = max(
        beyond, key=lambda each: abs(each.deviations(each.number.points)), default=None
    )
    return readings, distant


def _is_nearer_than_seeds(reading: Suggestion, of_seeds: Sequence[SeedSpread]) -> bool:
    """Whether a reading that the numbers are of the development set is nearer than any seed."""
    if dict(reading.changes) != {"split": "dev"} or reading.row is None:
        return False
    for spread in of_seeds:
        if spread.high is None:
            continue
        if reading.row.unexplained >= abs(spread.number.points - spread.high):
            return False
    return True


# Choices that were measured to move other encoders' scores by about the differences


def with_effects(
    diagnosis: Diagnosis,
    numbers: Sequence[tuple[ReportedNumber, Protocol]],
    effects: EffectsOfAccidents,
) -> Diagnosis:
    """A diagnosis with the choices that moved other encoders' scores by about the differences.

    A choice has to fit two numbers or more, all of them on the same encoder: any one
    number is met by some choice on some encoder. What does not fit one number is not
    looked at for the next.

    Args:
        diagnosis: The diagnosis.
        numbers: The reader's numbers that it has to fit, each with its protocol.
        effects: What choices were measured to do.
    """
    suggestions = list(diagnosis.explanations)
    subjects = {each.about for each in suggestions}
    columns = names(number for number, _ in numbers)
    for accident in ACCIDENTS:
        if accident in subjects:
            continue
        (first, protocol), *others = numbers
        fits = _fits(first, effects.on(protocol, accident))
        for number, protocol in others:
            # A change that fits no encoder is left out already.
            if fits:
                further = _fits(number, effects.on(protocol, accident))
                fits = {
                    value: common
                    for value, on_encoders in fits.items()
                    if (common := _common(on_encoders, further.get(value, {})))
                }
        if fits:
            [choice] = accident
            value, on_encoders = next(iter(fits.items()))
            evidence = Evidence(kind="effect", fits=len(columns), columns=len(columns))
            suggestion = Suggestion(
                about=accident,
                evidence=evidence,
                columns=columns,
                changes={choice: value},
                effects={name: on_encoders[name] for name in sorted(on_encoders)},
            )
            suggestions.append(suggestion)
    return replace(diagnosis, explanations=tuple(suggestions))


def _fits(
    number: ReportedNumber, effects: Iterable[Effect]
) -> dict[str, Mapping[str, float]]:
    """The values of a choice that moved encoders by about a number's difference.

    For each value, it is the effect on each of these encoders.
    """
    allowed_miss = max(NEGLIGIBLE, MISSED_SHARE * abs(number.gap))
    fits: dict[str, Mapping[str, float]] = {}
    for effect in effects:
        [value] = effect.changes.values()
        on_encoders = {
            encoder: points
            for encoder, points in effect.effects.items()
            if abs(points - number.gap) <= allowed_miss
        }
        if on_encoders:
            fits[value] = on_encoders
    return fits


def _common(
    first: Mapping[str, float], second: Mapping[str, float]
) -> Mapping[str, float]:
    """The effects of the first on the encoders that both have."""
    return {encoder: points for encoder, points in first.items() if encoder in second}
