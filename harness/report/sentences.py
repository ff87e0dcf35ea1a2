"""Sentences that pages, citations and the terminal share: protocols, choices, explanations.

The words for a published number's protocol come first, then formats of numbers, then the
choices of a protocol and their effects, and at the end the text of `harness explain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.metrics import metrics
from harness.core.terminal import text_table, wrapped
from harness.core.types import Method, Task
from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.next_steps import command_to_measure
from harness.report.table import MISSING_NUMBER
from harness.results.choices import ChangedNames, OtherChoice, Scores, other_choices
from harness.results.conformance import Reference
from harness.results.explain import Explanation
from harness.results.origins import Origin
from harness.results.protocols import Protocol
from harness.results.published import PublishedCell, Row
from harness.results.questions import Trap
from harness.results.reproduction import Reproduction

AGGREGATION_WORDS: Mapping[str, str] = {
    "all": "subsets concatenated (all)",
    "mean": "mean over the subsets (mean)",
    "wmean": "subsets weighted by their pairs (wmean)",
}
TEXT_FORMS = {"raw": "raw text", "senteval": "SentEval text"}
# How the protocol of a row is known, by its `evidence`.
EVIDENCE_WORDS: Mapping[str, str] = {
    "confirmed": "confirmed",
    "code": "read from code",
    "paper": "stated in the paper",
    "inferred": "inferred",
}


# The protocol of a published number


def metric_in_words(name: str, similarity: str = "cosine") -> str:
    """A metric in words, of a similarity function; its name if no metric explains it."""
    # Plug-ins are registered last and may explain a name in another way.
    for metric in reversed([*metrics().values()]):
        if name in metric.words:
            return metric.words[name].format(similarity)
    return name


def aggregation_in_words(name: str | None) -> str:
    """An aggregation in words; empty for a single set."""
    if name is None:
        return ""
    return AGGREGATION_WORDS.get(name, name)


def task_in_words(task: Task) -> str:
    """`sts-b, test, raw text`."""
    return f"{task.name}, {'+'.join(task.scored)}, {TEXT_FORMS[task.text]}"


@dataclass(frozen=True, kw_only=True)
class ProtocolInWords:
    """A published cell's tasks with split and text form, its metric and its aggregation."""

    tasks: str
    metric: str
    aggregation: str


def protocol_in_words(cell: PublishedCell, registry: Registry) -> ProtocolInWords:
    """The protocol of a published cell; tasks that are not registered are left out."""
    tasks = [registry.tasks[name] for name in cell.tasks if name in registry.tasks]
    similarity = "gold" if cell.row.model_free else "cosine"
    aggregation = (
        cell.column.aggregation or cell.row.aggregation or cell.table.aggregation
    )
    return ProtocolInWords(
        tasks="; ".join(task_in_words(task) for task in tasks),
        metric=metric_in_words(cell.metric, similarity),
        aggregation=aggregation_in_words(aggregation),
    )


def training_data_in_words(row: Row, method: Method | None) -> str:
    """What the encoder of a published row was trained on, by its method or else by the row."""
    if method is not None:
        return method.encoder.trained_on
    if row.trained_on:
        return row.trained_on
    if row.supervision == "n/a":
        return "texts that are not stated"
    if row.supervision == "none":
        return f"nothing beyond {row.backbone}"
    return f"{row.supervision}, labelled"


def fit_corpus_in_words(row: Row, method: Method | None) -> str:
    """What the post-processors of a published row were fitted on; empty without any."""
    if method is None:
        return "" if row.fit == "none" else row.fit
    return "" if method.fit_on is None else method.fit_on


def evidence_in_words(cell: PublishedCell, confirmed_by: Reference | None) -> str:
    """How the protocol of a cell is known; empty where nothing is.

    Args:
        cell: The published cell.
        confirmed_by: The program whose scores equal the scores measured here.
    """
    if not cell.evidence:
        return ""
    evidence = EVIDENCE_WORDS[cell.evidence]
    if cell.evidence != "confirmed":
        return evidence
    if confirmed_by is None:
        return f"{evidence} by no reference that was measured here"
    program = f"another program, {confirmed_by.program}"
    if confirmed_by.is_by_authors_of(cell.table):
        program = f"the authors' code, {confirmed_by.program}"
    return f"{evidence} against {program}"


def origin_in_words(origin: Origin) -> str:
    """Where an encoder or a corpus comes from: `princeton-nlp/simcse, unpinned`."""
    source = f"a copy by hand of {origin.source}" if origin.is_copy else origin.source
    return source if origin.is_pinned else f"{source}, unpinned"


def notes_on_origin(reproduction: Reproduction) -> list[str]:
    """A note for an unpinned encoder, an unpinned fit corpus, and each other id of the method."""
    notes = [
        f"{origin.name}: {origin_in_words(origin)}" for origin in reproduction.unpinned
    ]
    notes += [
        f"measured as {method}, of the same weights"
        for method in reproduction.measured_as
    ]
    return notes


# Numbers


def signed(number: float) -> str:
    """With its sign and two decimals; no -0.00."""
    return f"{round(number, 2) + 0.0:+.2f}"


def number_of(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


# The choices of a protocol


def choices_in_words(choices: Mapping[str, str]) -> str:
    """Choices of a protocol with their values: `pooling mean, fit on none`."""
    words = [
        f"{name.replace('_', ' ')} {value or 'none'}" for name, value in choices.items()
    ]
    return ", ".join(words)


def choice_cells(choice: OtherChoice) -> list[str]:
    """A choice as a row of the table whose head is `CHOICE_HEAD`."""
    effects = [
        f"{encoder} {signed(effect)}" for encoder, effect in choice.effects.items()
    ]
    row = choices_in_words(choice.differences) or "this row"
    if choice.is_sum:
        row = "sum of two effects"
    lowest, highest = signed(choice.lowest), signed(choice.highest)
    effect_range = lowest if lowest == highest else f"{lowest} to {highest}"
    traps = ", ".join(map(str, choice.traps)) or MISSING_NUMBER
    return [
        choices_in_words(choice.changes),
        ", ".join(effects),
        row,
        f"{effect_range} ({number_of(choice.rows, 'row')})",
        command_options(choice.names),
        traps,
    ]


def command_options(names: ChangedNames) -> str:
    """The options of the command line that set a choice: `-m 'minilm.cls', -t sts-b`."""
    options = []
    if names.method is not None:
        options.append(f"-m '{names.method}'")
    if names.task is not None:
        options.append(f"-t {names.task}")
    if names.score is not None:
        metric_name, aggregation_name = names.score
        options.append(f"score {metric_name} {aggregation_name}".rstrip())
    return ", ".join(options)


def choice_facts(choice: OtherChoice) -> dict[str, Any]:
    """A choice as `harness explain --json` prints it."""
    return {
        "changes": choice.changes,
        "effects": choice.effects,
        "at": choice.differences,
        "low": choice.lowest,
        "high": choice.highest,
        "rows": choice.rows,
        "made_by": command_options(choice.names),
        "traps": choice.traps,
        "is_sum": choice.is_sum,
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
) -> str:
    """The published cell, what it needs and what was measured, then what each choice does to it."""
    lines = _lines_on_cell(explanation)
    if not explanation.reproduction.cell.why_not:
        lines += _lines_on_score(explanation, registry)
    text = "\n".join(wrapped(line, width) for line in lines)
    if explanation.protocol is None:
        return text
    return "\n\n".join([text, *choice_tables(explanation, traps, width)])


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
    if reproduction.measured is None:
        lines.append(f"measured: {reproduction.state}")
        lines.append(f"run: {command_to_measure(reproduction.cell, registry)}")
    else:
        verdict = f"{reproduction.verdict.difference:+.4f}, {reproduction.state}"
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


CHOICE_HEAD = (
    "change",
    "moves the score by",
    "measured at",
    "on all rows",
    "set by",
    "trap",
)
MOST_CHOICES = 25  # that an explanation shows


def choice_tables(
    explanation: Explanation, traps: Sequence[Trap], width: int | None
) -> Iterator[str]:
    """The choices of a protocol by their effects, and the traps that apply.

    For a reader's number the choices are those whose effect is about the gap between it
    and the published number, alone and in pairs.

    Args:
        explanation: What is explained.
        traps: All traps, in the order of their numbers, which begin with 1.
        width: The width of the terminal, in characters; None: unlimited.
    """
    gap = explanation.gap
    choices = explanation.choices[:MOST_CHOICES]
    tables: dict[str, Sequence[OtherChoice]] = {}
    if gap is None:
        tables["What each other choice was measured to do"] = choices
    else:
        side = "above" if gap > 0 else "below"
        yield f"Your number is {abs(gap):.2f} points {side} the published one."
        effect = f"that were measured to move a score by about {signed(gap)}"
        tables[f"Single choices {effect}"] = choices
        tables[f"Pairs of choices {effect}"] = explanation.pairs
    for title, table_choices in tables.items():
        yield _choice_table(title, table_choices, width)

    numbers_of_traps: set[int] = set()
    for number, trap in enumerate(traps, start=1):
        if trap.applies_to(explanation.reproduction.cell):
            numbers_of_traps.add(number)
    for table_choices in tables.values():
        for choice in table_choices:
            numbers_of_traps.update(choice.traps)
    if numbers_of_traps:
        lines = ["Traps that apply:"]
        for number in sorted(numbers_of_traps):
            title = traps[number - 1].title
            lines.append(f"  {number}. {title}: {trap_link(number, traps)}")
        yield "\n".join(lines)


def _choice_table(title: str, choices: Sequence[OtherChoice], width: int | None) -> str:
    if not choices:
        return f"{title}: none"
    rows = [choice_cells(choice) for choice in choices]
    return f"{title}:\n\n{text_table(rows, CHOICE_HEAD, width)}"


def trap_link(number: int, traps: Sequence[Trap]) -> str:
    """Where the page of traps shows one: `results/tables/protocols.md#7-sick-r-has-two-sizes`."""
    heading = f"{number} {traps[number - 1].title.lower()}"
    words = re.sub(r"[^\w -]", "", heading)
    return f"results/tables/protocols.md#{words.replace(' ', '-')}"
