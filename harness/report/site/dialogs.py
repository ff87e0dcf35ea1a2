"""What the page shows of a number when it is opened: its protocol, explanation and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.core.types import Record
from harness.report.bibtex import HARNESS, bibtex, keys_of
from harness.report.leaderboard import Board
from harness.report.paper_tables import printed
from harness.report.sentences import change, evidence_of, fitted_on, protocol_of, trained_on
from harness.results.conformance import confirmed_by
from harness.results.explain import (
    Neighbour,
    Recorded,
    look_around,
    missing,
    scores,
    wanted_protocol,
)
from harness.results.folder import ResultsFolder
from harness.results.index import SHOWN, score_at
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed
from harness.results.verdict import CellState

NEAREST = 8  # neighbouring protocols that a dialog shows
SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")

JSON = dict[str, Any]


class Dialogs:
    """Makes the dialogs of a results folder's numbers, for the script that reads them.

    The script names the fields in the order of the lists here. A text stands once in `texts`, and
    its place wherever it is shown.
    """

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder, self.results, self.registry = folder, folder.records, folder.registry
        self.texts: dict[str, int] = {}
        self.keys = {HARNESS: None}
        self.measured: dict[object, Sequence[Neighbour]] = {}
        self.neighbours: dict[object, int] = {}
        self.lists: list[Any] = []
        self.digests: dict[tuple[int, ...], int] = {}

    def data(self, boards: Sequence[Board]) -> JSON:
        """Everything that the script reads."""
        cells: dict[str, JSON] = {}
        rows: JSON = {}
        for cell in self.folder.reproduced:
            row, _, column = cell.cell.id.rpartition("/")
            cells.setdefault(row, {})[column] = self._cell(cell)
            rows.setdefault(row, self._row(cell.cell))
        paths: dict[str, dict[tuple[str, ...], None]] = {}
        for shown in (column for board in boards for column in board.columns if column.task):
            paths.setdefault(shown.task, {})[shown.path] = None
        return {
            "rows": rows,
            "by_hand": list(self.registry.by_hand),
            "cells": cells,
            "paths": {task: [".".join(path) for path in of] for task, of in paths.items()},
            "scores": self._scores(paths),
            "methods": {method: self._method(method) for method in self.results.methods},
            "neighbours": self.lists,
            "bibtex": {key: bibtex([key], self.folder.papers) for key in self.keys},
            "harness": HARNESS,
            "digests": list(self.digests),
            "texts": list(self.texts),
        }

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _cites(self, keys: Iterable[str]) -> list[int]:
        wanted = dict.fromkeys(filter(None, keys))
        self.keys |= wanted
        return [self._text(key) for key in wanted]

    def _row(self, cell: PublishedCell) -> list[Any]:
        """What the numbers of a row share: label, training data, fit corpus, evidence, papers."""
        row, method = cell.row, composed(cell.row.method or "", self.registry)
        programs = self.folder.confirming_programs
        program = confirmed_by(cell, programs, self.results, self.registry)
        trained = "" if row.model_free else trained_on(row, method)
        texts = [row.name, trained, fitted_on(row, method), evidence_of(cell, program)]
        cites = self._cites([cell.table.cite, *keys_of(method, self.registry)])
        return [*map(self._text, texts), cites]

    def _cell(self, one: Reproduction) -> list[Any]:
        """What belongs to the number alone."""
        cell = one.cell
        tasks = [name for name in cell.tasks if name in self.registry.tasks]
        method = "" if cell.row.model_free else cell.method or ""
        why = cell.why_not.explanation if cell.why_not else ""
        needs: Iterable[str] = ()
        if one.state is CellState.NOT_RUN:
            needs = missing(cell, self.registry, Recorded(self.results, self.registry))
        protocol = ", ".join(filter(None, protocol_of(cell, self.registry)))
        texts = [cell.column.label, cell.place, cell.source, protocol, method, str(one.state)]
        lists = [tasks, [*filter(None, [why, *cell.notes, *one.copies])], needs]
        fields = [
            printed(cell),
            *map(self._text, texts),
            *([self._text(text) for text in of] for of in lists),
            self._neighbours(one),
        ]
        if one.scores:
            difference, half = one.verdict.difference, one.verdict.half_width
            fields += [[round(s, 4) for s in one.scores], difference and round(difference, 4), half]
        return fields

    def _neighbours(self, one: Reproduction) -> int:
        """The place of what `harness explain` says of neighbouring protocols; -1 without any."""
        wanted = wanted_protocol(one.cell, self.registry)
        if wanted is None or one.cell.points is None:
            return -1
        # Of a task, the scores that are looked at differ by the kind of metric alone.
        kind = wanted.task, wanted.metric.replace("pearson", "spearman"), bool(wanted.aggregation)
        if kind not in self.measured:
            self.measured[kind] = list(scores(self.results, self.registry, wanted))
        measured = self.measured[kind]
        # Differences are from the published number, or where the encoder was not run from a score.
        ran = any(score.protocol.encoder == wanted.encoder for score in measured)
        name = one.cell.id if ran else replace(wanted, encoder="", max_length="")
        if name not in self.neighbours:
            explanation = look_around(one, wanted, measured)
            lines = [
                [self._text(change(near)), round(near.value, 2), round(near.difference, 2)]
                for near in explanation.neighbours[:NEAREST]
            ]
            base = f" with {change(explanation.base)}" if explanation.base else ""
            shown_on = self._text(f"{explanation.shown_on}{base}")
            reference = round(explanation.reference or 0.0, 2)
            self.neighbours[name] = len(self.lists) if lines else -1
            if lines:
                self.lists.append([shown_on, reference, len(explanation.neighbours), lines])
        return self.neighbours[name]

    def _scores(self, paths: Mapping[str, Iterable[Sequence[str]]]) -> JSON:
        """By method and task: environment, digests, then of each path the scores of the seeds."""
        by_method: dict[str, JSON] = {}
        for (method, task), records in self.results.by_cell.items():
            results = self.results.unread()
            first = results.records(method, task)[0]
            digests = sorted(f"{name} {d[:SHOWN]}" for name, d in first.digests.items())
            place = self.digests.setdefault(tuple(map(self._text, digests)), len(self.digests))
            shown: list[Any] = []
            for path in paths.get(task, ()):
                seeds = [score_at(record.scores, path) for record in records]
                points = [round(score, 2) for score in seeds if score is not None]
                shown.append(points if len(points) == len(seeds) else 0)
            about = [self._text(_environment(first)), place, results.digest()[:SHOWN]]
            by_method.setdefault(method, {})[task] = [*about, *shown]
        return by_method

    def _method(self, name: str) -> list[Any]:
        """Training data, note, keys of its papers."""
        method = composed(name, self.registry)
        texts = [method.encoder.trained_on, method.note] if method else ["", ""]
        return [*map(self._text, texts), self._cites(keys_of(method, self.registry))]


def _environment(record: Record) -> str:
    """Commit, versions and machine of a record."""
    environment = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages]
    commit = str(environment.get("commit") or "unknown")[:SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"
