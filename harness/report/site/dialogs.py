"""What the page shows of a number that is opened: its protocol, origin and citation, as data.

The data is JSON for `page.js`. Its fields are named; one that is empty is left out.
Each text is in `texts` once, and a field holds its number there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.core.scores import ScorePath, score_at
from harness.core.types import Record
from harness.report.bibtex import HARNESS_KEY, bib_keys, bibtex, keys_of
from harness.report.diagnosis import neighbours_in_words
from harness.report.leaderboard import Board
from harness.report.next_steps import missing, recorded
from harness.report.paper_tables import printed
from harness.report.sentences import (
    evidence_of,
    fitted_on,
    notes_on_origin,
    protocol_of,
    trained_on,
)
from harness.results.conformance import confirmed_by
from harness.results.diagnosis import published_neighbours
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed
from harness.results.verdict import CellState

SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")

JsonFields = dict[str, Any]


class Dialogs:
    """Makes the data of the dialogs of a results folder's numbers."""

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder = folder
        self.results = folder.records
        self.registry = folder.registry
        self.recorded = recorded(self.results, self.registry)
        self.texts: dict[str, int] = {}  # the number of each text
        self.bibtex_keys = [HARNESS_KEY]
        # The number of each environment with digests, both as numbers of texts.
        self.origins: dict[tuple[int | None, tuple[int, ...]], int] = {}

    def data(self, boards: Iterable[Board]) -> JsonFields:
        """Everything that the script reads; scores are those that the boards show."""
        cells: dict[str, JsonFields] = {}
        rows: dict[str, JsonFields] = {}
        for reproduction in self.folder.reproduced:
            row, _, column = reproduction.cell.id.rpartition("/")
            cells.setdefault(row, {})[column] = self._cell(reproduction)
            if row not in rows:
                rows[row] = self._row(reproduction.cell)
        encoders = self.registry.encoders
        scores = self._scores(boards)
        methods = {method: self._method(method) for method in self.results.methods}
        entries = {key: bibtex([key], self.folder.papers) for key in self.bibtex_keys}
        origins = [
            {"environment": environment, "digests": digests}
            for environment, digests in self.origins
        ]
        return {
            "rows": rows,
            "cells": cells,
            "scores": scores,
            "methods": methods,
            "sources": {
                name: str(encoder.source) for name, encoder in encoders.items()
            },
            "by_hand": list(self.registry.by_hand),
            "harness": HARNESS_KEY,
            "bibtex": entries,
            "origins": origins,
            "texts": list(self.texts),
        }

    # Published numbers

    def _row(self, cell: PublishedCell) -> JsonFields:
        """What the numbers of a row share: label, training data, fit corpus, evidence, papers."""
        row = cell.row
        method = composed(row.method, self.registry)
        confirmations = self.folder.confirmations
        reference = confirmed_by(cell, confirmations, self.results, self.registry)
        keys = [cell.table.cite, *keys_of(method, self.registry)]
        return _without_empty(
            {
                "label": self._text(row.name),
                "trained": None
                if row.model_free
                else self._text(trained_on(row, method)),
                "fitted": self._text(fitted_on(row, method)),
                "evidence": self._text(evidence_of(cell, reference)),
                "cites": self._citations(keys),
            }
        )

    def _cell(self, reproduction: Reproduction) -> JsonFields:
        """A published number: where it is printed, its protocol, and what was measured for it."""
        cell = reproduction.cell
        known_tasks = [name for name in cell.tasks if name in self.registry.tasks]
        protocol = filter(None, protocol_of(cell, self.registry))
        notes = [*cell.notes, *notes_on_origin(reproduction)]
        if cell.why_not:
            notes.insert(0, cell.why_not.explanation)
        needs: Sequence[str] = ()
        if reproduction.state is CellState.NOT_RUN:
            needs = missing(cell, self.registry, self.recorded)
        return _without_empty(
            {
                "printed": printed(cell),
                "column": self._text(cell.column.label),
                "place": self._text(cell.place),
                "source": self._text(cell.source),
                "protocol": self._text(", ".join(protocol)),
                "method": self._text(cell.method or ""),
                "state": self._text(str(reproduction.state)),
                "tasks": self._texts(known_tasks),
                "notes": self._texts(notes),
                "needs": self._texts(needs),
                "neighbours": self._neighbours(cell),
                "seeds": [round(score, 4) for score in reproduction.scores],
                "difference": _rounded(reproduction.verdict.difference),
                "half_width": reproduction.verdict.half_width,
            }
        )

    def _neighbours(self, cell: PublishedCell) -> list[int]:
        """Other published numbers of a cell's encoder that differ in one choice, in words."""
        numbers = self.folder.published_numbers
        if cell.id not in numbers:
            return []
        number = numbers[cell.id]
        return self._texts(
            neighbours_in_words(number, published_neighbours(number, numbers))
        )

    # Measured scores

    def _scores(self, boards: Iterable[Board]) -> JsonFields:
        """By method and task: what they were measured with, and the seeds' scores of each path.

        A path on which a seed has no score is left out.
        """
        paths = _paths_of_tasks(boards)
        by_method: dict[str, JsonFields] = {}
        for (method, task), records in self.results.by_cell.items():
            scores = {}
            for path in paths.get(task, ()):
                seeds = [score_at(record.scores, path) for record in records]
                points = [round(score, 2) for score in seeds if score is not None]
                if len(points) == len(seeds):
                    scores[".".join(path)] = points
            digest = self.results.select([(method, task)]).digest()
            measured = {
                "origin": self._origin(records[0]),
                "records": digest[:DIGEST_DIGITS_SHOWN],
                "scores": scores,
            }
            by_method.setdefault(method, {})[task] = _without_empty(measured)
        return by_method

    def _origin(self, record: Record) -> int:
        """The number of what a record was measured with: environment and digests."""
        environment = self._text(environment_in_words(record))
        digests = sorted(
            f"{name} {digest[:DIGEST_DIGITS_SHOWN]}"
            for name, digest in record.digests.items()
        )
        origin = environment, tuple(self._texts(digests))
        return self.origins.setdefault(origin, len(self.origins))

    def _method(self, name: str) -> JsonFields:
        """Training data, note, keys of its papers; nothing of a method that is not known here."""
        method = composed(name, self.registry)
        if method is None:
            return {}
        return _without_empty(
            {
                "trained": self._text(method.encoder.trained_on),
                "note": self._text(method.note),
                "cites": self._citations(keys_of(method, self.registry)),
            }
        )

    # Texts

    def _text(self, text: str) -> int | None:
        """The number of a text; None for an empty one."""
        return self.texts.setdefault(text, len(self.texts)) if text else None

    def _texts(self, texts: Iterable[str]) -> list[int]:
        """The numbers of the texts that are not empty."""
        numbers = [self._text(text) for text in texts]
        return [number for number in numbers if number is not None]

    def _citations(self, keys: Iterable[str]) -> list[int]:
        """The numbers of BibTeX keys, whose entries the page then holds."""
        named = bib_keys(keys)
        self.bibtex_keys += [key for key in named if key not in self.bibtex_keys]
        return self._texts(named)


def _without_empty(fields: JsonFields) -> JsonFields:
    return {
        name: value for name, value in fields.items() if value not in (None, [], {})
    }


def _rounded(difference: float | None) -> float | None:
    return None if difference is None else round(difference, 4)


def _paths_of_tasks(boards: Iterable[Board]) -> Mapping[str, Iterable[ScorePath]]:
    """The paths of the scores of each task that boards show."""
    paths: dict[str, dict[ScorePath, None]] = {}
    for board in boards:
        for column in board.columns:
            if column.task:
                paths.setdefault(column.task, {})[column.path] = None
    return paths


def environment_in_words(record: Record) -> str:
    """Commit, versions and machine of a record."""
    environment = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [
        f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages
    ]
    commit = str(environment.get("commit") or "unknown")[:DIGEST_DIGITS_SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"
