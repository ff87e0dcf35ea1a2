"""The text of `harness explain` on a published number, and the effects of other choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.conclusions.effects import Effect, other_choices
from harness.conclusions.explain import Explanation
from harness.conclusions.folder import Conclusions
from harness.core.terminal import counted, signed, text_table, wrapped
from harness.registry import Registry
from harness.report.sentences import (
    command_to_measure,
    coverage_note,
    evidence_in_words,
    standing_in_words,
)
from harness.report.table import rendered
from harness.results.index import MISSING
from harness.results.protocols import Protocol

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
    lowest, highest = signed(min(effect.on_rows)), signed(max(effect.on_rows))
    effect_range = lowest if lowest == highest else f"{lowest} to {highest}"
    return [
        choices_in_words(effect.changes),
        ", ".join(effects),
        choices_in_words(effect.differences) or "this row",
        f"{effect_range} ({counted(len(effect.on_rows), 'row')})",
        command_options(effect, registry),
        ", ".join(map(str, effect.traps)) or MISSING,
    ]


def effect_facts(effect: Effect, registry: Registry) -> dict[str, Any]:
    """An effect as `harness explain --json` prints it."""
    return {
        "changes": effect.changes,
        "effects": effect.effects,
        "at": effect.differences,
        "low": min(effect.on_rows),
        "high": max(effect.on_rows),
        "rows": len(effect.on_rows),
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
    folder: Conclusions,
    width: int | None = None,
    *,
    every_effect: bool = False,
) -> str:
    """The published number, what it needs and what was measured, then what each choice does to it.

    Args:
        explanation: What is explained.
        folder: The results; traps are told by their numbers in it, which begin with 1.
        width: The width of the terminal, in characters; None: unlimited.
        every_effect: Whether all effects are shown, and not the first ten.
    """
    reproduction, protocol = explanation.reproduction, explanation.protocol
    number, registry = reproduction.number, folder.registry
    coverage = {}
    if reproduction.coverage is not None:
        coverage[number.column.label] = reproduction.coverage
    nearest = {}
    if protocol is not None:
        for row in explanation.nearest:
            nearest[row] = choices_in_words(other_choices(protocol, row))
    shown = explanation.effects[: None if every_effect else EFFECTS_SHOWN]
    rows = [_effect_row(effect, registry) for effect in shown]
    # The traps that the number is known for, and those that show one of the effects.
    in_effects = {place for effect in shown for place in effect.traps}
    traps = {
        place: trap.title
        for place, trap in enumerate(folder.traps, start=1)
        if place in in_effects or trap.applies_to(number)
    }
    text = rendered(
        "explanation.txt",
        explanation=explanation,
        reproduction=reproduction,
        number=number,
        protocol=protocol,
        difference=reproduction.verdict.difference,
        evidence=evidence_in_words(number, explanation.confirmed_by),
        standings=map(standing_in_words, folder.standings.get(number.id, ())),
        command=command_to_measure(number, registry),
        coverage=coverage_note(coverage),
        copies=[str(origin) for origin in reproduction.unpinned if origin.is_copy],
        nearest=nearest,
        effects=text_table(rows, EFFECT_HEAD, width) if rows else "",
        hidden=len(explanation.effects) - len(shown),
        traps=traps,
        signed=signed,
    )
    return "\n".join(wrapped(line, width) for line in text.splitlines())
