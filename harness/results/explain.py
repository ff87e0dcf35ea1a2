"""Commands that pages and answers print, for a person to copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from harness.core.hardware import base_name
from harness.core.types import AGGREGATIONS
from harness.registry import Registry
from harness.results.conformance import confirmed_by
from harness.results.index import Results, Value
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell, Table
from harness.results.published_files import published_cell
from harness.results.reproduction import Reproduction, reproduce


def run_command(method: str, tasks: Iterable[str], registry: Registry) -> str:
    """The command that measures a method; of an encoder by hand its files are to be filled in."""
    encoder = base_name(method.partition(".")[0])
    files = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    on = "".join(f" -t {task}" for task in tasks)
    return f"harness run{files} -m '{method}'{on}"


@dataclass(frozen=True)
class TrapRow:
    """A cell of a trap: what is special about it, and which score of a method on a task it is."""

    what: str
    method: str
    task: str
    score: tuple[str, ...] = ("spearman", "all")


@dataclass(frozen=True)
class Trap:
    """One trap: what papers have confused, and the rows that show it."""

    title: str
    text: str
    rows: tuple[TrapRow, ...]

    def values(self, results: Results) -> Iterator[tuple[TrapRow, Value, float | None]]:
        """Every row with its score and how far that lies from the first of its task."""
        first: dict[str, Value] = {}
        for row in self.rows:
            value = results.value(row.method, row.task, *row.score)
            base = first.setdefault(row.task.partition(".")[0], value)
            if value is base or value.mean is None or base.mean is None:
                yield row, value, None
            else:
                yield row, value, value.mean - base.mean


@dataclass(frozen=True)
class Score:
    """A score measured under a protocol, and the command that measures it."""

    protocol: Protocol
    value: float
    command: str


@dataclass(frozen=True)
class Neighbour(Score):
    """A score measured under a neighbouring protocol.

    `differs_in` names the choices in which the protocol is another than the wanted one,
    `difference` is the distance from the score that it is compared with.
    """

    differs_in: tuple[str, ...]
    difference: float


@dataclass(frozen=True)
class Explanation:
    """A published cell, its reproduction, and the measured scores under neighbouring protocols.

    `confirmed_by` is the authors' program whose scores ours equal under the cell's protocol;
    `shown_on` is the encoder of the neighbours, `reference` the score that they are compared with.
    `base` is the neighbour whose score that is, where no encoder was run under the cell's protocol.
    `command` measures the cell.
    """

    cell: PublishedCell
    reproduction: Reproduction
    confirmed_by: str | None
    wanted: Protocol | None
    shown_on: str
    reference: float | None
    neighbours: tuple[Neighbour, ...]
    base: Neighbour | None = None
    command: str = ""


def explain(
    name: str,
    tables: Sequence[Table],
    results: Results,
    registry: Registry,
    programs: Mapping[Protocol, str],
) -> Explanation:
    """Look around one published cell; `programs` confirm protocols. UsageError: an unknown cell."""
    cell = published_cell(name, tables)
    wanted = wanted_protocol(cell, registry)
    measured = [] if wanted is None else list(scores(results, registry, wanted))
    reproduction = reproduce(cell, results, registry)
    program = confirmed_by(cell, programs, results, registry)
    found = look_around(reproduction, wanted, measured, program)
    tasks = [cell.task] if cell.task else []
    return replace(found, command=run_command(str(cell.method), tasks, registry))


def look_around(
    reproduction: Reproduction,
    wanted: Protocol | None,
    measured: Sequence[Score],
    program: str | None,
) -> Explanation:
    """The measured scores of the wanted task, as neighbours of a cell, nearest first."""
    cell = reproduction.cell
    if wanted is None or cell.points is None or not measured:
        return Explanation(cell, reproduction, program, wanted, "", None, ())
    there, reference, compared = wanted, cell.points, wanted
    if not any(score.protocol.encoder == wanted.encoder for score in measured):
        there, nearest = _elsewhere(wanted, measured)
        reference, compared = nearest.value, nearest.protocol
    neighbours = [
        Neighbour(
            protocol=score.protocol,
            value=score.value,
            command=score.command,
            differs_in=there.differences(score.protocol),
            difference=score.value - reference,
        )
        for score in measured
        if score.protocol.encoder == there.encoder and score.protocol != there
    ]
    # The nearest fit corpus of the wanted kind stands first, however many others are as near.
    related = (n for n in neighbours if _is_of_kind(n.protocol.fit_on, wanted.fit_on))
    first = min(related, key=lambda n: _distance(n.protocol, there), default=None)
    neighbours.sort(key=lambda n: (n is not first, _choices(n.differs_in), abs(n.difference)))
    base = next((n for n in neighbours if n.protocol == compared), None)
    return Explanation(
        cell, reproduction, program, wanted, there.encoder, reference, tuple(neighbours), base
    )


def _elsewhere(wanted: Protocol, measured: Sequence[Score]) -> tuple[Protocol, Score]:
    """The wanted protocol on another encoder, and the score of it or of the nearest one there."""
    tried = Counter(score.protocol.encoder for score in measured)
    there = {name: replace(wanted, encoder=name, max_length="") for name in tried}

    def remoteness(score: Score) -> tuple[object, ...]:
        encoder = score.protocol.encoder
        return _distance(score.protocol, there[encoder]), -tried[encoder]

    nearest = min(measured, key=remoteness)
    return there[nearest.protocol.encoder], nearest


def _distance(protocol: Protocol, wanted: Protocol) -> tuple[object, ...]:
    """How far a protocol is from the wanted one: another metric first, then its choices.

    A fit corpus of the wanted kind is no choice of its own, and nearer than any other change.
    """
    differs_in = wanted.differences(protocol)
    other_family = protocol.post.partition(":")[0] != wanted.post.partition(":")[0]
    related = _is_of_kind(protocol.fit_on, wanted.fit_on)
    choices = _choices(differs_in) - (related and "post" not in differs_in)
    other_metric = "metric" in differs_in
    return bool(differs_in), other_metric, choices, not related, other_family, len(differs_in)


def _choices(differs_in: Collection[str]) -> int:
    """The number of choices; another calibration and another corpus for it are one."""
    return len(differs_in) - ({"post", "fit_on"} <= {*differs_in})


def _is_of_kind(corpus: str, wanted: str) -> bool:
    """Whether a fit corpus is another one of the wanted kind, as `snli-18k` is for `nli`."""
    return wanted != "" and wanted != corpus and wanted in corpus


def wanted_protocol(cell: PublishedCell, registry: Registry) -> Protocol | None:
    """The protocol of a published cell of one task; None of others."""
    return next(iter(protocols_of(cell, registry)), None) if cell.task else None


def scores(results: Results, registry: Registry, wanted: Protocol) -> Iterator[Score]:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    correlations = ("spearman", "pearson")
    metrics = correlations if wanted.metric in correlations else (wanted.metric,)
    for method, name in results.by_cell:
        task = registry.tasks.get(name)
        if task is None or name.partition(".")[0] != wanted.task:
            continue
        single = len(results.subsets(name)) <= 1
        ways = ("",) if not wanted.aggregation else ("all",) if single else AGGREGATIONS
        for metric, way in product(metrics, ways):
            value = results.value(method, name, *filter(None, (metric, way))).mean
            protocol = Protocol.of(method, task, metric, way)
            if value is not None and protocol is not None:
                command = run_command(method, [name], registry)
                yield Score(protocol, value, command)
