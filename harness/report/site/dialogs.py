"""The tables of the leaderboard: one a protocol of the seven STS tasks, one for each other section.

Each cell names the score that it shows, so that the page can open it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.metrics import metric_of
from harness.core.types import Record, Task
from harness.registry import Registry
from harness.report.bibtex import HARNESS, bibtex, keys_of
from harness.report.leaderboard import SECTIONS
from harness.report.markdown import CODE
from harness.report.paper_tables import printed
from harness.report.sentences import (
    EVIDENCE_WORDS,
    aggregation,
    change,
    fitted_on,
    metric,
    on,
    trained_on,
)
from harness.results.conformance import confirmed_by
from harness.results.explain import Recorded, Score, look_around, missing, scores, wanted_protocol
from harness.results.folder import ResultsFolder
from harness.results.index import SHOWN, Results, Value, score_at
from harness.results.protocols import (
    LABELS,
    SCORINGS,
    SEVEN,
    Protocol,
    Scoring,
    columns_by_label,
    columns_of,
    legend_of,
    ranked,
    row,
    rows_of,
)
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed, coverage_notes
from harness.results.verdict import CellState

AVERAGE = "Avg."


@dataclass(frozen=True)
class BoardColumn:
    """A column: heading, task, and the path of the score in a record; an average has neither."""

    heading: str
    task: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Board:
    """A table of methods by tasks, best first."""

    id: str
    title: str
    about: str
    columns: Sequence[BoardColumn]
    rows: Sequence[tuple[str, Sequence[Value]]]


def boards(results: Results, registry: Registry) -> Iterator[Board]:
    """Every table that has a row."""
    for protocol in SCORINGS:
        if board := _seven(results, protocol):
            yield board
    tasks = tuple(registry.tasks.values())
    for name, (heading, about) in SECTIONS.items():
        columns = columns_of(name, tasks)
        rows = rows_of(columns, results, results.methods, best_first=name != "other")
        if rows:
            legends = (legend_of(results, task, column) for task, column in columns)
            shown = [
                BoardColumn(column.heading, task.name, column.score or _main(task))
                for task, column in columns
            ]
            named = {column.heading: task.name for task, column in columns}
            known_tokens = coverage_notes(results, [method for method, _ in rows], named)
            text = " ".join(filter(None, [about, *legends, known_tokens]))
            yield Board(name, heading, plain(text), shown, rows)


def plain(text: str) -> str:
    """A text without the marks of code."""
    return CODE.sub(lambda found: found[0].strip("`"), text)


def _seven(results: Results, protocol: Scoring) -> Board | None:
    known = [
        method
        for method in results.methods
        if any(value.mean is not None for value in row(results, method, protocol))
    ]
    if not known:
        return None
    path = (protocol.correlation, protocol.aggregation)
    columns = [BoardColumn(LABELS[task], protocol.task(task), path) for task in SEVEN]
    rows = {m: row(results, m, protocol) for m in ranked(results, known, protocol)}
    # The average goes first: on a phone the last columns are out of sight.
    ordered = [(method, [values[-1], *values[:-1]]) for method, values in rows.items()]
    title = f"Seven STS tasks: {plain(protocol.title)}"
    about = plain(coverage_notes(results, known, columns_by_label(protocol)))
    return Board(protocol.id, title, about, [BoardColumn(AVERAGE), *columns], ordered)


def _main(task: Task) -> tuple[str, ...]:
    return metric_of(task).main_score


NEAREST = 8  # neighbouring protocols that a dialog shows
CORRELATION = ("spearman", "pearson")  # each of which is a neighbour of the other
SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")

JSON = dict[str, Any]


@dataclass
class Texts:
    """Texts by their place in one list."""

    places: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        """The place of a text, a new one where it is not there yet."""
        return self.places.setdefault(text, len(self.places))


@dataclass(frozen=True)
class Dialogs:
    """Makes the dialogs of a results folder's numbers."""

    folder: ResultsFolder
    texts: Texts = field(default_factory=Texts)
    keys: dict[str, None] = field(default_factory=lambda: {HARNESS: None})
    measured: dict[object, Sequence[Score]] = field(default_factory=dict)
    neighbours: dict[object, int] = field(default_factory=dict)
    lists: list[Any] = field(default_factory=list)
    digests: dict[Sequence[int], int] = field(default_factory=dict)

    @property
    def results(self) -> Results:
        """The records of the folder."""
        return self.folder.records

    @property
    def registry(self) -> Registry:
        """The methods and tasks."""
        return self.folder.registry

    def data(self, boards: Sequence[Board]) -> JSON:
        """Everything that the script reads."""
        published: JSON = {}
        rows: JSON = {}
        for cell in self.folder.reproduced:
            row, _, name = cell.cell.id.rpartition("/")
            published.setdefault(row, {})[name] = self._cell(cell)
            rows.setdefault(row, self._row(cell.cell))
        paths: dict[str, dict[Sequence[str], None]] = {}
        for column in (column for board in boards for column in board.columns if column.task):
            paths.setdefault(column.task, {})[column.path] = None
        return {
            "rows": rows,
            "by_hand": list(self.registry.by_hand),
            "cells": published,
            "paths": {task: [".".join(path) for path in own] for task, own in paths.items()},
            "scores": self._scores(paths),
            "methods": {method: self._method(method) for method in self.results.methods},
            "neighbours": self.lists,
            "bibtex": {key: bibtex([key], self.folder.papers) for key in self.keys},
            "harness": HARNESS,
            "digests": list(self.digests),
            "texts": list(self.texts.places),
        }

    def _row(self, cell: PublishedCell) -> list[Any]:
        """Label, method, training data, fit corpus, evidence, keys of its papers."""
        row, method = cell.row, composed(cell.row.method or "", self.registry)
        evidence = EVIDENCE_WORDS[cell.evidence] if cell.evidence else ""
        if cell.evidence == "confirmed":
            program = confirmed_by(
                cell, self.folder.confirming_programs, self.results, self.registry
            )
            evidence += f", {program}" if program else ""
        return [
            self.texts(row.name),
            self.texts(row.method or ""),
            self.texts("" if row.model_free else trained_on(row, method)),
            self.texts(fitted_on(row, method)),
            self.texts(evidence),
            self._keys([cell.table.cite, *keys_of(method, self.registry)]),
        ]

    def _cell(self, one: Reproduction) -> list[Any]:
        """What belongs to the number alone; the script names the fields in this order."""
        cell = one.cell
        why = cell.why_not.explanation if cell.why_not else ""
        tasks = [self.registry.tasks[name] for name in cell.tasks if name in self.registry.tasks]
        of = "gold" if cell.row.model_free else "cosine"
        words = ["; ".join(map(on, tasks)), metric(cell.metric, of), aggregation(cell.aggregation)]
        notes = [*filter(None, [why, *cell.notes, *one.copies])]
        found = [
            self.texts(cell.column.label),
            self.texts(cell.place),
            self.texts(cell.source),
            printed(cell),
            self.texts(", ".join(filter(None, words))),
            self.texts("" if cell.row.model_free else cell.method or ""),
            [self.texts(task.name) for task in tasks],
            self.texts(str(one.state)),
            [self.texts(note) for note in notes],
            self._neighbours(one),
            [self.texts(get) for get in self._missing(one)],
        ]
        if one.scores:
            difference, h = one.verdict.difference, one.verdict.half_width
            found += [[round(s, 4) for s in one.scores], difference and round(difference, 4), h]
        return found

    def _missing(self, one: Reproduction) -> Iterable[str]:
        """The commands that get what a number that was not run needs."""
        if one.state is not CellState.NOT_RUN:
            return ()
        return missing(one.cell, self.registry, Recorded(self.results, self.registry))

    def _neighbours(self, one: Reproduction) -> int:
        """The place of the neighbouring protocols that were run; -1 without any."""
        wanted = wanted_protocol(one.cell, self.registry)
        if wanted is None or one.cell.points is None:
            return -1
        known = self._known(wanted)
        own = any(score.protocol.encoder == wanted.encoder for score in known)
        name = one.cell.id if own else replace(wanted, encoder="", max_length="")
        if name not in self.neighbours:
            found = look_around(one, wanted, known, None)
            lines = [
                [
                    self.texts(change(near)),
                    _rounded(near.value),
                    _rounded(near.difference),
                ]
                for near in found.neighbours[:NEAREST]
            ]
            base = f" with {change(found.base)}" if found.base else ""
            shown_on = self.texts(found.shown_on + base)
            about = [shown_on, _rounded(found.reference), len(found.neighbours)]
            self.lists.append([*about, lines])
            self.neighbours[name] = len(self.lists) - 1 if lines else -1
        return self.neighbours[name]

    def _known(self, wanted: Protocol) -> Sequence[Score]:
        """Every measured score of the wanted task, looked up once for all cells of its kind."""
        metric = CORRELATION if wanted.metric in CORRELATION else wanted.metric
        kind = wanted.task, metric, bool(wanted.aggregation)
        if kind not in self.measured:
            self.measured[kind] = list(scores(self.results, self.registry, wanted))
        return self.measured[kind]

    def _scores(self, paths: Mapping[str, Iterable[Sequence[str]]]) -> JSON:
        """By method and task: environment, digests, then of each path the scores of the seeds."""
        found: dict[str, JSON] = {}
        for (method, task), records in self.results.by_cell.items():
            shown = [
                [_rounded(score_at(r.scores, path)) for r in records]
                for path in paths.get(task, ())
            ]
            own = self.results.unread()
            own.records(method, task)
            digests = {f"{k} {d[:SHOWN]}" for r in records[:1] for k, d in r.digests.items()}
            found.setdefault(method, {})[task] = [
                self.texts(_environment(records[0])),
                self.digests.setdefault(tuple(map(self.texts, sorted(digests))), len(self.digests)),
                own.digest()[:SHOWN],
                *(
                    0 if None in seeds else seeds[0] if len(seeds) == 1 else seeds
                    for seeds in shown
                ),
            ]
        return found

    def _method(self, name: str) -> list[Any]:
        """Training data, note, keys of its papers."""
        method = composed(name, self.registry)
        trained = method.encoder.trained_on if method else ""
        note = method.note if method else ""
        return [self.texts(trained), self.texts(note), self._keys(keys_of(method, self.registry))]

    def _keys(self, keys: Iterable[str]) -> list[int]:
        wanted = [key for key in dict.fromkeys(keys) if key]
        self.keys.update(dict.fromkeys(wanted))
        return [self.texts(key) for key in wanted]


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 2)


def _environment(record: Record) -> str:
    """Commit, versions and machine of a record."""
    held = record.environment
    packages = held.get("packages", {})
    versions = [f"Python {held.get('python')}"]
    versions += [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages]
    commit = str(held.get("commit") or "unknown")[:SHOWN]
    return f"commit {commit}; {', '.join(versions)}; {held.get('processor')}, {held.get('device')}"
