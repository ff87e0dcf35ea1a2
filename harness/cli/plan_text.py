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
MOST_ENCODERS = 4  # that a short plan names
# The beginnings of commands that take several names, so that one gets several assets.
COMMANDS_FOR_SEVERAL = ("harness fetch ", "harness train family ", "pip install ")


# The short form


def short_plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan in ten lines at most, and its notes.

    How many cells can run, the encoders with most sentences to encode, and the commands
    that get what is missing. Each line fits into `width` columns; None is 80.
    """
    width = DEFAULT_WIDTH if width is None else width
    lines = wrapped(_cells_that_can_run(plan), width).splitlines()
    encoders = _runnable_encoders(plan)
    encoders.sort(key=_sentences_to_encode, reverse=True)
    for encoder in encoders[:MOST_ENCODERS]:
        lines.append(shorten(_work_of(encoder), width, placeholder=" …"))
    unnamed_count = len(encoders) - MOST_ENCODERS
    if unnamed_count > 0:
        counted_encoders = _counted(unnamed_count, "encoder")
        lines.append(f"and {counted_encoders} more: harness plan shows all")
    if plan.missing:
        one_line_and_a_half = 3 * width // 2
        missing_assets = shorten(
            _missing_in_short(plan.missing),
            one_line_and_a_half,
            placeholder=" … (harness plan)",
        )
        lines += wrapped(missing_assets, width).splitlines()
    lines += _notes(plan, width)
    return "\n".join(lines)


def _sentences_to_encode(encoder: EncoderPlan) -> int:
    """The sentences that an encoder has to encode; 0 where their number is unknown."""
    return 0 if encoder.to_encode is None else encoder.to_encode


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
    commands = _commands_for_several(missing)
    remedy = "; ".join(commands) if commands else "harness plan names them"
    return (
        f"missing: {_counted(len(missing), 'asset')}, {_known_size(missing)} "
        f"as far as known: {remedy}"
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
    cached_sentences = f"{encoder.cached:,} of {encoder.sentences:,}"
    if encoder.to_train:
        cached_sentences = "to be trained"
    sentences_to_encode = time = UNKNOWN
    if encoder.to_encode is not None:
        sentences_to_encode = f"{encoder.to_encode:,}"
    if encoder.seconds is not None:
        time = duration(encoder.seconds)
    return (
        encoder.name,
        str(encoder.cells),
        cached_sentences,
        sentences_to_encode,
        time,
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
    measured_count = sum(encoder.measured for encoder in plan.encoders)
    if measured_count:
        sentence += f", {measured_count} of them are measured already"
    if not plan.runnable:
        return f"{sentence}."
    return f"{sentence}; {_work_left(plan)}"


def _work_left(plan: Plan) -> str:
    """The time to encode, as far as it is known, and the work that is not timed."""
    encoders = _runnable_encoders(plan)
    known_seconds = [
        encoder.seconds for encoder in encoders if encoder.seconds is not None
    ]
    seconds = sum(known_seconds)
    untimed_count = len(encoders) - len(known_seconds)
    times = []
    if seconds or not untimed_count:
        times.append(f"about {duration(seconds)}")
    if untimed_count:
        times.append(f"an unknown time for {_counted(untimed_count, 'encoder')}")
    text = f"encoding takes {' and '.join(times)}"
    counts = {
        "training": sum(encoder.to_train for encoder in encoders),
        "fit": sum(encoder.fits for encoder in encoders),
        "scoring": sum(encoder.scorings for encoder in encoders),
    }
    untimed_work = [_counted(count, noun) for noun, count in counts.items() if count]
    if untimed_work:
        text += f"; not timed are {', '.join(untimed_work)}"
    return f"{text}."


def _counted(count: int, noun: str) -> str:
    """`1 fit`, `2 fits`."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def _missing_assets(missing: Mapping[str, MissingAsset], width: int) -> Iterator[str]:
    """The commands that get missing assets, then the assets that are got by hand."""
    if not missing:
        return
    yield f"\nasset missing ({len(missing)}, {_known_size(missing)} as far as known):"
    room_for_backslash = 2  # columns at the end of a line that is continued
    for command in _commands_for_several(missing):
        lines = wrapped(f"{INDENT}{command}", width - room_for_backslash)
        yield lines.replace("\n", " \\\n")
    steps_by_hand = []
    for name, asset in missing.items():
        if _command_for_several(asset.get) is None:
            step = asset.get if asset.get else asset.message
            steps_by_hand.append(f"{INDENT}{name}: {step}")
    if steps_by_hand:
        yield "by hand:"
        for step in steps_by_hand:
            yield wrapped(step, width)


def _commands_for_several(missing: Mapping[str, MissingAsset]) -> list[str]:
    """The commands that get missing assets, one for all that it can get at once."""
    names_by_command: dict[str, dict[str, None]] = {}  # each name once, in order
    for asset in missing.values():
        command = _command_for_several(asset.get)
        if command is not None:
            names = names_by_command.setdefault(command, {})
            names[asset.get.removeprefix(command)] = None
    commands = []
    for command, names in names_by_command.items():
        commands.append(f"{command}{' '.join(names)}")
    return commands


def _command_for_several(command: str) -> str | None:
    """The beginning of a command that takes several names; None for another command."""
    for beginning in COMMANDS_FOR_SEVERAL:
        if command.startswith(beginning):
            return beginning
    return None
