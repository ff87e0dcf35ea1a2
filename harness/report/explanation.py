"""The text of `harness explain` on a published number, and the effects of other choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.core.terminal import counted, text_table, wrapped
from harness.registry import Registry
from harness.report.next_steps import command_to_measure
from harness.report.sentences import coverage_note, evidence_in_words, signed, trap_link
from harness.report.standings import standing_in_words
from harness.report.table import MISSING_NUMBER
from harness.results.effects import Effect, Scores, other_choices
from harness.results.explain import Explanation
from harness.results.protocols import Protocol
from harness.results.questions import Trap
from harness.results.standings import Standing

# The choices of a protocol


def choices_in_words(choices: Mapping[str, str]) -> str:
    """Choices of a protocol with their values: `pooling mean, fit on none`."""
    words = [
        f"{name.replace('_', ' ')} {value or 'none'}" for name, value in choices.items()
    ]
    return ", ".join(words)


def command_options(effect: Effect, registry: Registry) -> str:
    """The options of the command line that set a choice: `-m 'minilm.cls', -t sts-b`."""
    protocol, changed_names = effect.protocol, effect.changes.keys()
    options = []
    if changed_names & {"max_length", "pooling", "post", "fit_on"}:
        options.append(f"-m '{protocol.method}'")
    # A similarity function other than the cosine is among the scores of a record; a
    # regression is another task.
    is_score = protocol.has_similarity and "scored_by" in changed_names
    if changed_names & {"text", "split"} or (
        "scored_by" in changed_names and not is_score
    ):
        task = _nearest_task(protocol, registry)
        options.append(f"-t {task}" if task else "no task here")
    if changed_names & {"metric", "aggregation"} or is_score:
        options.append(f"score {protocol.score} {protocol.aggregation}".rstrip())
    return ", ".join(options)


def _nearest_task(protocol: Protocol, registry: Registry) -> str:
    """The task with the protocol's text form, split and scoring; empty if there is none."""
    for task in registry.tasks.values():
        candidate = Protocol.from_score(protocol.method, task, protocol.metric)
        if candidate is None or candidate.task != protocol.task:
            continue
        if not protocol.changes(candidate).keys() & {"text", "split", "scored_by"}:
            return task.name
    return ""


def _effect_row(effect: Effect, registry: Registry) -> list[str]:
    """An effect as a row of the table whose head is `EFFECT_HEAD`."""
    effects = [
        f"{encoder} {signed(points)}" for encoder, points in effect.effects.items()
    ]
    lowest, highest = signed(effect.lowest), signed(effect.highest)
    effect_range = lowest if lowest == highest else f"{lowest} to {highest}"
    return [
        choices_in_words(effect.changes),
        ", ".join(effects),
        choices_in_words(effect.differences) or "this row",
        f"{effect_range} ({counted(effect.rows, 'row')})",
        command_options(effect, registry),
        ", ".join(map(str, effect.traps)) or MISSING_NUMBER,
    ]


def effect_facts(effect: Effect, registry: Registry) -> dict[str, Any]:
    """An effect as `harness explain --json` prints it."""
    return {
        "changes": effect.changes,
        "effects": effect.effects,
        "at": effect.differences,
        "low": effect.lowest,
        "high": effect.highest,
        "rows": effect.rows,
        "made_by": command_options(effect, registry),
        "traps": effect.traps,
    }


def nearest_in_words(wanted: Protocol, nearest: Scores) -> Iterator[str]:
    """Each row with what differs from the wanted one: `minilm with fit on target: 79.70`."""
    for row, score in nearest.items():
        differences = choices_in_words(other_choices(wanted, row)) or "this protocol"
        yield f"{row.encoder} with {differences}: {score:.2f}"


# Explanations in a terminal


def render_explanation(
    explanation: Explanation,
    registry: Registry,
    traps: Sequence[Trap] = (),
    width: int | None = None,
    *,
    standings: Sequence[Standing] = (),
    every_effect: bool = False,
) -> str:
    """The published cell, what it needs and what was measured, then what each choice does to it.

    Args:
        explanation: What is explained.
        registry: Methods and tasks by name.
        standings: What other published numbers say of it.
        traps: All traps, in the order of their numbers, which begin with 1.
        width: The width of the terminal, in characters; None: unlimited.
        every_effect: Whether all effects are shown, and not the first ten.
    """
    lines = _lines_on_cell(explanation)
    lines += [standing_in_words(standing) for standing in standings]
    if not explanation.reproduction.cell.why_not:
        lines += _lines_on_score(explanation, registry)
    parts = ["\n".join(wrapped(line, width) for line in lines)]
    if explanation.protocol is not None:
        shown = None if every_effect else EFFECTS_SHOWN
        effects = explanation.effects[:shown]
        parts.append(_effect_table(effects, registry, width))
        hidden = len(explanation.effects) - len(effects)
        if hidden:
            parts.append(f"{hidden} more: --all")
        trap_lines = _trap_lines(explanation, effects, traps)
        if trap_lines:
            parts.append("\n".join(trap_lines))
    return "\n\n".join(parts)


def _lines_on_cell(explanation: Explanation) -> list[str]:
    """Lines on a published number: its source, its notes, and the method that reproduces it."""
    cell = explanation.reproduction.cell
    protocol = explanation.protocol
    lines = [
        f"{cell.id}: {cell.row.name}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
    ]
    lines += [f"note: {note}" for note in cell.notes]
    if cell.why_not:
        return [*lines, f"{cell.why_not.state}: {cell.why_not.explanation}"]
    tasks = cell.task or ", ".join(cell.average_of)
    lines.append(f"needs: {cell.method} on {tasks}")
    evidence = evidence_in_words(cell, explanation.confirmed_by)
    if evidence:
        lines.append(f"evidence: {evidence}")
    if protocol is not None:
        score = f"{protocol.score} {protocol.aggregation}".rstrip()
        text_and_split = f"{protocol.text} text, split {protocol.split}"
        lines.append(f"protocol: {text_and_split}, {score}")
    return lines


def _lines_on_score(explanation: Explanation, registry: Registry) -> list[str]:
    """What was measured, or the command that measures it; the nearest rows that were measured."""
    reproduction = explanation.reproduction
    lines = []
    difference = reproduction.verdict.difference
    if reproduction.measured is None or difference is None:
        lines.append(f"measured: {reproduction.state}")
        lines.append(f"run: {command_to_measure(reproduction.cell, registry)}")
    else:
        verdict = f"{signed(difference, 4)}, {reproduction.state}"
        lines.append(f"measured: {reproduction.measured:.4f} ({verdict})")
        if reproduction.coverage is not None:
            column = reproduction.cell.column.label
            note = coverage_note({column: reproduction.coverage})
            if note:
                lines.append(f"word vectors: {note}")
    if explanation.protocol is not None:
        nearest = nearest_in_words(explanation.protocol, explanation.nearest)
        lines += [f"nearest row measured: {row}" for row in nearest]
    return lines


EFFECT_HEAD = (
    "change",
    "moves the score by",
    "measured at",
    "on all rows",
    "set by",
    "trap",
)
EFFECTS_SHOWN = 10


def _effect_table(
    effects: Sequence[Effect], registry: Registry, width: int | None
) -> str:
    """The effects of other choices as a table."""
    title = "What each other choice was measured to do"
    if not effects:
        return f"{title}: none was measured"
    rows = [_effect_row(effect, registry) for effect in effects]
    return f"{title}:\n\n{text_table(rows, EFFECT_HEAD, width)}"


def _trap_lines(
    explanation: Explanation, effects: Sequence[Effect], traps: Sequence[Trap]
) -> list[str]:
    """The traps that the number is known for, and those that show one of the effects."""
    numbers_of_traps: set[int] = set()
    for number, trap in enumerate(traps, start=1):
        if trap.applies_to(explanation.reproduction.cell):
            numbers_of_traps.add(number)
    for effect in effects:
        numbers_of_traps.update(effect.traps)
    if not numbers_of_traps:
        return []
    lines = ["Traps that apply:"]
    for number in sorted(numbers_of_traps):
        title = traps[number - 1].title
        lines.append(f"  {number}. {title}: {trap_link(number, traps)}")
    return lines
