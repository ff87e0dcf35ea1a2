"""Whose numbers these are, in words: the answer of `harness explain --mine` without a row.

The first line of a row names the published row that has its figures, or says that none
has. Misprints, the average and what else holds follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from harness.conclusions.numbers import COLUMNS_OF_A_MODEL
from harness.conclusions.owners import NEAR, Origin, Owner
from harness.conclusions.wrong_figures import WrongFigure
from harness.core.terminal import counted

OTHERS_SHOWN = 3  # rows that print the same figures


def origins_in_words(origins: Sequence[Origin], *, verbose: bool = False) -> list[str]:
    """A paragraph for each of a reader's rows, and one on the protocols of several."""
    lines = []
    for origin in origins:
        lines += _origin_in_words(origin, verbose=verbose, is_one=len(origins) == 1)
    if len(origins) > 1:
        lines += _mixed_protocols(origins)
    return lines


def _origin_in_words(origin: Origin, *, verbose: bool, is_one: bool) -> list[str]:
    """The source of one row, its misprints, its average, and the other rows that have it."""
    label = origin.row.label if not is_one else ""
    prefix = f"{label}: " if label else ""
    owners, count = origin.owners, len(origin.figures)
    lines = []
    if count == 1:
        lines.append(prefix + _hint(origin))
    elif not owners:
        lines.append(f"{prefix}No published row has these figures.")
        if origin.nearest:
            nearest = [f"{row_id} ({gap:.2f} off)" for row_id, gap in origin.nearest]
            lines.append(
                f"  Name the row that they are for; the nearest: {', '.join(nearest)}."
            )
    else:
        owner = owners[0]
        share = f"{owner.found} of {count} figures are"
        whose = f"those of {row_in_words(owner)}"
        if origin.is_hint:
            least = COLUMNS_OF_A_MODEL
            whose += f"; fewer than {least} equal figures are a hint, and no proof"
        if owner.near:
            whose += f"; {', '.join(owner.near)} to rounding"
        lines.append(f"{prefix}{share} {whose}.")
        if owner.moved:
            moves = [f"{column} has {other}'s" for column, other in owner.moved]
            lines.append(f"  They stand in other columns: {', '.join(moves)}.")
        lines += [f"  {wrong_figure_in_words(each)}" for each in owner.wrong]
        if origin.rest is not None:
            lines.append(
                f"  Mixed: {', '.join(origin.rest.equal)} are those of "
                f"{row_in_words(origin.rest)}{_protocol_of_the_rest(origin)}."
            )
    lines += [f"  {line}" for line in average_in_words(origin)]
    if origin.row.is_assumed:
        columns = ", ".join(origin.row.values)
        lines.append(f"  The columns have no names; taken as {columns}.")
    others = [owner for owner in owners[1:] if owner.found == owners[0].found]
    if others and count > 1:
        models = {(each.first.protocol.encoder, each.first.start) for each in others}
        models.add((owners[0].first.protocol.encoder, owners[0].first.start))
        what = "The same in" if len(models) == 1 else "Ambiguous, since also in"
        listed = others if verbose else others[:OTHERS_SHOWN]
        rows = ", ".join(other.first.row_id for other in listed)
        hidden = len(others) - len(listed)
        more = f" and {counted(hidden, 'more row')}" if hidden else ""
        lines.append(f"  {what} {rows}{more}.")
    return lines


def row_in_words(owner: Owner) -> str:
    """`simcse.t5/simcse-bert-base-unsup, SimCSE-BERT-base (simcse-unsup-bert-base.cls)`."""
    first = owner.first
    method = f" ({first.method})" if first.method else ""
    return f"{first.row_id}, {first.row.label}{method}"


def _hint(origin: Origin) -> str:
    """What one figure tells: a row that may be chance, and how many numbers are near it."""
    [(column, figure)] = origin.figures.items()
    value = f"{column} {figure.given.value}"
    near = f"{counted(origin.near, 'published number')} of it within {NEAR:g} points"
    ask = f"give {COLUMNS_OF_A_MODEL} columns or more"
    if not origin.owners:
        return f"No published row has {value}; there are {near}: {ask}."
    rows = ", ".join(owner.first.row_id for owner in origin.owners[:OTHERS_SHOWN])
    hidden = len(origin.owners) - OTHERS_SHOWN
    more = f" and {counted(hidden, 'more row')}" if hidden > 0 else ""
    return (
        f"One figure is a hint, and names no owner: {value} is also printed in {rows}{more}, "
        f"and there are {near}; {ask}."
    )


def wrong_figure_in_words(wrong: WrongFigure) -> str:
    """`sts14: 47.38 here, 74.38 there: two digits are exchanged.`"""
    number = wrong.printed
    if number is None:
        return f"{wrong.column}: {wrong.given.given.value} here, no such column there."
    how = f": {wrong.how}" if wrong.how else ""
    given = wrong.given.given.value
    return f"{number.column.id}: {given} here, {number.shown} there{how}."


def average_in_words(origin: Origin) -> list[str]:
    """A sentence on an average that is no mean of its columns, and what would mend it."""
    fault = origin.average
    if fault is None:
        return []
    line = (
        f"{fault.column}: {fault.average:.2f} is not the mean of the columns here, "
        f"{fault.mean:.2f}"
    )
    if origin.mended is not None:
        column, number = origin.mended
        line += f"; it would be with {column} {number:.2f}"
    return [f"{line}."]


def _protocol_of_the_rest(origin: Origin) -> str:
    """The choices in which the second row of a mixed one differs from the first."""
    if origin.rest is None:
        return ""
    changes = origin.owners[0].first.protocol.changes(origin.rest.first.protocol)
    words = [f"{name} {value}" for name, value in changes.items()]
    return f", under {', '.join(words)}" if words else ""


def _mixed_protocols(origins: Iterable[Origin]) -> list[str]:
    """Which rows are under which of several protocols, and which have no known source."""
    lines = []
    by_protocol: dict[str, list[str]] = {}
    without_source = []
    for place, origin in enumerate(origins, start=1):
        label = origin.row.label or f"row {place}"
        if origin.is_hint:
            without_source.append(label)
            continue
        first = origin.owners[0].first
        words = " ".join(filter(None, (first.metric, first.aggregation)))
        by_protocol.setdefault(words, []).append(label)
    if len(by_protocol) > 1:
        groups = [
            f"{', '.join(labels)} under {words}"
            for words, labels in by_protocol.items()
        ]
        lines.append(f"Rows of different protocols: {'; '.join(groups)}.")
    if without_source:
        lines.append(f"Without a known source: {', '.join(without_source)}.")
    return lines


def origin_facts(origin: Origin) -> dict[str, Any]:
    """The source of one row, for `--json`."""
    fault = origin.average
    return {
        "label": origin.row.label,
        "is_hint": origin.is_hint,
        "owners": [
            {
                "row": owner.first.row_id,
                "method": owner.first.method,
                "equal": list(owner.equal),
                "to_rounding": list(owner.near),
                "misfits": list(owner.misfits),
                "wrong": {each.column: each.how for each in owner.wrong},
                "moved": dict(owner.moved),
            }
            for owner in origin.owners
        ],
        "average": None
        if fault is None
        else {"given": fault.average, "mean": fault.mean},
    }
