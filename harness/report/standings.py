"""The standings of published numbers in words, and the answer to whose numbers a reader has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.results.owners import Owner
from harness.results.published import PublishedCell
from harness.results.standings import Standing, StandingKind, Standings

OWNERS_SHOWN = 8


def standing_in_words(standing: Standing) -> str:
    """`contradicted by bert-flow.t8/bert-nli-large: 77.26 (-0.54)`."""
    place = standing.other.row_id
    if standing.kind is StandingKind.CONFIRMED:
        return f"confirmed by {place}"
    if standing.kind is StandingKind.QUOTED:
        return f"quoted from {place}"
    if standing.kind is StandingKind.SAME_FIGURES:
        return f"same figures as {standing.other.row.name}, {place}"
    points, difference = standing.other.score, standing.difference
    return f"contradicted by {place}: {points:.2f} ({difference:+.2f})"


def standings_in_short(standings: Sequence[Standing]) -> str:
    """`confirmed by 2, contradicted by 1`; empty without any."""
    counts = Counter(standing.kind for standing in standings)
    words = {
        StandingKind.CONFIRMED: "confirmed by",
        StandingKind.CONTRADICTED: "contradicted by",
        StandingKind.QUOTED: "quoted from",
        StandingKind.SAME_FIGURES: "same figures as",
    }
    return ", ".join(
        f"{words[kind]} {counts[kind]}" for kind in StandingKind if counts[kind]
    )


def count_standings(standings: Standings) -> Counter[StandingKind]:
    """How many published numbers have a standing of each kind."""
    counts: Counter[StandingKind] = Counter()
    for standings_of_number in standings.values():
        counts.update({standing.kind for standing in standings_of_number})
    return counts


# Whose numbers


def owners_in_words(owners: Sequence[Owner], figures: int) -> list[str]:
    """The rows that print a reader's numbers, the ones that print most first.

    Args:
        owners: The rows.
        figures: How many numbers the reader gave.
    """
    if not owners:
        return ["No published row has these numbers."]
    lines = []
    if len({_model(owner.row.first) for owner in _best(owners)}) > 1:
        lines.append("Ambiguous: rows of several models have these numbers.")
    for owner in owners[:OWNERS_SHOWN]:
        cell = owner.row.first
        method = f" ({cell.method})" if cell.method else ""
        columns = f", but not {', '.join(owner.misfits)}" if owner.misfits else ""
        count = f"{len(owner.equal)} of {figures}"
        lines.append(f"{count}: {cell.row.name}{method}, {cell.row_id}{columns}")
    hidden = len(owners) - OWNERS_SHOWN
    if hidden > 0:
        lines.append(f"{hidden} more rows have as many of them or fewer.")
    return lines


def _best(owners: Sequence[Owner]) -> Iterable[Owner]:
    """The owners that print as many numbers as the first."""
    most = len(owners[0].equal)
    return (owner for owner in owners if len(owner.equal) == most)


def _model(number: PublishedCell) -> tuple[str, str]:
    """What tells the model of a row from others."""
    return number.protocol.encoder, number.start
