"""A plan as text for a terminal: what is here, what is left to do, how to get what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import shorten

from harness.core.files import sized
from harness.core.terminal import INDENT, duration, text_table, wrapped
from harness.evaluation.plan import EncoderPlan, MissingAsset, Plan

PLAN_HEADER = ("encoder", "cells", "cached", "to encode", "time")
UNKNOWN = "unknown"
MOST_ENCODERS = 4  # that a short plan names
# Commands that take several names, so that one line gets several assets.
COMMANDS_FOR_SEVERAL = ("harness fetch ", "harness train family ", "pip install ")


def short_plan_text(plan: Plan, width: int | None = None) -> str:
    """At most ten lines: how many cells can run, the most work, and what gets what is missing."""
    width = 80 if width is None else width
    lines = wrapped(_cells_that_can_run(plan), width).splitlines()
    runnable = [encoder for encoder in plan.encoders if encoder.missing is None]
    runnable.sort(key=lambda encoder: -(encoder.to_encode or 0))
    for encoder in runnable[:MOST_ENCODERS]:
        lines.append(shorten(_work_of(encoder), width, placeholder=" …"))
    others = len(runnable) - MOST_ENCODERS
    if others > 0:
        lines.append(f"and {_counted(others, 'encoder')} more: harness plan shows all")
    if plan.missing:
        text = shorten(
            _missing_in_short(plan.missing),
            3 * width // 2,
            placeholder=" … (harness plan)",
        )
        lines += wrapped(text, width).splitlines()
    notes = [
        wrapped(f"Note: {encoder.note}", width)
        for encoder in plan.encoders
        if encoder.note
    ]
    return "\n".join([*lines, *notes])


def _work_of(encoder: EncoderPlan) -> str:
    """`minilm: 8 cells, 31,848 sentences to encode, about 40 s`."""
    if encoder.to_train:
        return f"{encoder.name}: {_counted(encoder.cells, 'cell')}, to be trained"
    sentences = UNKNOWN if encoder.to_encode is None else f"{encoder.to_encode:,}"
    text = f"{encoder.name}: {_counted(encoder.cells, 'cell')}, {sentences} sentences to encode"
    return (
        text
        if encoder.seconds is None
        else f"{text}, about {duration(encoder.seconds)}"
    )


def _missing_in_short(missing: Mapping[str, MissingAsset]) -> str:
    """How many assets are missing, their size, and the first command that gets several."""
    size = sized(sum(asset.bytes or 0 for asset in missing.values()))
    names_by_command: dict[str, dict[str, None]] = {}
    for asset in missing.values():
        command = _command_for_several(asset.get)
        if command is not None:
            names_by_command.setdefault(command, {})[
                asset.get.removeprefix(command)
            ] = None
    commands = [
        f"{command}{' '.join(names)}" for command, names in names_by_command.items()
    ]
    get = f": {'; '.join(commands)}" if commands else ": harness plan names them"
    return f"missing: {_counted(len(missing), 'asset')}, {size} as far as known{get}"


def plan_text(plan: Plan, width: int | None = None) -> str:
    """A table of encoders, how many cells can run, the work that is left, and missing assets."""
    width = 80 if width is None else width
    rows = [_row(encoder) for encoder in plan.encoders if encoder.missing is None]
    lines = [
        text_table(rows, PLAN_HEADER, width),
        "",
        wrapped(_cells_that_can_run(plan), width),
    ]
    lines += [
        wrapped(f"Note: {encoder.note}", width)
        for encoder in plan.encoders
        if encoder.note
    ]
    lines += _missing_assets(plan.missing, width)
    return "\n".join(lines)


def _row(encoder: EncoderPlan) -> tuple[str, ...]:
    cached = f"{encoder.cached:,} of {encoder.sentences:,}"
    to_encode, seconds = encoder.to_encode, encoder.seconds
    return (
        encoder.name,
        str(encoder.cells),
        "to be trained" if encoder.to_train else cached,
        UNKNOWN if to_encode is None else f"{to_encode:,}",
        UNKNOWN if seconds is None else duration(seconds),
    )


def _cells_that_can_run(plan: Plan) -> str:
    sentence = f"{plan.runnable} of {plan.cells} cells can run here"
    measured = sum(encoder.measured for encoder in plan.encoders)
    if measured:
        sentence += f", {measured} of them are measured already"
    if not plan.runnable:
        return f"{sentence}."
    return f"{sentence}; {_work_left(plan)}"


def _work_left(plan: Plan) -> str:
    """The time to encode, as far as it is known, and how much else there is to do."""
    runnable = [encoder for encoder in plan.encoders if encoder.missing is None]
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
    """Each command that downloads missing assets, then those that must be obtained manually."""
    if not missing:
        return
    names_by_command: dict[str, dict[str, None]] = {}
    manual = []
    for name, asset in missing.items():
        command = _command_for_several(asset.get)
        if command is None:
            manual.append(f"{INDENT}{name}: {asset.get or asset.message}")
        else:
            names = names_by_command.setdefault(command, {})
            names[asset.get.removeprefix(command)] = None
    size = sum(asset.bytes or 0 for asset in missing.values())
    yield f"\nasset missing ({len(missing)}, {sized(size)} as far as known):"
    for command, names in names_by_command.items():
        line = wrapped(f"{INDENT}{command}{' '.join(names)}", width - 2)
        yield line.replace("\n", " \\\n")
    if manual:
        yield "by hand:"
        for line in manual:
            yield wrapped(line, width)


def _command_for_several(command: str) -> str | None:
    """The beginning of a command that takes several names; None for any other."""
    for beginning in COMMANDS_FOR_SEVERAL:
        if command.startswith(beginning):
            return beginning
    return None
