"""A plan in words and tables, for people."""

from __future__ import annotations

from harness.core.files import sized
from harness.core.terminal import duration, table, wrapped
from harness.evaluation.plan import DataPlan, EncoderPlan, Plan, seconds_of_passes

TOLD = 5  # of what is missing, in a terminal


def render(plan: Plan, width: int | None = None) -> str:
    """The plan for people.

    In a terminal, which has a width, sources, bytes and encoders that are missing are left out, and
    of what is missing the first are told: `harness list assets` has all.
    """
    head = ["encoder", "source", "cells", "weights", "sentences cached", "to encode"]
    head += ["to fit and score", "on disk"]
    rows = [_row(e) for e in plan.encoders if width is None or not e.missing]
    if width is not None:
        head = ["encoder", "cells", "weights", "cached", "to encode", "to fit"]
        rows = [[row[0], *row[2:7]] for row in rows]
    data = [[d.name, d.where or "asset missing", _size(d)] for d in plan.data]
    lines = [
        table(rows, head, width),
        "",
        table(data, ["data", "lie in", "size"], width),
        "",
    ]
    told = [
        f"{plan.runnable} of {plan.cells} cells can run here{_measured(plan)}; {_times(plan)} "
        f"The cache takes {sized(plan.cache_bytes)} (harness cache ls).",
        *(f"Note: {encoder.note}." for encoder in plan.encoders if encoder.note),
    ]
    if plan.missing:
        missing = [f"  {line}" for line in plan.missing.values()]
        if width is not None and len(missing) > TOLD:
            missing[TOLD:] = [f"  and {len(missing) - TOLD} more: harness list assets"]
        told += ["", "asset missing:", *missing]
    return "\n".join([*lines, *(wrapped(line, width) for line in told)])


def _measured(plan: Plan) -> str:
    count = sum(encoder.measured for encoder in plan.encoders)
    return f", {count} of them are measured already" if count else ""


def _times(plan: Plan) -> str:
    """The time that is left, what takes it, and how much of that is a guess."""
    by = f" for {plan.workers} processes" if plan.workers > 1 else ""
    known = {part: took for part, took in plan.parts.items() if took is not None}
    parts = [f"{duration(took)} of {part}" for part, took in known.items() if took >= 1]
    of = f": {', '.join(parts)}" if parts else ""
    guessed = sum(encoder.guessed for encoder in plan.encoders)
    guess = f" No record tells how long {guessed} of the cells take." if guessed else ""
    if plan.unknown_corpora:
        names = ", ".join(plan.unknown_corpora)
        of += f", without passes over corpora: how many sentences {names} has is not known"
    return f"about {duration(plan.seconds)} of work is left{by}{of}.{guess}"


def _row(encoder: EncoderPlan) -> list[str]:
    """An encoder's row: a missing one has no sentences, time or bytes."""
    place = "to be trained" if encoder.to_train else encoder.where
    row = [encoder.name, encoder.source, str(encoder.cells)]
    if encoder.missing:
        return [*row, "asset missing", "", "", "", ""]
    cached = f"{encoder.cached:,} of {encoder.sentences:,}"
    encoding = duration(encoder.seconds + seconds_of_passes(encoder))
    encoding += " + not known" if None in encoder.passes.values() else ""
    fitting = duration(encoder.training_seconds + encoder.fit_seconds)
    return [*row, place, cached, encoding, fitting, sized(encoder.cache_bytes)]


def _size(data: DataPlan) -> str:
    """Bytes, and of what is missing whether they can be fetched."""
    known = sized(data.bytes) if data.bytes else ""
    if data.where:
        return known
    return "to be put there by hand" if data.by_hand else f"to fetch: {known or 'size not stated'}"
