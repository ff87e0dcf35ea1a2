"""Conformance: the scores of other programs beside ours, and what that confirms.

Ours stand in the records; those of a training beside its specification, a search in
`results/questions/conformance` that `harness train search` has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.core.ids import MethodId
from harness.registry import Registry, load_registry
from harness.results.index import Results, score_at
from harness.results.layout import CONFORMANCE, QUESTIONS
from harness.results.published import PublishedCell
from harness.results.records import Store
from harness.results.references import Reference, ReferenceCell, path_of
from harness.results.reproduction import composed, is_stale
from harness.results.searches import Trial, read_searches
from harness.results.verdict import CellState, Measured, Published, verdict

NO_TASK = "task not in the matrix"
NO_SCORE = "no such score"

Trials = Mapping[str, Sequence[Trial]]  # of each training, by its command


def read_trials(results: Path) -> Trials:
    """The trainings that were measured here for references. Raises DataError."""
    searches = read_searches(results / QUESTIONS / CONFORMANCE)
    return {command: found for search in searches for command, found in search.trials.items()}


@dataclass(frozen=True)
class Comparison:
    """A score of theirs and ours: the verdict on the difference, or why there is none."""

    reference: Reference
    cell: ReferenceCell
    score: str
    theirs: float
    ours: float | None
    state: str

    @property
    def difference(self) -> float | None:
        """Ours minus theirs, rounded as verdicts round."""
        return None if self.ours is None else round(self.ours - self.theirs, 9)

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is within the tolerance; None where ours is not known."""
        if self.difference is None:
            return None
        return abs(self.difference) <= self.reference.tolerance_of(self.cell)


def compare_all(
    references: Sequence[Reference], folder: Path
) -> list[tuple[Reference, tuple[Comparison, ...]]]:
    """Each reference beside what a results folder holds."""
    results, registry = Results.read(Store(folder)), load_registry()
    trials = read_trials(folder)
    return [(one, compare(one, results, trials, registry)) for one in references]


def compare(
    reference: Reference, results: Results, trials: Trials, registry: Registry
) -> tuple[Comparison, ...]:
    """Every score of a reference beside ours, in the file's order."""
    made = []
    for cell in reference.cells:
        for name, theirs in cell.scores.items():
            ours = _ours(cell, name, results, trials, registry)
            if isinstance(ours, Measured):
                judged = verdict(Published(f"{theirs:.6f}"), ours)
                mean = fmean(score for score in ours.scores if score is not None)
                made.append(Comparison(reference, cell, name, theirs, mean, judged.state))
            else:
                made.append(Comparison(reference, cell, name, theirs, None, ours))
    return tuple(made)


def _ours(
    cell: ReferenceCell, name: str, results: Results, trials: Trials, registry: Registry
) -> Measured | str:
    """What was measured here, or why nothing was."""
    if cell.training:
        found = trials.get(cell.training, ())[:1]
        return Measured((asdict(found[0])[name],)) if found else CellState.NOT_RUN
    method = composed(cell.method, registry)
    if cell.task not in registry.tasks:
        return NO_TASK
    if method is None:
        return CellState.NO_METHOD
    records = results.records(cell.method, cell.task)
    if not records:
        return CellState.NOT_RUN
    if is_stale(records, method):
        return CellState.STALE
    scores = tuple(score_at(record.scores, path_of(name)) for record in records)
    known = all(score is not None for score in scores)
    return Measured(scores, method.seeded) if known else NO_SCORE


@dataclass(frozen=True)
class Protocol:
    """What a program and the harness have to do alike to give one number.

    `post` are the kinds of post-processors (whitening to any dimension is one kind); a task without
    subsets has no aggregation.
    """

    pooling: str
    post: tuple[str, ...]
    text: str
    metric: str
    aggregation: str


def protocol_of(
    method: str, task: str, metric: str, aggregation: str, results: Results, registry: Registry
) -> Protocol | None:
    """The protocol of a score; None for a method or task that is not known."""
    parts, known = MethodId.parse(method), registry.tasks.get(task)
    if parts is None or known is None:
        return None
    post = tuple(name.partition(":")[0] for name in parts.post)
    subsets = {group for record in results.any_of(task)[:1] for group in _groups(record.scores)}
    return Protocol(
        parts.pooling, post, known.text, metric, aggregation if len(subsets) > 1 else ""
    )


def _groups(scores: Mapping[str, Any]) -> Iterable[str]:
    correlation = scores.get("spearman")
    return correlation["groups"] if isinstance(correlation, Mapping) else ()


def confirmed(
    references: Iterable[Reference], results: Results, trials: Trials, registry: Registry
) -> Mapping[Protocol, str]:
    """The protocols under which every score of a reference equals ours, and the first program."""
    agreed: dict[Protocol, list[tuple[str, bool | None]]] = {}
    for reference in references:
        for one in compare(reference, results, trials, registry):
            metric, *way = path_of(one.score)
            found = protocol_of(*one.cell.what, metric, "".join(way), results, registry)
            if found is not None and one.ours is not None:
                agreed.setdefault(found, []).append((reference.program, one.agrees))
    return {
        protocol: ones[0][0]
        for protocol, ones in agreed.items()
        if all(agrees for _, agrees in ones)
    }


def confirmed_by(
    cell: PublishedCell, known: Mapping[Protocol, str], results: Results, registry: Registry
) -> str | None:
    """The program that confirms the protocol of a published cell; None if there is none."""
    programs = []
    for task in cell.tasks:
        protocol = protocol_of(
            str(cell.method), task, cell.metric, cell.aggregation or "", results, registry
        )
        programs.append(known.get(protocol) if protocol else None)
    return programs[0] if programs and all(programs) else None
