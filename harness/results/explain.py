"""Why a number cannot be reproduced: every neighbouring protocol that was run, and the nearest.

A published number belongs to a protocol. Its neighbours share encoder and task and differ in
something that papers leave unsaid: aggregation, pooling layer, text form, post-processing, fit
corpus, split, maximum length, correlation. The more of them were tried, the likelier one is near
by chance, so their number is part of the answer. Where the encoder itself was never run, another
one shows how far each choice moves a score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from harness.core.ids import MethodId
from harness.core.types import Task
from harness.registry import Registry, known
from harness.results.index import Results
from harness.results.published import Cell, Table
from harness.results.reproduction import Judged, judge

AGGREGATIONS = ("all", "mean", "wmean")


@dataclass(frozen=True)
class Protocol:
    """Everything that one score depends on besides the weights."""

    encoder: str
    max_length: str
    pooling: str
    post: str
    fit_on: str
    task: str
    text: str
    split: str
    scored_by: str
    metric: str
    aggregation: str

    def differences(self, other: Protocol) -> tuple[str, ...]:
        """The names of the fields in which two protocols differ."""
        return tuple(
            f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)
        )


@dataclass(frozen=True)
class Neighbour:
    """A measured score under a protocol, what it differs in, and its distance to the number."""

    protocol: Protocol
    differs_in: tuple[str, ...]
    value: float
    difference: float | None
    command: str

    @property
    def steps(self) -> int:
        """In how many choices it differs; other calibration and other corpus are one."""
        return len(self.differs_in) - ("post" in self.differs_in and "fit_on" in self.differs_in)


@dataclass(frozen=True)
class Explanation:
    """What a published number needs, what was measured so, and what lies around it."""

    cell: Cell
    judged: Judged
    wanted: Protocol | None
    shown_on: str
    reference: float | None
    neighbours: tuple[Neighbour, ...]

    @property
    def nearest(self) -> Neighbour | None:
        """The neighbour whose score is nearest to the reference, if there is one to be near to."""
        known_ones = [n for n in self.neighbours if n.difference is not None]
        return min(known_ones, key=lambda n: abs(n.difference or 0.0), default=None)


def explain(
    name: str, tables: Sequence[Table], results: Results, registry: Registry
) -> Explanation:
    """Look around one published cell. Raises UsageError for an unknown cell."""
    cells = {cell.id: (table, cell) for table in tables for cell in table.cells()}
    table, cell = known("published cell", name, cells)
    judged = judge(table, results, registry)[cell.id]
    wanted = protocol_of(cell, registry)
    if wanted is None or cell.points is None:
        return Explanation(cell, judged, wanted, "", None, ())
    around = list(scores(results, registry, wanted))
    own = [(p, v, c) for p, v, c in around if p.encoder == wanted.encoder]
    if own:
        return _explanation(cell, judged, wanted, wanted, own, cell.points)
    encoders = Counter(p.encoder for p, _, _ in around)
    options = [_on(encoder, wanted, around) for encoder, _ in encoders.most_common()]
    if not options:
        return Explanation(cell, judged, wanted, "", None, ())
    # An encoder that was run under the very protocol shows differences; any other only values.
    there, found, reference = next((o for o in options if o[2] is not None), options[0])
    return _explanation(cell, judged, wanted, there, found, reference)


def _on(
    encoder: str, wanted: Protocol, around: Sequence[tuple[Protocol, float, str]]
) -> tuple[Protocol, list[tuple[Protocol, float, str]], float | None]:
    """The wanted protocol on another encoder, everything measured there, its score if there."""
    there = replace(wanted, encoder=encoder, max_length="")
    found = [(p, v, c) for p, v, c in around if p.encoder == encoder]
    return there, found, next((v for p, v, _ in found if p == there), None)


def _explanation(
    cell: Cell,
    judged: Judged,
    wanted: Protocol,
    there: Protocol,
    found: Sequence[tuple[Protocol, float, str]],
    reference: float | None,
) -> Explanation:
    """What was found around `there`, the wanted protocol on an encoder that was run."""
    neighbours = [
        Neighbour(
            protocol,
            there.differences(protocol),
            value,
            None if reference is None else value - reference,
            command,
        )
        for protocol, value, command in found
        if protocol != there
    ]
    neighbours.sort(key=lambda n: (n.steps, abs(n.difference or 0.0)))
    return Explanation(cell, judged, wanted, there.encoder, reference, tuple(neighbours))


def protocol_of(cell: Cell, registry: Registry) -> Protocol | None:
    """The protocol that a published cell names; None where it names none."""
    task = registry.tasks.get(cell.task or "")
    if cell.method is None or cell.row.model_free or task is None:
        return None
    return _protocol(cell.method, task, cell.metric, cell.aggregation or "")


def _protocol(method: str, task: Task, metric: str, aggregation: str) -> Protocol | None:
    parts = MethodId.parse(method)
    if parts is None:
        return None
    encoder, _, length = parts.encoder.partition(":")
    return Protocol(
        encoder=encoder,
        max_length=length,
        pooling=parts.pooling,
        post="".join(f"+{name}" for name in parts.post),
        fit_on=parts.fit_on or "",
        task=task.name.partition(".")[0],
        text=task.text,
        split="+".join(task.scored),
        scored_by="regression" if task.metric == "regression" else "cosine",
        metric=metric,
        aggregation=aggregation,
    )


def scores(
    results: Results, registry: Registry, wanted: Protocol
) -> Iterator[tuple[Protocol, float, str]]:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    correlations = ("spearman", "pearson")
    metrics = correlations if wanted.metric in correlations else (wanted.metric,)
    for method, name in results.by_cell:
        task = registry.tasks.get(name)
        if task is None or name.partition(".")[0] != wanted.task:
            continue
        for metric in metrics:
            single = len({*task_groups(results, method, name)}) <= 1
            every = ("",) if not wanted.aggregation else ("all",) if single else AGGREGATIONS
            for aggregation in every:
                path = (metric, aggregation) if aggregation else (metric,)
                found = results.value(method, name, *path).mean
                protocol = _protocol(method, task, metric, aggregation)
                if found is not None and protocol is not None:
                    yield protocol, found, f"harness run -m '{method}' -t {name}"


def task_groups(results: Results, method: str, task: str) -> Sequence[str]:
    """The subsets that a record scores apart."""
    scored: Any = results.records(method, task)[0].scores.get("spearman", {})
    return tuple(scored.get("groups", ()))


def render(found: Explanation, most: int = 25) -> str:
    """The explanation for people."""
    from tabulate import tabulate

    cell = found.cell
    lines = [
        f"{cell.id}: {cell.row.label}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
        *(f"note: {note}" for note in cell.notes),
    ]
    if cell.why_not:
        return "\n".join([*lines, f"no method here reproduces it: {cell.why_not}"])
    lines.append(f"needs: {cell.method} on {cell.task or ', '.join(cell.average_of)}")
    if found.wanted:
        lines.append(
            f"protocol: {found.wanted.text} text, split {found.wanted.split}, "
            f"{found.wanted.metric} {found.wanted.aggregation}".rstrip()
        )
    measured, difference = found.judged.measured, found.judged.verdict.difference
    if measured is None:
        lines += [f"measured: {found.judged.word}", f"run: harness run -m '{cell.method}'"]
        lines[-1] += f" -t {cell.task}" if cell.task else ""
    else:
        lines.append(f"measured: {measured:.4f} ({difference:+.4f}, {found.judged.word})")
    if not found.neighbours:
        return "\n".join([*lines, "no neighbouring protocol was run"])
    if found.wanted and found.shown_on != found.wanted.encoder:
        same = (
            "the nearest protocols that were run give"
            if found.reference is None
            else f"the same protocol gives {found.reference:.2f}, and each choice moves that"
        )
        lines.append(f"{found.wanted.encoder} was not run; on {found.shown_on}, {same}")
    rows = [[_change(n), f"{n.value:.2f}", _signed(n.difference)] for n in found.neighbours[:most]]
    head = ["but with", "measured", "difference"]
    lines += ["", tabulate(rows, headers=head, disable_numparse=True), ""]
    lines.append(f"{len(found.neighbours)} neighbouring protocols were tried")
    if nearest := found.nearest:
        lines[-1] += f"; nearest is {nearest.value:.2f} ({_signed(nearest.difference)})"
        lines.append(f"  with {_change(nearest)}: {nearest.command}")
    return "\n".join(lines)


def _signed(difference: float | None) -> str:
    return "" if difference is None else f"{difference:+.2f}"


def _change(neighbour: Neighbour) -> str:
    """The fields that differ, with their values here."""
    return ", ".join(
        f"{name.replace('_', ' ')} {getattr(neighbour.protocol, name) or 'none'}"
        for name in neighbour.differs_in
    )
