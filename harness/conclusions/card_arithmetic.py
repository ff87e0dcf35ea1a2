"""What the numbers of a card tell by arithmetic, before anything is encoded.

What a person does who copies numbers leaves a trace in the row of them:

1. one is in another scale than those beside it, by a factor of 100;
2. one has another sign;
3. they are those of a published row, of another model or of this one;
4. two digits of one are exchanged, where the others are those of a row;
5. the average is not the mean of the numbers beside it, or a number is their mean.

Scale and sign are mended before a row is looked for among the published ones, so that
several faults of a card are each found. `harness.conclusions.readings.certainty` says of
every reading how sure it is; `harness.conclusions.card_scores` says it anew when scores
were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from harness.conclusions.card_rows import (
    CardRow,
    ModelIdentity,
    Rows,
    card_rows,
    column_of_task,
    rows_of_score,
)
from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import CardNumber
from harness.conclusions.numbers import COLUMNS_OF_A_MODEL, Figure
from harness.conclusions.owners import (
    AVERAGE,
    STS_COLUMNS,
    Figures,
    Origin,
    Owner,
    origin_of,
)
from harness.conclusions.pasted import PastedRow
from harness.conclusions.readings import Evidence, certainty
from harness.conclusions.wrong_figures import (
    AverageFault,
    average_fault,
    mended_column,
    wrong_figures,
)
from harness.results.published import PublishedNumber
from harness.results.verdict import TOLERANCES

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
FEWEST_AVERAGED = 3  # numbers beside an average with which it is compared
FEWEST_OF_A_MEAN = 4  # other numbers whose mean a number may be
DECIMALS_OF_A_MEAN = 3  # of a point, with which few numbers are a mean by chance


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
        readings += owner_of_rest(row, rest, rows, model, own)
    printed = rows[owner.first.row_id] if owner is not None else own
    readings += _averages(row, figures, printed)
    known = owner.equal if owner is not None else ()
    for reading in means_of_others(row, figures, known):
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


def owner_of_rest(
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


def means_of_others(
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
            if gaps.get(column_of_task(number.task), 0.0) > TOLERANCES.match:
                found[number.statement] = owner.first.row_id
    return found
