"""What the numbers of a card tell by arithmetic, before anything is encoded.

The numbers of one document on one score are a row, such as a reader pastes. What a person
does who copies numbers leaves a trace in them:

1. one is in another scale than those beside it, by a factor of 100;
2. one has another sign;
3. they are those of a published row, of another model or of this one;
4. two digits of one are exchanged, where the others are those of a row;
5. the average is not the mean of the numbers beside it, or a number is their mean.

Scale and sign are mended before a row is looked for among the published ones, so that
several faults of a card are each found. `harness.conclusions.readings.certainty` says of
every reading how sure it is; `weighed` says it anew when scores were measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from statistics import fmean

from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import CardNumber, parse_metric, plain_model_name
from harness.conclusions.numbers import COLUMNS_OF_A_MODEL, Figure
from harness.conclusions.owners import (
    AVERAGE,
    STS_COLUMNS,
    Figures,
    Origin,
    Owner,
    figures_of,
    origin_of,
)
from harness.conclusions.pasted import PastedRow
from harness.conclusions.readings import Evidence, certainty
from harness.conclusions.wrong_figures import (
    AverageFault,
    average_fault,
    fault_of_digits,
    mended_column,
    wrong_figures,
)
from harness.core.hardware import base_name
from harness.core.metrics.correlation import score_name
from harness.core.types import MethodId
from harness.registry import Registry
from harness.results.published import PublishedNumber
from harness.results.published_tables import plain_name
from harness.results.verdict import TOLERANCES, Published, readings_in_points

# Published numbers by row and the plain name of their column.
Rows = Mapping[str, Mapping[str, PublishedNumber]]

# Points from zero from which a sign tells something: weak models have small negative scores.
CLEAR_SCORE = 20.0
# Points below which a number is a hundredth of a clear score.
SMALL_SCORE = 1.0
# Faults of a single number's digits; another digit is what another run may have, too.
ANOTHER_DIGIT = "one digit is another"
FAULTS_OF_DIGITS = (
    "two digits are exchanged",
    "the decimal point is elsewhere",
    "the sign is another",
)
NAME_OF_AVERAGE = re.compile(r"(?<![a-z])(avg|average|mean)(?![a-z])", re.IGNORECASE)
FEWEST_AVERAGED = 3  # numbers beside an average with which it is compared
FEWEST_OF_A_MEAN = 4  # other numbers whose mean a number may be
DECIMALS_OF_A_MEAN = 3  # of a point, with which few numbers are a mean by chance


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """The names of a model, by which published rows are told to be its own.

    Attributes:
        names: Its names without owners and in lower case.
        encoders: The registered encoders that it is, by name, repository or weights.
        is_pinned: Whether one of them has the digest of its weights.
    """

    names: frozenset[str] = frozenset()
    encoders: frozenset[str] = frozenset()
    is_pinned: bool = False

    @classmethod
    def find(
        cls, names: Iterable[str], encoder: str, weights: str, registry: Registry
    ) -> ModelIdentity:
        """What a model is known to be.

        Args:
            names: Its names, with or without the owner's: `me/model@revision`.
            encoder: The name of its encoder.
            weights: The digest of its weights.
            registry: The registered encoders, of which some have the digests of weights.
        """
        plain = {plain_model_name(name.partition("@")[0]) for name in names} - {""}
        pinned = {
            name
            for name, config in registry.encoders.items()
            if weights and getattr(config, "weights_sha256", None) == weights
        }
        of_repository = {
            name
            for name, config in registry.encoders.items()
            if plain_model_name(getattr(config.source, "repo", "")) in plain
        }
        return cls(
            names=frozenset(plain),
            encoders=frozenset({base_name(encoder), *pinned, *of_repository}),
            is_pinned=bool(pinned),
        )

    def has(self, number: PublishedNumber) -> bool:
        """Whether a published number is of this model."""
        method = MethodId.parse(number.method or "")
        if method is not None and base_name(method.encoder) in self.encoders:
            return True
        return plain_model_name(number.row.label) in self.names


# The rows of a card


@dataclass(frozen=True)
class CardRow:
    """The numbers that a document states of one score, as a row of a table.

    Attributes:
        label: The document.
        score: The name of the score in a record.
        numbers: The numbers by the plain names of their columns.
    """

    label: str
    score: str
    numbers: Mapping[str, CardNumber]

    @cached_property
    def as_stated(self) -> Mapping[str, Decimal]:
        """The stated numbers, as far as they are numbers."""
        values = {}
        for column, number in self.numbers.items():
            text = number.statement.value.strip().removesuffix("%")
            try:
                value = Decimal(text)
            except InvalidOperation:
                continue
            is_hundredfold = value.is_finite() and 100 < abs(value) <= 100 * 100
            if is_hundredfold or readings_in_points(text):
                values[column] = value
        return values


def card_rows(numbers: Iterable[CardNumber]) -> list[CardRow]:
    """The rows of a card: of each document and score, what is of a task here or an average.

    Of numbers that a document repeats, as under an old and a new name of a score, the first
    is taken.
    """
    rows: dict[tuple[str, str, str], dict[str, CardNumber]] = {}
    for number in numbers:
        statement = number.statement
        score = parse_metric(statement.metric)
        is_average = bool(NAME_OF_AVERAGE.search(statement.data_set))
        is_of_task = bool(number.task) and (
            not number.why_not or number.is_no_correlation
        )
        if score is None or not (is_of_task or is_average):
            continue
        is_result_file = statement.source.endswith(".json")
        document = "result files" if is_result_file else statement.source
        column = _column_of_task(number.task) if is_of_task else AVERAGE
        key = (document, statement.model, score_name(*score))
        rows.setdefault(key, {}).setdefault(column, number)
    return [
        CardRow(document, score, columns)
        for (document, _, score), columns in rows.items()
    ]


def _column_of_task(task: str) -> str:
    """The plain name of the column that papers have for a task: `stsbdev` of `sts-b.dev`."""
    data_set, *parts = task.split(".")
    kept = [part for part in parts if part not in ("senteval", "all")]
    return plain_name("".join((data_set, *kept)))


# What is said of them


@dataclass(frozen=True, kw_only=True)
class CardReading:
    """What arithmetic says of one or more numbers of a card.

    Attributes:
        about: `scale`, `sign`, `owner` (they are those of a published row), `digits` (how
            one was copied wrongly), `average` (whether it is the mean of the numbers beside
            it) or `mean` (a number that is the mean of others).
        numbers: The numbers of the card.
        evidence: What speaks for it.
        meant: The number of points that is meant, with its digits; empty if there is none.
        beside: How many numbers of the row it was compared with, or are averaged.
        how: What happened to the digits.
        owner: The published row.
        of: The other columns whose mean a number is.
        is_own: Whether the row is of this model.
        own_row: This model's own row, if the row is another model's.
        fault: What is wrong with the average; None if nothing is.
        mended: The column, and the number in it, that would make the average right.
        is_measured: Whether a measured score confirms it.
    """

    about: str
    numbers: tuple[CardNumber, ...]
    evidence: Evidence
    meant: str = ""
    beside: int = 0
    how: str = ""
    owner: Owner | None = None
    of: tuple[str, ...] = ()
    is_own: bool = False
    own_row: str = ""
    fault: AverageFault | None = None
    mended: tuple[str, float] | None = None
    is_measured: bool = False

    @property
    def certainty(self) -> str:
        """How sure it is: certain, likely or possible."""
        return certainty(self.evidence)

    @property
    def statements(self) -> frozenset[Statement]:
        """The numbers as the card states them."""
        return frozenset(number.statement for number in self.numbers)

    @property
    def is_fault(self) -> bool:
        """Whether it is told: this model's own numbers and a right average are no faults."""
        if self.about == "average":
            return self.fault is not None
        return not (self.about == "owner" and self.is_own and not self.is_measured)

    @property
    def explains(self) -> bool:
        """Whether a difference of these numbers needs no search: it is certain or likely.

        Numbers of a published row may be this model's under other choices, unless its own row
        is known.
        """
        if self.about == "average" or (self.about == "owner" and not self.own_row):
            return False
        return self.is_fault and self.certainty != "possible"


def read_card(
    numbers: Iterable[CardNumber], rows: Rows, model: ModelIdentity
) -> list[CardReading]:
    """What the numbers of a card tell before anything is encoded.

    Args:
        numbers: The numbers as they are stated.
        rows: The published numbers of one run, by row and column.
        model: The model whose card it is.
    """
    readings = []
    for row in card_rows(numbers):
        points, of_scale = _scales(row)
        readings += of_scale
        readings += _signs(row, points)
        readings += _of_published(row, points, rows_of_score(rows, row.score), model)
    return readings


def rows_of_score(rows: Rows, score: str) -> Rows:
    """The published numbers of one score; columns of Pearson's are named as Spearman's are."""
    found = {}
    for row_id, numbers in rows.items():
        of_score = {
            column.removesuffix(score): number
            for column, number in numbers.items()
            if number.metric == score
        }
        if of_score:
            found[row_id] = of_score
    return found


# 1. The scale


def _scales(row: CardRow) -> tuple[dict[str, str], list[CardReading]]:
    """The numbers of a row in points, and a reading of each in another scale than the others.

    A row is in fractions or in points, whichever more than two thirds of it are. Above 100
    is neither, and so is a hundredth of what all others are.
    """
    values = row.as_stated
    fractions = [column for column, value in values.items() if abs(value) <= 1]
    points = [column for column in values if column not in fractions]
    odd = {column for column in points if abs(values[column]) > 100}
    if len(fractions) > 2 * len(points):
        odd |= {*points}
    elif len(points) > 2 * len(fractions):
        odd |= {*fractions}
    meant = {column: value.scaleb(2) for column, value in values.items()}
    for column in points:
        is_too_large = abs(values[column]) > 100
        meant[column] = values[column].scaleb(-2) if is_too_large else values[column]
    small = [column for column, value in meant.items() if abs(value) < CLEAR_SCORE]
    if len(small) == 1 and len(meant) > 2 and abs(meant[small[0]]) < SMALL_SCORE:
        meant[small[0]] = meant[small[0]].scaleb(2)
        odd.add(small[0])
    beside = len(values) - len(odd)
    evidence = Evidence(
        kind="pattern",
        fits=beside + 1,
        columns=beside + 1,
        is_strong=beside >= COLUMNS_OF_A_MODEL,
    )
    readings = [
        CardReading(
            about="scale",
            numbers=(row.numbers[column],),
            evidence=evidence,
            meant=f"{value:f}",
            beside=beside,
        )
        for column, value in meant.items()
        if column in odd and abs(value) >= CLEAR_SCORE
    ]
    return {column: f"{value:f}" for column, value in meant.items()}, readings


# 2. The sign


def _signs(row: CardRow, points: dict[str, str]) -> list[CardReading]:
    """A reading of the clearly negative numbers of a row; they are positive in `points` then.

    A distance is taken negatively, so that every score of a model that works is positive.
    """
    scores = {column: float(text) for column, text in points.items()}
    negative = [c for c, score in scores.items() if score <= -CLEAR_SCORE]
    positive = [c for c, score in scores.items() if score >= CLEAR_SCORE]
    if not negative:
        return []
    for column in negative:
        points[column] = points[column].lstrip("-")
    is_pattern = len(positive) > 2 * len(negative) or not positive
    evidence = Evidence(
        kind="pattern",
        fits=len(scores),
        columns=len(scores),
        is_strong=is_pattern and len(scores) > COLUMNS_OF_A_MODEL,
    )
    reading = CardReading(
        about="sign",
        numbers=tuple(row.numbers[column] for column in negative),
        evidence=evidence,
        meant=points[negative[0]],
        beside=len(positive),
    )
    return [reading]


# 3 and 4. Published rows, and digits


def _of_published(
    row: CardRow, points: Mapping[str, str], rows: Rows, model: ModelIdentity
) -> list[CardReading]:
    """The readings of a row that rest on published ones, and on means of its own numbers."""
    if not points:
        return []
    origin = origin_of(PastedRow(row.label, points), rows)
    figures = origin.figures
    own = _own_row(figures, rows, model)
    owner = _owner(origin, model)
    readings = []
    if owner is not None:
        is_own = model.has(owner.first)
        readings.append(_owner_reading(row, figures, owner, own, is_own=is_own))
        readings += _digits_of_owner(row, owner)
    elif own:
        rest = {c: f for c, f in figures.items() if not _is_printed(f, own.get(c))}
        readings += _digits_of_own(row, figures, own)
        readings += _owner_of_rest(row, rest, rows, model, own)
    printed = rows[owner.first.row_id] if owner is not None else own
    readings += _averages(row, figures, printed)
    known = owner.equal if owner is not None else ()
    for reading in _means(row, figures, known):
        if reading.evidence.is_strong:  # of two decimals a chance hit is too frequent
            readings.append(reading)
    return readings


def _is_printed(figure: Figure, number: PublishedNumber | None) -> bool:
    """Whether a published row has a figure's digits in its column."""
    return number is not None and figure.has_digits_of(number)


def _own_row(
    figures: Figures, rows: Rows, model: ModelIdentity
) -> Mapping[str, PublishedNumber]:
    """The published row of this model that has most of the figures; empty if none is known."""
    own = [
        numbers for numbers in rows.values() if model.has(next(iter(numbers.values())))
    ]

    def equal(numbers: Mapping[str, PublishedNumber]) -> tuple[int, int]:
        same = sum(_is_printed(f, numbers.get(c)) for c, f in figures.items())
        return same, len(figures.keys() & numbers.keys())

    return max(own, key=equal, default={})


def _owner(origin: Origin, model: ModelIdentity) -> Owner | None:
    """The published row of a card's row, this model's before others; None for a mere hint."""
    if origin.is_hint:
        return None
    most = origin.owners[0].found
    best = [owner for owner in origin.owners if owner.found == most]
    return next((owner for owner in best if model.has(owner.first)), best[0])


def _owner_reading(
    row: CardRow,
    figures: Figures,
    owner: Owner,
    own: Mapping[str, PublishedNumber],
    *,
    is_own: bool,
) -> CardReading:
    """The reading that numbers are those of a published row, in its columns or in others."""
    found = [*owner.equal, *(column for column, _ in owner.moved)]
    found += [each.column for each in owner.wrong if each.is_exchange]
    columns = [column for column in figures if column != AVERAGE]
    numbers = [row.numbers[column] for column in figures if column in found]
    decimals = min(figures[column].given.decimals for column in found)
    evidence = Evidence(
        kind="digits",
        fits=len([column for column in found if column != AVERAGE]),
        columns=len(columns),
        is_strong=decimals > 1,
    )
    return CardReading(
        about="owner",
        numbers=tuple(numbers),
        evidence=evidence,
        beside=len(columns),
        owner=owner,
        is_own=is_own,
        own_row=next(iter(own.values())).row_id if own and not is_own else "",
    )


def _digits_of_owner(row: CardRow, owner: Owner) -> list[CardReading]:
    """How figures of a row were copied wrongly from the published row that has the others."""
    readings = []
    exchanged: set[str] = set()
    for each in owner.wrong:
        is_told = bool(each.how) and each.printed is not None
        if not is_told or each.printed is None or each.column in (*exchanged, AVERAGE):
            continue
        columns = [each.column]
        if each.is_exchange:
            columns.append(each.with_column)
            exchanged.add(each.with_column)
        fits = 1 if each.how == ANOTHER_DIGIT else len(owner.equal)
        reading = CardReading(
            about="digits",
            numbers=tuple(row.numbers[column] for column in columns),
            evidence=Evidence(kind="digits", fits=fits, columns=fits + 1),
            meant=each.printed.shown,
            how=each.how,
            owner=owner,
        )
        readings.append(reading)
    return readings


def _digits_of_own(
    row: CardRow, figures: Figures, own: Mapping[str, PublishedNumber]
) -> list[CardReading]:
    """How figures were copied wrongly from this model's own row, where it has all others."""
    first = next(iter(own.values()))
    wrong = wrong_figures(figures, own)
    told = tuple(each for each in wrong if each.how in FAULTS_OF_DIGITS)
    if len(told) < len(wrong):
        return []
    names = {each.column for each in told}
    equal = tuple(column for column in figures if column not in names)
    return _digits_of_owner(row, Owner(first, equal=equal, wrong=told))


def _owner_of_rest(
    row: CardRow,
    figures: Figures,
    rows: Rows,
    model: ModelIdentity,
    own: Mapping[str, PublishedNumber],
) -> list[CardReading]:
    """The published row of the numbers of a row that are not this model's own.

    Three are needed, and all of them.
    """
    values = {column: figure.given.value for column, figure in figures.items()}
    values.pop(AVERAGE, None)
    if len(values) < COLUMNS_OF_A_MODEL:
        return []
    origin = origin_of(PastedRow(row.label, values), rows)
    owner = _owner(origin, model)
    if owner is None or len(owner.equal) < len(values):
        return []
    is_own = model.has(owner.first)
    return [_owner_reading(row, origin.figures, owner, own, is_own=is_own)]


# 5. Averages, and numbers that are means of others


def _averages(
    row: CardRow, figures: Figures, printed: Mapping[str, PublishedNumber]
) -> list[CardReading]:
    """Whether the average of a row is the mean of the numbers beside it."""
    if AVERAGE not in figures:
        return []
    others = {c: f for c, f in figures.items() if c != AVERAGE}
    groups = [group for group in _groups(others) if len(group) >= FEWEST_AVERAGED]
    if not groups:
        return []
    average = (AVERAGE, figures[AVERAGE])
    faults = [average_fault(average, group) for group in groups]
    place = faults.index(None) if None in faults else 0
    fault, group = faults[place], groups[place]
    mended = None if fault is None else mended_column(fault, group, printed)
    reading = CardReading(
        about="average",
        numbers=(row.numbers[AVERAGE],),
        evidence=Evidence(kind="arithmetic", fits=1, columns=1),
        beside=len(group),
        fault=fault,
        mended=mended,
    )
    return [reading]


def _groups(figures: Figures) -> list[Figures]:
    """The figures that an average may be over: the seven of the papers, five of these, all."""
    groups: list[Figures] = []
    for names in (STS_COLUMNS, STS_COLUMNS[:5], tuple(figures)):
        if all(name in figures for name in names):
            group = {name: figures[name] for name in names}
            if group not in groups:
                groups.append(group)
    return groups


def _means(
    row: CardRow, figures: Figures, known: Iterable[str] = ()
) -> list[CardReading]:
    """The numbers of tasks that are the mean of other numbers of the row."""
    readings = []
    for column, figure in figures.items():
        if column == AVERAGE or column in known or figure.given.decimals < 2:
            continue
        others = {c: f for c, f in figures.items() if c not in (column, AVERAGE)}
        for group in _groups(others):
            if len(group) < FEWEST_OF_A_MEAN:
                continue
            mean = fmean(each.points for each in group.values())
            half_units = [each.given.half_unit for each in (figure, *group.values())]
            if round(abs(figure.points - mean), 9) > 2 * max(half_units):
                continue
            reading = CardReading(
                about="mean",
                numbers=(row.numbers[column],),
                evidence=Evidence(
                    kind="digits",
                    fits=1,
                    columns=1,
                    is_strong=min(f.given.decimals for f in (figure, *group.values()))
                    >= DECIMALS_OF_A_MEAN,
                ),
                beside=len(group),
                of=tuple(group),
            )
            readings.append(reading)
            break
    return readings


# What need not be encoded


def of_another_model(
    readings: Iterable[CardReading], rows: Rows, model: ModelIdentity
) -> Mapping[Statement, str]:
    """The numbers that no encoding can confirm, with the published row that they are of.

    All numbers of their row are another model's, and this model, which its weights tell, has
    clearly other numbers in three of the columns or more.
    """
    found: dict[Statement, str] = {}
    for reading in readings:
        owner = reading.owner
        is_candidate = (
            reading.about == "owner" and reading.own_row and not reading.is_own
        )
        if owner is None or not is_candidate or not model.is_pinned:
            continue
        if reading.certainty != "certain":
            continue
        of_score = rows_of_score(rows, owner.first.metric)
        own, others = of_score[reading.own_row], of_score[owner.first.row_id]
        shared = [column for column in owner.equal if column in own]
        gaps = {
            column: abs(own[column].score - others[column].score) for column in shared
        }
        is_clear = sum(gap > TOLERANCES.close for gap in gaps.values())
        if is_clear < COLUMNS_OF_A_MODEL:
            continue
        for number in reading.numbers:
            if gaps.get(_column_of_task(number.task), 0.0) > TOLERANCES.match:
                found[number.statement] = owner.first.row_id
    return found


# When scores were measured


def weighed(
    readings: Sequence[CardReading],
    numbers: Sequence[CardNumber],
    rows: Rows,
    model: ModelIdentity,
) -> list[CardReading]:
    """The readings that measured scores leave, and those that they add.

    A number that holds is right as it is stated, and one whose measured score is not what a
    reading says is meant has another reason.

    Args:
        readings: What was said before.
        numbers: The numbers, checked as far as they could be.
        rows: The published numbers of one run, by row and column.
        model: The model.
    """
    checked = {number.statement: number for number in numbers}
    kept = []
    for reading in readings:
        now = tuple(checked[number.statement] for number in reading.numbers)
        weighed_reading = _weighed(replace(reading, numbers=now))
        if weighed_reading is not None:
            kept.append(weighed_reading)
    told = {
        statement
        for each in kept
        if each.is_fault and each.certainty != "possible"
        for statement in each.statements
    }
    for row in card_rows(numbers):
        kept += _of_measured(row, told, rows_of_score(rows, row.score), model)
    return kept


def _weighed(reading: CardReading) -> CardReading | None:
    """A reading beside the measured scores of its numbers; None if they refute it."""
    judged = [number for number in reading.numbers if number.verdict is not None]
    if not judged or reading.about == "average":
        return reading
    holding = [number for number in judged if number.holds]
    if reading.about == "owner":
        if 2 * len(holding) >= len(judged):
            # These are the scores of this model, whoever prints them.
            return replace(reading, is_own=True)
        return replace(reading, is_measured=True)
    if reading.about == "mean":
        return None if holding else reading
    number, meant = reading.numbers[0], Published(reading.meant)
    if number.verdict is None:
        return reading
    is_met = number.measured is not None and round(
        abs(number.measured - meant.points), 9
    ) <= max(TOLERANCES.match, meant.half_unit)
    if not is_met:
        return None
    if number.holds and reading.about != "scale":
        return None
    if reading.how == ANOTHER_DIGIT:  # which says how they differ, and not why
        return replace(reading, is_measured=True)
    fits = max(reading.evidence.fits, 2)
    evidence = Evidence(kind="digits", fits=fits, columns=fits)
    return replace(reading, evidence=evidence, is_measured=True)


def _of_measured(
    row: CardRow, told: set[Statement], rows: Rows, model: ModelIdentity
) -> list[CardReading]:
    """The readings of numbers that differ, which were not told before."""
    differing = {
        column: number
        for column, number in row.numbers.items()
        if number.differs and number.statement not in told
    }
    if not differing:
        return []
    holding = sum(number.holds for number in row.numbers.values())
    readings = []
    for number in differing.values():
        stated, measured = number.reading.value, f"{number.measured:.4f}"
        how = fault_of_digits(stated, measured)
        if how in FAULTS_OF_DIGITS:
            reading = CardReading(
                about="digits",
                numbers=(number,),
                evidence=Evidence(kind="digits", fits=holding, columns=holding + 1),
                meant=measured,
                how=how,
                is_measured=True,
            )
            readings.append(reading)
    found = {number.statement for reading in readings for number in reading.numbers}
    rest = {
        column: number.reading.value
        for column, number in differing.items()
        if number.statement not in found
    }
    if rest:
        given = figures_of(PastedRow(row.label, rest))
        for reading in _owner_of_rest(row, given, rows, model, own={}):
            readings.append(replace(reading, is_measured=True))
            rest = {}
    values = {
        column: number.reading.value
        for column, number in row.numbers.items()
        if number.verdict is not None
    }
    if rest:
        others = [column for column in values if column not in rest]
        readings += _means(row, figures_of(PastedRow(row.label, values)), others)
    return readings
