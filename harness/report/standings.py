"""The standings of published numbers in words, and the answer to whose numbers a reader has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.results.owners import Owner
from harness.results.standings import Standing, StandingKind

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


# Whose numbers


def owners_in_words(owners: Sequence[Owner], figures: int) -> list[str]:
    """The rows that print a reader's numbers, the ones that print most first.

    Args:
        owners: The rows.
        figures: How many numbers the reader gave.
    """
    if not owners:
        return ["No published row has these numbers."]
    models = set()  # of the rows that print as many numbers as the first
    for owner in owners:
        if len(owner.equal) == len(owners[0].equal):
            models.add((owner.first.protocol.encoder, owner.first.start))
    lines = []
    if len(models) > 1:
        lines.append("Ambiguous: rows of several models have these numbers.")
    for owner in owners[:OWNERS_SHOWN]:
        cell = owner.first
        method = f" ({cell.method})" if cell.method else ""
        columns = f", but not {', '.join(owner.misfits)}" if owner.misfits else ""
        count = f"{len(owner.equal)} of {figures}"
        lines.append(f"{count}: {cell.row.name}{method}, {cell.row_id}{columns}")
    hidden = len(owners) - OWNERS_SHOWN
    if hidden > 0:
        lines.append(f"{hidden} more rows have as many of them or fewer.")
    return lines
