"""A plan as text for a terminal.

It says what can run here, how much work is left, and how to get what is missing.
`harness plan` prints all of it, and `harness reproduce` a short form of ten lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import shorten

from harness.core.files import sized
from harness.core.terminal import INDENT, duration, text_table, wrapped
from harness.evaluation.plan import EncoderPlan, MissingAsset, Plan

PLAN_HEADER = ("encoder", "cells", "cached", "to encode", "time")
UNKNOWN = "unknown"
DEFAULT_WIDTH = 80  # columns of text that goes into no terminal
MOST_ENCODERS = 4  # of those that a short plan names
# The beginnings of commands that take several names: one such command gets several assets.
COMMANDS_FOR_SEVERAL = ("harness fetch ", "harness train family ", "pip install ")


# The short form


def short_plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan in ten lines at most, and its notes.

    How many cells can run, the encoders with most sentences to encode, and the commands
    that get what is missing. Each line fits into `width` columns; None is 80.
    """
    width = DEFAULT_WIDTH if width is None else width
    lines = wrapped(_cells_that_can_run(plan), width).splitlines()
    runnable = _runnable_encoders(plan)
    runnable.sort(key=lambda encoder: encoder.to_encode or 0, reverse=True)
    for encoder in runnable[:MOST_ENCODERS]:
        lines.append(shorten(_work_of(encoder), width, placeholder=" …"))
    unnamed = len(runnable) - MOST_ENCODERS
    if unnamed > 0:
        lines.append(f"and {_counted(unnamed, 'encoder')} more: harness plan shows all")
    if plan.missing:
        one_line_and_a_half = 3 * width // 2
        missing = shorten(
            _missing_in_short(plan.missing),
            one_line_and_a_half,
            placeholder=" … (harness plan)",
        )
        lines += wrapped(missing, width).splitlines()
    lines += _notes(plan, width)
    return "\n".join(lines)


def _work_of(encoder: EncoderPlan) -> str:
    """As in `minilm: 8 cells, 31,848 sentences to encode, about 40 s`."""
    cells = f"{encoder.name}: {_counted(encoder.cells, 'cell')}"
    if encoder.to_train:
        return f"{cells}, to be trained"
    sentences = UNKNOWN if encoder.to_encode is None else f"{encoder.to_encode:,}"
    text = f"{cells}, {sentences} sentences to encode"
    if encoder.seconds is not None:
        text += f", about {duration(encoder.seconds)}"
    return text


def _missing_in_short(missing: Mapping[str, MissingAsset]) -> str:
    """How many assets are missing, their size, and the commands that get several."""
    names_by_command: dict[str, dict[str, None]] = {}
    for asset in missing.values():
        command = _command_for_several(asset.get)
        if command is not None:
            names = names_by_command.setdefault(command, {})
            names[asset.get.removeprefix(command)] = None
    commands = [
        f"{command}{' '.join(names)}" for command, names in names_by_command.items()
    ]
    get = "; ".join(commands) if commands else "harness plan names them"
    return (
        f"missing: {_counted(len(missing), 'asset')}, {_known_size(missing)} "
        f"as far as known: {get}"
    )


# The whole plan


def plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan for `width` columns; None is 80.

    A table of encoders, how many cells can run, the work that is left, and the commands
    that get what is missing.
    """
    width = DEFAULT_WIDTH if width is None else width
    rows = [_row(encoder) for encoder in _runnable_encoders(plan)]
    lines = [
        text_table(rows, PLAN_HEADER, width),
        "",
        wrapped(_cells_that_can_run(plan), width),
    ]
    lines += _notes(plan, width)
    lines += _missing_assets(plan.missing, width)
    return "\n".join(lines)


def _row(encoder: EncoderPlan) -> tuple[str, ...]:
    """A row of the table, with the columns of PLAN_HEADER."""
    cached = f"{encoder.cached:,} of {encoder.sentences:,}"
    to_encode, seconds = encoder.to_encode, encoder.seconds
    return (
        encoder.name,
        str(encoder.cells),
        "to be trained" if encoder.to_train else cached,
        UNKNOWN if to_encode is None else f"{to_encode:,}",
        UNKNOWN if seconds is None else duration(seconds),
    )


# Parts of both


def _runnable_encoders(plan: Plan) -> list[EncoderPlan]:
    """The encoders that lack no file."""
    return [encoder for encoder in plan.encoders if encoder.missing is None]


def _notes(plan: Plan, width: int) -> list[str]:
    notes = [encoder.note for encoder in plan.encoders if encoder.note]
    return [wrapped(f"Note: {note}", width) for note in notes]


def _known_size(missing: Mapping[str, MissingAsset]) -> str:
    """The size of the missing assets together, as far as it is known."""
    return sized(sum(asset.bytes or 0 for asset in missing.values()))


def _cells_that_can_run(plan: Plan) -> str:
    """How many cells can run here, how many are measured, and the work that is left."""
    sentence = f"{plan.runnable} of {plan.cells} cells can run here"
    measured = sum(encoder.measured for encoder in plan.encoders)
    if measured:
        sentence += f", {measured} of them are measured already"
    if not plan.runnable:
        return f"{sentence}."
    return f"{sentence}; {_work_left(plan)}"


def _work_left(plan: Plan) -> str:
    """The time to encode, as far as it is known, and the work that is not timed."""
    runnable = _runnable_encoders(plan)
    untimed = sum(encoder.seconds is None for encoder in runnable)
    seconds = sum(encoder.seconds or 0.0 for encoder in runnable)
    times = []
    if seconds or not untimed:
        times.append(f"about {duration(seconds)}")
    if untimed:
        times.append(f"an unknown time for {_counted(untimed, 'encoder')}")
    text = f"encoding takes {' and '.join(times)}"
    counts = {
        "training": sum(encoder.to_train for encoder in runnable),
        "fit": sum(encoder.fits for encoder in runnable),
        "scoring": sum(encoder.scorings for encoder in runnable),
    }
    other_work = [_counted(count, noun) for noun, count in counts.items() if count]
    if other_work:
        text += f"; not timed are {', '.join(other_work)}"
    return f"{text}."


def _counted(count: int, noun: str) -> str:
    """`1 fit`, `2 fits`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _missing_assets(missing: Mapping[str, MissingAsset], width: int) -> Iterator[str]:
    """The commands that get missing assets, then the assets that are got by hand."""
    if not missing:
        return
    names_by_command: dict[str, dict[str, None]] = {}
    by_hand = []
    for name, asset in missing.items():
        command = _command_for_several(asset.get)
        if command is None:
            by_hand.append(f"{INDENT}{name}: {asset.get or asset.message}")
        else:
            names = names_by_command.setdefault(command, {})
            names[asset.get.removeprefix(command)] = None
    yield (f"\nasset missing ({len(missing)}, {_known_size(missing)} as far as known):")
    for command, names in names_by_command.items():
        line = wrapped(f"{INDENT}{command}{' '.join(names)}", width - 2)
        yield line.replace("\n", " \\\n")
    if by_hand:
        yield "by hand:"
        for line in by_hand:
            yield wrapped(line, width)


def _command_for_several(command: str) -> str | None:
    """The beginning of a command that takes several names; None for another command."""
    for beginning in COMMANDS_FOR_SEVERAL:
        if command.startswith(beginning):
            return beginning
    return None
