"""What measured scores leave of the readings of a card's numbers, and what they add.

Readings are made by arithmetic (`harness.conclusions.card_arithmetic`), before anything is
encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.conclusions.card_arithmetic import (
    ANOTHER_DIGIT,
    FAULTS_OF_DIGITS,
    CardReading,
    means_of_others,
    owner_of_rest,
)
from harness.conclusions.card_rows import (
    CardRow,
    ModelIdentity,
    Rows,
    card_rows,
    rows_of_score,
)
from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import CardNumber
from harness.conclusions.owners import figures_of
from harness.conclusions.pasted import PastedRow
from harness.conclusions.readings import Evidence
from harness.conclusions.wrong_figures import fault_of_digits
from harness.results.verdict import TOLERANCES, Published


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
        for reading in owner_of_rest(row, given, rows, model, own={}):
            readings.append(replace(reading, is_measured=True))
            rest = {}
    values = {
        column: number.reading.value
        for column, number in row.numbers.items()
        if number.verdict is not None
    }
    if rest:
        others = [column for column in values if column not in rest]
        readings += means_of_others(
            row, figures_of(PastedRow(row.label, values)), others
        )
    return readings
