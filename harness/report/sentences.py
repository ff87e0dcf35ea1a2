"""Protocols in words, as pages, citations and `harness explain` share them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.metrics import metrics
from harness.core.terminal import text_table, wrapped
from harness.core.types import Method, Task
from harness.registry import Registry
from harness.results.explain import Explanation, Neighbour
from harness.results.published import PublishedCell, Row
from harness.results.reproduction import coverage_note

AGGREGATION_WORDS: Mapping[str, str] = {
    "all": "subsets concatenated (all)",
    "mean": "mean over the subsets (mean)",
    "wmean": "subsets weighted by their pairs (wmean)",
}
TEXTS = {"raw": "raw text", "senteval": "SentEval text"}
# How the protocol of a row is known, by its `evidence`.
EVIDENCE_WORDS: Mapping[str, str] = {
    "confirmed": "confirmed against the authors' code",
    "code": "read from code",
    "paper": "stated in the paper",
    "inferred": "inferred",
}


def metric(name: str, of: str = "cosine") -> str:
    """A metric in words, `of` a similarity; one that no record has keeps its name."""
    words = {key: text for kind in metrics().values() for key, text in kind.words.items()}
    return words.get(name, name).format(of)


def aggregation(word: str | None) -> str:
    """An aggregation in words; empty for a single set."""
    return AGGREGATION_WORDS.get(word or "", word or "")


def on(task: Task) -> str:
    """`sts-b, test, raw text`."""
    return f"{task.name}, {'+'.join(task.scored)}, {TEXTS[task.text]}"


def protocol_of(cell: PublishedCell, registry: Registry) -> tuple[str, ...]:
    """A published cell's tasks with split and text form, metric, and aggregation, in words."""
    tasks = "; ".join(on(registry.tasks[name]) for name in cell.tasks if name in registry.tasks)
    level = cell.column.aggregation or cell.row.aggregation or cell.table.aggregation
    of = "gold" if cell.row.model_free else "cosine"
    return tasks, metric(cell.metric, of), aggregation(level)


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


def evidence_of(cell: PublishedCell, confirmed_by: str | None) -> str:
    """How a cell's protocol is known, and the program whose scores ours equal; empty: it is not."""
    words = [EVIDENCE_WORDS[cell.evidence]] if cell.evidence else []
    if cell.evidence == "confirmed":
        words.append(confirmed_by or "by no reference that was measured here")
    return ", ".join(words)


def change(neighbour: Neighbour) -> str:
    """The fields that differ, with their values here."""
    return ", ".join(
        f"{name.replace('_', ' ')} {getattr(neighbour.protocol, name) or 'none'}"
        for name in neighbour.differs_in
    )


def signed(number: float) -> str:
    """With its sign and two decimals; no -0.00."""
    return f"{round(number, 2) + 0.0:+.2f}"


def number_of(count: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def render_explanation(explanation: Explanation, width: int | None = None) -> str:
    """The published cell, what it needs and what was measured, then its nearest neighbours."""
    cell, reproduction, wanted = explanation.cell, explanation.reproduction, explanation.wanted
    lines = [
        f"{cell.id}: {cell.row.name}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
        *(f"note: {note}" for note in cell.notes),
    ]
    if cell.why_not:
        lines.append(f"no method here reproduces it: {cell.why_not.explanation}")
        return "\n".join(wrapped(line, width) for line in lines)
    lines.append(f"needs: {cell.method} on {cell.task or ', '.join(cell.average_of)}")
    if evidence := evidence_of(cell, explanation.confirmed_by):
        lines.append(f"evidence: {evidence}")
    if wanted:
        scored = f"split {wanted.split}, {wanted.metric} {wanted.aggregation}".rstrip()
        lines.append(f"protocol: {wanted.text} text, {scored}")
    measured, difference = reproduction.measured, reproduction.verdict.difference
    if measured is None:
        lines += [f"measured: {reproduction.state}", f"run: {explanation.command}"]
    else:
        lines.append(f"measured: {measured:.4f} ({difference:+.4f}, {reproduction.state})")
        share = reproduction.coverage
        covered = "" if share is None else coverage_note({cell.column.label: share})
        lines += [f"word vectors: {covered}"] if covered else []
    neighbours = explanation.neighbours
    if not neighbours:
        lines.append("no neighbouring protocol was run")
    elif wanted and explanation.shown_on != wanted.encoder:
        lines.append(f"{wanted.encoder} was not run{_reference(explanation)}")
    text = "\n".join(wrapped(line, width) for line in lines)
    if not neighbours:
        return text
    rows = [[change(n), f"{n.value:.2f}", signed(n.difference)] for n in neighbours[:MOST]]
    table = text_table(rows, ["but with", "measured", "difference"], width)
    nearest = explanation.base or min(neighbours, key=lambda n: abs(n.difference))
    return (
        f"{text}\n\n{table}\n\n{number_of(len(neighbours), 'neighbouring protocol')}; nearest is "
        f"{nearest.value:.2f} ({signed(nearest.difference)})\n"
        f"  with {change(nearest)}: {nearest.command}"
    )


MOST = 25  # neighbours that an explanation shows


def _reference(explanation: Explanation) -> str:
    """What differences are taken against, where the encoder itself was not run."""
    base, shown_on = explanation.base, explanation.shown_on
    if base is None:
        return (
            f"; on {shown_on}, the same protocol gives {explanation.reference:.2f}, and each "
            "choice moves that"
        )
    return (
        ", nor this protocol on any other encoder; differences are from the nearest row that was "
        f"run: {shown_on} with {change(base)}, {base.value:.2f}"
    )
