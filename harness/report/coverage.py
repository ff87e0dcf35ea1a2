"""How many tokens have a word vector, in the words of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.results.index import Results, methods_by_encoder
from harness.results.reproduction import LOW_COVERAGE, coverage


def percentage(share: float) -> str:
    """A share as people read it; only the whole is 100 %."""
    return "over 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def coverage_note(shares: Mapping[str, float]) -> str:
    """What a table says of the coverage of its tasks.

    Args:
        shares: The share of the tokens of each task that have a vector, by the task's
            heading.

    Returns:
        The lowest share, with its heading, and the highest; empty where every token has
        a vector.
    """
    if not shares:
        return ""
    lowest = min(shares, key=shares.__getitem__)
    highest = max(shares, key=shares.__getitem__)
    if shares[lowest] == 1:
        return ""
    low, high = percentage(shares[lowest]), percentage(shares[highest])
    span = low if low == high else f"{low} ({lowest}) to {high}"
    note = f"{span} of the tokens have a vector"
    if shares[lowest] < LOW_COVERAGE:
        note += ": a score is of what is left of the sentences"
    return note


def coverage_notes(
    results: Results, methods: Sequence[str], tasks: Mapping[str, str]
) -> str:
    """What a table of methods says of the coverage of each encoder with word vectors.

    Args:
        results: The records.
        methods: The methods of the table.
        tasks: The tasks of the table by their headings.
    """
    notes = []
    for encoder, encoder_methods in methods_by_encoder(methods).items():
        shares: dict[str, float] = {}
        for heading, task in tasks.items():
            records = [
                record
                for method in encoder_methods
                for record in results.records(method, task)
            ]
            share = coverage(records)
            if share is not None:
                shares[heading] = share
        note = coverage_note(shares)
        if note:
            notes.append(f"`{encoder}`: {note}")
    return "; ".join(notes) + "." if notes else ""
