"""What a run prints: each score beside what is published for it, then a table of all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from harness.cli.options import note, say, say_folded, tabled
from harness.core.types import Record
from harness.evaluation.runner import Outcome
from harness.registry import Registry
from harness.report.paper_tables import printed
from harness.results.index import Results, main_score, value
from harness.results.published import PublishedCell, Table, load_tables
from harness.results.records import Store, cell_of
from harness.results.reproduction import Reproduction, low_coverage, percentage, reproduce
from harness.results.verdict import CellState

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")
HEAD = ("method", "task", "metric", "measured", "published", "verdict", "published cell")
SHOWN = 3  # published numbers behind one score; the table has all


@dataclass
class Printer:
    """Prints outcomes as they come, beside the published numbers of their methods and tasks.

    `papers` is the folder of the published tables; without it no number stands beside.
    """

    store: Store
    registry: Registry
    papers: Path
    as_json: bool = False
    verbose: bool = False
    quiet: bool = False
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    warned: set[tuple[str, str]] = field(default_factory=set)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The published tables; none without the folder. Raises DataError for a wrong one."""
        return load_tables(self.papers, self.registry) if self.papers.is_dir() else ()

    def outcome(self, outcome: Outcome) -> None:
        """Print one cell as it comes; of one without a record the end tells why."""
        record = outcome.record
        if record is None:
            return
        name = (record.method, record.task)
        self.records.setdefault(name, []).append(record)
        self._warn(record)
        if self.as_json:
            say(json.dumps({name: getattr(record, name) for name in JSON_FIELDS}))
        elif not self.quiet:
            judged = self._judged(self._published.get(name, ()))
            told = "".join(f"; {_beside(one)}" for one in judged[:SHOWN])
            more = f"; {len(judged) - SHOWN} more below" if len(judged) > SHOWN else ""
            took = f" ({_took(outcome)})" if self.verbose else ""
            score, path = shown_score(record), self.store.path(outcome.cell)
            place = path if path.exists() else self.store.committed_path(outcome.cell.encoder)
            say_folded(f"{outcome.cell}: {score}{told}{more}{took} -> {place}")

    def _warn(self, record: Record) -> None:
        """Say, once for each encoder and task, that too much of what is scored has no vector."""
        share, where = low_coverage([record]), (cell_of(record).encoder, record.task)
        if share is not None and where not in self.warned:
            self.warned.add(where)
            encoder, task = where
            note(
                f"harness: {encoder} has a vector for {percentage(share)} of the tokens of {task}: "
                "its scores are of what is left of the sentences; take vectors of more words"
            )

    def table(self) -> str:
        """Every score of the run: each published number for it on a row, or a row without one."""
        published = {cell.id: cell for of in self._published.values() for cell in of}
        judged = self._judged(published.values())
        beside = {(one.cell.method, one.cell.task) for one in judged}
        rows = [
            _published_row(one, [r for task in one.cell.tasks for r in self._of(one, task)])
            for one in judged
        ]
        rows += [_row(name, own) for name, own in self.records.items() if name not in beside]
        rows.sort(key=lambda row: row[:2])
        width = len(HEAD) if judged else HEAD.index("published")
        return tabled([row[:width] for row in rows], HEAD[:width])

    def _of(self, one: Reproduction, task: str) -> list[Record]:
        return self.records.get((str(one.cell.method), task), [])

    def _judged(self, cells: Iterable[PublishedCell]) -> list[Reproduction]:
        """Those of the published numbers that the records so far answer, averages included."""
        found = Results(self.records)
        answered = [c for c in cells if all((c.method, task) in self.records for task in c.tasks)]
        return [reproduce(cell, found, self.registry) for cell in answered]

    @cached_property
    def _published(self) -> Mapping[tuple[str | None, str], list[PublishedCell]]:
        """Every published score that a method reproduces, by that method and each task."""
        by_cell: dict[tuple[str | None, str], list[PublishedCell]] = {}
        for cell in chain.from_iterable(table.cells() for table in self.tables):
            for task in cell.tasks if cell.method and cell.points is not None else ():
                by_cell.setdefault((cell.method, task), []).append(cell)
        return by_cell


def _beside(one: Reproduction) -> str:
    return f"published {printed(one.cell)}, {one.state} ({one.cell.id})"


def _took(outcome: Outcome) -> str:
    """Whether a cell was measured or done before, and its timings, for `--verbose`."""
    record: Any = outcome.record
    if outcome.status == "done":
        return "measured before"
    ways = [way for way in record.facts.get("encoding", []) if way]
    how = {str(way[name]) for way in ways for name in ("device", "dtype", "route") if name in way}
    return ", ".join((f"{sum(record.timings.values()):.1f} s", *sorted(how)))


def _published_row(one: Reproduction, records: Sequence[Record]) -> tuple[str, ...]:
    cell = one.cell
    task = cell.task or f"average of {len(cell.tasks)}"
    metric = " ".join(filter(None, (cell.metric, cell.aggregation)))
    measured = "–" if one.measured is None else f"{one.measured:.2f}{_covered(records)}"
    return (
        str(cell.method), task, metric, measured, printed(cell), str(one.state), cell.id,
    )  # fmt: skip


def _row(name: tuple[str, str], records: Sequence[Record]) -> tuple[str, ...]:
    metric, _ = main_score(records[0].scores)
    found = value([main_score(record.scores)[1] for record in records])
    return (*name, metric, f"{found}{_covered(records)}", "", "", "")


def _covered(records: Sequence[Record]) -> str:
    """What stands behind a score: why it is undefined, and that too little has a vector."""
    share = low_coverage(records)
    told = [str(record.facts["undefined"]) for record in records if "undefined" in record.facts]
    told += [] if share is None else [f"{percentage(share)} of tokens known"]
    return f" ({', '.join(dict.fromkeys(told))})" if told else ""


def shown_score(record: Record) -> str:
    """A record's main score, as a run prints it, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        why = record.facts.get("undefined")
        return f"{CellState.UNDEFINED}: {why}" if why else CellState.UNDEFINED
    return f"{'Spearman' if metric == 'spearman' else metric} {score:.2f}"
