"""Every published cell beside what was measured under its protocol, with the word for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from harness.core.errors import HarnessError
from harness.core.types import Method, Record
from harness.registry import Registry
from harness.results.index import Results, score_at
from harness.results.published import Cell, Row, Table
from harness.results.source_notes import notes_on
from harness.results.verdict import Measured, Verdict, Word, verdict
from harness.tasks.loader import TARGETS

GOLD = "gold"  # the method of a row that needs no model


@dataclass(frozen=True)
class Judged:
    """A published cell, its measured scores (one a seed), and the verdict or state."""

    cell: Cell
    scores: tuple[float, ...]
    verdict: Verdict
    seen: tuple[str, ...] = ()  # which copies of what nothing pins were measured

    @property
    def word(self) -> Word:
        """The verdict's or the state's word."""
        return self.verdict.word

    @property
    def measured(self) -> float | None:
        """The mean over seeds, in points."""
        return fmean(self.scores) if self.scores else None


def judge(table: Table, results: Results, registry: Registry) -> dict[str, Judged]:
    """Every cell of a table, by its id."""
    judged = {}
    for cell in table.cells():
        records = records_for(cell, results)
        method = method_of(cell.row, registry)
        found = _judge(cell, records, method)
        if found.scores:
            every = (record for one in records for record in one)
            found = replace(found, seen=tuple(notes_on(method, every, registry)))
        if found.word is Word.NOT_RUN and _fitted_elsewhere(cell, results):
            found = Judged(cell, (), Verdict(Word.OTHER_CORPUS))
        judged[cell.id] = found
    return judged


def _fitted_elsewhere(cell: Cell, results: Results) -> bool:
    """Whether the method was measured on the task, but fitted on a corpus of another name."""
    chain, _, corpus = str(cell.method).partition("@")
    if corpus in ("", *TARGETS):
        return False
    others = (method.partition("@") for method in results.by_task.get(cell.task or "", ()))
    return any(c == chain and f not in (corpus, *TARGETS) for c, _, f in others)


def method_of(row: Row, registry: Registry) -> Method | None:
    """The row's method, if the registry can compose it."""
    if row.method is None or row.model_free:
        return None
    try:
        return registry.parse(row.method)
    except HarnessError:
        return None


def records_for(cell: Cell, results: Results) -> list[Sequence[Record]]:
    """For each task of the cell (several for an average) the records of its seeds."""
    tasks = cell.average_of or ((cell.task,) if cell.task else ())
    if cell.row.model_free:
        # The gold row needs no model, so any record of the task has it.
        found = (results.any_of(task) for task in tasks)
        return [records[:1] for records in found]
    return [results.records(str(cell.method), task) for task in tasks]


def _judge(cell: Cell, records: list[Sequence[Record]], method: Method | None) -> Judged:
    state = _state(cell, records, method)
    if state is not None:
        return Judged(cell, (), Verdict(state))
    published = cell.published
    if published is None:
        return Judged(cell, (), Verdict(Word.NOT_PUBLISHED))
    path = _path(cell)
    seeded = method is not None and method.seeded
    seeds = min(len(one) for one in records) if seeded else 1
    columns = [[score_at(one[i].scores, path) for one in records] for i in range(seeds)]
    if any(score is None for column in columns for score in column):
        return Judged(cell, (), Verdict(Word.UNDEFINED))
    scores = tuple(fmean(s for s in column if s is not None) for column in columns)
    return Judged(cell, scores, verdict(published, Measured(scores, seeded)))


def _state(cell: Cell, records: list[Sequence[Record]], method: Method | None) -> Word | None:
    """The word for a cell that has no score to judge; None if it has."""
    if cell.why_not is not None:
        quoted = cell.why_not.startswith("quoted")
        return Word.OTHER_PROTOCOL if quoted else Word.NO_METHOD
    if method is None and not cell.row.model_free:
        return Word.NO_METHOD
    if not records or not all(records):
        return Word.NOT_RUN
    if method is not None and any(r.repr != repr(method) for one in records for r in one):
        return Word.STALE
    return None


def _path(cell: Cell) -> tuple[str, ...]:
    """Where a record holds the cell's score."""
    if cell.row.model_free:
        return (f"{GOLD}_{cell.metric}",)
    aggregated = cell.metric in ("spearman", "pearson") and cell.aggregation
    return (cell.metric, aggregated) if aggregated else (cell.metric,)
