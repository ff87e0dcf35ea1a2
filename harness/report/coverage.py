"""The coverage of word vectors, as tables say it: how many tokens have a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.types import Record
from harness.results.index import Results, methods_by_encoder
from harness.results.reproduction import LOW_COVERAGE, coverage


def percentage(share: float) -> str:
    """A share in whole percent; only a share of 1 is 100 %."""
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"


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
    heading_of_lowest = min(shares, key=shares.__getitem__)
    lowest, highest = shares[heading_of_lowest], max(shares.values())
    if lowest == 1:
        return ""
    share_range = percentage(lowest)
    if percentage(lowest) != percentage(highest):
        share_range += f" ({heading_of_lowest}) to {percentage(highest)}"
    note = f"{share_range} of the tokens have a vector"
    if lowest < LOW_COVERAGE:
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
            records: list[Record] = []
            for method in encoder_methods:
                records += results.records(method, task)
            share = coverage(records)
            if share is not None:
                shares[heading] = share
        note = coverage_note(shares)
        if note:
            notes.append(f"`{encoder}`: {note}")
    return f"{'; '.join(notes)}." if notes else ""
