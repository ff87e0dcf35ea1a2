"""The text of `harness explain` on a published number, and the effects of other choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.terminal import counted, signed, text_table, wrapped
from harness.registry import Registry
from harness.report.sentences import (
    command_to_measure,
    coverage_note,
    evidence_in_words,
    standing_in_words,
    trap_link,
)
from harness.results.effects import Effect, other_choices
from harness.results.explain import Explanation
from harness.results.index import MISSING
from harness.results.owners import Owner
from harness.results.protocols import Protocol
from harness.results.standings import Standing
from harness.results.traps import Trap

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
    of_score, of_task = {"metric", "aggregation"}, {"text", "split"}
    (of_score if protocol.has_similarity else of_task).add("scored_by")
    if changed_names & of_task:
        task = _nearest_task(protocol, registry)
        options.append(f"-t {task}" if task else "no task here")
    if changed_names & of_score:
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
        ", ".join(map(str, effect.traps)) or MISSING,
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


EFFECT_HEAD = (
    "change",
    "moves the score by",
    "measured at",
    "on all rows",
    "set by",
    "trap",
)
EFFECTS_SHOWN = 10


def render_explanation(
    explanation: Explanation,
    registry: Registry,
    traps: Sequence[Trap] = (),
    width: int | None = None,
    *,
    standings: Sequence[Standing] = (),
    every_effect: bool = False,
) -> str:
    """The published number, what it needs and what was measured, then what each choice does to it.

    Args:
        explanation: What is explained.
        registry: Methods and tasks by name.
        traps: All traps, in the order of their numbers, which begin with 1.
        width: The width of the terminal, in characters; None: unlimited.
        standings: What other published numbers say of it.
        every_effect: Whether all effects are shown, and not the first ten.
    """
    number = explanation.reproduction.number
    lines = [
        f"{number.id}: {number.row.name}, {number.column.label}, published {number.value}",
        f"source: {number.source}",
    ]
    lines += [f"note: {note}" for note in number.notes]
    if number.why_not:
        lines.append(f"{number.why_not.state}: {number.why_not.explanation}")
    else:
        lines += _lines_on_protocol(explanation)
    lines += [standing_in_words(standing) for standing in standings]
    if not number.why_not:
        lines += _lines_on_score(explanation, registry)
    parts = ["\n".join(wrapped(line, width) for line in lines)]
    if explanation.protocol is None:
        return parts[0]
    shown = explanation.effects[: None if every_effect else EFFECTS_SHOWN]
    title = "What each other choice was measured to do"
    if shown:
        rows = [_effect_row(effect, registry) for effect in shown]
        parts.append(f"{title}:\n\n{text_table(rows, EFFECT_HEAD, width)}")
    else:
        parts.append(f"{title}: none was measured")
    if len(explanation.effects) > len(shown):
        parts.append(f"{len(explanation.effects) - len(shown)} more: --all")
    # The traps that the trap_number is known for, and those that show one of the effects.
    numbers = {place for place, trap in enumerate(traps, 1) if trap.applies_to(number)}
    numbers.update(trap_number for effect in shown for trap_number in effect.traps)
    if numbers:
        trap_lines = ["Traps that apply:"]
        for trap_number in sorted(numbers):
            title = traps[trap_number - 1].title
            trap_lines.append(
                f"  {trap_number}. {title}: {trap_link(trap_number, traps)}"
            )
        parts.append("\n".join(trap_lines))
    return "\n\n".join(parts)


def _lines_on_protocol(explanation: Explanation) -> list[str]:
    """The method that reproduces a number, and its protocol with the evidence for it."""
    number, protocol = explanation.reproduction.number, explanation.protocol
    lines = [f"needs: {number.method} on {', '.join(number.tasks)}"]
    evidence = evidence_in_words(number, explanation.confirmed_by)
    if evidence:
        lines.append(f"evidence: {evidence}")
    if protocol is not None:
        score = f"{protocol.score} {protocol.aggregation}".rstrip()
        lines.append(f"protocol: {protocol.text} text, split {protocol.split}, {score}")
    return lines


def _lines_on_score(explanation: Explanation, registry: Registry) -> list[str]:
    """What was measured, or the command that measures it; the nearest rows that were measured."""
    reproduction = explanation.reproduction
    difference = reproduction.verdict.difference
    if reproduction.measured is None or difference is None:
        command = command_to_measure(reproduction.number, registry)
        lines = [f"measured: {reproduction.state}", f"run: {command}"]
    else:
        verdict = f"{signed(difference, 4)}, {reproduction.state}"
        lines = [f"measured: {reproduction.measured:.4f} ({verdict})"]
        if reproduction.coverage is not None:
            column = reproduction.number.column.label
            note = coverage_note({column: reproduction.coverage})
            lines += [f"word vectors: {note}"] if note else []
    if explanation.protocol is not None:
        for row, score in explanation.nearest.items():
            differences = other_choices(explanation.protocol, row)
            words = choices_in_words(differences) or "this protocol"
            lines.append(
                f"nearest row measured: {row.encoder} with {words}: {score:.2f}"
            )
    return lines


# Whose numbers

OWNERS_SHOWN = 8


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
