"""Protocols in words, as pages, citations and `harness explain` share them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.core.metrics import metrics
from harness.core.terminal import text_table, wrapped
from harness.core.types import Method, Task
from harness.registry import Registry
from harness.report.coverage import coverage_note
from harness.report.next_steps import command_of
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


def metric(name: str, similarity: str = "cosine") -> str:
    """A metric of a similarity in words; one that no record has keeps its name."""
    for kind in reversed([*metrics().values()]):  # those of plug-ins come last
        if name in kind.words:
            return kind.words[name].format(similarity)
    return name


def aggregation(word: str | None) -> str:
    """An aggregation in words; empty for a single set."""
    return AGGREGATION_WORDS.get(word or "", word or "")


def task_in_words(task: Task) -> str:
    """`sts-b, test, raw text`."""
    return f"{task.name}, {'+'.join(task.scored)}, {TEXT_FORMS[task.text]}"


def protocol_of(cell: PublishedCell, registry: Registry) -> tuple[str, ...]:
    """A published cell's tasks with split and text form, metric, and aggregation, in words."""
    known = [registry.tasks[name] for name in cell.tasks if name in registry.tasks]
    tasks = "; ".join(map(task_in_words, known))
    level = cell.column.aggregation or cell.row.aggregation or cell.table.aggregation
    similarity = "gold" if cell.row.model_free else "cosine"
    return tasks, metric(cell.metric, similarity), aggregation(level)


def trained_on(row: Row, method: Method | None) -> str:
    """What a published row's encoder was trained on: its method says it, or else the row."""
    if method is not None:
        return method.encoder.trained_on
    if row.trained_on or row.supervision == "n/a":
        return row.trained_on or "texts that are not stated"
    if row.supervision == "none":
        return f"nothing beyond {row.backbone}"
    return f"{row.supervision}, labelled"


def fitted_on(row: Row, method: Method | None) -> str:
    """What a published row's post-processing was fitted on; empty without any."""
    if method is not None:
        return method.fit_on or ""
    return "" if row.fit == "none" else row.fit


def evidence_of(cell: PublishedCell, confirmed_by: Reference | None) -> str:
    """How a cell's protocol is known, and the program whose scores equal ours; may be empty."""
    words = EVIDENCE_WORDS[cell.evidence] if cell.evidence else ""
    if cell.evidence != "confirmed":
        return words
    if confirmed_by is None:
        return f"{words} by no reference that was measured here"
    whose = (
        "the authors' code"
        if confirmed_by.is_of_authors_of(cell.table)
        else "another program"
    )
    return f"{words} against {whose}, {confirmed_by.program}"


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
        f"measured as {other}, of the same weights"
        for other in reproduction.measured_as
    ]
    return notes


def chosen(fields: Mapping[str, str]) -> str:
    """Choices of a protocol with their values: `pooling mean, fit on none`."""
    choices = [
        f"{name.replace('_', ' ')} {value or 'none'}" for name, value in fields.items()
    ]
    return ", ".join(choices)


def choice_cells(choice: OtherChoice) -> list[str]:
    """What changes, by how much on each encoder, at which row, on all rows, what sets it, traps."""
    effects = [
        f"{encoder} {signed(effect)}" for encoder, effect in choice.effects.items()
    ]
    row = (
        "sum of two effects"
        if choice.is_sum
        else chosen(choice.differences) or "this row"
    )
    ends = " to ".join(dict.fromkeys([signed(choice.lowest), signed(choice.highest)]))
    spread = f"{ends} ({number_of(choice.rows, 'row')})"
    traps = ", ".join(map(str, choice.traps)) or "–"
    return [
        chosen(choice.changes),
        ", ".join(effects),
        row,
        spread,
        options_of(choice.names),
        traps,
    ]


def options_of(names: ChangedNames) -> str:
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
        "made_by": options_of(choice.names),
        "traps": choice.traps,
        "is_sum": choice.is_sum,
    }


def nearest_in_words(wanted: Protocol, nearest: Scores) -> Iterator[str]:
    """Each row with what differs from the wanted one: `minilm with fit on target: 79.70`."""
    for row, score in nearest.items():
        other = chosen(other_choices(wanted, row)) or "this protocol"
        yield f"{row.encoder} with {other}: {score:.2f}"


def signed(number: float) -> str:
    """With its sign and two decimals; no -0.00."""
    return f"{round(number, 2) + 0.0:+.2f}"


def number_of(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


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
    cell, protocol = explanation.reproduction.cell, explanation.protocol
    lines = [
        f"{cell.id}: {cell.row.name}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
        *(f"note: {note}" for note in cell.notes),
    ]
    if cell.why_not:
        return [*lines, f"{cell.why_not.state}: {cell.why_not.explanation}"]
    lines.append(f"needs: {cell.method} on {cell.task or ', '.join(cell.average_of)}")
    evidence = evidence_of(cell, explanation.confirmed_by)
    if evidence:
        lines.append(f"evidence: {evidence}")
    if protocol is not None:
        scored = (
            f"split {protocol.split}, {protocol.score} {protocol.aggregation}".rstrip()
        )
        lines.append(f"protocol: {protocol.text} text, {scored}")
    return lines


def _lines_on_score(explanation: Explanation, registry: Registry) -> list[str]:
    """What was measured, or the command that measures it; the nearest rows that were measured."""
    reproduction, protocol = explanation.reproduction, explanation.protocol
    lines = []
    if reproduction.measured is None:
        lines.append(f"measured: {reproduction.state}")
        lines.append(f"run: {command_of(reproduction.cell, registry)}")
    else:
        verdict = f"{reproduction.verdict.difference:+.4f}, {reproduction.state}"
        lines.append(f"measured: {reproduction.measured:.4f} ({verdict})")
        if reproduction.coverage is not None:
            note = coverage_note(
                {reproduction.cell.column.label: reproduction.coverage}
            )
            if note:
                lines.append(f"word vectors: {note}")
    if protocol is not None:
        nearest = nearest_in_words(protocol, explanation.nearest)
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
    """The choices of a protocol by their effects, those near a gap, and the traps behind them."""
    gap, choices = explanation.gap, explanation.choices[:MOST_CHOICES]
    tables = {"What each other choice was measured to do": choices}
    if gap is not None:
        side = "above" if gap > 0 else "below"
        yield f"Your number is {abs(gap):.2f} points {side} the published one."
        move = f"that were measured to move a score by about {signed(gap)}"
        tables = {
            f"Single choices {move}": choices,
            f"Pairs of choices {move}": explanation.pairs,
        }
    cell = explanation.reproduction.cell
    applying = {
        number for number, trap in enumerate(traps, start=1) if trap.applies_to(cell)
    }
    for title, shown in tables.items():
        rows = [choice_cells(choice) for choice in shown]
        yield (
            f"{title}:\n\n{text_table(rows, CHOICE_HEAD, width)}"
            if rows
            else f"{title}: none"
        )
        for choice in shown:
            applying.update(choice.traps)
    if applying:
        lines = ["Traps that apply:"]
        for number in sorted(applying):
            lines.append(
                f"  {number}. {traps[number - 1].title}: {trap_link(number, traps)}"
            )
        yield "\n".join(lines)


def trap_link(number: int, traps: Sequence[Trap]) -> str:
    """Where the page of traps shows one: `results/tables/protocols.md#7-sick-r-has-two-sizes`."""
    words = re.sub(r"[^\w -]", "", f"{number} {traps[number - 1].title.lower()}")
    return f"results/tables/protocols.md#{words.replace(' ', '-')}"
