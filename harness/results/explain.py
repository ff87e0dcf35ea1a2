"""Why a number cannot be reproduced: every neighbouring protocol that was run, and the nearest.

A published number belongs to a protocol. Its neighbours share encoder and task and differ in
something that papers leave unsaid: aggregation, pooling layer, text form, post-processing, fit
corpus, split, maximum length, correlation. The more of them were tried, the likelier one is near
by chance, so their number is part of the answer. Where the encoder itself was never run, another
one shows how far each choice moves a score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from harness.core.ids import MethodId
from harness.core.scores import AGGREGATIONS
from harness.core.types import Task
from harness.registry import Registry
from harness.results.cell_names import published_cell
from harness.results.commands import run_command
from harness.results.conformance import Protocol, confirmed_by
from harness.results.index import Results
from harness.results.published import PublishedCell, Table
from harness.results.reproduction import Reproduction, reproduce


@dataclass(frozen=True)
class Conditions:
    """Everything that one score depends on: the encoder and every choice of its protocol."""

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

    def differences(self, other: Conditions) -> tuple[str, ...]:
        """The names of the fields in which two of them differ."""
        names = (field.name for field in fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True)
class Neighbour:
    """A score measured under a protocol, and how to measure it.

    `differs_in` names the choices in which the protocol is another than the wanted one,
    `difference` is the distance from the score that it is compared with.
    """

    protocol: Conditions
    differs_in: tuple[str, ...]
    value: float
    difference: float | None
    command: str

    @property
    def steps(self) -> int:
        """The number of choices in which it differs; other calibration and other corpus are one."""
        return len(self.differs_in) - ("post" in self.differs_in and "fit_on" in self.differs_in)


@dataclass(frozen=True)
class Explanation:
    """A published cell, its reproduction, and the measured scores under neighbouring protocols.

    `confirmed_by` is the authors' program whose scores ours equal under the cell's protocol;
    `shown_on` is the encoder of the neighbours, `reference` the score that they are compared with.
    `command` measures the cell.
    """

    cell: PublishedCell
    reproduction: Reproduction
    confirmed_by: str | None
    wanted: Conditions | None
    shown_on: str
    reference: float | None
    neighbours: tuple[Neighbour, ...]
    command: str = ""

    @property
    def nearest(self) -> Neighbour | None:
        """The neighbour whose score is nearest to the reference, if there is one to be near to."""
        known_ones = [n for n in self.neighbours if n.difference is not None]
        return min(known_ones, key=lambda n: abs(n.difference or 0.0), default=None)


def explain(
    name: str,
    tables: Sequence[Table],
    results: Results,
    registry: Registry,
    programs: Mapping[Protocol, str],
) -> Explanation:
    """Look around one published cell; `programs` confirm protocols. UsageError: an unknown cell."""
    cell = published_cell(name, tables)
    wanted = conditions_of(cell, registry)
    measured = [] if wanted is None else list(scores(results, registry, wanted))
    reproduction = reproduce(cell, results, registry)
    program = confirmed_by(cell, programs, results, registry)
    found = look_around(reproduction, wanted, measured, program)
    tasks = [cell.task] if cell.task else []
    return replace(found, command=run_command(str(cell.method), tasks, registry))


def look_around(
    reproduction: Reproduction,
    wanted: Conditions | None,
    measured: Sequence[Neighbour],
    program: str | None,
) -> Explanation:
    """The measured scores of the wanted task, as neighbours of a cell, nearest first."""
    cell = reproduction.cell
    if wanted is None or cell.points is None or not measured:
        return Explanation(cell, reproduction, program, wanted, "", None, ())
    encoders = Counter(score.protocol.encoder for score in measured)
    own = wanted.encoder in encoders
    there, reference = (wanted, cell.points) if own else _elsewhere(wanted, measured, encoders)
    neighbours = [
        replace(
            score,
            differs_in=there.differences(score.protocol),
            difference=None if reference is None else score.value - reference,
        )
        for score in measured
        if score.protocol.encoder == there.encoder and score.protocol != there
    ]
    neighbours.sort(key=lambda n: (n.steps, abs(n.difference or 0.0)))
    return Explanation(
        cell, reproduction, program, wanted, there.encoder, reference, tuple(neighbours)
    )


def _elsewhere(
    wanted: Conditions, measured: Sequence[Neighbour], encoders: Counter[str]
) -> tuple[Conditions, float | None]:
    """The wanted protocol on another encoder, and its score there.

    An encoder that was run under the very protocol shows differences; any other only values.
    """
    names = [name for name, _ in encoders.most_common()]
    options = [replace(wanted, encoder=name, max_length="") for name in names]
    known_scores = {score.protocol: score.value for score in measured}
    there = next((option for option in options if option in known_scores), options[0])
    return there, known_scores.get(there)


def conditions_of(cell: PublishedCell, registry: Registry) -> Conditions | None:
    """The conditions that a published cell names; None where it names none."""
    task = registry.tasks.get(cell.task or "")
    if cell.method is None or cell.row.model_free or task is None:
        return None
    return _conditions(cell.method, task, cell.metric, cell.aggregation or "")


def _conditions(method: str, task: Task, metric: str, aggregation: str) -> Conditions | None:
    parts = MethodId.parse(method)
    if parts is None:
        return None
    encoder, _, length = parts.encoder.partition(":")
    return Conditions(
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


def scores(results: Results, registry: Registry, wanted: Conditions) -> Iterator[Neighbour]:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    correlations = ("spearman", "pearson")
    metrics = correlations if wanted.metric in correlations else (wanted.metric,)
    for method, name in results.by_cell:
        task = registry.tasks.get(name)
        if task is None or name.partition(".")[0] != wanted.task:
            continue
        single = len(task_groups(results, method, name)) <= 1
        ways = ("",) if not wanted.aggregation else ("all",) if single else AGGREGATIONS
        for metric, way in product(metrics, ways):
            value = results.value(method, name, *filter(None, (metric, way))).mean
            conditions = _conditions(method, task, metric, way)
            if value is not None and conditions is not None:
                command = run_command(method, [name], registry)
                yield Neighbour(conditions, (), value, None, command)


def task_groups(results: Results, method: str, task: str) -> Sequence[str]:
    """The subsets that a record scores apart."""
    scored: Any = results.records(method, task)[0].scores.get("spearman", {})
    return tuple(scored.get("groups", ()))
