"""What arithmetic says of a card's numbers, in words and as JSON, a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.conclusions.card_arithmetic import CardReading
from harness.conclusions.cards import CardNumber
from harness.core.terminal import counted
from harness.report.owners import row_in_words

MOST_NAMES = 3  # of numbers or columns that a sentence names


def card_readings_in_words(readings: Sequence[CardReading]) -> list[str]:
    """A sentence for each reading, which ends with how sure it is."""
    return [f"{_sentence(reading)} [{reading.certainty}]." for reading in readings]


def _sentence(reading: CardReading) -> str:
    """One reading without the full stop."""
    about, first = reading.about, reading.numbers[0]
    subject = f"{name_of(first)} {shown_value(first)}"
    if about == "owner":
        return _whose(reading)
    if about == "scale":
        beside = f"the {counted(reading.beside, 'number')} beside it"
        if not reading.beside:
            return f"{subject} is too large by a factor of 100: {reading.meant} points"
        return (
            f"{subject} is in another scale than {beside}, by a factor of 100: "
            f"{reading.meant} points are meant"
        )
    if about == "sign":
        names = _listed([name_of(number) for number in reading.numbers])
        verb = "has" if len(reading.numbers) == 1 else "have"
        return (
            f"{names} {verb} a minus: a distance is taken negatively, so that the scores "
            f"of a model that works are positive ({reading.meant} for {shown_value(first)})"
        )
    if about == "digits":
        return f"{_places(reading)}: {reading.how}"
    if about == "mean":
        return (
            f"{subject} is the mean of {_listed(reading.of)}, and no score of its own"
        )
    fault = reading.fault
    beside = f"the {counted(reading.beside, 'number')} beside it"
    if fault is None:
        return f"{subject} is the mean of {beside}"
    sentence = f"{subject} is not the mean of {beside}, {fault.mean:.2f}"
    if reading.mended is not None:
        column, number = reading.mended
        sentence += f"; with {column} {number:.2f} it would be"
    return sentence


def _whose(reading: CardReading) -> str:
    """Whose numbers they are, and what is known of this model's own."""
    owner = reading.owner
    if owner is None:
        return ""
    count = len(reading.numbers)
    share = (
        f"{count} of {reading.beside} numbers are"
        if count < reading.beside
        else (f"All {count} numbers are")
    )
    moved = " in other columns" if owner.moved else ""
    row = row_in_words(owner)
    if reading.is_own:
        return f"{share} printed for this model in {row}{moved}, and are not its scores here"
    if reading.own_row:
        own = f"this model's own are those of {reading.own_row}"
        return f"{share} those of another model{moved}, {row}; {own}"
    if reading.is_measured:
        return f"{share} those of {row}{moved}, and not this model's scores here"
    return (
        f"{share} those of {row}{moved}, and this model's if it is a copy of that one"
    )


def _places(reading: CardReading) -> str:
    """The number as the card has it, and as a published row or a measurement has it."""
    first = reading.numbers[0]
    subject = f"{name_of(first)} {shown_value(first)}"
    if reading.owner is None:
        return f"{subject}, measured {reading.meant}"
    where = reading.owner.first.row_id
    measured = ", and measured," if reading.is_measured else ""
    return f"{subject}, {reading.meant} in {where}{measured}"


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many there are."""
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(distinct[:MOST_NAMES])
    more = len(distinct) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def name_of(number: CardNumber) -> str:
    """A number by its data set and metric: `STS12 cosine_spearman`."""
    statement = number.statement
    name = (statement.data_set or statement.data_set_id).removeprefix("MTEB ")
    return f"{name} {statement.metric}"


def shown_value(number: CardNumber) -> str:
    """The value as the card has it; a long one is cut to six decimals."""
    whole, point, decimals = number.statement.value.strip().partition(".")
    return f"{whole}{point}{decimals[:6]}"


def card_reading_facts(reading: CardReading) -> dict[str, Any]:
    """A reading as JSON."""
    owner = reading.owner
    return {
        "about": reading.about,
        "certainty": reading.certainty,
        "numbers": [name_of(number) for number in reading.numbers],
        "is_fault": reading.is_fault,
        "meant": reading.meant,
        "how": reading.how,
        "row": None if owner is None else owner.first.row_id,
        "is_own": reading.is_own,
        "is_measured": reading.is_measured,
        "sentence": f"{_sentence(reading)}.",
    }
