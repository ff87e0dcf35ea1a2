"""Every published cell beside what was measured under its protocol, with its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.core.errors import HarnessError
from harness.core.types import Method, Record
from harness.registry import Registry
from harness.results.coverage import coverage
from harness.results.index import Results, score_at
from harness.results.published import PublishedCell, Table, score_path
from harness.results.source_notes import notes_on
from harness.results.verdict import CellState, Measured, Verdict, verdict
from harness.tasks.loader import TARGETS

GOLD = "gold"  # what the name of a score that needs no model begins with


@dataclass(frozen=True)
class Reproduction:
    """A published cell, its measured scores (one a seed), and the verdict or state.

    `copies` name the copies that were measured of weights and corpora that nothing pins,
    `coverage` is the lowest share of the tokens that have a vector, of word vectors.
    """

    cell: PublishedCell
    scores: tuple[float, ...]
    verdict: Verdict
    copies: tuple[str, ...] = ()
    coverage: float | None = None

    @property
    def state(self) -> CellState:
        """The verdict, or why there is none."""
        return self.verdict.state

    @property
    def measured(self) -> float | None:
        """The mean over seeds, in points."""
        return fmean(self.scores) if self.scores else None


def count(cells: Collection[Reproduction]) -> Counter[str]:
    """Published cells: all, `runnable` (a method here), `run` (measured), and those by state."""
    without = (CellState.NO_METHOD, CellState.OTHER_PROTOCOL)
    run = [cell for cell in cells if cell.scores]
    runnable = sum(cell.state not in without for cell in cells)
    sizes = Counter({"published": len(cells), "runnable": runnable, "run": len(run)})
    return sizes + Counter(str(cell.state) for cell in run)


def reproductions(table: Table, results: Results, registry: Registry) -> dict[str, Reproduction]:
    """Every cell of a table, by its id."""
    return {cell.id: reproduce(cell, results, registry) for cell in table.cells()}


def reproduce(cell: PublishedCell, results: Results, registry: Registry) -> Reproduction:
    """One published cell against the records of its method and tasks."""
    records, method = records_for(cell, results), method_of(cell, registry)
    state = _state(cell, records, method)
    if state is CellState.NOT_RUN and _fitted_elsewhere(cell, results):
        state = CellState.OTHER_CORPUS
    published = cell.published
    if state is not None or published is None:
        return Reproduction(cell, (), Verdict(state or CellState.NOT_PUBLISHED))
    seeded = method is not None and method.seeded
    scores = _scores(cell, records, seeded)
    if scores is None:
        return Reproduction(cell, (), Verdict(CellState.UNDEFINED))
    every = [record for seeds in records for record in seeds]
    copies = tuple(notes_on(method, every, registry))
    share = None if cell.row.model_free else coverage(every)
    judged = verdict(published, Measured(scores, seeded))
    return Reproduction(cell, scores, judged, copies, share)


def method_of(cell: PublishedCell, registry: Registry) -> Method | None:
    """The cell's method, if the registry can compose it."""
    if cell.method is None or cell.row.model_free:
        return None
    return composed(cell.method, registry)


def composed(identifier: str, registry: Registry) -> Method | None:
    """The method of an id, if the registry can compose it."""
    try:
        return registry.parse(identifier)
    except HarnessError:
        return None


def is_stale(records: Iterable[Record], method: Method | None) -> bool:
    """Whether a record was measured with other settings than the method has now."""
    described = repr(method)
    return method is not None and any(record.repr != described for record in records)


def records_for(cell: PublishedCell, results: Results) -> list[Sequence[Record]]:
    """For each task of the cell (several for an average) the records of its seeds."""
    if cell.row.model_free:
        # The gold row needs no model, so any record of the task has it.
        return [results.any_of(task)[:1] for task in cell.tasks]
    return [results.records(str(cell.method), task) for task in cell.tasks]


def _state(
    cell: PublishedCell, records: list[Sequence[Record]], method: Method | None
) -> CellState | None:
    """Why a cell has no score to judge; None if it has one."""
    if cell.why_not is not None:
        other = cell.why_not.other_protocol
        return CellState.OTHER_PROTOCOL if other else CellState.NO_METHOD
    if method is None and not cell.row.model_free:
        return CellState.NO_METHOD
    if not records or not all(records):
        return CellState.NOT_RUN
    return CellState.STALE if any(is_stale(seeds, method) for seeds in records) else None


def _fitted_elsewhere(cell: PublishedCell, results: Results) -> bool:
    """Whether the method was measured on the task, but fitted on a corpus of another name."""
    chain, _, corpus = str(cell.method).partition("@")
    if corpus in ("", *TARGETS):
        return False
    others = (method.partition("@") for method in results.by_task.get(cell.task or "", ()))
    return any(c == chain and f not in (corpus, *TARGETS) for c, _, f in others)


def _scores(
    cell: PublishedCell, records: list[Sequence[Record]], seeded: bool
) -> tuple[float, ...] | None:
    """The cell's score for each seed that all of its tasks have; None where one is undefined."""
    if cell.row.model_free and cell.metric == "gold_similarity":
        return (100.0,)  # a correlation of gold with itself
    gold = (f"{GOLD}_{cell.metric}",)  # a row that needs no model
    path = gold if cell.row.model_free else score_path(cell.metric, cell.aggregation)
    seeds = min(len(task) for task in records) if seeded else 1
    columns = [[score_at(task[seed].scores, path) for task in records] for seed in range(seeds)]
    if any(score is None for column in columns for score in column):
        return None
    return tuple(fmean(s for s in column if s is not None) for column in columns)
